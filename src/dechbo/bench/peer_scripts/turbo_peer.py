"""TuRBO-1 (Eriksson et al. 2019) with the settings of BoTorch's documentation: one trust region, Thompson sampling.

With one evaluation at a time, the region halves after max(4, d) failures in a row and doubles after 10 successes. When
its length falls below 2^-7, a new region starts with 2 d Sobol points and without the earlier values. The first region
starts from the initial points. A success improves the best value by 1e-3 of its size; a failed evaluation counts as the
worst value so far.

Covered by ``tests/bench/test_peers.py``.
"""

from __future__ import annotations

import math

import gpytorch
import peer_protocol
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.generation import MaxPosteriorSampling
from botorch.models import SingleTaskGP
from gpytorch.constraints import Interval
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch.quasirandom import SobolEngine

MAX_LENGTH, INITIAL_LENGTH, MIN_LENGTH = 1.6, 0.8, 0.5**7
SUCCESS_TOLERANCE = 10


class TrustRegion:
    """Its length, and the points and (negated) values since it started."""

    def __init__(self, dim: int, n_initial: int) -> None:
        self.n_initial = n_initial
        self.failure_tolerance = max(4, dim)
        self.length = INITIAL_LENGTH
        self.successes = self.failures = self.n_told = 0
        self.points: list[list[float]] = []
        self.values: list[float] = []

    def tell(self, point: list[float], value: float | None) -> None:
        """Grow after successes in a row, shrink after failures in a row; initial points count as neither."""
        best = max(self.values, default=-math.inf)
        better = value is not None and (best == -math.inf or value > best + 1e-3 * abs(best))
        self.n_told += 1
        if value is not None or self.values:
            self.points.append(point)
            self.values.append(min(self.values) if value is None else value)
        if self.n_told <= self.n_initial:
            return
        self.successes, self.failures = (self.successes + 1, 0) if better else (0, self.failures + 1)
        if self.successes == SUCCESS_TOLERANCE:
            self.length, self.successes = min(2.0 * self.length, MAX_LENGTH), 0
        elif self.failures == self.failure_tolerance:
            self.length, self.failures = self.length / 2.0, 0


class TuRBO(peer_protocol.PeerMethod):
    """Thompson sampling in the trust region; a suggestion depends on seed and history only."""

    def __init__(self, setup: peer_protocol.Setup) -> None:
        torch.set_num_threads(1)
        torch.set_default_dtype(torch.double)
        self.cube = peer_protocol.UnitCube(setup.space)
        self.seed = setup.seed
        self.n_told = self.restarts = 0
        self.region = TrustRegion(self.cube.dim, setup.n_initial)
        self.candidates = min(5000, max(2000, 200 * self.cube.dim))
        self.options = {
            "acquisition": "Thompson sampling",
            "candidates": self.candidates,
            "length": [MIN_LENGTH, INITIAL_LENGTH, MAX_LENGTH],
            "success_tolerance": SUCCESS_TOLERANCE,
            "failure_tolerance": self.region.failure_tolerance,
        }

    def tell(self, params: peer_protocol.Params, value: float | None) -> None:
        self.n_told += 1
        self.region.tell(self.cube.encode(params), None if value is None else -value)
        if self.region.length < MIN_LENGTH:
            self.restarts += 1
            self.region = TrustRegion(self.cube.dim, 2 * self.cube.dim)

    def ask(self) -> peer_protocol.Params:
        torch.manual_seed(1_000_003 * self.seed + self.n_told)
        region, dim = self.region, self.cube.dim
        if region.n_told < region.n_initial or not region.values:
            sobol = SobolEngine(dim, scramble=True, seed=1_000_003 * self.seed + self.restarts)
            return self.cube.decode(sobol.fast_forward(region.n_told).draw(1)[0].tolist())
        X, Y = torch.tensor(region.points), torch.tensor(region.values).unsqueeze(-1)
        spread = Y.std() if len(Y) > 1 else torch.tensor(0.0)
        Y = (Y - Y.mean()) / (spread if spread > 0 else 1.0)
        kernel = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=dim, lengthscale_constraint=Interval(0.005, 4.0)))
        likelihood = GaussianLikelihood(noise_constraint=Interval(1e-8, 1e-3))
        # Y is standardised already: no outcome transform
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
        """Sobol points of the box; each keeps about 20 coordinates and takes the others from the centre."""
        dim = len(centre)
        low, high = (centre - sides / 2).clamp(0, 1), (centre + sides / 2).clamp(0, 1)
        drawn = SobolEngine(dim, scramble=True, seed=1_000_003 * self.seed + self.n_told).draw(self.candidates)
        box = low + (high - low) * drawn.to(low)
        moved = torch.rand(self.candidates, dim) <= min(20.0 / dim, 1.0)
        still = torch.where(~moved.any(dim=1))[0]
        moved[still, torch.randint(dim, (len(still),))] = True
        return torch.where(moved, box, centre)


if __name__ == "__main__":
    peer_protocol.serve(TuRBO, ["torch", "gpytorch", "botorch"])
