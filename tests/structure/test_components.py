"""Variance components against whole models, written-out sums and a general optimiser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy.optimize import minimize

from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.gp.centring import Domain
from dechbo.gp.correlation import Correlation
from dechbo.gp.kernels import kernel_codes
from dechbo.graph import FactorGraph, Scope
from dechbo.structure import components
from dechbo.structure.components import (
    MIN_NOISE,
    ComponentFit,
    ComponentGrams,
    Components,
    affordable,
    elementary_sums,
    screen,
)

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

KERNELS = ("matern52", "se", "categorical", "matern52", "se")
DOMAINS = (None, None, np.arange(3.0), np.array([0.0, 0.3, 0.9, 1.0]), None)


class Problem:
    """Random values at random points, one-dimensional kernels, and their Gram matrices."""

    def __init__(
        self,
        rng: np.random.Generator,
        n: int,
        kernels: Sequence[str] = KERNELS,
        domains: Sequence[Domain] = DOMAINS,
        *,
        noise: float = 0.0,
    ) -> None:
        X = np.column_stack([rng.random(n) if domain is None else rng.choice(domain, n) for domain in domains])
        y = np.sin(6 * X[:, 0]) * X[:, -1] + 0.3 * X.sum(axis=1) + 0.2 * rng.normal(size=n)
        self.data = Observations(X, (y - y.mean()) / y.std(), noise * rng.random(n))
        self.kernels, self.domains = kernels, domains
        self.lengthscales = rng.uniform(0.2, 1.0, len(domains))
        self.correlation = Correlation(kernel_codes(kernels, len(domains)), self.lengthscales, domains)
        self.grams = ComponentGrams(self.correlation, self.data)

    @classmethod
    def continuous(cls, rng: np.random.Generator, dim: int, n: int) -> Problem:
        return cls(rng, n, ("matern52",) * dim, (None,) * dim)

    @property
    def dim(self) -> int:
        return len(self.domains)

    def matrices(self) -> Array:
        """K_i of every variable: (d, n, n)."""
        X = self.data.X
        return np.array([self.correlation.matrix(i, X[:, i], X[:, i]) for i in range(self.dim)])

    def model(self, scopes: Sequence[Scope], variances: Sequence[float], noise: float) -> AdditiveGP:
        theta = Hyperparameters(self.lengthscales, variances, noise)
        return AdditiveGP(FactorGraph(self.dim, tuple(scopes)), theta, kernel=self.kernels, domains=self.domains)

    def start(self, *, max_size: int = 3, noise: float | None = None) -> Components:
        everything = np.arange(self.dim)
        return Components.start(
            self.dim, everything, everything[: self.dim * (max_size > 2)], max_size=max_size, noise=noise
        )


def perturbed(rng: np.random.Generator, s: Components) -> Components:
    """Every variance times a random number."""

    def scaled(part: Array) -> Array:
        return np.asarray(part * rng.uniform(0.05, 3, part.shape))

    return replace(
        s, singles=scaled(s.singles), pairs=scaled(s.pairs), triples=scaled(s.triples), shared=scaled(s.shared)
    )


def listed(s: Components) -> dict[Scope, float]:
    """The variance of every scope that has its own, written out from the layout of the arrays."""
    found: dict[Scope, float] = {(i,): float(v) for i, v in enumerate(s.singles)}
    for i, j in combinations(range(len(s.paired)), 2):
        found[int(s.paired[i]), int(s.paired[j])] = float(s.pairs[i, j])
    for i, j, k in combinations(range(len(s.tripled)), 3):
        scope = (int(s.tripled[i]), int(s.tripled[j]), int(s.tripled[k]))
        found[scope] = float(s.triples[j * (j - 1) // 2 + i, k])
    return found


def all_variances(s: Components) -> dict[Scope, float]:
    """The variance of every scope of the model: its own plus the shared one of its size."""
    d, own = len(s.singles), listed(s)
    sizes = (1, 2, 3)
    shared = {1: 0.0, 2: float(s.shared[0]), 3: float(s.shared[1])}
    scopes = [scope for size in sizes for scope in combinations(range(d), size)]
    return {scope: own.get(scope, 0.0) + shared[len(scope)] for scope in scopes}


# --- the evidence ----------------------------------------------------------------------------------------------------

PARTS = {
    "all": (np.arange(5), np.arange(5)),
    "pairs": (np.arange(5), np.arange(0)),
    "some": (np.array([0, 2, 4]), np.array([0, 1, 4])),
    "none": (np.arange(0), np.arange(0)),
}


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("noisy", [0.0, 0.1], ids=["one noise", "noise of each"])
def test_the_evidence_is_that_of_the_model_with_all_scopes_written_out(parts: str, noisy: float) -> None:
    rng = np.random.default_rng(0)
    problem = Problem(rng, 30, noise=noisy)
    max_size = 2 if parts == "pairs" else 3
    s = perturbed(rng, Components.start(5, *PARTS[parts], max_size=max_size, noise=0.02))
    assert all(variance > 0 for scope, variance in all_variances(s).items() if len(scope) <= max_size)
    fit = ComponentFit(problem.grams, problem.data, s, free_noise=True)
    for _ in range(3):
        variances = all_variances(fit.components)
        model = problem.model(list(variances), list(variances.values()), fit.components.noise)
        assert fit.evidence[-1] == pytest.approx(model.log_evidence(problem.data), abs=1e-3)
        fit.run(2)
    assert len(fit.evidence) == 7


@pytest.mark.parametrize("parts", ["all", "none"])
def test_the_start_shares_out_the_variance(parts: str) -> None:
    s = Components.start(5, *PARTS[parts])
    assert_allclose(sum(all_variances(s).values()) + s.noise, 1.0, rtol=1e-12)
    assert Components.start(5, *PARTS[parts], noise=0.3).noise == 0.3
    assert len({variance for scope, variance in all_variances(s).items() if len(scope) == 3}) == 1
    pairs_only = Components.start(5, *PARTS["pairs"], max_size=2)
    assert sum(v for scope, v in all_variances(pairs_only).items() if len(scope) == 3) == 0


@pytest.mark.parametrize("free", [True, False], ids=["free noise", "known noise"])
@pytest.mark.parametrize("max_size", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_every_step_raises_the_evidence(seed: int, max_size: int, free: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain step, with the root of the ratio, from wherever the longer steps lead."""
    rng = np.random.default_rng(seed)
    problem = Problem(rng, 40, noise=0.05 * (seed % 2))
    start = perturbed(rng, problem.start(max_size=max_size, noise=None if free else 0.01))
    fit = ComponentFit(problem.grams, problem.data, start, free_noise=free)
    slack = 1e-5 * len(problem.data)
    for _ in range(10):
        with monkeypatch.context() as patch:
            patch.setattr(components, "_POWERS", (0.5,))
            plain = ComponentFit(problem.grams, problem.data, fit.components, free_noise=free)
            plain._step()
            if len(plain.evidence) == 1:  # refused: then there is nothing to gain
                up, down = problem.grams.contracted(plain.weights(), plain.components)
                refused = plain.components.multiplied(up, down, 0.5)
                tried = ComponentFit(problem.grams, problem.data, refused, free_noise=free)
                assert tried.evidence[0] > plain.evidence[0] - slack
        fit.run(1)
    assert (np.diff(fit.evidence) >= 0).all()
    assert fit.evidence[-1] > fit.evidence[0] + 1
    assert (fit.components.noise != start.noise) == free
    assert fit.components.noise >= MIN_NOISE


def test_many_steps_reach_what_a_general_optimiser_reaches() -> None:
    """From the same start and mostly the same maximum; the evidence has several, and tiny variances grow slowly."""
    short = []
    for seed in range(7):
        problem = Problem(np.random.default_rng(seed), 25, KERNELS[:4], DOMAINS[:4])
        start = problem.start()
        scopes = [*all_variances(start)]

        def loss(theta: Array, problem: Problem = problem, scopes: Sequence[Scope] = scopes) -> tuple[float, Array]:
            model = problem.model(scopes, np.exp(theta[:-1]).tolist(), float(np.exp(theta[-1])))
            value, slope = model.log_evidence_gradient(problem.data)
            return -value, -slope[4:]

        theta = np.log([*all_variances(start).values(), start.noise])
        bounds = [(-25.0, 5.0)] * len(scopes) + [(np.log(MIN_NOISE), 0.0)]
        best = -minimize(loss, theta, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500}).fun
        fit = ComponentFit(problem.grams, problem.data, start, free_noise=True)
        reached = fit.run(400)
        assert best > fit.evidence[0] + 2  # else the test says little
        short.append(best - fit.evidence[-1])
        end = np.log([*(max(s, 1e-12) for s in all_variances(reached).values()), reached.noise])
        assert np.abs(loss(end)[1]).max() < 0.02 or reached.noise == MIN_NOISE
    assert np.median(np.abs(short)) < 2e-3
    assert sum(difference < 5e-3 for difference in short) >= 6
    assert max(short) < 1


# --- the sums over pairs of observations ------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize(("chunk", "stored", "products"), [(512, 2**27, 64), (7, 2**27, 2), (50, 0, 1)])
def test_sums_of_all_scopes_are_those_written_out(
    parts: str, chunk: int, stored: int, products: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(components, "_CHUNK", chunk)
    monkeypatch.setattr(components, "_MAX_STORED", stored)
    monkeypatch.setattr(components, "_PRODUCTS", products)
    rng = np.random.default_rng(2)
    problem = Problem(rng, 20)
    K, lower = problem.matrices(), np.tril_indices(20)
    weights = rng.normal(size=(2, len(lower[0])))
    paired, tripled = PARTS[parts]
    like = Components.start(5, paired, tripled)
    found = problem.grams.contracted([w.astype(np.float32) for w in weights], like)
    assert len(found) == 2
    rows = {size: {s: K[list(s)].prod(axis=0)[lower] for s in combinations(range(5), size)} for size in (1, 2, 3)}
    for w, sums in zip(weights, found, strict=True):
        assert_array_equal(sums.paired, paired)
        for scope, value in listed(sums).items():
            assert value == pytest.approx(w @ rows[len(scope)][scope], abs=1e-4)
        if parts != "all":
            assert_allclose(sums.shared, [w @ sum(rows[size].values()) for size in (2, 3)], atol=1e-3)
    values = perturbed(rng, like)
    total = sum(variance * rows[len(scope)][scope] for scope, variance in all_variances(values).items())
    assert_allclose(problem.grams.combined(values), total, atol=1e-5)
    parted = problem.grams.involvement([w.astype(np.float32) for w in weights])
    for i in range(5):
        containing = [sum(row for s, row in rows[size].items() if i in s) for size in (2, 3)]
        assert_allclose(parted[:, :, i], np.stack([weights @ row for row in containing], axis=1), atol=1e-3)


def test_the_stored_rows_are_the_computed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(np.random.default_rng(3), 40)
    monkeypatch.setattr(components, "_MAX_STORED", 0)
    again = ComponentGrams(problem.correlation, problem.data)
    for _ in range(2):  # more than one pass
        for (part, k), (other, same) in zip(problem.grams.chunks(), again.chunks(), strict=True):
            assert part == other
            assert_array_equal(k, same)
    assert sum(k.shape[1] for _, k in again.chunks()) == 40 * 41 // 2


@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_elementary_sums(d: int) -> None:
    k = np.random.default_rng(d).uniform(-1, 2, (d, 6)).astype(np.float32)
    for size, found in zip((2, 3), elementary_sums(k), strict=True):
        expected = sum((k[list(s)].prod(axis=0) for s in combinations(range(d), size)), np.zeros(6))
        assert_allclose(found, expected, atol=1e-5)


# --- the layout ------------------------------------------------------------------------------------------------------


@given(st.integers(1, 5000), st.data())
def test_rows_of_triples(j: int, data: st.DataObject) -> None:
    i = data.draw(st.integers(0, j - 1))
    assert components._pair_at(j * (j - 1) // 2 + i) == (i, j)


@given(st.integers(0, 2**32 - 1), st.integers(2, 7), st.data())
def test_interactions_and_pair_variances(seed: int, d: int, data: st.DataObject) -> None:
    paired, tripled = (np.array(sorted(data.draw(st.sets(st.integers(0, d - 1)))), dtype=np.int64) for _ in range(2))
    s = perturbed(np.random.default_rng(seed), Components.start(d, paired, tripled))
    own = {scope: variance for scope, variance in listed(s).items() if len(scope) > 1}
    assert len(own) == comb(len(paired), 2) + comb(len(tripled), 3)
    ordered = sorted(own.items(), key=lambda item: -item[1])
    for most in (0, 3, 100):
        assert list(s.interactions(most).items()) == ordered[:most]
    pairs = s.pair_variances()
    assert_array_equal(pairs, pairs.T)
    for i in range(d):
        assert pairs[i, i] == 0
        for j in range(i):
            assert pairs[i, j] == pytest.approx(sum(v for scope, v in own.items() if {i, j} <= {*scope}), abs=1e-15)


def test_scopes_without_variance_are_no_interactions() -> None:
    s = Components.start(4, np.arange(4), np.arange(4), max_size=2)
    assert len(s.interactions(100)) == 6


def test_relabelling_the_variables_permutes_the_components() -> None:
    rng = np.random.default_rng(5)
    problem = Problem(rng, 40)
    new = np.array([3, 0, 4, 1, 2])
    old = np.argsort(new)  # of each new label
    data = Observations(problem.data.X[:, old], problem.data.y)
    correlation = Correlation(
        problem.correlation.codes[old], problem.lengthscales[old], [problem.domains[i] for i in old]
    )
    found = listed(ComponentFit(problem.grams, problem.data, problem.start(), free_noise=True).run(4))
    again = ComponentFit(ComponentGrams(correlation, data), data, problem.start(), free_noise=True)
    renamed = listed(again.run(4))
    assert len(set(found.values())) == len(found) == 25
    for scope, variance in found.items():
        image = tuple(sorted(int(new[i]) for i in scope))
        assert renamed[image] == pytest.approx(variance, rel=1e-2, abs=1e-5)


# --- which variables -------------------------------------------------------------------------------------------------


def planted(d: int, n: int) -> Problem:
    """A pair (2, 9) and a triple (4, 7, 11) among many variables."""
    rng = np.random.default_rng(6)
    problem = Problem.continuous(rng, d, n)
    X = problem.data.X
    waves = np.sin(3 * (X - 0.5))
    y = X[:, 0] + 4 * waves[:, 2] * waves[:, 9] + 8 * waves[:, [4, 7, 11]].prod(axis=1) + 0.05 * rng.normal(size=n)
    problem.data = Observations(X, (y - y.mean()) / y.std())
    problem.correlation = Correlation(kernel_codes("matern52", d), np.full(d, 0.5), (None,) * d)
    problem.grams = ComponentGrams(problem.correlation, problem.data)
    return problem


@pytest.mark.parametrize("max_size", [2, 3])
@pytest.mark.parametrize("d", [2, 3, 14])
def test_all_variables_are_kept_where_a_step_can_afford_it(d: int, max_size: int) -> None:
    problem = Problem.continuous(np.random.default_rng(7), d, 30)
    paired, tripled = screen(problem.grams, problem.data, max_size, noise=None, most=affordable(30 * 31 // 2))
    assert_array_equal(paired, np.arange(d))
    assert_array_equal(tripled, np.arange(d if max_size > 2 else 0))


@pytest.mark.parametrize("noise", [None, 0.01])
def test_the_variables_that_matter_are_kept_where_work_is_short(noise: float | None) -> None:
    problem = planted(16, 150)
    n = len(problem.grams.rows[0])
    paired, tripled = screen(
        problem.grams, problem.data, 3, noise=noise, most=affordable(n, n * 6.01 * 8**2, n * 7.01**3)
    )
    assert len(paired) == 8
    assert {2, 9} <= set(paired.tolist())
    assert len(tripled) == 7
    assert {4, 7, 11} <= set(tripled.tolist())
    assert_array_equal(paired, np.sort(paired))
    fit = ComponentFit(problem.grams, problem.data, Components.start(16, paired, tripled), free_noise=True)
    assert set(fit.run(8).interactions(2)) == {(2, 9), (4, 7, 11)}
    few = screen(problem.grams, problem.data, 3, noise=noise, most=affordable(n, 0.0, 0.0))
    assert [len(part) for part in few] == [2, 3]
    assert len(screen(problem.grams, problem.data, 2, noise=noise, most=affordable(n, 0.0, 0.0))[1]) == 0
