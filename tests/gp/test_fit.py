from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from dechbo.data.observations import Observations
from dechbo.errors import DataError, OptionError
from dechbo.gp import AdditiveGP, Hyperparameters, fit
from dechbo.graph import FactorGraph
from gp_strategies import draw_factor, draw_points

Array = NDArray[np.float64]

GRAPH = FactorGraph(3, ((0,), (1,), (0, 2)))
KERNELS = ("matern52", "se", "categorical")


def bounds(kernels: Sequence[str], factors: int) -> Array:
    """The documented priors: median, spread and cut-offs of (lengthscales, variances, noise)."""
    rows = [(1.0, 1.0, 0.05, 20.0) if name == "categorical" else (0.3, 1.0, 0.01, 10.0) for name in kernels]
    rows += [(1.0 / factors, 2.0, 1e-8, 100.0)] * factors + [(1e-4, 2.0, 1e-6, 1.0)]
    return np.array(rows)


def flat(theta: Hyperparameters) -> Array:
    return np.concatenate([theta.lengthscales, theta.variances, [theta.noise]])


def objective(gp: AdditiveGP, data: Observations, *, known_noise: bool = False) -> float:
    """Evidence plus the documented log-normal priors, up to a constant."""
    centre, spread, _, _ = bounds(gp.kernels, len(gp.graph.scopes)).T
    z = (np.log(np.maximum(flat(gp.hyperparameters), 1e-300)) - np.log(centre)) / spread
    z = z[:-1] if known_noise else z
    return gp.log_evidence(data) - 0.5 * float(z @ z)


def sampled(
    seed: int,
    n: int = 40,
    graph: FactorGraph = GRAPH,
    kernels: Sequence[str] = KERNELS,
    lengthscale: float = 0.3,
    noise: float = 0.01,
) -> Observations:
    rng = np.random.default_rng(seed)
    theta = Hyperparameters(np.full(graph.dim, lengthscale), np.full(len(graph.scopes), 1.0), noise)
    gp = AdditiveGP(graph, theta, kernel=kernels)
    X = draw_points(rng, kernels, n)
    y = np.sum([draw_factor(rng, gp, k, X) for k in range(len(graph.scopes))], axis=0) + np.sqrt(noise) * rng.normal(
        size=n
    )
    return Observations(X, y).standardised()[0]


def test_fit_is_deterministic() -> None:
    data = sampled(0)
    first, second = (fit(GRAPH, data, kernel=KERNELS).hyperparameters for _ in range(2))
    np.testing.assert_array_equal(flat(first), flat(second))
    warm = [fit(GRAPH, data, kernel=KERNELS, start=first).hyperparameters for _ in range(2)]
    np.testing.assert_array_equal(flat(warm[0]), flat(warm[1]))


@pytest.mark.parametrize("seed", range(3))
def test_fit_ends_where_the_objective_is_flat(seed: int) -> None:
    """At the maximum no step in any logarithm gains, but into a bound."""
    data = sampled(seed)
    gp = fit(GRAPH, data, kernel=KERNELS, iterations=300)
    best = objective(gp, data)
    logs = np.log(flat(gp.hyperparameters))
    _, _, low, high = np.log(bounds(KERNELS, 3)).T
    for i in range(len(logs)):
        for step in (-0.1, 0.1):
            moved = logs.copy()
            moved[i] = np.clip(moved[i] + step, low[i], high[i])
            theta = Hyperparameters(np.exp(moved[:3]), np.exp(moved[3:-1]), float(np.exp(moved[-1])))
            assert objective(AdditiveGP(GRAPH, theta, kernel=KERNELS), data) <= best + 1e-3


@pytest.mark.parametrize("length", [1e-12, 0.02, 5.0, 1e12])
@pytest.mark.parametrize("variance", [0.0, 1e-12, 1e12])
@pytest.mark.parametrize("noise", [0.0, 1e12])
def test_a_bad_start_is_survived_and_never_made_worse(length: float, variance: float, noise: float) -> None:
    data = sampled(1)
    start = Hyperparameters(np.full(3, length), np.full(3, variance), noise)
    found = fit(GRAPH, data, kernel=KERNELS, start=start)
    _, _, low, high = bounds(KERNELS, 3).T
    inside = np.clip(flat(start), low, high)
    moved = AdditiveGP(GRAPH, Hyperparameters(inside[:3], inside[3:-1], float(inside[-1])), kernel=KERNELS)
    assert objective(found, data) >= objective(moved, data)
    values = flat(found.hyperparameters)
    assert (values >= low * (1 - 1e-12)).all()
    assert (values <= high * (1 + 1e-12)).all()
    # the evidence of other data may have several modes; that of these has one within reach of every start
    assert objective(found, data) > objective(fit(GRAPH, data, kernel=KERNELS), data) - 0.1


@pytest.mark.parametrize("seed", range(3))
def test_a_warm_fit_is_never_worse_than_its_start_and_a_cold_one_than_its_centre(seed: int) -> None:
    data = sampled(seed)
    cold = fit(GRAPH, data, kernel=KERNELS)
    centre = bounds(KERNELS, 3)[:, 0]
    for length in (0.1, 0.6):
        lengths = np.where(np.array(KERNELS) == "categorical", 1.0, length)
        at = AdditiveGP(GRAPH, Hyperparameters(lengths, centre[3:-1], centre[-1]), kernel=KERNELS)
        assert objective(cold, data) > objective(at, data)
    longer = data.append(data.X[0], float(data.y[0]))
    warm = fit(GRAPH, longer, kernel=KERNELS, start=cold.hyperparameters)
    assert objective(warm, longer) >= objective(cold, longer) - 1e-9


@pytest.mark.parametrize("noise", [0.0, 1e-9, 0.04, 3.0])
def test_known_noise_is_kept(noise: float) -> None:
    data = sampled(2)
    cold = fit(GRAPH, data, kernel=KERNELS, noise=noise)
    assert cold.hyperparameters.noise == noise
    start = Hyperparameters(np.full(3, 0.05), np.full(3, 0.01), 0.7)
    warm = fit(GRAPH, data, kernel=KERNELS, noise=noise, start=start)
    assert warm.hyperparameters.noise == noise
    moved = AdditiveGP(GRAPH, Hyperparameters(start.lengthscales, start.variances, noise), kernel=KERNELS)
    assert objective(warm, data, known_noise=True) > objective(moved, data, known_noise=True)


@pytest.mark.parametrize("kernel", ["matern52", "se"])
@pytest.mark.parametrize("lengthscale", [0.05, 0.2, 0.8])
def test_the_lengthscale_of_the_data_is_found(kernel: str, lengthscale: float) -> None:
    """Median over 5 functions of 60 points, within a factor of 2 (a single one may well be off by more)."""
    graph = FactorGraph(1, ((0,),))
    found = [
        fit(graph, sampled(seed, 60, graph, [kernel], lengthscale, 1e-3), kernel=kernel).hyperparameters.lengthscales[0]
        for seed in range(5)
    ]
    assert lengthscale / 2 < np.median(found) < lengthscale * 2


def test_a_cold_fit_sees_fast_waves_and_slow_ones() -> None:
    """Neither is taken for noise."""
    x = np.linspace(0, 1, 40)[:, None]
    graph = FactorGraph(1, ((0,),))
    fast = fit(graph, Observations(x, np.sin(60 * x[:, 0])).standardised()[0], kernel="se").hyperparameters
    slow = fit(graph, Observations(x, np.sin(3 * x[:, 0])).standardised()[0], kernel="se").hyperparameters
    assert fast.lengthscales[0] < 0.1
    assert slow.lengthscales[0] > 0.3
    assert max(fast.noise, slow.noise) < 0.01


def test_the_noise_and_the_factor_of_the_data_are_found() -> None:
    """y = sin(6 x_0) + noise: the factor of x_1 vanishes, and the noise is that of the data, within a factor of 2."""
    rng = np.random.default_rng(3)
    X = rng.random((80, 2))
    y = np.sin(6 * X[:, 0]) + 0.3 * rng.normal(size=80)
    data, scaling = Observations(X, y).standardised()
    theta = fit(FactorGraph.singletons(2), data).hyperparameters
    assert 0.5 < theta.noise * scaling.scale**2 / 0.09 < 2
    assert theta.variances[1] < 0.1 * theta.variances[0]


@pytest.mark.parametrize("noise", [None, 0.0, 0.01])
@pytest.mark.parametrize("what", ["one", "constant", "duplicated", "contradicting", "huge", "tiny"])
def test_ordinary_trouble(what: str, noise: float | None) -> None:
    rng = np.random.default_rng(4)
    X = draw_points(rng, KERNELS, 6)
    y = rng.normal(size=6)
    X, y = {
        "one": (X[:1], y[:1]),
        "constant": (X, np.full(6, 3.0)),
        "duplicated": (np.vstack([X, X]), np.append(y, y)),
        "contradicting": (np.vstack([X, X]), np.append(y, -y)),
        "huge": (X, y * 1e300),
        "tiny": (X, y * 1e-300),
    }[what]
    data, scaling = Observations(X, y).standardised()
    gp = fit(GRAPH, data, kernel=KERNELS, noise=noise)
    points = draw_points(rng, KERNELS, 5)
    mean, deviation = gp.condition(data).joint(points)
    assert np.isfinite(flat(gp.hyperparameters)).all()
    assert np.isfinite(mean).all()
    assert np.isfinite(deviation).all()
    assert all(np.isfinite(scaling.original(float(value))) for value in mean)
    if what == "constant":
        np.testing.assert_allclose([scaling.original(float(value)) for value in mean], 3.0, rtol=1e-9)


def test_many_factors_can_be_fitted_at_once() -> None:
    rng = np.random.default_rng(5)
    d = 60
    graph = FactorGraph(d, tuple((i, (i + 1) % d, (i + 2) % d) for i in range(d)))
    X = rng.random((20, d))
    data = Observations(X, X[:, 0] - X[:, 1] * X[:, 2]).standardised()[0]
    gp = fit(graph, data, iterations=5)
    assert np.isfinite(flat(gp.hyperparameters)).all()
    assert gp.log_evidence(data) > -0.5 * data.y @ data.y - 10 * np.log(2 * np.pi)  # that of pure noise of variance 1


def test_bad_arguments_are_refused() -> None:
    data = sampled(0)
    with pytest.raises(DataError, match="hyperparameters"):
        fit(GRAPH, data, kernel=KERNELS, start=Hyperparameters([0.1], [1.0], 0.1))
    with pytest.raises(OptionError, match="kernel"):
        fit(GRAPH, data, kernel="periodic")
    with pytest.raises(DataError, match="noise"):
        fit(GRAPH, data, kernel=KERNELS, noise=-1.0)
    with pytest.raises(DataError, match="variables"):
        fit(FactorGraph.singletons(2), data)
    with pytest.raises(DataError, match="at least one observation"):
        fit(GRAPH, Observations(np.empty((0, 3)), np.empty(0)), kernel=KERNELS)
