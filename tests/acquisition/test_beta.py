from __future__ import annotations

from math import log, pi, prod, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from dechbo.acquisition import BetaContext, beta_schedule
from dechbo.errors import OptionError
from dechbo.graph import FactorGraph
from strategies import factor_graphs

GRAPH = FactorGraph(3, ((0, 1), (1, 2)))


def finite(graph: FactorGraph, counts: ArrayLike, delta: float = 0.1) -> BetaContext:
    return BetaContext(graph, np.log(np.asarray(counts, dtype=float)), delta)


def continuous(graph: FactorGraph, delta: float = 0.1, **constants: float) -> BetaContext:
    return BetaContext(graph, np.full(graph.dim, np.inf), delta, **constants)


@settings(max_examples=60)
@given(factor_graphs(max_size=4), st.data(), st.integers(1, 500), st.floats(0.001, 0.999))
def test_theory_on_a_finite_space_is_theorem_1(graph: FactorGraph, data: st.DataObject, t: int, delta: float) -> None:
    counts = data.draw(st.lists(st.integers(1, 20), min_size=graph.dim, max_size=graph.dim))
    context = finite(graph, counts, delta)
    pi_t = pi**2 * t**2 / 6
    expected = 2 * log(prod(counts) * len(graph.scopes) * pi_t / delta)
    assert beta_schedule("theory")(t, context) == pytest.approx(expected, rel=1e-12)
    cells = sum(prod(counts[i] for i in scope) for scope in graph.scopes)
    expected = 2 * log(pi_t * cells / delta)
    assert beta_schedule("theory-factor")(t, context) == pytest.approx(expected, rel=1e-12)
    # sum_I |D^I| <= |U| |D|: what the factors see is never more
    assert beta_schedule("theory-factor")(t, context) <= beta_schedule("theory")(t, context) + 1e-9


@pytest.mark.parametrize("t", [1, 2, 17, 1000])
@pytest.mark.parametrize("b", [1.0, 30.0])
def test_theory_on_a_continuous_space_is_the_last_lemma_of_appendix_e(t: int, b: float) -> None:
    """2 log(4 |U| pi_t / delta) + 2 d log(r d b t^2 sqrt(log(4 |U| a / delta))), r = 1."""
    delta, a, d, factors = 0.05, 2.0, 3, 2
    pi_t = pi**2 * t**2 / 6
    tau = d * b * t**2 * sqrt(log(4 * factors * a / delta))
    context = continuous(GRAPH, delta, lipschitz=b, lipschitz_tail=a)
    expected = 2 * log(4 * factors * pi_t / delta) + 2 * d * log(tau)
    assert beta_schedule("theory")(t, context) == pytest.approx(expected, rel=1e-12)
    expected = 2 * log(4 * pi_t * (tau**2 + tau**2) / delta)
    assert beta_schedule("theory-factor")(t, context) == pytest.approx(expected, rel=1e-12)


def test_discrete_variables_of_a_mixed_space_count_with_their_own_values() -> None:
    delta, t = 0.1, 5
    context = BetaContext(GRAPH, np.array([np.inf, log(7), np.inf]), delta, lipschitz=3.0)
    assert not context.is_finite
    tau = 2 * 3.0 * t**2 * sqrt(log(4 * 2 / delta))  # two variables make the grid
    pi_t = pi**2 * t**2 / 6
    expected = 2 * log(4 * 2 * pi_t / delta * tau * 7 * tau)
    assert beta_schedule("theory")(t, context) == pytest.approx(expected, rel=1e-12)
    expected = 2 * log(4 * pi_t / delta * (tau * 7 + 7 * tau))
    assert beta_schedule("theory-factor")(t, context) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("t", [1, 10, 150])
def test_practical_follows_kandasamy(t: int) -> None:
    graph = FactorGraph(4, ((0,), (0, 1, 2), (3,)))
    assert beta_schedule("practical")(t, continuous(graph)) == pytest.approx(0.2 * 3 * log(2 * t))


@pytest.mark.parametrize("name", ["theory", "theory-factor", "practical"])
@pytest.mark.parametrize("context", [finite(GRAPH, [4, 5, 6]), continuous(GRAPH, lipschitz=0.01)])
def test_beta_is_positive_and_grows_with_t(name: str, context: BetaContext) -> None:
    values = [beta_schedule(name)(t, context) for t in range(1, 300)]
    assert values[0] > 0
    assert (np.diff(values) > 0).all()


def test_5000_variables_do_not_overflow() -> None:
    d, t, delta = 5000, 100, 0.1
    graph = FactorGraph(d, tuple((i, (i + 1) % d, (i + 2) % d) for i in range(d)))
    pi_t = pi**2 * t**2 / 6
    context = finite(graph, np.full(d, 1000), delta)
    expected = 2 * (d * log(1000) + log(d * pi_t / delta))
    assert beta_schedule("theory")(t, context) == pytest.approx(expected, rel=1e-12)
    assert beta_schedule("theory-factor")(t, context) == pytest.approx(2 * log(pi_t * d * 1e9 / delta), rel=1e-12)
    wide = FactorGraph(d, (tuple(range(d)),))  # |D^I| itself is 10^15000
    assert beta_schedule("theory-factor")(t, finite(wide, np.full(d, 1000))) == pytest.approx(
        2 * (d * log(1000) + log(pi_t / delta))
    )
    for name in ("theory", "theory-factor"):
        assert np.isfinite(beta_schedule(name)(10**6, continuous(wide, lipschitz=1e6)))


@pytest.mark.parametrize("beta", [0, 2.5, np.float64(3.0), np.int64(4)])
def test_a_number_is_constant(beta: float) -> None:
    schedule = beta_schedule(beta)
    assert [schedule(t, continuous(GRAPH)) for t in (1, 50)] == [float(beta)] * 2


def test_a_callable_is_asked_with_t() -> None:
    schedule = beta_schedule(lambda t: 0.5 * t)
    assert schedule(3, continuous(GRAPH)) == 1.5
    assert schedule(8, continuous(GRAPH)) == 4.0


@pytest.mark.parametrize("beta", ["", "Theory", "1.5", -1, -1e-9, np.nan, np.inf, -np.inf, True, None, [1.0], 1j])
def test_bad_values_are_refused(beta: Any) -> None:
    with pytest.raises(OptionError, match="beta"):
        beta_schedule(beta)


@pytest.mark.parametrize("answer", [-1.0, np.nan, np.inf, None, "2", True, np.array([1.0, 2.0])])
def test_bad_answers_of_a_callable_are_refused(answer: Any) -> None:
    schedule = beta_schedule(lambda t: answer)
    with pytest.raises(OptionError, match="beta"):
        schedule(1, continuous(GRAPH))
