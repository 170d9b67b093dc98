"""The command as a user types it."""

from __future__ import annotations

import subprocess
import sys

import dechbo


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from dechbo.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_version_and_help() -> None:
    assert command("--version").stdout.strip() == f"dechbo {dechbo.__version__}"
    assert "demo" in command("--help").stdout


def test_the_demo_shows_best_value_gap_and_factors() -> None:
    done = command("demo", "--evaluations", "13", "--seed", "1", "--problem", "hartmann-6", "--regret")
    assert done.returncode == 0, done.stderr
    for word in ("best value", "gap", "factors", "13 of 13", "true minimum", "R_n/n"):
        assert word in done.stdout


def test_an_unknown_problem_is_one_clear_line() -> None:
    done = command("demo", "--problem", "rosenbrock")
    assert done.returncode == 2
    assert "--problem must be one of" in done.stderr
    assert "michalewicz-10" in done.stderr
    assert "Traceback" not in done.stderr
