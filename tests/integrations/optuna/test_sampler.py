"""DecHBOSampler: search, graphs and options."""

from __future__ import annotations

import math
from typing import Any

import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from dechbo import FactorGraph, Float, Int, Space
from dechbo.errors import NoObservations, OptionError, ParameterError, ScopeError, SpaceError
from dechbo.integrations.optuna import DecHBOSampler
from optuna_cases import MIXED, QUICK, listening, objective, params_of, sampler, sampler_of


@pytest.fixture(autouse=True)
def heard() -> Any:
    with listening() as said:
        yield said


def test_it_beats_random_search_on_an_additive_function() -> None:
    def additive(trial: optuna.Trial) -> float:
        return sum((trial.suggest_float(f"x{i}", -1, 1) - 0.1 * i) ** 2 for i in range(5))

    ours = optuna.create_study(sampler=DecHBOSampler(seed=0, **QUICK))
    ours.optimize(additive, n_trials=30)
    theirs = []
    for seed in range(5):
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
        study.optimize(additive, n_trials=30)
        theirs.append(study.best_value)
    assert ours.best_value < 0.2 * min(theirs)


def test_a_maximising_study_is_the_mirror_of_a_minimising_one() -> None:
    down = optuna.create_study(sampler=sampler())
    down.optimize(objective, n_trials=8)
    up = optuna.create_study(direction="maximize", sampler=sampler())
    up.optimize(lambda trial: -objective(trial), n_trials=8)
    assert params_of(up) == params_of(down)


def test_parameters_are_keyed_by_name() -> None:
    """Optuna sorts x10 before x2."""

    def one_matters(trial: optuna.Trial) -> float:
        return sum(i * trial.suggest_int(f"x{i}", i, i + 9) for i in range(30)) / 100

    study = optuna.create_study(sampler=sampler(graph="random"))
    study.optimize(one_matters, n_trials=8)
    assert all(i <= trial.params[f"x{i}"] <= i + 9 for trial in study.trials for i in range(30))
    told = sampler_of(study).optimizer(study).evaluations
    assert [evaluation.params for evaluation in told] == params_of(study)


def test_constants_keep_their_value_and_stay_out_of_the_model() -> None:
    space = {"k": IntDistribution(7, 7), "one": CategoricalDistribution([None]), **MIXED}
    study = optuna.create_study(sampler=sampler(search_space=space))
    trial = study.ask(space)
    assert (trial.params["k"], trial.params["one"]) == (7, None)
    assert sampler_of(study).optimizer(study).space.names == tuple(sorted(MIXED))
    assert sampler_of(study).suggest(study)["k"] == 7


def test_only_constants() -> None:
    space: dict[str, BaseDistribution] = {"k": IntDistribution(7, 7)}
    study = optuna.create_study(sampler=sampler(search_space=space))
    assert sampler_of(study).suggest(study, fixed={"k": 7}) == {"k": 7}
    assert study.ask(space).params == {"k": 7}
    with pytest.raises(NoObservations, match="search_space"):
        sampler_of(study).optimizer(study)


def test_odd_choices() -> None:
    choices = [None, True, 1, 0, math.nan, 2.5, "1"]
    study = optuna.create_study(sampler=sampler(n_startup_trials=2))
    study.optimize(lambda t: float(str(t.suggest_categorical("c", choices)) == "2.5") + t.suggest_float("x", 0, 1), 12)
    assert {str(trial.params["c"]) for trial in study.trials} <= {str(choice) for choice in choices}
    assert len(sampler_of(study).optimizer(study).evaluations) == 12


def test_a_given_graph_by_names() -> None:
    groups = [("x", "n"), ["y"], "c"]
    study = optuna.create_study(sampler=sampler(search_space=MIXED, graph=groups))
    assert sampler_of(study).optimizer(study).graph == FactorGraph(4, ((1, 2), (3,), (0,)))  # of c, n, x, y
    order = list(MIXED)  # x, y, n, c
    numbered = FactorGraph(4, ((order.index("x"), order.index("n")), (order.index("y"),), (order.index("c"),)))
    same = sampler(search_space=MIXED, graph=numbered)
    assert same.optimizer(study).graph == sampler_of(study).optimizer(study).graph
    study.optimize(objective, n_trials=6)
    later = sampler(graph=[("x", "n"), ("x", "missing")])
    assert later.optimizer(study).graph == FactorGraph(4, ((1, 2), (2,), (0,), (3,)))


def test_info_of_the_last_ask() -> None:
    study = optuna.create_study(sampler=sampler())
    assert sampler_of(study).info is None
    study.optimize(objective, n_trials=6)
    info = sampler_of(study).info
    assert info is not None
    assert info.graph is not None


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        ({"seed": -1}, OptionError, "seed"),
        ({"n_startup_trials": -1}, OptionError, "n_startup_trials"),
        ({"n_initial": 3}, OptionError, "n_startup_trials"),
        ({"direction": "maximize"}, OptionError, "create_study"),
        ({"max_factor_size": 0}, OptionError, "max_factor_size"),
        ({"theory": "nonsense"}, OptionError, "TheoryOptions"),
        ({"nonsense": 1}, OptionError, "nonsense"),
        ({"warn_independent_sampling": "no"}, OptionError, "warn_independent"),
        ({"graph": "tree"}, OptionError, 'graph must be "learned", "random"'),
        ({"graph": 3}, OptionError, "scopes of names"),
        ({"graph": [(1, 2)]}, OptionError, "a scope must be a tuple of parameter names such as"),
        ({"graph": [("x", "z")], "search_space": MIXED}, OptionError, "'z'"),
        ({"graph": FactorGraph.singletons(2)}, OptionError, "search_space"),
        ({"graph": FactorGraph.singletons(2), "search_space": MIXED}, ScopeError, "4"),
        ({"constraints": ["a <= 1"]}, OptionError, "search_space"),
        ({"constraints": ["z <= 1"], "search_space": MIXED}, SpaceError, "z"),
        ({"search_space": {"x": 3}}, SpaceError, "x"),
    ],
)
def test_wrong_options_are_refused_at_once(wrong: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        sampler(**wrong)


@pytest.mark.parametrize("fixed", [{"z": 1}, {"n": 99}, {"c": "b"}])
def test_wrong_fixed_values_are_refused(fixed: dict[str, Any]) -> None:
    study = optuna.create_study()
    with pytest.raises(ParameterError, match=next(iter(fixed))):
        sampler(search_space=MIXED).suggest(study, fixed=fixed)
    with pytest.raises(ParameterError, match="only value 7"):
        sampler(search_space={"k": IntDistribution(7, 7)}).suggest(study, fixed={"k": 8})
    with pytest.raises(OptionError, match="search_space"):
        sampler().suggest(study)


def test_a_space_of_ours_is_a_search_space_too() -> None:
    space = Space({"b": Float(0, 1), "a": Int(0, 5)}, constraints=["a + b <= 3"])
    study = optuna.create_study(sampler=sampler(search_space=space))
    assert list(sampler_of(study).suggest(study)) == ["b", "a"]
    assert sampler_of(study).optimizer(study).space.constraints == space.constraints


def test_several_objectives_are_refused() -> None:
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler(search_space=MIXED))
    with pytest.raises(OptionError, match=r"one objective.*weighted sum.*NSGAIISampler"):
        study.optimize(objective, n_trials=1)
    with pytest.raises(OptionError, match="set_constraint"):
        sampler_of(study).suggest(study)
    with pytest.raises(OptionError, match=r"one objective.*weighted sum.*NSGAIISampler"):
        sampler_of(study).optimizer(study)
