"""Table 1: every method is named, with the paper's figures next to those of the records."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench_cases import EVALUATIONS, make_results
from dechbo.bench import methods, paper


def test_table_1_shows_ours_beside_the_papers(tmp_path: Path) -> None:
    table = paper.table1(make_results(tmp_path), seeds=3, evaluations=EVALUATIONS)
    page = paper.markdown(table, "dechbo bench table1 --seeds 3")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    by_name = {row.split("|")[1].strip(): row for row in rows}
    for method, printed in paper.PRINTED.items():
        assert all(f"{value:.4f}" in by_name[methods.label(method)] for value in printed)
    finals = [r.final_regret for r in table.records if (r.run.problem, r.run.method) == ("hartmann-6", "dechbo")]
    assert f"{np.mean(finals):.4g} [" in by_name["DEC-HBO (default)"]
    assert "1 (1 crashed)" in by_name["GP-UCB"]
    assert "unavailable" in by_name["HEBO"]
    assert "TuRBO-1" in by_name
    assert "SMAC3 (tuning)" not in by_name
    for wanted in ("`dechbo bench table1 --seeds 3`", "a & b", "dechbo 0.1.0", "2026-11-15", "no wheel", "<no memory>"):
        assert wanted in page
    assert paper.BEST_PRINTED == (0.7268, 1.4295, 1.2367)


def test_table_1_without_any_record_is_the_papers(tmp_path: Path) -> None:
    page = paper.markdown(paper.table1(tmp_path, seeds=5), "dechbo bench table1")
    assert "0.7904" in page
    assert "no records yet" in page
