"""Rival: the face that every method shows, and the history behind it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from dechbo import checks
from dechbo.data.evaluation import Evaluation, Params
from dechbo.data.history import History, same_coordinates
from dechbo.errors import OptionError
from dechbo.search.grid_search import MAX_ENUMERATED
from dechbo.space import Space
from dechbo.threads import one_blas_thread

Array = NDArray[np.float64]

SOBOL, RANDOM, CANDIDATES, PARTITION, VALUES, EMBEDDING = range(6)  # the random streams of a seed
PATIENCE = 1000  # random draws in search of a point that is not taken, before a repeat is accepted


class Rival(Protocol):
    """Anything that can be asked for a point and told its value."""

    def ask(self) -> dict[str, Any]:
        """The next point to evaluate."""
        ...

    def tell(self, params: Mapping[str, Any], value: float | None) -> None:
        """The value of a point, asked for or not; None or NaN for a failed evaluation."""
        ...


class AskTell:
    """What all rivals share: the history, the sign, the seed, the initial design, and no point twice.

    The next point depends on the seed, on what was told and on what is pending, and on nothing else: a fresh rival that
    is told the same evaluations in the same order asks the same.
    """

    def __init__(
        self, space: Space, *, direction: str = "minimize", seed: int | None = None, n_initial: int = 10
    ) -> None:
        if not isinstance(space, Space):
            raise OptionError(f"expected a Space, got {type(space).__name__}; write Space({{'x': Float(0, 1)}})")
        self.space = space
        self.direction = checks.one_of("direction", direction, ("minimize", "maximize"))
        drawn = int(np.random.SeedSequence().generate_state(1)[0])
        self.seed = drawn if seed is None else checks.whole("seed", seed, 0)
        self.n_initial = checks.whole("n_initial", n_initial, 1)
        self._sign = 1.0 if direction == "maximize" else -1.0  # inside, larger is better
        self._history = History(space)

    @one_blas_thread
    def ask(self) -> Params:
        """The next point to evaluate."""
        point = self._next_point()
        params: Params = dict(self.space.decode(point))
        self._history.ask(params, {}, modelled=self._in_charge)
        return dict(params)

    def tell(self, params: Mapping[str, Any], value: float | None) -> None:
        """The value of a point, asked for or not; None, NaN and infinities are failures: kept, never modelled."""
        self._history.tell(Evaluation.of(self.space.native(params), value))

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """Everything told so far, in order."""
        return tuple(self._history.evaluations)

    @property
    def best(self) -> Evaluation | None:
        """The best evaluation told so far; None before the first that gave a number."""
        return self._history.best(self._sign)

    # ------------------------------------------------------------- inside

    def _next_point(self) -> Array:
        """The initial design until ``n_initial`` points are told or pending and one gave a number; then the model."""
        return self._suggest() if self._in_charge else self._initial_point()

    def _suggest(self) -> Array:
        raise NotImplementedError

    @property
    def _known(self) -> int:
        """How many points are told or pending."""
        return len(self._history.evaluations) + len(self._history.pending)

    @property
    def _in_charge(self) -> bool:
        return bool(self._history.successes) and self._known >= self.n_initial

    def _initial_point(self) -> Array:
        """The first point of the scrambled Sobol sequence, from number ``known`` on, that is not taken."""
        return self._first_free(sobol_points(self.space, np.random.default_rng([self.seed, SOBOL]), self._known))

    def _random_points(self) -> Iterator[Array]:
        rng = np.random.default_rng([self.seed, RANDOM, self._known])
        while True:
            yield self.space.from_uniform(rng.random(self.space.dim))

    def _first_free(self, points: Iterator[Array]) -> Array:
        """The first point that is not taken; then a random one; a repeat only if there seems to be no other."""
        for point in points:
            if not self._is_taken(point):
                return point
        drawn = itertools.islice(self._random_points(), PATIENCE)
        for point in drawn:
            if not self._is_taken(point):
                return point
        if self.space.cardinality <= MAX_ENUMERATED:
            free = [cell for cell in all_points(self.space) if not self._is_taken(cell)]
            point = free[0] if free else point
        return point

    def _is_taken(self, point: Array) -> bool:
        return bool(same_coordinates(self.space, self._history.occupied, point).all(axis=1).any())

    @property
    def _values(self) -> list[float]:
        """What was told, larger is better; NaN where an evaluation failed."""
        return [self._sign * evaluation.number_value for evaluation in self._history.evaluations]


def sobol_points(space: Space, rng: np.random.Generator, first: int) -> Iterator[Array]:
    """Points of one scrambled Sobol sequence from number ``first`` on, to the end of a power of two."""
    if space.dim <= qmc.Sobol.MAXDIM:
        sequence = qmc.Sobol(space.dim, rng=rng)
        for u in sequence.random_base2(max(4, first.bit_length() + 1))[first:]:
            yield space.from_uniform(u)


def all_points(space: Space) -> Array:
    """Every point of a finite space, (n, d)."""
    grids = [parameter.grid(max(1, int(parameter.cardinality))) for parameter in space.parameters]
    return np.array(list(itertools.product(*grids)))
