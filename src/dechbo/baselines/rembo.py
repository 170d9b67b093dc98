"""REMBO (Wang et al. 2013): Bayesian optimisation in random low-dimensional embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from dechbo import checks
from dechbo.acquisition import Beta
from dechbo.baselines.base import CANDIDATES, EMBEDDING, RANDOM, SOBOL, Baseline, BaselineOptions, sobol_points
from dechbo.baselines.component import Component, ComponentAcquisition, UpperBound
from dechbo.baselines.maximize import best_points, candidates, maximize
from dechbo.baselines.refit import Refitter
from dechbo.baselines.ucb import practical_beta
from dechbo.data.history import SAME_POINT
from dechbo.gp.kernels import NUMERIC_KERNELS
from dechbo.graph import FactorGraph
from dechbo.space import Float, Space
from dechbo.threads import one_blas_thread

Array = NDArray[np.float64]

BELOW_ONE = float(np.nextafter(1.0, 0.0))


class Embedding:
    """x = clip(A y) with A (d, d_e) of independent standard normals, y in [-sqrt(d_e), sqrt(d_e)]^d_e.

    Its GP and its evaluations live in the unit cube of the low-dimensional ``box``.
    """

    def __init__(self, rng: np.random.Generator, dim: int, low_dim: int, *, kernel: str, first: int) -> None:
        self.matrix: Array = rng.standard_normal((dim, low_dim))
        reach = float(np.sqrt(low_dim))
        self.box = Space({f"y{i}": Float(-reach, reach) for i in range(low_dim)})
        self.first = first  # the number of points of the initial design
        self.points: list[Array] = []  # (d_e,) in the unit cube, one for each evaluation
        self.values: list[float] = []
        self._graph = FactorGraph(low_dim, (tuple(range(low_dim)),))
        self._refitter = Refitter([kernel] * low_dim, first)

    def low(self, u: Array) -> Array:
        """The y of a point of the unit cube."""
        y: Array = np.sqrt(len(u)) * (2 * u - 1)
        return y

    def high(self, y: Array) -> Array:
        """The x = clip(A y) in [-1, 1]^d."""
        x: Array = np.clip(self.matrix @ y, -1.0, 1.0)
        return x

    def proposals(self, seed: list[int], pending: list[Array], beta: float) -> Iterator[Array]:
        """Points of the unit cube to evaluate, the best first: the initial design, then maximisers of the bound."""
        fit = self._refitter.fit(self.points, self.values, lambda _: self._graph)
        known = len(self.points) + len(pending)
        if fit is None or known < self.first:
            yield from sobol_points(self.box, np.random.default_rng([*seed, SOBOL]), known)
            return
        rng = np.random.default_rng([*seed, CANDIDATES, known])
        failed = [point for point, value in zip(self.points, self.values, strict=True) if not np.isfinite(value)]
        awaited = np.array(pending + failed).reshape(-1, self.box.dim)
        component = Component(fit.gp.condition(fit.data).with_pending(awaited), 0)
        points = candidates(self.box, rng, best_points(np.array(self.points), self.values))
        acquisition = ComponentAcquisition(component, UpperBound(beta))
        for _, point in maximize(acquisition, self.box, points, acquisition.values(points)):
            yield point


class REMBO(Baseline):
    """x = clip(A y), y = argmax mu + sqrt(beta_t) sigma in [-sqrt(d_e), sqrt(d_e)]^d_e, for k embeddings A in turn.

    [-1, 1]^d stands for the whole domain; a discrete parameter takes the value whose share of [-1, 1] contains the
    coordinate. The GP of an embedding knows the points that the embedding asked for and no others, because other points
    have no y: they count for ``best`` and do not shorten the initial design.

    Parameters
    ----------
    embedding_dim
        d_e; by default half of d, rounded up and at most 10.
    embeddings
        k, the number of embeddings.
    kernel
        "matern52" or "se" on y, with a lengthscale for each coordinate.
    beta
        "practical": 0.2 d_e log(2 t), where t counts the embedding's evaluations; a number, or a callable of t.
    **options
        As for ``Baseline``, but ``n_initial`` is shared: each embedding starts with ceil(n_initial / k) Sobol points.
    """

    def __init__(
        self,
        space: Space,
        *,
        embedding_dim: int | None = None,
        embeddings: int = 4,
        kernel: str = "matern52",
        beta: Beta = "practical",
        **options: Unpack[BaselineOptions],
    ) -> None:
        super().__init__(space, **options)
        default = min(10, -(-space.dim // 2))
        self.embedding_dim = default if embedding_dim is None else checks.whole("embedding_dim", embedding_dim, 1)
        count = checks.whole("embeddings", embeddings, 1)
        checks.one_of("kernel", kernel, NUMERIC_KERNELS)
        self._beta = practical_beta(beta)
        first = -(-self.n_initial // count)
        self.embeddings = tuple(
            Embedding(
                np.random.default_rng([self.seed, EMBEDDING, j]),
                space.dim,
                self.embedding_dim,
                kernel=kernel,
                first=first,
            )
            for j in range(count)
        )
        self._origins: list[tuple[int, Array]] = []  # embedding and its point, for each entry of history.asked
        self._turns = 0
        self._proposed: tuple[int, Array] | None = None  # embedding and point of the latest proposal

    @one_blas_thread
    def tell(self, params: Mapping[str, Any], value: float | None) -> None:
        """Add the value of a point, asked for or not; None, NaN and infinities are failures, which no model sees.

        A point that was not asked for belongs to an embedding only if it is the point of the next ask. So a new REMBO
        that is told the evaluations of an earlier one continues as that one would.
        """
        before = [asked.answered for asked in self._history.asked]
        origin = None
        if not self._is_pending(params):
            expected = self._next_point()
            if np.abs(self.space.encode(params) - self._encoded(expected)).max() < SAME_POINT:
                origin = self._proposed
                self._turns += 1
        super().tell(params, value)
        after = [asked.answered for asked in self._history.asked]
        changed = [k for k, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
        origin = self._origins[changed[0]] if changed else origin
        if origin is not None:
            turn, point = origin
            self.embeddings[turn].points.append(point)
            self.embeddings[turn].values.append(self._values[-1])

    def ask(self) -> dict[str, Any]:
        """Return the next point to evaluate."""
        params = super().ask()
        assert self._proposed is not None
        self._origins.append(self._proposed)
        self._turns += 1
        return params

    # ------------------------------------------------------------- inside

    def _next_point(self) -> Array:
        turn = self._turns % len(self.embeddings)
        embedding = self.embeddings[turn]
        pending = [
            point
            for asked, (j, point) in zip(self._history.asked, self._origins, strict=True)
            if j == turn and not asked.answered
        ]
        successes = int(np.isfinite(embedding.values).sum())
        beta = self._beta(successes + 1, self.embedding_dim)
        last = None
        for u in self._low_points(embedding, turn, pending, beta):
            self._proposed = (turn, u)
            last = self._unit(embedding.high(embedding.low(u)))
            if not self._is_excluded(last):
                return last
        assert last is not None
        return last

    def _low_points(self, embedding: Embedding, turn: int, pending: list[Array], beta: float) -> Iterator[Array]:
        """The proposals, then random points of the box in case all proposals project to excluded points."""
        yield from embedding.proposals([self.seed, EMBEDDING, turn], pending, beta)
        rng = np.random.default_rng([self.seed, RANDOM, self._n_known])
        yield from rng.random((100, self.embedding_dim))

    def _unit(self, x: Array) -> Array:
        """The point of the space at x in [-1, 1]^d."""
        share = (x + 1) / 2
        return self.space.from_uniform(np.where(self.space.is_continuous, share, np.minimum(share, BELOW_ONE)))

    def _is_pending(self, params: Mapping[str, Any]) -> bool:
        point = self.space.encode(params)
        return any(np.abs(other - point).max() < SAME_POINT for other in self._history.pending)

    def _encoded(self, point: Array) -> Array:
        return self.space.encode(self.space.decode(point))
