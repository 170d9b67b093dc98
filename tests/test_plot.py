"""Figures are drawn from plain data, and show it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dechbo import Categorical, Float, Int, Optimizer, Space, plot
from dechbo.data.evaluation import Evaluation
from dechbo.interactions import Interaction, Interactions
from dechbo.plot import MAX_EFFECTS, MAX_PREDICTED_PARAMETERS, effects_of


class Parabola:
    """A model whose value is the sum of k * x_k^2: later parameters matter more."""

    def __init__(self, space: Space) -> None:
        self.space = space
        rng = np.random.default_rng(1)
        points = [space.decode(rng.random(space.dim)) for _ in range(100)]
        self.evaluations = [Evaluation(params, self.predict(params)[0]) for params in points]

    def predict(self, params: dict[str, Any]) -> tuple[float, float]:
        return float(sum(k * params[name] ** 2 for k, name in enumerate(self.space.names))), 0.1


class Flat:
    """A model whose value is n."""

    def __init__(self, space: Space) -> None:
        self.space = space

    def predict(self, params: dict[str, Any]) -> tuple[float, float]:
        return float(params["n"]), 0.0


def test_the_strongest_parameters_are_shown_even_of_very_many() -> None:
    space = Space({f"x{k}": Float(0, 1) for k in range(MAX_PREDICTED_PARAMETERS + 20)})
    model: Any = Parabola(space)
    effects = effects_of(model, dict.fromkeys(space.names, 0.0))
    assert len(effects) == MAX_EFFECTS
    assert effects[0].name == f"x{MAX_PREDICTED_PARAMETERS + 19}"
    assert [effect.size for effect in effects] == sorted((effect.size for effect in effects), reverse=True)


def test_an_effect_runs_over_all_values_of_its_parameter() -> None:
    model: Any = Flat(Space({"n": Int(1, 3), "c": Categorical(["a", None]), "x": Float(0.1, 10, log=True)}))
    found = {effect.name: effect for effect in effects_of(model, {"n": 2, "c": "a", "x": 1.0})}
    assert found["n"].settings == [1, 2, 3]
    assert found["c"].settings == ["a", None]
    assert found["n"].size == 2.0
    assert found["x"].size == 0.0
    assert found["x"].log
    assert (found["x"].settings[0], found["x"].settings[-1]) == pytest.approx((0.1, 10))


@pytest.mark.parametrize(("direction", "best"), [("minimize", [3, 3, 1, 1]), ("maximize", [3, 3, 3, 4])])
def test_the_history_has_the_best_so_far_and_marks_failures(direction: str, best: list[float]) -> None:
    ax = plot.history([3.0, None, 1.0, 4.0], direction=direction, title="cost $x$")
    (line,) = ax.get_lines()
    assert list(np.asarray(line.get_ydata())) == best
    assert ax.get_legend_handles_labels()[1] == ["one trial", "best so far", "failed or infeasible"]
    assert ax.get_title(loc="center") == r"cost \$x\$"
    assert list(np.asarray(line.get_xdata())) == [0, 1, 2, 3]  # as the text counts


def test_trials_have_the_numbers_of_the_text() -> None:
    ax = plot.history([3.0, None, 1.0], numbers=[0, 4, 5])
    assert list(np.asarray(ax.get_lines()[0].get_xdata())) == [0, 4, 5]


def test_the_title_says_that_some_effects_are_not_shown() -> None:
    shown = [plot.Effect(name, [0, 1], np.zeros(2), np.ones(2), 0) for name in "abc"]
    assert "the 3 strongest of 12 parameters" in plot.effects(shown, of=12).get_suptitle()
    assert "each parameter" in plot.effects(shown, of=3).get_suptitle()


def test_a_small_effect_is_not_flat_beside_a_large_one_and_noise_is_not_blown_up() -> None:
    sizes = {"a": 100.0, "b": 5.0, "c": 1e-6}
    shown = [plot.Effect(name, [0, 1], np.array([0.0, size]), np.zeros(2), 0) for name, size in sizes.items()]
    large, small, none = plot.effects(shown).axes
    assert np.ptp(large.get_ylim()) == pytest.approx(110)
    assert np.ptp(small.get_ylim()) == pytest.approx(5.5)
    assert np.ptp(none.get_ylim()) == pytest.approx(2)
    assert [ax.get_title(loc="right") for ax in (large, small, none)] == ["Δ 100", "Δ 5", "Δ 1e-06"]


@pytest.mark.parametrize(
    ("kind", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml"), ("jpg", b"\xff\xd8\xff")]
)
def test_a_picture_is_what_its_name_says_with_any_characters(kind: str, start: bytes) -> None:
    effect = plot.Effect("温度 [℃]", ["赤", "青"], np.zeros(2), np.ones(2), "赤")
    figure = plot.summary([1.0, 2.0], [], ["温度 [℃]", "b"], [effect])  # warnings are errors here
    assert plot.to_bytes(figure, kind).startswith(start)


def test_a_line_joins_parameters_that_interact() -> None:
    found = [Interaction(("a", "b"), 0.9, 0.2), Interaction(("b", "c"), 0.05, 0.2), Interaction(("a",), 1.0, 0.5)]
    assert len(plot.interactions(found, ["a", "b", "c"]).get_lines()) == 1
    nothing = plot.interactions([], ["a", "b", "c"])
    assert "none found" in [text.get_text() for text in nothing.texts]
    weak = plot.interactions([Interaction(("a", "b"), 0.9, 0.002)], ["a", "b", "c"])
    assert len(weak.get_lines()) == 0
    rough = plot.interactions(Interactions(found, converged=False), ["a", "b", "c"])
    assert any("do not agree" in text.get_text() for text in rough.texts)
    whole = plot.interactions([Interaction(("a", "b", "c"), 0.8, 0.5)], ["a", "b", "c"])
    assert "all parameters\n80%" in [text.get_text() for text in whole.texts]


def test_the_run_of_an_optimizer_is_drawn() -> None:
    optimizer = Optimizer(Space({"x": Float(0, 1), "k": Categorical(["a", "b"])}), seed=0)
    values: list[float | None] = []
    for _ in range(6):
        params = optimizer.ask()
        values.append((params["x"] - 0.3) ** 2 + (params["k"] == "b"))
        optimizer.tell(params, values[-1])
    assert optimizer.best is not None
    effects = effects_of(optimizer, optimizer.best.params)
    assert {effect.name for effect in effects} == {"x", "k"}
    assert len(plot.effects(effects).axes) == 2
    figure = plot.summary(values, optimizer.interactions(), optimizer.space.names, effects)
    assert plot.to_png(figure).startswith(b"\x89PNG")
