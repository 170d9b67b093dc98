"""The picture is drawn for every study that has a value, without a warning."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dechbo.execution.outcome import Outcome
from dechbo.interactions import strongest
from dechbo.studies.picture import _model_results, study_picture
from dechbo.studies.store import StudyStore
from dechbo.studies.studyfile import StudyFile

MIXED = """
  lr$a$: {type: float, low: 1.0e-5, high: 1, log: true}
  layers: {type: int, low: 1, high: 8, log: true}
  drop: {type: float, low: 0, high: 1, step: 0.25}
  Größe_mit_einem_sehr_langen_Namen: {type: categorical, choices: [relu, "a$b$", null, true, 2]}
"""


def study(folder: Path, parameters: str, outcomes: list[Outcome], *, more: str = "direction: minimize") -> StudyStore:
    path = folder / "s.yaml"
    path.write_text(f"name: s\n{more}\nparameters:\n{parameters}", encoding="utf-8")
    store = StudyStore(StudyFile.read(path))
    rng = np.random.default_rng(0)
    for outcome in outcomes:
        space = store.file.space
        store.add(space.decode(space.from_uniform(rng.random(space.dim))), outcome)
    return store


def values(*given: float | None) -> list[Outcome]:
    return [Outcome(value, error=None if value is not None else "bad") for value in given]


@pytest.mark.parametrize(
    ("outcomes", "more"),
    [
        (values(1.0), "direction: minimize"),
        (values(None, 3.0, None, 2.0, 1e300, 2.5, 2.5), "direction: maximize"),
        (values(2.0, 2.0, 2.0), "factors: [[layers, drop]]"),
        ([Outcome(1.0, {"c": 1.0}), Outcome(2.0, {"c": -1.0}), Outcome(3.0, {"c": 0.0})], "options: {graph: random}"),
    ],
    ids=["one", "failures and extremes", "constant", "infeasible"],
)
def test_every_kind_of_study_gets_its_picture(tmp_path: Path, outcomes: list[Outcome], more: str) -> None:
    page = study_picture(study(tmp_path, MIXED, outcomes, more=more))
    assert page.startswith(b"\x89PNG")
    assert len(page) > 20_000


def test_a_study_without_a_value_and_one_with_one_parameter(tmp_path: Path) -> None:
    nothing = study_picture(study(tmp_path, "  x: {type: float, low: 0, high: 1}", values(None)))
    (tmp_path / "b").mkdir()
    single = study_picture(study(tmp_path / "b", "  x: {type: float, low: 0, high: 1}", values(1.0, 2.0)))
    assert nothing.startswith(b"\x89PNG")
    assert len(single) > len(nothing)  # it has a curve


def test_given_factors_are_never_negligible(tmp_path: Path) -> None:
    """However many there are: their shares are not known."""
    names = [f"x{i}" for i in range(102)]
    pairs = ", ".join(f"[{one}, {other}]" for one, other in pairwise(names))
    parameters = "\n".join(f"  {name}: {{type: int, low: 0, high: 1}}" for name in names)
    _, found = _model_results(study(tmp_path, parameters, values(1.0, 2.0), more=f"factors: [{pairs}]"))
    assert len(strongest(found)) == 101
