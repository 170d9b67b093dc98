"""Engines build the tables of the acquisition on a grid and maximise them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition import TableCache, acquisition_tables
from dechbo.data.observations import Observations
from dechbo.errors import OptionError
from dechbo.gp import Surrogate
from dechbo.gp.ensemble import Posterior, weighted_members
from dechbo.graph import Scope
from dechbo.maxsum import Maximizer, Maximum, as_maximizer

Array = NDArray[np.float64]


class Engine(Protocol):
    """Who builds the tables and maximises them: this process, or many of which none holds all tables."""

    def suggest(
        self,
        gp: Surrogate,
        data: Observations,
        beta: float,
        candidates: Sequence[Array],
        *,
        pending: Array | None = None,
        recurring: bool = False,
        extra: Sequence[tuple[Scope, Array]] = (),
    ) -> Maximum:
        """Maximise sum_I phi_I over the grid of ``candidates``, one array of coordinates per variable.

        ``pending`` points (m, d) shrink the deviations. ``recurring`` says that the same candidates come back with more
        data, so that work on them is worth keeping. ``extra`` tables, each a scope with its cells on this grid, are
        added: known constraints (-inf where they forbid) and weighted bounds of learned ones.
        """
        ...

    def prepare(self, gp: Surrogate, data: Observations, candidates: Sequence[Array]) -> None:
        """Bring the cache of recurring candidates to where ``suggest`` would have brought it."""
        ...


def as_engine(given: Engine | None, maximizer: Maximizer | str | None) -> Engine:
    """``given`` itself; a LocalEngine with ``maximizer`` for None."""
    if given is None:
        return LocalEngine(maximizer)
    if maximizer is not None:
        raise OptionError("give a maximizer or an engine, not both: LocalEngine(maximizer) is an engine")
    if isinstance(given, (str, type)) or not hasattr(given, "suggest"):
        raise OptionError(f"an engine has a method suggest, e.g. ProcessEngine(parts=4); got {given!r}")
    return given


class LocalEngine:
    """All tables in this process; solves of recurring candidates are cached up to ``memory_limit`` bytes.

    ``maximizer`` is MaxSum() if not given; "auto" means Auto().
    """

    def __init__(self, maximizer: Maximizer | str | None = None, *, memory_limit: int = 2**30) -> None:
        self.maximizer: Maximizer = as_maximizer(maximizer)
        self.memory_limit = memory_limit
        self._caches: list[TableCache] = []  # one for each member of the model

    def suggest(
        self,
        gp: Surrogate,
        data: Observations,
        beta: float,
        candidates: Sequence[Array],
        *,
        pending: Array | None = None,
        recurring: bool = False,
        extra: Sequence[tuple[Scope, Array]] = (),
    ) -> Maximum:
        """Build all tables and maximise them."""
        posterior = gp.condition(data)
        if pending is not None:
            posterior = posterior.with_pending(pending)
        caches = self._caches_for(posterior) if recurring else None
        tables = acquisition_tables(posterior, candidates, beta, caches=caches)
        return self.maximizer.maximize(tables.plus(extra) if extra else tables)

    def prepare(self, gp: Surrogate, data: Observations, candidates: Sequence[Array]) -> None:
        """Grow the cached solves by the new observations."""
        posterior = gp.condition(data)
        for (_, member), cache in zip(weighted_members(posterior), self._caches_for(posterior), strict=True):
            cache.prepare(member, candidates)

    def _caches_for(self, posterior: Posterior) -> list[TableCache]:
        """One cache for each member of the model; they share the memory."""
        many = len(weighted_members(posterior))
        if len(self._caches) != many:
            self._caches = [TableCache(memory_limit=self.memory_limit // many) for _ in range(many)]
        return self._caches
