"""The page names everything and loads nothing; the command writes it."""

from __future__ import annotations

import base64
import re
from html import escape
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench_cases import EVALUATIONS, PNG, make_results
from dechbo.bench import methods, paper, problems
from dechbo.bench.records import BenchError
from dechbo.report import page


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return make_results(tmp_path / "results")


def test_the_page_needs_nothing_else_and_names_everything(results: Path, tmp_path: Path) -> None:
    chosen = ("shekel-4", "rover-60")
    path = page.write(results, tmp_path / "out", evaluations=EVALUATIONS, problems=chosen)
    html = path.read_text(encoding="utf-8")
    embedded = [base64.b64decode(code) for code in re.findall(r'src="data:image/png;base64,([^"]+)"', html)]
    files = sorted(path.parent.glob("*.png"))
    assert len(embedded) == len(files) == 1 + 2 * len(chosen)
    assert {file.read_bytes() for file in files} == set(embedded)
    assert all(image.startswith(PNG) for image in embedded)
    assert not re.findall(r'(?:src|href)="(?!data:|#)', html)
    for method in ("dechbo", "paper-mf3", "random", "turbo-1"):
        assert escape(methods.label(method)) in html
    assert "HEBO: unavailable, could not be installed: no wheel" in html
    assert "crashed: RuntimeError: &lt;no memory&gt;, after 12 evaluations" in html
    assert "GP-UCB: not run on all of these problems and seeds" in html
    assert "a &amp; b" in html
    assert "2026-11-15" in html


def test_the_page_can_be_narrowed(results: Path, tmp_path: Path) -> None:
    assert problems.parse_names("table1") == paper.PROBLEMS
    chosen = problems.parse_names("Hartmann-6")
    out = tmp_path / "out"
    path = page.write(results, out, evaluations=EVALUATIONS, problems=chosen, methods=("dechbo", "random"))
    html = path.read_text(encoding="utf-8")
    assert "Rover" not in html
    assert "TuRBO" not in html


def test_no_records_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="dechbo bench run"):
        page.write(tmp_path, tmp_path / "out")


def test_the_command_writes_the_page(results: Path, tmp_path: Path) -> None:
    from dechbo.cli import app

    out = tmp_path / "out"
    arguments = ["bench", "report", "--results", str(results), "--out", str(out), "--evaluations", str(EVALUATIONS)]
    done = CliRunner().invoke(app, [*arguments, "--suite", "shekel-4", "-m", "dechbo,random"])
    assert done.exit_code == 0, done.output
    assert (out / "index.html").read_text(encoding="utf-8").count("<img ") == 3
