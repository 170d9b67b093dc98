"""What is kept with a study: its seed and the graph learned last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import optuna
import pytest

from dechbo.integrations.optuna import DecHBOSampler, kept, learned_graph
from dechbo.interactions import Interaction
from dechbo.models.options import ModelOptions
from dechbo.search.grids import Granularity
from dechbo.search.options import SearchOptions
from dechbo.structure.learner import Effort

QUICK: dict[str, Any] = {
    "model": ModelOptions(effort=Effort(steps=40)),
    "search": SearchOptions(granularity=Granularity(work=1e4, polish_steps=2)),
}
FOUND = [Interaction(("a", "b"), 0.75, 0.5), Interaction(("a",), 1.0, 0.25), Interaction(("a", "b", "c"), 0.125, 0.0)]


def product(trial: optuna.Trial) -> float:
    a, b = trial.suggest_float("a", -1, 1), trial.suggest_float("b", -1, 1)
    return a * b + 0.1 * trial.suggest_float("c", -1, 1)


def test_the_learned_graph_survives_the_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    study = optuna.create_study(storage=url, study_name="s", sampler=DecHBOSampler(seed=0, **QUICK))
    study.optimize(product, n_trials=8)
    assert learned_graph(study) is None
    study.optimize(product, n_trials=13)
    loaded = optuna.load_study(storage=url, study_name="s", sampler=optuna.samplers.RandomSampler())
    graph = learned_graph(loaded)
    assert graph is not None
    assert kept.evaluations_behind(loaded) == 20
    strongest = max(graph, key=lambda interaction: interaction.probability)
    assert {"a", "b"} <= set(strongest.scope)
    # what was kept is what the model of that ask had found
    replayed = optuna.create_study(sampler=DecHBOSampler(seed=0, **QUICK))
    replayed.add_trials(study.trials[:20])
    expected = replayed.sampler.optimizer(replayed).interactions()
    assert [i.scope for i in graph] == [i.scope for i in expected if max(i.probability, i.share) >= 0.01]


def test_there_and_back() -> None:
    study = optuna.create_study()
    assert learned_graph(study) is None
    assert kept.evaluations_behind(study) is None
    kept.keep_graph(study, FOUND, ["a", "b", "c"], 10)
    assert learned_graph(study) == FOUND
    kept.keep_graph(study, FOUND[:1], ["a", "b", "c"], 20)
    kept.keep_graph(study, FOUND[1:], ["a", "b", "c"], 30)
    assert learned_graph(study) == FOUND[1:]
    assert kept.evaluations_behind(study) == 30


def test_long_graphs_are_split_and_a_half_written_one_is_not_read() -> None:
    study = optuna.create_study()
    names = [f'a "quoted" name, with a \\ and an ü, number {i}' for i in range(120)]
    many = [Interaction((names[i], names[i + 1]), 0.5, 0.01) for i in range(119)] + [
        Interaction(tuple(names), 0.5, 0.1)
    ]
    kept.keep_graph(study, many, names, 10)
    assert learned_graph(study) == many
    attributes = study._storage.get_study_system_attrs(study._study_id)
    parts = [key for key in attributes if key.startswith(kept.GRAPH)]
    assert len(parts) > 5
    assert max(len(json.dumps(attributes[key])) for key in parts) <= 2000
    kept.keep_graph(study, many[:-1], names, 20)
    assert learned_graph(study) == many[:-1]
    # the next one is written over the older of the two, and its writer dies after one part
    study._storage.set_study_system_attr(study._study_id, f"{kept.GRAPH}:0:0", ["new mark", 2, "{"])
    assert learned_graph(study) == many[:-1]


@pytest.mark.parametrize("value", [None, "text", 3, [], ["mark", "x", "y"], ["mark", 1, '{"evaluations": 1}']])
def test_attributes_that_make_no_sense_are_no_graph(value: Any) -> None:
    study = optuna.create_study()
    study._storage.set_study_system_attr(study._study_id, f"{kept.GRAPH}:0:0", value)
    assert learned_graph(study) is None


def test_a_given_or_random_graph_is_not_kept() -> None:
    for graph in ("random", [("a", "b")]):
        study = optuna.create_study(sampler=DecHBOSampler(seed=0, graph=graph, n_startup_trials=4, **QUICK))
        study.optimize(product, n_trials=6)
        assert learned_graph(study) is None


class Full(optuna.storages.InMemoryStorage):
    """A storage that takes no graph."""

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        if key.startswith(kept.GRAPH):
            raise OSError("no space left on device")
        super().set_study_system_attr(study_id, key, value)


def test_a_storage_that_takes_no_graph_does_not_stop_the_search() -> None:
    study = optuna.create_study(storage=Full(), sampler=DecHBOSampler(seed=0, n_startup_trials=4, **QUICK))
    study.optimize(product, n_trials=12)
    assert len(study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))) == 12
    assert learned_graph(study) is None


def test_the_seed_of_a_study() -> None:
    study = optuna.create_study()
    drawn = kept.seed_of(study, None)
    assert kept.seed_of(study, None) == drawn
    assert kept.seed_of(study, 7) == 7
    assert kept.seed_of(study, None) == 7
