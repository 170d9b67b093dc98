"""The average regret R_n / n and its bound (Theorem 2), on a finite problem with a known optimum."""

import itertools

import numpy as np

from dechbo import Exact, FactorGraph, Int, ModelOptions, Optimizer, Space, TheoryOptions
from dechbo.acquisition import BetaContext, beta_schedule
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.theory import average_regret, regret_bound

space = Space({name: Int(0, 4) for name in "abcd"})
graph = FactorGraph(4, ((0, 1), (1, 2), (2, 3)))
truth = AdditiveGP(graph, Hyperparameters(np.full(4, 0.4), np.full(3, 1.0), 0.01))

# A function drawn from the prior on the whole grid: the theorem's assumptions hold.
points = np.array(list(itertools.product(*(parameter.grid(5) for parameter in space.parameters))))
rng = np.random.default_rng(0)
values = np.linalg.cholesky(truth.gram(points) + 1e-9 * np.eye(len(points))) @ rng.standard_normal(len(points))
objective = {tuple(space.decode(point).values()): value for point, value in zip(points, values, strict=True)}

optimizer = Optimizer(
    space,
    graph=graph,
    seed=0,
    direction="maximize",
    noise=0.01,
    maximizer=Exact(),
    model=ModelOptions(centred=False),
    theory=TheoryOptions(beta="theory-factor"),
)
for _ in range(60):
    params = optimizer.ask()
    optimizer.tell(params, objective[tuple(params.values())] + 0.1 * rng.standard_normal())

X = np.array([space.encode(evaluation.params) for evaluation in optimizer.evaluations])
true_values = np.array([objective[tuple(evaluation.params.values())] for evaluation in optimizer.evaluations])
regret = average_regret(true_values, values.max())
print("  n      R_n/n   bound on R_n/n   h of Assumption 4")
sizes = np.log([parameter.cardinality for parameter in space.parameters])
for n in (15, 30, 60):
    context = BetaContext(graph, sizes, optimizer.theory.delta)
    beta = beta_schedule("theory-factor")(n, context)
    bound = regret_bound(truth, Observations(X[:n], true_values[:n]), beta, continuous=False)
    print(f"{n:3d} {regret[n - 1]:10.4f} {bound.average:16.4f} {bound.ratio:19.2e}")
print("estimated, not known:", "; ".join(bound.estimated))
