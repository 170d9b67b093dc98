"""GP-UCB (Srinivas et al. 2010) and Add-GP-UCB (Kandasamy et al. 2015)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition import Beta
from dechbo.baselines.additive import AdditiveRival, Part, practical_beta
from dechbo.baselines.component import Score, UpperBound
from dechbo.space import Space

Array = NDArray[np.float64]


class AddGPUCB(AdditiveRival):
    """x_I = argmax mu_I + sqrt(beta_t) sigma_I for each of disjoint groups I, beta_t = 0.2 |I| log(2 t).

    Parameters
    ----------
    space, direction, seed, n_initial
        As for every rival: points told without asking count towards ``n_initial``.
    kernel
        "matern52" or "se", in each variable of a group; the group's kernel is their product.
    beta
        "practical" (above; t counts evaluations from 1), a number, or a callable of t.
    groups
        Disjoint groups of parameter names; singletons if neither they nor a ``group_size`` are given.
    group_size, partitions, relearn_every
        Without ``groups``: groups of so many parameters, the best of so many random partitions by evidence, learned
        anew every so many evaluations.
    """

    def __init__(
        self,
        space: Space,
        *,
        direction: str = "minimize",
        seed: int | None = None,
        n_initial: int = 10,
        kernel: str = "matern52",
        beta: Beta = "practical",
        groups: Iterable[Iterable[str]] | None = None,
        group_size: int = 1,
        partitions: int = 5,
        relearn_every: int = 25,
    ) -> None:
        super().__init__(
            space,
            direction=direction,
            seed=seed,
            n_initial=n_initial,
            kernel=kernel,
            groups=groups,
            group_size=group_size,
            partitions=partitions,
            relearn_every=relearn_every,
        )
        self._beta = practical_beta(beta)

    def beta_of(self, size: int) -> float:
        """beta_t of a group of ``size`` variables at the next ask."""
        return self._beta(len(self._history.successes) + 1, size)

    def _scores(self, parts: list[Part]) -> list[Score]:
        return [UpperBound(self.beta_of(part.domain.dim)) for part in parts]


class GPUCB(AddGPUCB):
    """x = argmax mu + sqrt(beta_t) sigma of one GP over all variables, beta_t = 0.2 d log(2 t).

    Parameters
    ----------
    space, direction, seed, n_initial
        As for every rival: points told without asking count towards ``n_initial``.
    kernel
        "matern52" or "se": the kernel is a product over the variables, a lengthscale for each.
    beta
        "practical" (above; t counts evaluations from 1), a number, or a callable of t.
    """

    def __init__(
        self,
        space: Space,
        *,
        direction: str = "minimize",
        seed: int | None = None,
        n_initial: int = 10,
        kernel: str = "matern52",
        beta: Beta = "practical",
    ) -> None:
        super().__init__(
            space,
            direction=direction,
            seed=seed,
            n_initial=n_initial,
            kernel=kernel,
            beta=beta,
            groups=[space.names] if isinstance(space, Space) else None,
        )
