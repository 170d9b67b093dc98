"""MAP fits of a factor over all variables: the documented priors, their gradients, warm and cold fits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import gamma, halfcauchy, lognorm

from dechbo.data.observations import Observations
from dechbo.gp.radial import ColumnEmbedding, RadialGP
from dechbo.gp.radial_fit import LOG_NOISE, LOG_RELEVANCES, LOG_VARIANCE, PRIORS, SPARSE_SCALE, RadialPrior, fit_radial

Array = NDArray[np.float64]

ALL = [RadialPrior(k, p, fixed) for k, p, fixed in itertools.product(["se", "matern52"], PRIORS, [False, True])]
IDS = [f"{prior.kernel}-{prior.relevances}-{'fixed' if prior.fixed_variance else 'free'}" for prior in ALL]


def wave(n: int = 30, dim: int = 3, seed: int = 0, noise: float = 0.05) -> Observations:
    """Only the first variable acts."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, dim))
    return Observations(X, np.sin(6 * X[:, 0]) + noise * rng.normal(size=n)).standardised()[0]


def theta_of(gp: RadialGP) -> Array:
    return np.log([*gp.relevances, gp.variance, gp.noise])


def objective(prior: RadialPrior, gp: RadialGP, data: Observations) -> float:
    return gp.log_evidence(data) + prior.log_density(theta_of(gp))[0]


@pytest.mark.parametrize("prior", ALL, ids=IDS)
def test_the_gradient_of_the_prior_is_that_of_differences(prior: RadialPrior) -> None:
    for theta in np.random.default_rng(0).uniform(-4, 1, (5, 6)):
        steps = 1e-6 * np.eye(6)
        differences = [(prior.log_density(theta + s)[0] - prior.log_density(theta - s)[0]) / 2e-6 for s in steps]
        np.testing.assert_allclose(prior.log_density(theta)[1], differences, rtol=1e-5, atol=1e-5)


def test_the_priors_are_the_documented_densities() -> None:
    """Up to a constant, as densities of the quantities themselves, written out with SciPy."""
    d = 4
    a, b = np.random.default_rng(1).uniform(-4, 1, (2, d + 2))

    def logs(theta: Array, relevances: str) -> float:
        rho, variance, noise = np.exp(theta[:d]), np.exp(theta[d]), np.exp(theta[d + 1])
        if relevances == "weak":
            first = float((-0.1 / rho - 0.1 * rho).sum())
        elif relevances == "scaled":
            location = np.sqrt(2) + np.log(d) / 2
            first = float(lognorm(np.sqrt(3), scale=np.exp(location)).logpdf(1 / np.sqrt(rho)).sum())
        else:
            first = float(halfcauchy(scale=SPARSE_SCALE).logpdf(rho).sum())
        last = lognorm(1, scale=np.exp(-4)) if relevances == "scaled" else gamma(1.1, scale=1 / 30)
        return first + float(gamma(2).logpdf(variance)) + float(last.logpdf(noise))

    for name in PRIORS:
        prior = RadialPrior("se", name)
        difference = prior.log_density(a)[0] - prior.log_density(b)[0]
        assert difference == pytest.approx(logs(a, name) - logs(b, name), rel=1e-9), name


@pytest.mark.parametrize("prior", ALL, ids=IDS)
def test_a_fit_is_a_maximum_and_a_warm_one_stays_there(prior: RadialPrior) -> None:
    embedding, data = ColumnEmbedding((0, 0, 0)), wave()
    gp = fit_radial(prior, embedding, data)
    best = objective(prior, gp, data)
    bounds = np.array([LOG_RELEVANCES] * 3 + [LOG_VARIANCE, LOG_NOISE])
    for i, step in itertools.product(range(5), (-0.3, 0.3)):
        if i == 3 and prior.fixed_variance:
            continue
        theta = theta_of(gp)
        theta[i] += step
        if (theta == np.clip(theta, bounds[:, 0], bounds[:, 1])).all():
            other = RadialGP(embedding, np.exp(theta[:3]), np.exp(theta[3]), np.exp(theta[4]), prior.kernel)
            assert objective(prior, other, data) <= best + 1e-4, (i, step)
    warm = fit_radial(prior, embedding, data, start=gp)
    assert best - 1e-9 <= objective(prior, warm, data) <= best + 1e-2
    points = np.random.default_rng(3).random((10, 3))
    moments = gp.condition(data).joint(points)
    np.testing.assert_allclose(warm.condition(data).joint(points), moments, atol=0.05)
    assert (warm.variance == gp.variance == 1.0) == prior.fixed_variance


def test_the_active_variable_is_found_and_idle_ones_stay_idle() -> None:
    for name in PRIORS:
        gp = fit_radial(RadialPrior("matern52", name), ColumnEmbedding((0,) * 5), wave(40, 5))
        assert gp.relevances[0] > 5 * gp.relevances[1:].max(), name
    assert gp.relevances[1:].max() < 0.05  # "sparse", the last


@pytest.mark.parametrize("noise", [0.0, 0.04])
def test_a_given_noise_is_kept_by_cold_and_warm_fits(noise: float) -> None:
    embedding = ColumnEmbedding((0, 0, 0))
    cold = fit_radial(RadialPrior("matern52", "weak"), embedding, wave(), noise=noise)
    assert cold.noise == noise
    assert fit_radial(RadialPrior("matern52", "weak"), embedding, wave(25), noise=noise, start=cold).noise == noise


def test_categories_and_odd_data_are_fitted() -> None:
    """Categories, a constant, one observation, equal points with different values."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(20), rng.integers(0, 3, 20)])
    prior, embedding = RadialPrior("matern52", "weak"), ColumnEmbedding((0, 3))
    by_category = Observations(X, np.array([-1.0, 0.0, 1.5])[X[:, 1].astype(int)])
    gp = fit_radial(prior, embedding, by_category)
    assert gp.relevances[1] > gp.relevances[0]
    for data in (
        Observations(X, np.zeros(20)),
        Observations(X[:1], np.zeros(1)),
        Observations(np.repeat(X[:1], 6, axis=0), rng.normal(size=6)),
    ):
        odd = fit_radial(prior, embedding, data)
        assert np.isfinite([*odd.relevances, odd.variance, odd.noise]).all()
        assert np.isfinite(odd.condition(data).joint(X)).all()


def test_many_observations_begin_with_a_part_of_them() -> None:
    """The fit to all of them is no worse than that to the part."""
    data = wave(260)
    prior, embedding = RadialPrior("matern52", "weak"), ColumnEmbedding((0, 0, 0))
    part = fit_radial(prior, embedding, data.evenly_spaced(200))
    assert objective(prior, fit_radial(prior, embedding, data), data) >= objective(prior, part, data) - 1e-6
