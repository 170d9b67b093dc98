"""Records: what is on disk survives a kill, and the same run gives the same bytes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_cases import some
from dechbo.bench import methods, problems
from dechbo.bench.records import (
    BenchError,
    Journal,
    Run,
    RunRecord,
    Step,
    finite_or_none,
    load_records,
    machine,
    read_unavailable,
    write_unavailable,
)

RUN = Run("hartmann-6", "dechbo", 3, initial=2, evaluations=4)
FACTS = {"optimum": -3.0, "dim": 1}
values = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))


def steps(*values: float | None) -> list[Step]:
    return [Step({"x": 0.1 * k}, value, 0.25, 0.125, 0.5) for k, value in enumerate(values)]


@given(st.lists(values, max_size=6))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, told: list[float | None]) -> None:
    folder = tmp_path_factory.mktemp("results")
    record = RunRecord.from_steps(RUN, steps(*told), "finished", machine=machine(), **FACTS)
    assert RunRecord.read(record.write(folder)) == record
    assert list(load_records(folder)) == [record]


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    record = RunRecord.from_steps(RUN, steps(1.0, 0.5, 0.1), "out of time", **FACTS)
    first = record.write(tmp_path / "a").read_bytes()
    assert record.write(tmp_path / "b").read_bytes() == first
    assert len(first) < 1000


@given(st.lists(values, min_size=1, max_size=6))
def test_the_regret_is_the_running_minimum_and_a_stopped_run_keeps_what_it_had(told: list[float | None]) -> None:
    record = RunRecord.from_steps(RUN, steps(*told), "crashed: why", **FACTS)
    expected = []
    for t in range(RUN.total):
        seen = [value for value in told[: t + 1] if value is not None]
        expected.append(min(seen) + 3.0 if seen else math.inf)
    np.testing.assert_array_equal(record.regret, expected)
    assert record.final_regret == expected[-1]
    if math.isfinite(record.final_regret):
        assert told[round(some(record.best_params)["x"] / 0.1)] == min(v for v in told if v is not None)


def test_without_a_known_optimum_the_regret_is_the_value() -> None:
    assert RunRecord.from_steps(RUN, steps(5.0), "finished", optimum=None, dim=1).final_regret == 5.0


def test_a_journal_goes_on_after_half_a_line(tmp_path: Path) -> None:
    with Journal(tmp_path, RUN) as journal:
        for step in steps(1.0, None):
            journal.append(step)
        path = journal.path
    with open(path, "ab") as file:
        file.write(b'{"params": {"x": 0.2}, "val')
    with Journal(tmp_path, RUN) as journal:
        assert journal.steps == steps(1.0, None)
        assert journal.resumed == [2]
        journal.append(steps(1.0, None, 7.0)[-1])
    with Journal(tmp_path, RUN) as journal:
        assert journal.steps == steps(1.0, None, 7.0)
        assert journal.resumed == [2, 3]
        (path.parent / f".{journal.saved.name}.half").touch()
        journal.remove()
    assert not list((tmp_path / "running").iterdir())


def test_two_processes_cannot_write_the_same_run(tmp_path: Path) -> None:
    with Journal(tmp_path, RUN), pytest.raises(BenchError, match="another process"):
        Journal(tmp_path, RUN)


def test_a_journal_takes_numpys_numbers(tmp_path: Path) -> None:
    with Journal(tmp_path, RUN) as journal:
        journal.append(Step({"x": np.float64(0.1), "k": np.int64(3)}, 1.0))
        assert json.loads(journal.path.read_text())["params"] == {"x": 0.1, "k": 3}


@pytest.mark.parametrize("content", [b"", b"no gzip", b"\x1f\x8b\x08\x00broken"])
def test_a_damaged_record_is_named(tmp_path: Path, content: bytes) -> None:
    path = RUN.path(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(BenchError, match=r"2\+4"):
        RunRecord.read(path)


def test_reasons_are_kept_until_they_are_gone(tmp_path: Path) -> None:
    write_unavailable(tmp_path, {"smac": "no compiler"})
    assert read_unavailable(tmp_path) == {"smac": "no compiler"}
    write_unavailable(tmp_path, {})
    assert read_unavailable(tmp_path) == {}


@pytest.mark.parametrize(("value", "number"), [(1, 1.0), (np.float32(2), 2.0), (math.nan, None), (math.inf, None)])
def test_only_finite_values_count(value: object, number: float | None) -> None:
    assert finite_or_none(value) == number


COMMITTED = Path(__file__).parents[2] / "benchmarks" / "results"


def test_every_committed_record_loads() -> None:
    """The peers' runs are expensive: a change of the format must not lose them."""
    paths = sorted(COMMITTED.glob("runs/**/*.*"))
    loaded = list(load_records(COMMITTED))
    assert [record.run.path(COMMITTED) for record in loaded] == paths
    assert len(paths) >= 564
    for record in loaded:
        assert record.run.method in methods.names()
        assert problems.parse_names(record.run.problem) == (record.run.problem,)
        assert len(record.values) == record.run.total
        assert record.finished
        assert math.isfinite(record.final_regret)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("graph_recovery", {"family", "dim", "count", "seed", "points", "largest_false"}),
        ("interaction_peers", {"method", "family", "dim", "count", "seed", "auc"}),
        ("learned_regret", {"method", "dim", "seed", "best", "ceiling"}),
        ("many_optima", {"problem", "method", "seed", "evaluations", "regret"}),
    ],
)
def test_every_committed_line_of_the_scripts_loads(name: str, fields: set[str]) -> None:
    rows = [json.loads(line) for line in (COMMITTED / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows
    assert all(fields <= row.keys() for row in rows)
