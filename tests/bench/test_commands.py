"""``dechbo bench`` as a user types it."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench_cases import PNG, data_folder
from dechbo.bench import experiment, problems
from dechbo.bench.progress import BenchProgress
from dechbo.bench.records import BenchError, Run, RunRecord, load_records, read_unavailable
from dechbo.errors import OptionError

SETTINGS: dict[str, Any] = {"seeds": 1, "workers": 1, "evaluations": 2, "initial": 2, "cpu_limit": None}


def command(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    code = "from dechbo.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "bench", *arguments], capture_output=True, text=True, check=False, env=env
    )


def test_runs_are_made_once_and_then_found(tmp_path: Path) -> None:
    arguments = ("--methods", "random,sobol", "--seeds", "2", "--evaluations", "4", "--initial", "3")
    first = command("run", "smoke", *arguments, "--results", str(tmp_path))
    assert first.returncode == 0, first.stderr
    known = list(load_records(tmp_path))
    assert len(known) == 8
    assert all(record.finished and len(record.values) == 7 for record in known)
    assert {record.run.seed for record in known} == {0, 1}
    by_method = {(r.run.problem, r.run.seed, r.run.method): r.values[:3] for r in known}
    for (problem, seed, _), given in by_method.items():
        assert given == by_method[problem, seed, "random"]  # the same initial points
    assert "8/8" in first.stdout
    assert "rosenbrock-4" in first.stdout
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/*/*.gz")}
    settings = {**SETTINGS, "seeds": 2, "evaluations": 4, "initial": 3, "results": tmp_path}
    assert experiment.run(experiment.available_problems("smoke"), ["random", "sobol"], **settings)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/*/*.gz")} == before


def test_seeds_start_where_the_command_says(tmp_path: Path) -> None:
    arguments = ("--methods", "random", "--seeds", "2", "--first-seed", "100", "--evaluations", "2", "--initial", "2")
    done = command("run", "noisy-12", *arguments, "--workers", "1", "--results", str(tmp_path))
    assert done.returncode == 0, done.stderr
    known = list(load_records(tmp_path))
    assert [record.run.seed for record in known] == [100, 101]
    for record in known:  # of a noisy problem, the regret is that of the values without noise
        assert len(record.true_values) == len(record.values) == 4
        assert record.true_values != record.values
        least = min(value for value in record.true_values if value is not None)
        assert record.final_regret == least - (record.optimum or 0.0) > 0


def test_an_unknown_method_or_problem_is_one_clear_line(tmp_path: Path) -> None:
    done = command("run", "smoke", "--methods", "turbo", "--results", str(tmp_path))
    assert done.returncode == 2
    assert "turbo-1" in done.stderr
    assert "Traceback" not in done.stderr
    with pytest.raises(OptionError, match="table1"):
        experiment.available_problems("griewank")


def test_the_table_can_be_shown_from_records_alone(tmp_path: Path) -> None:
    out = tmp_path / "table1.md"
    done = command("table1", "--show", "--results", str(tmp_path), "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "1.4295" in done.stdout
    assert "1.4295" in out.read_text(encoding="utf-8")


def test_suites_and_lists_of_problems() -> None:
    assert experiment.available_problems("table1") == ("hartmann-6", "shekel-4", "michalewicz-10")
    assert experiment.available_problems("smoke, Hartmann-6") == (
        *(n.lower() for n in problems.SUITES["smoke"]),
        "hartmann-6",
    )


def test_a_problem_that_cannot_be_had_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(name: str, seed: int) -> None:
        raise problems.ProblemUnavailable('pip install "dechbo[bench]"')

    monkeypatch.setattr(problems, "problem", unavailable)
    with pytest.raises(BenchError, match="skip-missing"):
        experiment.available_problems("smoke")
    page = io.StringIO()
    with pytest.raises(OptionError, match="no problem is left"):
        experiment.available_problems("smoke", skip_missing=True, console=Console(file=page))
    assert "left out nk-8" in page.getvalue()


def test_unavailable_peers_are_noted_and_the_others_run_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECHBO_PEERS", str(tmp_path / "nowhere"))
    page = io.StringIO()
    settings = {**SETTINGS, "results": tmp_path, "console": Console(file=page, width=200)}
    assert experiment.run(["nk-8"], ["smac", "random"], **settings)
    assert "smac is unavailable" in page.getvalue()
    assert list(read_unavailable(tmp_path)) == ["smac"]
    assert [record.run.method for record in load_records(tmp_path)] == ["random"]
    with pytest.raises(BenchError, match="none of smac"):
        experiment.run(["nk-8"], ["smac"], **settings)


def test_what_is_to_be_made_again(tmp_path: Path) -> None:
    run = Run("nk-8", "random", 0, 2, 2)
    assert experiment._is_missing(run, tmp_path, retry=False)
    RunRecord.from_steps(run, [], "crashed: x", optimum=0.0, dim=8).write(tmp_path)
    assert not experiment._is_missing(run, tmp_path, retry=False)
    assert experiment._is_missing(run, tmp_path, retry=True)


def test_progress_counts_and_estimates() -> None:
    runs = [Run("nk-8", "random", seed, 2, 3) for seed in range(3)]
    page = io.StringIO()
    with BenchProgress(Console(file=page, width=200, force_terminal=True), runs, workers=1) as progress:
        for run in runs[:2]:
            progress.run_started(run)
            for done in range(1, 6):
                progress.evaluation_done(run, done, 1.0 / done)
        progress.run_ended(runs[0], "finished", 0.2, 1.0)
        progress.run_ended(runs[1], "out of time", 0.2, 1.0)
        assert 0 < progress.seconds_left() < 1
        assert progress.unfinished == [(runs[1], "out of time")]
    assert "1/3" in page.getvalue()
    assert "5 of 15" not in page.getvalue().splitlines()[0]
    assert "10 of 15 evaluations" in page.getvalue()


@pytest.mark.system
def test_table_2_from_a_short_run_on_real_data(tmp_path: Path) -> None:
    arguments = ("table2", "--problem", "pic", "--methods", "random", "--seeds", "1", "--evaluations", "11")
    places = (
        "--results",
        str(tmp_path / "results"),
        "--out",
        str(tmp_path / "table2.md"),
        "--data",
        str(data_folder()),
    )
    done = command(*arguments, *places, "--workers", "1")
    assert done.returncode == 0, done.stderr
    (record,) = load_records(tmp_path / "results")
    assert len(record.values) == 11
    assert all(value is not None and 3.0 < value < 8.0 for value in record.values)
    assert set(record.report) == {"test", "validation, rows once", "test, rows once"}
    assert f"{record.final_regret:.4g}" in (tmp_path / "table2.md").read_text(encoding="utf-8")
    assert command("fig2", "--seeds", "1", *places[:2], "--out", str(tmp_path / "fig2.png")).returncode == 0
    assert (tmp_path / "fig2.png").read_bytes().startswith(PNG)
