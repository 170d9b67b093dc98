"""BoTorch: SingleTaskGP with LogEI or UCB and otherwise default settings.

Each ask fits a new ``SingleTaskGP`` on the unit cube, with its own standardisation and priors, and calls
``optimize_acqf`` with 10 restarts and 512 raw samples, as in BoTorch's tutorials. UCB has beta = 0.2 d log(2t), where t
counts the values. Categories are one-hot, discrete numbers are rounded after the search (``UnitCube``). A failed
evaluation counts as the worst value so far.

Covered by ``tests/bench/test_peers.py``.
"""

from __future__ import annotations

import math

import peer_protocol
import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

RESTARTS, RAW_SAMPLES = 10, 512


class BoTorch(peer_protocol.PeerMethod):
    """Maximises the acquisition of the negated values; a suggestion depends on seed and history only."""

    def __init__(self, setup: peer_protocol.Setup) -> None:
        torch.set_num_threads(1)
        torch.set_default_dtype(torch.double)
        self.cube = peer_protocol.UnitCube(setup.space)
        self.seed = setup.seed
        self.acquisition = setup.method.split("-")[1]
        self.points: list[list[float]] = []
        self.values: list[float] = []
        self.n_told = 0
        self.options = {
            "model": "SingleTaskGP",
            "acquisition": self.acquisition,
            "num_restarts": RESTARTS,
            "raw_samples": RAW_SAMPLES,
            **({"beta": "0.2 d log(2t)"} if self.acquisition == "ucb" else {}),
        }

    def tell(self, params: peer_protocol.Params, value: float | None) -> None:
        self.n_told += 1
        if value is not None or self.values:
            self.points.append(self.cube.encode(params))
            self.values.append(min(self.values) if value is None else -value)

    def ask(self) -> peer_protocol.Params:
        torch.manual_seed(1_000_003 * self.seed + self.n_told)
        if not self.values:
            return self.cube.decode(torch.rand(self.cube.dim).tolist())
        X, Y = torch.tensor(self.points), torch.tensor(self.values).unsqueeze(-1)
        model = SingleTaskGP(X, Y)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        if self.acquisition == "ucb":
            acquisition = UpperConfidenceBound(model, beta=0.2 * self.cube.dim * math.log(2 * len(self.values)))
        else:
            acquisition = LogExpectedImprovement(model, best_f=Y.max())
        bounds = torch.stack([torch.zeros(self.cube.dim), torch.ones(self.cube.dim)])
        found, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=RESTARTS, raw_samples=RAW_SAMPLES)
        return self.cube.decode(found[0].tolist())


if __name__ == "__main__":
    peer_protocol.serve(BoTorch, ["torch", "gpytorch", "botorch"])
