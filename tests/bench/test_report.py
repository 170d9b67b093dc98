"""The page and its figures, and Table 1: everything named, nothing from elsewhere."""

from __future__ import annotations

import base64
import re
from html import escape
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dechbo.bench import methods, paper
from dechbo.bench.records import BenchError, Record, Run, Step, write_absent
from dechbo.bench.statistics import Comparison

pytest.importorskip("matplotlib")
from dechbo.bench import figures, report

PNG = b"\x89PNG\r\n\x1a\n"
EVALUATIONS = 8


def make(results: Path, problem: str, method: str, seed: int, *, stop: int | None = None, optimum: float | None = -3.0):
    rng = np.random.default_rng([seed, len(problem), len(method)])
    run = Run(problem, method, seed, initial=10, evaluations=EVALUATIONS)
    values = (rng.random(run.total) - 2.5).tolist()[:stop]
    steps = [Step({"x": value}, value, 0.1, 0.05 * rng.random(), 1e-3) for value in values]
    status = "finished" if stop is None else "crashed: RuntimeError: <no memory>"
    facts = {"optimum": optimum, "dim": 1, "date": "2026-11-15", "machine": {"cpu": "a & b", "cores": 2}}
    record = Record.of(run, steps, status, versions={"dechbo": "0.1.0"}, **facts)
    record.write(results)
    return record


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    for problem in paper.PROBLEMS:
        for method in ("dechbo", "paper-mf3", "add-gp-ucb", "random", "turbo-1"):
            for seed in range(3):
                make(folder, problem, method, seed)
    make(folder, "shekel-4", "gp-ucb", 0, stop=12)
    make(folder, "rover-60", "dechbo", 0, optimum=None)
    write_absent(folder, {"hebo": "could not be installed: no wheel"})
    return folder


def test_the_page_needs_nothing_else_and_names_everything(results: Path, tmp_path: Path):
    chosen = ("shekel-4", "rover-60")
    page = report.write(results, tmp_path / "out", evaluations=EVALUATIONS, problems=chosen)
    html = page.read_text(encoding="utf-8")
    embedded = [base64.b64decode(code) for code in re.findall(r'src="data:image/png;base64,([^"]+)"', html)]
    files = sorted(page.parent.glob("*.png"))
    assert len(embedded) == len(files) == 1 + 2 * len(chosen)
    assert {path.read_bytes() for path in files} == set(embedded)
    assert all(image.startswith(PNG) for image in embedded)
    assert not re.findall(r'(?:src|href)="(?!data:|#)', html)
    for method in ("dechbo", "paper-mf3", "random", "turbo-1"):
        assert escape(methods.label(method)) in html
    assert "HEBO: absent, could not be installed: no wheel" in html
    assert "crashed: RuntimeError: &lt;no memory&gt;, after 12 evaluations" in html
    assert "GP-UCB: not run on all of these problems and seeds" in html
    assert "a &amp; b" in html
    assert "2026-11-15" in html


def test_the_page_can_be_narrowed(results: Path, tmp_path: Path):
    assert report.problem_names("table1") == paper.PROBLEMS
    chosen = {"problems": report.problem_names("Hartmann-6"), "methods": ("dechbo", "random")}
    html = report.write(results, tmp_path / "out", evaluations=EVALUATIONS, **chosen).read_text(encoding="utf-8")
    assert "Rover" not in html
    assert "TuRBO" not in html


def test_no_records_is_one_clear_error(tmp_path: Path):
    with pytest.raises(BenchError, match="dechbo bench run"):
        report.write(tmp_path, tmp_path / "out")


def test_table_1_shows_ours_beside_the_papers(results: Path):
    table = paper.table1(results, seeds=3, evaluations=EVALUATIONS)
    page = paper.markdown(table, "dechbo bench table1 --seeds 3")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    by_name = {row.split("|")[1].strip(): row for row in rows}
    for method, printed in paper.PRINTED.items():
        assert all(f"{value:.4f}" in by_name[methods.label(method)] for value in printed)
    finals = [
        record.final for record in table.records if (record.run.problem, record.run.method) == ("hartmann-6", "dechbo")
    ]
    assert f"{np.mean(finals):.4g} [" in by_name["DEC-HBO (default)"]
    assert "1 (1 crashed)" in by_name["GP-UCB"]
    assert "absent" in by_name["HEBO"]
    assert "TuRBO-1" in by_name
    assert "SMAC3 (tuning)" not in by_name
    for wanted in ("`dechbo bench table1 --seeds 3`", "a & b", "dechbo 0.1.0", "2026-11-15", "no wheel", "<no memory>"):
        assert wanted in page
    assert paper.BEST_PRINTED == (0.7268, 1.4295, 1.2367)


def test_table_1_without_any_record_is_the_papers(tmp_path: Path):
    page = paper.markdown(paper.table1(tmp_path, seeds=5), "dechbo bench table1")
    assert "0.7904" in page
    assert "no records yet" in page


def test_figure_1_is_drawn_with_and_without_runs(results: Path, tmp_path: Path):
    assert figures.fig1(paper.table1(results, seeds=3, evaluations=EVALUATIONS)).startswith(PNG)
    assert figures.fig1(paper.table1(tmp_path, seeds=3)).startswith(PNG)


def test_a_band_encloses_the_mean_and_closes_on_equal_runs():
    courses = np.random.default_rng(0).random((6, 20))
    mean, low, high = figures.band(courses)
    np.testing.assert_allclose(mean, courses.mean(axis=0))
    assert (low < mean).all()
    assert (mean < high).all()
    mean, low, high = figures.band(np.ones((3, 4)))
    np.testing.assert_allclose([low, high], [mean, mean])


@given(st.lists(st.floats(0, 1), max_size=20).map(sorted))
def test_labels_are_moved_apart_and_no_further_than_need_be(heights: list[float]):
    gap = 0.06
    placed = figures.spread(heights, gap)
    apart = min(gap, 1 / max(len(heights) - 1, 1))
    assert all(second - first >= apart - 1e-9 for first, second in pairwise(placed))
    assert all(-1e-9 <= height <= 1 + 1e-9 for height in placed)
    if all(second - first >= apart for first, second in pairwise(heights)):
        np.testing.assert_allclose(placed, heights, atol=1e-9)


def test_bars_join_stretches_without_a_difference():
    pairs = [Comparison("a", "c", 0, 0, 0.01), Comparison("a", "d", 0, 0, 0.01), Comparison("a", "b", 0, 0, 0.2)]
    assert figures.cliques(["a", "b", "c", "d"], pairs, 0.05) == [["a", "b"], ["b", "c", "d"]]


def test_every_method_of_a_figure_looks_different():
    for _, shown in figures.groups(methods.names()):
        looks = {(look["color"], str(look.get("linestyle"))) for look in (figures.look(name, shown) for name in shown)}
        assert len(looks) == len(shown)
