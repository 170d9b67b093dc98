"""Statistics against scipy, enumeration and hand-worked examples."""

from __future__ import annotations

from itertools import product
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dechbo.bench.records import Run, RunRecord, Step
from dechbo.bench.statistics import (
    Block,
    bootstrap,
    compare,
    complete_block,
    final_regrets,
    friedman,
    holm,
    mean_ranks,
    ranks_of_means,
    summarise,
    wilcoxon,
)
from dechbo.errors import DataError

probabilities = st.floats(0, 1)


def record(problem: str, method: str, seed: int, value: float, status: str = "finished") -> RunRecord:
    run = Run(problem, method, seed, initial=1, evaluations=1)
    steps = [Step({}, value + 1.0), Step({}, value, ask_cpu=0.5)]
    return RunRecord.from_steps(run, steps if status == "finished" else steps[:1], status, optimum=0.0, dim=1)


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_the_bootstrap_agrees_with_scipys(statistic: Literal["mean", "median"]) -> None:
    data = np.random.default_rng(5).gamma(2.0, size=12)
    ours = bootstrap(data.tolist(), statistic, resamples=40_000, seed=1)
    function = np.mean if statistic == "mean" else np.median
    theirs = stats.bootstrap((data,), function, n_resamples=40_000, method="percentile", rng=2).confidence_interval
    assert ours.value == pytest.approx(function(data))
    assert ours.low == pytest.approx(theirs.low, abs=0.02)
    assert ours.high == pytest.approx(theirs.high, abs=0.02)


def test_the_bootstrap_of_three_values_is_the_enumerated_one() -> None:
    data = [0.0, 1.0, 5.0]
    means = np.sort([np.mean(draw) for draw in product(data, repeat=3)])
    low, high = bootstrap(data, resamples=200_000, level=0.8).low, bootstrap(data, resamples=200_000, level=0.8).high
    # the 27 samples weigh the same, so the ends are values of the enumeration on either side of 10 % and 90 %
    assert low == pytest.approx(means[2])
    assert high == pytest.approx(means[24])


def test_the_bootstrap_is_seeded_and_takes_one_value_and_infinities() -> None:
    assert bootstrap([1.0, 2.0, 4.0]) == bootstrap([1.0, 2.0, 4.0])
    assert bootstrap([3.0]) == bootstrap([3.0], "median")
    assert bootstrap([1.0, np.inf]).value == np.inf
    assert bootstrap([1.0, np.inf]).low == 1.0
    assert bootstrap([np.inf] * 3).low == np.inf
    for bad in ([], [np.nan]):
        with pytest.raises(DataError):
            bootstrap(bad)


def test_holms_correction_by_hand() -> None:
    # sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1: 0.04, 0.06, 0.06, 0.04 -> never below the one before
    assert holm([0.01, 0.04, 0.03, 0.02]) == pytest.approx([0.04, 0.06, 0.06, 0.06])
    assert holm([]) == []


@given(st.lists(probabilities, min_size=1, max_size=8))
def test_holm_lies_between_the_raw_values_and_bonferroni_and_rejects_step_by_step(p: list[float]) -> None:
    adjusted = holm(p)
    for raw, corrected in zip(p, adjusted, strict=True):
        assert raw <= corrected <= min(1.0, len(p) * raw) + 1e-12
    level = 0.05  # Holm's procedure itself: reject from the smallest on, as long as (m - i + 1) p_(i) <= level
    rejected = set()
    for k, index in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        if p[index] * (len(p) - k) > level:
            break
        rejected.add(p[index])
    assert {p[i] for i in range(len(p)) if adjusted[i] <= level} == rejected


def test_wilcoxon_is_scipys_without_ties() -> None:
    rng = np.random.default_rng(0)
    for n in (4, 8, 20):
        first, second = rng.random(n), rng.random(n)
        assert wilcoxon(first, second) == pytest.approx(stats.wilcoxon(first, second, method="exact").pvalue)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=7))
def test_wilcoxon_with_ties_is_the_permutation_distribution(differences: list[int]) -> None:
    nonzero = [d for d in differences if d]
    p = wilcoxon(np.array(differences, dtype=float), np.zeros(len(differences)))
    if not nonzero:
        assert p == 1.0
        return
    ranks = stats.rankdata(np.abs(nonzero))
    middle = ranks.sum() / 2
    seen = abs(sum(rank for rank, d in zip(ranks, nonzero, strict=True) if d > 0) - middle)
    sums = [
        sum(rank for rank, plus in zip(ranks, signs, strict=True) if plus)
        for signs in product((0, 1), repeat=len(ranks))
    ]
    assert p == pytest.approx(np.mean([abs(one - middle) >= seen - 1e-9 for one in sums]))


def test_friedman_is_scipys() -> None:
    ranks = np.array([[1, 2, 3], [1, 3, 2], [2, 1, 3], [1, 2, 3]], dtype=float)
    assert friedman(ranks) == pytest.approx(stats.friedmanchisquare(*ranks.T).pvalue)
    assert np.isnan(friedman(ranks[:, :2]))


def test_ranks_within_seeds_and_of_means() -> None:
    finals = {"p": {"a": {0: 1.0, 1: 10.0}, "b": {0: 2.0, 1: 2.0}, "c": {0: 2.0, 1: 2.0}}}
    block = Block(("p",), ("a", "b", "c"), ())
    np.testing.assert_allclose(mean_ranks(finals, block), [[(1 + 3) / 2, (2.5 + 1.5) / 2, (2.5 + 1.5) / 2]])
    np.testing.assert_allclose(ranks_of_means(finals, block), [[3, 1.5, 1.5]])


def test_a_block_names_what_it_leaves_out() -> None:
    known = [record(p, m, 0, 1.0) for p in "pq" for m in "abc"] + [record("p", "d", 0, 1.0), record("r", "a", 0, 1.0)]
    block = complete_block(final_regrets(known))
    assert block == Block(("p", "q"), ("a", "b", "c"), ("d",))


def test_a_method_with_fewer_seeds_does_not_cut_the_others_down() -> None:
    known = [record("p", m, s, 1.0) for m in "abc" for s in range(3)] + [record("p", "d", 0, 1.0)]
    assert complete_block(final_regrets(known)) == Block(("p",), ("a", "b", "c"), ("d",))


def test_a_method_that_is_better_everywhere_is_told_apart() -> None:
    rng = np.random.default_rng(3)
    known = [
        record(f"p{p}", m, s, value + 0.1 * rng.random())
        for p in range(8)
        for s in range(3)
        for m, value in (("a", 0.0), ("b", 1.0), ("c", 1.0))
    ]
    finals = final_regrets(known)
    block = complete_block(finals)
    ranks = mean_ranks(finals, block)
    tests = {c.second: c for c in compare(ranks, block.methods, control="a")}
    assert tests["b"].adjusted == pytest.approx(2 * 2 / 2**8)  # the smallest p of 8 problems, times two comparisons
    assert tests["b"].difference < 0
    pairs = {(c.first, c.second): c.adjusted for c in compare(ranks, block.methods)}
    assert pairs["b", "c"] > 0.05 > pairs["a", "b"]


def test_a_run_that_did_not_finish_counts_with_what_it_had() -> None:
    known = [record("p", "a", 0, 1.0), record("p", "a", 1, 1.0, "out of time"), record("p", "a", 2, 1.0, "crashed: x")]
    summary = summarise(known)["p", "a"]
    assert summary.mean.value == pytest.approx((1 + 2 + 2) / 3)
    assert (summary.runs, summary.crashed, summary.out_of_time) == (3, 1, 1)
    assert summary.ask_seconds == 0.5
