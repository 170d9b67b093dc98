"""Table 2 and Figure 2 from records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench_cases import PNG
from dechbo.bench import figures, methods, table2
from dechbo.bench.records import Run, RunRecord, Step
from dechbo.errors import OptionError

TOTAL = 14


def make_runs(results: Path, experiment: table2.Experiment, *, levels: dict[str, float], seeds: int = 3) -> None:
    """Runs whose best value is the level of their method plus a tenth of the seed."""
    for method, level in levels.items():
        for seed in range(seeds):
            best = level + 0.1 * seed
            steps = [Step({"x": k}, best + (TOTAL - 1 - k), 0.5, 0.5, 2.0) for k in range(TOTAL)]
            run = Run(experiment.problem, method, seed, table2.INITIAL, TOTAL - table2.INITIAL)
            record = RunRecord.from_steps(
                run,
                steps,
                "finished",
                optimum=None,
                dim=1,
                date="2026-11-18",
                report={"test": best + 1},
                peak_memory=100 + seed,
            )
            record.write(results)


def test_rows_show_means_reports_the_papers_figures_and_paired_differences(tmp_path: Path) -> None:
    make_runs(tmp_path, table2.PIC, levels={"dechbo": 3.8, "random": 4.0, "rembo": 5.0})
    rows = table2.ExperimentRecords.read(tmp_path, table2.PIC, seeds=3, evaluations=TOTAL)
    page = table2.markdown([rows])
    lines = [line for line in page.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    by_name = {line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]] for line in lines}
    head = by_name["method"]
    ours = dict(zip(head, by_name[methods.label("dechbo")], strict=True))
    other = dict(zip(head, by_name[methods.label("random")], strict=True))
    rembo = dict(zip(head, by_name[methods.label("rembo")], strict=True))
    missing = dict(zip(head, by_name[methods.label("paper-mf3")], strict=True))
    assert ours["validation RMSE"].startswith("3.9 [")
    assert ours["test"] == "4.9"
    assert ours["s an ask"] == "0.5"
    assert ours["s an evaluation"] == "2"
    assert ours["peak MiB"] == "102"
    assert other["default better by (95 %)"].startswith("0.2 [0.2, 0.2")
    assert (rembo["paper"], missing["paper"]) == ("9.9100", "4.0437")
    assert (missing["runs"], missing["validation RMSE"]) == ("0", "–")
    assert f"`dechbo bench table2 --problem pic --seeds 3 --evaluations {TOTAL}`" in page


def test_the_table_for_the_terminal_names_every_method(tmp_path: Path) -> None:
    rendered = table2.rich_table(table2.ExperimentRecords.read(tmp_path, table2.CNN, seeds=2))
    assert rendered.row_count == len(table2.CNN.methods)


def test_methods_that_are_asked_for_join_the_papers(tmp_path: Path) -> None:
    make_runs(tmp_path, table2.CNN, levels={"optuna-gp": 0.3})
    rows = table2.ExperimentRecords.read(tmp_path, table2.CNN, seeds=3, evaluations=TOTAL, wanted=("optuna-gp",))
    assert rows.finals("optuna-gp") == pytest.approx({0: 0.3, 1: 0.4, 2: 0.5})
    assert methods.label("optuna-gp") in table2.markdown([rows])


def test_experiments_by_name() -> None:
    assert table2.experiment("cnn", full=True).problem == "cnn-6-full"
    assert table2.experiment("pic").evaluations == 100
    with pytest.raises(OptionError, match="pic or cnn"):
        table2.experiment("lasso")
    with pytest.raises(OptionError, match="no small scale"):
        table2.experiment("pic", full=True)


def test_figure_2_is_drawn_with_and_without_runs(tmp_path: Path) -> None:
    empty = figures.fig2([table2.ExperimentRecords.read(tmp_path, each, seeds=3) for each in (table2.CNN, table2.PIC)])
    make_runs(tmp_path, table2.PIC, levels={"dechbo": 3.8, "random": 4.0})
    drawn = figures.fig2(
        [table2.ExperimentRecords.read(tmp_path, each, seeds=3, evaluations=TOTAL) for each in (table2.CNN, table2.PIC)]
    )
    assert empty.startswith(PNG)
    assert drawn.startswith(PNG)
    assert drawn != empty


def test_the_printed_figures_are_the_papers() -> None:
    paper = (Path(__file__).parents[3] / "shared" / "paper" / "dec-hbo.tex").resolve()
    printed = [*table2.PIC.printed.values(), *table2.CNN.printed.values()]
    assert len(printed) == 7
    assert np.isfinite(printed).all()
    if paper.is_file():  # not part of the repository
        text = paper.read_text(encoding="utf-8")
        assert all(f"{value:.4f}" in text for value in printed)
