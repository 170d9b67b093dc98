"""The record of suggestions that ``benchmarks/suggestions.py`` compares with."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "suggestions.py"


@pytest.fixture(scope="module")
def suggestions() -> ModuleType:
    spec = importlib.util.spec_from_file_location("suggestions", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_case_is_recorded(suggestions: ModuleType) -> None:
    record = json.loads(suggestions.FILE.read_text())
    assert set(record["suggestions"]) == set(suggestions.CASES)
    assert all(record["suggestions"].values())


def test_sobol_points_are_as_recorded(suggestions: ModuleType) -> None:
    """On linear scales they need only sums and products, which every machine rounds alike."""
    linear = ("layers", "act", "drop", "mix")
    recorded = json.loads(suggestions.FILE.read_text())["suggestions"]["baseline sobol"]
    now = suggestions.exact(suggestions.CASES["baseline sobol"]())
    before, after = ([{name: point[name] for name in linear} for point in points] for points in (recorded, now))
    assert suggestions.difference(before, after) is None


def test_a_difference_in_the_last_bit_is_seen(suggestions: ModuleType) -> None:
    before, now = [{"x": 0.1}, {"x": 0.3}], [{"x": 0.1}, {"x": 0.1 + 0.2}]
    found = suggestions.difference(suggestions.exact(before), suggestions.exact(now))
    assert found is not None
    assert found.startswith("suggestion 1:")
    assert suggestions.difference(suggestions.exact(before), suggestions.exact(before)) is None
    assert "recorded 2 suggestions, now 1" in str(suggestions.difference(before, before[:1]))
