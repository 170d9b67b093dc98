"""The picture is drawn for every study that has a value, without a warning."""

from __future__ import annotations

import numpy as np
import pytest

from dechbo.execution.outcome import Outcome
from dechbo.space import Categorical, Float, Int, Space
from dechbo.studies.curves import MOST_CURVES, MOST_PARAMETERS, curves_of
from dechbo.studies.opened import OpenStudy
from dechbo.studies.picture import draw
from dechbo.studies.studyfile import StudyFile

MIXED = """
  lr$a$: {type: float, low: 1.0e-5, high: 1, log: true}
  layers: {type: int, low: 1, high: 8, log: true}
  drop: {type: float, low: 0, high: 1, step: 0.25}
  Größe_mit_einem_sehr_langen_Namen: {type: categorical, choices: [relu, "a$b$", null, true, 2]}
"""


def study(folder, parameters: str, outcomes: list[Outcome], *, more: str = "direction: minimize") -> OpenStudy:
    path = folder / "s.yaml"
    path.write_text(f"name: s\n{more}\nparameters:\n{parameters}", encoding="utf-8")
    opened = OpenStudy(StudyFile.read(path))
    rng = np.random.default_rng(0)
    for outcome in outcomes:
        space = opened.file.space
        opened.add(space.decode(space.from_uniform(rng.random(space.dim))), outcome)
    return opened


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
def test_every_kind_of_study_gets_its_picture(tmp_path, outcomes, more):
    page = draw(study(tmp_path, MIXED, outcomes, more=more))
    assert page.startswith(b"\x89PNG")
    assert len(page) > 20_000


def test_a_study_without_a_value_and_one_with_one_parameter(tmp_path):
    nothing = draw(study(tmp_path, "  x: {type: float, low: 0, high: 1}", values(None)))
    (tmp_path / "b").mkdir()
    single = draw(study(tmp_path / "b", "  x: {type: float, low: 0, high: 1}", values(1.0, 2.0)))
    assert nothing.startswith(b"\x89PNG")
    assert len(single) > len(nothing)  # it has a curve


class Parabola:
    """A model whose value is the sum of k * x_k^2: later parameters matter more."""

    def __init__(self, space: Space) -> None:
        self.space = space
        rng = np.random.default_rng(1)
        self.evaluations = [self._evaluation(space.decode(rng.random(space.dim))) for _ in range(100)]

    def _evaluation(self, params):
        from dechbo.data.evaluation import Evaluation

        return Evaluation(params, self.predict(params)[0])

    def predict(self, params):
        return float(sum(k * params[name] ** 2 for k, name in enumerate(self.space.names))), 0.1


def test_the_strongest_parameters_are_shown_even_of_very_many():
    space = Space({f"x{k}": Float(0, 1) for k in range(MOST_PARAMETERS + 20)})
    curves = curves_of(Parabola(space), space, dict.fromkeys(space.names, 0.0))
    assert len(curves) == MOST_CURVES
    assert curves[0].name == f"x{MOST_PARAMETERS + 19}"
    assert [curve.reach for curve in curves] == sorted((curve.reach for curve in curves), reverse=True)


def test_a_curve_runs_over_all_values_of_its_parameter():
    space = Space({"n": Int(1, 3), "c": Categorical(["a", None]), "x": Float(0.1, 10, log=True)})

    class Flat:
        def predict(self, params):
            return float(params["n"]), 0.0

    found = {curve.name: curve for curve in curves_of(Flat(), space, {"n": 2, "c": "a", "x": 1.0})}
    assert found["n"].settings == [1, 2, 3]
    assert found["c"].settings == ["a", None]
    assert found["n"].reach == 2.0
    assert found["x"].reach == 0.0
    assert found["x"].log
    assert (found["x"].settings[0], found["x"].settings[-1]) == pytest.approx((0.1, 10))
