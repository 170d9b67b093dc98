"""Statistics against scipy, enumeration and hand-worked examples."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench_cases import some
from dechbo.bench.records import Run, RunRecord, Step
from dechbo.bench.statistics import (
    Block,
    ConfidenceInterval,
    compare,
    complete_block,
    final_regrets,
    friedman,
    holm,
    mean_interval,
    mean_ranks,
    paired_difference,
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


def test_the_interval_of_a_mean_by_hand() -> None:
    interval = mean_interval([1.0, 2.0, 3.0])  # s = 1, t_2(0.975) = 4.3027
    assert interval.value == 2.0
    assert interval.high - 2.0 == pytest.approx(4.302653 / np.sqrt(3))
    assert 2.0 - interval.low == pytest.approx(interval.high - 2.0)
    assert mean_interval([5.0, 5.0]) == ConfidenceInterval(5.0, 5.0, 5.0)


def test_the_interval_is_that_of_scipys_test() -> None:
    data = np.random.default_rng(5).gamma(2.0, size=12)
    theirs = stats.ttest_1samp(data, 0.0).confidence_interval(0.9)
    ours = mean_interval(data.tolist(), level=0.9)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))


def test_the_interval_of_five_values_covers() -> None:
    rng = np.random.default_rng(0)
    intervals = [mean_interval(rng.normal(size=5).tolist()) for _ in range(2000)]
    assert np.mean([one.low <= 0 <= one.high for one in intervals]) == pytest.approx(0.95, abs=0.015)


def test_one_value_and_infinities_have_no_interval() -> None:
    assert mean_interval([3.0]).text() == "3"
    assert mean_interval([1.0, np.inf]).text() == "inf"
    assert mean_interval([1.0, 2.0, 3.0]).text(3) == "2 [-0.48, 4.5]"
    for bad in ([], [np.nan]):
        with pytest.raises(DataError):
            mean_interval(bad)


def test_paired_differences_use_the_common_seeds() -> None:
    first, second = {0: 1.0, 1: 12.0, 2: 5.0, 7: 0.0}, {0: 0.0, 1: 10.0, 2: 2.0, 9: 0.0}
    difference = some(paired_difference(first, second))
    theirs = stats.ttest_rel([1.0, 12.0, 5.0], [0.0, 10.0, 2.0]).confidence_interval()
    assert (difference.value, difference.low, difference.high) == pytest.approx((2.0, theirs.low, theirs.high))
    assert paired_difference({0: 1.0}, {1: 1.0}) is None
    assert paired_difference({0: np.inf}, {0: np.inf}) is None


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
