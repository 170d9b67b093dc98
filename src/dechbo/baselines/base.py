"""Baseline: ask / tell, the history, the initial design and the options that all baselines share."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypedDict, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from dechbo import checks
from dechbo.data.evaluation import Evaluation, Params
from dechbo.data.history import History, same_coordinates
from dechbo.errors import OptionError
from dechbo.search.draws import MAX_ENUMERATED
from dechbo.space import Space
from dechbo.threads import one_blas_thread

Array = NDArray[np.float64]

SOBOL, RANDOM, CANDIDATES, PARTITION, MAX_VALUES, EMBEDDING = range(6)  # the random streams of a seed
MAX_RANDOM_DRAWS = 1000  # draws of a point that is not excluded, before a repeat is accepted


class BaselineOptions(TypedDict, total=False):
    """Options of every baseline: see ``Baseline``."""

    direction: str
    seed: int | None
    n_initial: int


class Baseline:
    """History, sign, seed, initial design; no point comes twice while there are others.

    The next point depends on the seed, the evaluations and the pending points only: a new instance that is told the
    same evaluations in the same order asks for the same point.

    Parameters
    ----------
    space
        The parameters.
    direction
        "minimize" or "maximize".
    seed
        Seed of all random numbers; drawn if None.
    n_initial
        Points of the scrambled Sobol design before the model takes over; points told without asking count.
    """

    def __init__(
        self,
        space: Space,
        *,
        direction: str = "minimize",
        seed: int | None = None,
        n_initial: int = 10,
        **unknown: object,
    ) -> None:
        refuse_unknown_options(type(self), unknown)
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
        """Return the next point to evaluate."""
        point = self._next_point()
        params: Params = dict(self.space.decode(point))
        self._history.ask(params, {}, modelled=self._model_is_ready)
        return dict(params)

    def tell(self, params: Mapping[str, Any], value: float | None) -> None:
        """Add the value of a point, asked for or not; None, NaN and infinities are failures, which no model sees."""
        self._history.tell(Evaluation.of(self.space.native(params), value))

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """Every evaluation, in the order of telling."""
        return tuple(self._history.evaluations)

    @property
    def best(self) -> Evaluation | None:
        """The best evaluation; None before the first one that gave a number."""
        return self._history.best(self._sign)

    # ------------------------------------------------------------- inside

    def _next_point(self) -> Array:
        return self._suggest() if self._model_is_ready else self._initial_point()

    def _suggest(self) -> Array:
        """The model's point."""
        raise NotImplementedError

    @property
    def _n_known(self) -> int:
        """The number of points told or pending."""
        return len(self._history.evaluations) + len(self._history.pending)

    @property
    def _model_is_ready(self) -> bool:
        """Whether ``n_initial`` points are told or pending and one of them gave a number."""
        return bool(self._history.successes) and self._n_known >= self.n_initial

    def _initial_point(self) -> Array:
        """The first allowed point of the scrambled Sobol sequence, from number ``_n_known`` on."""
        return self._first_allowed(sobol_points(self.space, np.random.default_rng([self.seed, SOBOL]), self._n_known))

    def _random_points(self) -> Iterator[Array]:
        rng = np.random.default_rng([self.seed, RANDOM, self._n_known])
        while True:
            yield self.space.from_uniform(rng.random(self.space.dim))

    def _first_allowed(self, points: Iterator[Array]) -> Array:
        """The first point that is not excluded; failing that a random one, and a repeat as the last resort."""
        drawn = itertools.islice(self._random_points(), MAX_RANDOM_DRAWS)
        for point in itertools.chain(points, drawn):
            if not self._is_excluded(point):
                return point
        if self.space.cardinality <= MAX_ENUMERATED:
            free = [cell for cell in enumerate_points(self.space) if not self._is_excluded(cell)]
            point = free[0] if free else point
        return point

    def _is_excluded(self, point: Array) -> bool:
        """Whether the point is evaluated or pending, or breaks a known constraint."""
        if not self.space.allows(point):
            return True
        return bool(same_coordinates(self.space, self._history.occupied, point).all(axis=1).any())

    @property
    def _values(self) -> list[float]:
        """Values of the evaluations, larger is better; NaN for failures."""
        return [self._sign * evaluation.number_value for evaluation in self._history.evaluations]


def refuse_unknown_options(method: type[Baseline], names: Iterable[str]) -> None:
    """Raise OptionError unless all ``names`` are options of ``method``, those in the type of ``**options`` included."""
    parameters = inspect.signature(method.__init__).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    unpacked = get_type_hints(method.__init__).get("options")
    known += [] if unpacked is None else get_type_hints(get_args(unpacked)[0])
    unknown = [repr(name) for name in names if name not in known]
    if unknown:
        raise OptionError(f"{method.__name__} has no option {', '.join(unknown)}; its options are {', '.join(known)}")


def sobol_points(space: Space, rng: np.random.Generator, first: int) -> Iterator[Array]:
    """Points of one scrambled Sobol sequence from number ``first`` on, to the end of a power of two."""
    if space.dim <= qmc.Sobol.MAXDIM:
        sequence = qmc.Sobol(space.dim, rng=rng)
        for u in sequence.random_base2(max(4, first.bit_length() + 1))[first:]:
            yield space.from_uniform(u)


def enumerate_points(space: Space) -> Array:
    """Every point of a finite space, (n, d)."""
    grids = [parameter.grid(max(1, int(parameter.cardinality))) for parameter in space.parameters]
    return np.array(list(itertools.product(*grids)))
