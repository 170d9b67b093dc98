"""Ranks over incomplete records by hand, and the page and figure made from them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from bench_cases import PNG, make_results
from dechbo.bench import figures, methods, ranking
from dechbo.bench.records import Run, RunRecord, Step

SUITE = ("levy-10", "ackley-20", "rover-60")


def record(
    problem: str, method: str, seed: int, value: float, *, initial: int = 1, evaluations: int = 1, cpu: float = 2.0
) -> RunRecord:
    run = Run(problem, method, seed, initial=initial, evaluations=evaluations)
    steps = [Step({}, value + 1.0)] * (run.total - 1) + [Step({}, value, ask_cpu=cpu)]
    return RunRecord.from_steps(run, steps, "finished", optimum=0.0, dim=1)


def rank(records: list[RunRecord], first_seed: int = 0) -> ranking.Ranking:
    return ranking.rank(records, names=("dechbo", "random", "turbo-1", "hebo"), suite=SUITE, first_seed=first_seed)


def incomplete() -> list[RunRecord]:
    """Three methods on Levy-10 (one with a single seed), two on Ackley-20."""
    values = {"dechbo": (1, 1, 1, 1), "random": (2, 3, 3), "turbo-1": (3, 2, 2, 9), "hebo": (0,)}
    known = [record("levy-10", m, seed, float(v)) for m, by_seed in values.items() for seed, v in enumerate(by_seed)]
    known += [record("ackley-20", "dechbo", seed, 5.0, cpu=8.0) for seed in range(3)]
    return known + [record("ackley-20", "random", seed, 4.0) for seed in range(3)]


def test_ranks_within_the_common_seeds_stretched_where_methods_are_missing() -> None:
    found = rank(incomplete())
    assert found.problems == ("levy-10", "ackley-20")
    assert found.methods == ("dechbo", "random", "turbo-1", "hebo")
    assert found.seeds == {"levy-10": (0, 1, 2), "ackley-20": (0, 1, 2)}
    nan = np.nan
    stretched = [[1, 1 + (8 / 3 - 1) * 3 / 2, 1 + (7 / 3 - 1) * 3 / 2, nan], [4, 1, nan, nan]]
    np.testing.assert_allclose(found.ranks, stretched)
    np.testing.assert_allclose(found.average, [2.5, 2.25, 3.0, nan])
    assert found.counts.tolist() == [2, 2, 1, 0]
    np.testing.assert_allclose(found.cpu_seconds, [4.0, 2.0, 2.0, nan])  # geometric means
    tests = found.against("dechbo")
    assert set(tests) == {"random", "turbo-1"}
    assert tests["turbo-1"].difference == -2.0  # over the one problem that both have
    assert found.against("nevergrad") == {}


def test_the_longest_ask_is_compared_with_the_mean_one() -> None:
    known = [record("levy-10", "dechbo", seed, 1.0, evaluations=n) for seed, n in ((0, 4), (1, 4))]
    known += [record("levy-10", "random", seed, 1.0, evaluations=4, cpu=0.0) for seed in (0, 1)]
    np.testing.assert_allclose(rank(known).longest_asks, [4.0, np.nan])  # one ask of four took all the time


def test_the_table_says_how_many_seeds_each_cell_has() -> None:
    found = rank(incomplete())
    rows = {row[0]: row[1:] for row in ranking.table_rows(found, "dechbo")}
    assert rows["Levy-10, 1 + 1"] == ["1 (4)", "2.667 (3)", "4 (4)", "0 (1)†"]
    assert rows["Ackley-20, 1 + 1"] == ["5 (3)", "4 (3)", "–", "–"]
    assert rows["average rank"] == ["2.50", "2.25", "3.00", "–"]
    assert rows["problems ranked"] == ["2", "2", "1", "0"]


def test_differences_are_paired_and_a_worse_control_stands_out() -> None:
    rows = {row[0]: row[1:] for row in ranking.difference_rows(rank(incomplete()), "dechbo")}
    assert rows["Levy-10"] == ["-1.67 [-3.1, -0.23] (3)", "-3 [-8.4, 2.4] (4)", "1 (1)"]
    assert rows["Ackley-20"] == ["**1 [1, 1] (3)**", "–", "–"]


def test_one_budget_a_problem_and_seeds_from_the_first_on() -> None:
    known = [record("levy-10", m, s, 1.0) for m in ("dechbo", "random") for s in (0, 1, 100, 101)]
    known += [record("levy-10", "dechbo", 0, 0.5, evaluations=5)]
    assert {r.run.total for r in rank(known).records} == {2}
    assert {r.run.seed for r in rank(known, 100).records} == {100, 101}
    known += [record("levy-10", "random", s, 0.5, evaluations=5) for s in (0, 1, 2)]
    assert {r.run.total for r in rank(known).records} == {6}  # as many, and the larger
    assert rank([]).problems == ()


def test_without_common_seeds_nothing_is_ranked() -> None:
    found = rank([record("levy-10", "dechbo", 0, 1.0), record("levy-10", "random", 1, 1.0)])
    assert found.counts.tolist() == [0, 0]
    assert found.against("dechbo") == {}
    assert figures.ranks_against_time(found).startswith(PNG)


def test_the_command_writes_the_page_and_the_figure(tmp_path: Path) -> None:
    results, out = make_results(tmp_path / "results"), tmp_path / "some" / "ranks.md"
    code = "from dechbo.cli import main; main()"
    arguments = ["bench", "ranks", "--results", str(results), "--out", str(out)]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = out.read_text(encoding="utf-8")
    assert "| Shekel-4, 10 + 8 |" in page
    assert "## Differences from DEC-HBO (default)" in page
    assert "average rank" in done.stdout
    assert out.with_suffix(".png").read_bytes().startswith(PNG)
    arguments[-3] = str(tmp_path / "nothing")
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "there are no such records" in done.stderr


def test_some_problems_are_printed_and_the_page_of_all_is_left_alone(tmp_path: Path) -> None:
    results = make_results(tmp_path / "results")
    code = "from dechbo.cli import main; main()"
    arguments = [sys.executable, "-c", code, "bench", "ranks", "--results", str(results)]
    some = subprocess.run([*arguments, "shekel-4"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert some.returncode == 0, some.stderr
    assert "average rank" in some.stdout
    assert not (tmp_path / "benchmarks").exists()
    everything = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert everything.returncode == 0, everything.stderr
    assert (tmp_path / "benchmarks" / "ranks.md").exists()


def test_the_methods_that_are_compared_unless_others_are_named_exist() -> None:
    assert set(ranking.COMPARED) <= set(methods.names())
