"""TuRBO-1 (Eriksson et al. 2019) with the settings of BoTorch's documentation: one trust region, Thompson sampling.

One evaluation at a time, so the region halves after max(4, d) failures in a row, doubles after 10 successes, and a new
one starts with 2 d Sobol points once its length falls below 2^-7; the values of earlier regions are forgotten. The
first region starts from the points that every method is given. A success improves the best by 1e-3 of its size; a
failed evaluation counts as the worst value so far.
"""

from __future__ import annotations

import math

import gpytorch
import torch
import wire
from botorch.fit import fit_gpytorch_mll
from botorch.generation import MaxPosteriorSampling
from botorch.models import SingleTaskGP
from gpytorch.constraints import Interval
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch.quasirandom import SobolEngine

LONGEST, FIRST, SHORTEST = 1.6, 0.8, 0.5**7
SUCCESSES = 10


class Region:
    """The trust region: its length, and the points and (negated) values seen since it began."""

    def __init__(self, dim: int, n_initial: int) -> None:
        self.n_initial = n_initial
        self.patience = max(4, dim)
        self.length = FIRST
        self.successes = self.failures = self.told = 0
        self.points: list[list[float]] = []
        self.values: list[float] = []

    def tell(self, point: list[float], value: float | None) -> None:
        """Grow after successes in a row, shrink after failures in a row; the initial points are neither."""
        best = max(self.values, default=-math.inf)
        better = value is not None and (best == -math.inf or value > best + 1e-3 * abs(best))
        self.told += 1
        if value is not None or self.values:
            self.points.append(point)
            self.values.append(min(self.values) if value is None else value)
        if self.told <= self.n_initial:
            return
        self.successes, self.failures = (self.successes + 1, 0) if better else (0, self.failures + 1)
        if self.successes == SUCCESSES:
            self.length, self.successes = min(2.0 * self.length, LONGEST), 0
        elif self.failures == self.patience:
            self.length, self.failures = self.length / 2.0, 0


class TuRBO(wire.Worker):
    """Ask draws the point of a Thompson sample in the trust region; it depends on seed and history only."""

    def __init__(self, start: wire.Start) -> None:
        torch.set_num_threads(1)
        torch.set_default_dtype(torch.double)
        self.cube = wire.Cube(start.space)
        self.seed = start.seed
        self.told = self.restarts = 0
        self.region = Region(self.cube.dim, start.n_initial)
        self.candidates = min(5000, max(2000, 200 * self.cube.dim))
        self.options = {
            "acquisition": "Thompson sampling",
            "candidates": self.candidates,
            "length": [SHORTEST, FIRST, LONGEST],
            "success_tolerance": SUCCESSES,
            "failure_tolerance": self.region.patience,
        }

    def tell(self, params: wire.Params, value: float | None) -> None:
        self.told += 1
        self.region.tell(self.cube.encode(params), None if value is None else -value)
        if self.region.length < SHORTEST:
            self.restarts += 1
            self.region = Region(self.cube.dim, 2 * self.cube.dim)

    def ask(self) -> wire.Params:
        torch.manual_seed(1_000_003 * self.seed + self.told)
        region, dim = self.region, self.cube.dim
        if region.told < region.n_initial or not region.values:
            sobol = SobolEngine(dim, scramble=True, seed=1_000_003 * self.seed + self.restarts)
            return self.cube.decode(sobol.fast_forward(region.told).draw(1)[0].tolist())
        X, Y = torch.tensor(region.points), torch.tensor(region.values).unsqueeze(-1)
        spread = Y.std() if len(Y) > 1 else torch.tensor(0.0)
        Y = (Y - Y.mean()) / (spread if spread > 0 else 1.0)
        kernel = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=dim, lengthscale_constraint=Interval(0.005, 4.0)))
        likelihood = GaussianLikelihood(noise_constraint=Interval(1e-8, 1e-3))
        # the values are standardised already
        model = SingleTaskGP(X, Y, covar_module=kernel, likelihood=likelihood, outcome_transform=None)
        with gpytorch.settings.max_cholesky_size(float("inf")):
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            centre = X[Y.argmax()]
            lengthscales = kernel.base_kernel.lengthscale.detach().squeeze(0)
            sides = region.length * lengthscales / lengthscales.log().mean().exp()
            candidates = self._around(centre, sides)
            with torch.no_grad():
                chosen = MaxPosteriorSampling(model, replacement=False)(candidates, num_samples=1)
        return self.cube.decode(chosen[0].tolist())

    def _around(self, centre: torch.Tensor, sides: torch.Tensor) -> torch.Tensor:
        """Sobol points of the box, of which each keeps about 20 coordinates; the others are the centre's."""
        dim = len(centre)
        low, high = (centre - sides / 2).clamp(0, 1), (centre + sides / 2).clamp(0, 1)
        drawn = SobolEngine(dim, scramble=True, seed=1_000_003 * self.seed + self.told).draw(self.candidates)
        box = low + (high - low) * drawn.to(low)
        moved = torch.rand(self.candidates, dim) <= min(20.0 / dim, 1.0)
        still = torch.where(~moved.any(dim=1))[0]
        moved[still, torch.randint(dim, (len(still),))] = True
        return torch.where(moved, box, centre)


if __name__ == "__main__":
    wire.serve(TuRBO, ["torch", "gpytorch", "botorch"])
