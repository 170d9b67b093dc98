"""GP-UCB (Srinivas et al. 2010) and Add-GP-UCB (Kandasamy et al. 2015)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

import numpy as np

from dechbo.acquisition import Beta, BetaContext, beta_schedule
from dechbo.baselines.additive import AdditiveBaseline, AdditiveOptions, ScoredComponent
from dechbo.baselines.base import BaselineOptions, refuse_unknown_options
from dechbo.baselines.component import ComponentScore, UpperBound
from dechbo.errors import OptionError
from dechbo.graph import FactorGraph
from dechbo.space import Space


class AddGPUCB(AdditiveBaseline):
    """x_I = argmax mu_I + sqrt(beta_t) sigma_I for each of disjoint groups I, beta_t = 0.2 |I| log(2 t).

    Parameters
    ----------
    beta
        "practical" (above; t counts evaluations from 1), a number, or a callable of t.
    **options
        As for ``AdditiveBaseline``.
    """

    def __init__(self, space: Space, *, beta: Beta = "practical", **options: Unpack[AdditiveOptions]) -> None:
        super().__init__(space, **options)
        self._beta = practical_beta(beta)

    def beta_of(self, size: int) -> float:
        """beta_t of a group of ``size`` variables at the next ask."""
        return self._beta(len(self._history.successes) + 1, size)

    def _scores(self, components: list[ScoredComponent]) -> list[ComponentScore]:
        return [UpperBound(self.beta_of(part.domain.dim)) for part in components]


class GPUCB(AddGPUCB):
    """x = argmax mu + sqrt(beta_t) sigma of one GP over all variables, beta_t = 0.2 d log(2 t).

    Parameters
    ----------
    kernel
        "matern52" or "se": the kernel is a product over the variables, each with its own lengthscale.
    beta
        As for ``AddGPUCB``.
    **options
        As for ``Baseline``.
    """

    def __init__(
        self,
        space: Space,
        *,
        kernel: str = "matern52",
        beta: Beta = "practical",
        **options: Unpack[BaselineOptions],
    ) -> None:
        refuse_unknown_options(type(self), options)
        groups = [space.names] if isinstance(space, Space) else None
        super().__init__(space, kernel=kernel, beta=beta, groups=groups, **options)


def practical_beta(beta: Beta) -> Callable[[int, int], float]:
    """beta as a function of t and the size of a group: 0.2 |I| log(2 t), a number, or a callable of t."""
    if isinstance(beta, str) and beta != "practical":
        raise OptionError(f"beta is 'practical', a number at least 0 or a callable of t, got {beta!r}")
    if isinstance(beta, str):
        return lambda t, size: 0.2 * size * float(np.log(2 * t))
    schedule = beta_schedule(beta)

    def at(t: int, size: int) -> float:
        whole = FactorGraph(size, (tuple(range(size)),))
        return schedule(t, BetaContext(whole, np.full(size, np.inf), delta=0.1))

    return at
