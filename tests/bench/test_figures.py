"""Figure 1, and the parts that all figures share."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_cases import EVALUATIONS, PNG, make_results
from dechbo.bench import figures, paper
from dechbo.bench.statistics import mean_interval


def test_figure_1_is_drawn_with_and_without_runs(tmp_path: Path) -> None:
    results = make_results(tmp_path / "results")
    assert figures.fig1(paper.table1(results, seeds=3, evaluations=EVALUATIONS)).startswith(PNG)
    assert figures.fig1(paper.table1(tmp_path, seeds=3)).startswith(PNG)


def test_a_band_encloses_the_mean_and_closes_on_equal_runs() -> None:
    runs = np.random.default_rng(0).random((6, 20))
    mean, low, high = figures.band(runs)
    np.testing.assert_allclose(mean, runs.mean(axis=0))
    assert (low < mean).all()
    assert (mean < high).all()
    mean, low, high = figures.band(np.ones((3, 4)))
    np.testing.assert_allclose([low, high], [mean, mean])


def test_a_band_is_missing_where_a_run_is_and_one_run_has_none() -> None:
    mean, low, high = figures.band(np.array([[np.inf, 1.0], [2.0, 1.5]]))
    assert np.isnan([mean[0], low[0], high[0]]).all()
    interval = mean_interval([1.0, 1.5])
    assert (mean[1], low[1], high[1]) == pytest.approx((interval.value, interval.low, interval.high))
    np.testing.assert_array_equal(figures.band(np.array([[3.0, 2.0]])), [[3.0, 2.0]] * 3)


@given(st.lists(st.floats(0, 1), max_size=20).map(sorted))
def test_labels_are_moved_apart_and_no_further_than_need_be(heights: list[float]) -> None:
    gap = 0.06
    placed = figures.spread(heights, gap)
    apart = min(gap, 1 / max(len(heights) - 1, 1))
    assert all(second - first >= apart - 1e-9 for first, second in pairwise(placed))
    assert all(-1e-9 <= height <= 1 + 1e-9 for height in placed)
    if all(second - first >= apart for first, second in pairwise(heights)):
        np.testing.assert_allclose(placed, heights, atol=1e-9)
