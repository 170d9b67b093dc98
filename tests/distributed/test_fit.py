from __future__ import annotations

import numpy as np

from dechbo.distributed.engine import PartsEngine
from dechbo.distributed.fit import PartPrior, evidence_in_parts, fit_in_parts
from dechbo.distributed.in_process import run_in_process
from dechbo.distributed.partition import partition
from dechbo.distributed.plan import plan_parts
from dechbo.gp.fit import HyperparameterPrior, fit
from distributed_cases import random_data, random_gp

DIM, PARTS = 10, 3


def test_slopes_of_the_evidence_and_a_fit() -> None:
    rng = np.random.default_rng(0)
    gp, data = random_gp(rng, DIM), random_data(rng, DIM, 30)
    sizes = np.full(DIM, 3)
    plans = plan_parts(gp.graph, sizes, partition(gp.graph, sizes, PARTS), as_cyclic=True)
    tasks = PartsEngine(parts=PARTS).tasks(gp, data, 1.0, [np.linspace(0, 1, 3)] * DIM)
    layouts, models = [plan.graph.cyclic for plan in plans], [task.model for task in tasks]
    shares = [model.shares[0] for model in models]
    own = [layout.variables[: layout.own] for layout in layouts]
    held = [plan.factors[share.tables] for plan, share in zip(plans, shares, strict=True)]

    evidence, slopes = gp.log_evidence_gradient(data)
    cases = list(zip(layouts, models, shares, strict=True))
    for p, (found, mine) in enumerate(run_in_process([evidence_in_parts(*case) for case in cases])):
        np.testing.assert_allclose(found, evidence, rtol=1e-10)
        np.testing.assert_allclose(mine, slopes[np.concatenate([own[p], DIM + held[p]])], rtol=1e-6, atol=1e-8)

    prior = HyperparameterPrior.of(gp.graph, gp.codes)
    priors = [
        PartPrior(
            *(
                part[np.concatenate([own[p], DIM + held[p]])]
                for part in (prior.centre, prior.spread, prior.low, prior.high)
            )
        )
        for p in range(PARTS)
    ]
    fitted = run_in_process([fit_in_parts(*case, mine) for case, mine in zip(cases, priors, strict=True)])
    assert len({value for _, value in fitted}) == 1

    def log_posterior(theta: np.ndarray, value: float) -> float:
        return value + prior.log_density(theta)[0]

    theta = np.append(prior.centre[:-1], np.log(gp.hyperparameters.noise))
    for p, (share, _) in enumerate(fitted):
        assert share.gp is not None
        local = {int(i): n for n, i in enumerate(layouts[p].variables)}
        for n, column in enumerate(share.columns):
            i = int(layouts[p].variables[column])
            if local[i] < layouts[p].own:
                theta[i] = np.log(share.gp.hyperparameters.lengthscales[n])
        theta[DIM + held[p]] = np.log(share.gp.hyperparameters.variances)
    central = fit(gp.graph, data, noise=gp.hyperparameters.noise, iterations=200)
    best = np.log(
        np.concatenate(
            [central.hyperparameters.lengthscales, central.hyperparameters.variances, [gp.hyperparameters.noise]]
        )
    )
    reached = log_posterior(theta, fitted[0][1])
    start = log_posterior(np.append(prior.centre[:-1], theta[-1]), evidence)
    assert reached > start
    assert reached > log_posterior(best, central.log_evidence(data)) - 2.0  # nats; the two may end in different modes
