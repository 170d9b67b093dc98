"""What dechbo stores with a study: long JSON, its seed and the graph learned last; older formats are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import optuna
import pytest

from dechbo.errors import StorageError
from dechbo.integrations.optuna import DecHBOSampler, attributes, learned_graph
from dechbo.integrations.optuna.adapter import set_system_attribute, system_attributes
from dechbo.interactions import Interaction, Interactions
from dechbo.models.options import ModelOptions
from dechbo.search.grids import Granularity
from dechbo.search.options import SearchOptions
from dechbo.structure import StructureOptions
from optuna_cases import sampler_of

QUICK: dict[str, Any] = {
    "model": ModelOptions(structure=StructureOptions(sweeps=2, rounds=1)),
    "search": SearchOptions(granularity=Granularity(work=1e4, polish_steps=2)),
}
FOUND = Interactions(
    [Interaction(("a", "b"), 0.75, 0.5), Interaction(("a",), 1.0, 0.25), Interaction(("a", "b", "c"), 0.125, 0.0)],
    converged=False,
)


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
    assert attributes.graph_evaluations(loaded) == 20
    strongest = max(graph, key=lambda interaction: interaction.probability)
    assert {"a", "b"} <= set(strongest.scope)
    # the stored graph is the one that the model of that ask had found
    replayed = optuna.create_study(sampler=DecHBOSampler(seed=0, **QUICK))
    replayed.add_trials(study.trials[:20])
    expected = sampler_of(replayed).optimizer(replayed).interactions(quick=True)
    assert [i.scope for i in graph] == [i.scope for i in expected if max(i.probability, i.share) >= 0.01]


def test_a_stored_graph_is_read_back() -> None:
    study = optuna.create_study()
    assert learned_graph(study) is None
    assert attributes.graph_evaluations(study) is None
    attributes.store_graph(study, FOUND, ["a", "b", "c"], 10)
    stored = learned_graph(study)
    assert stored == FOUND
    assert stored is not None
    assert not stored.converged
    attributes.store_graph(study, Interactions(FOUND[:1]), ["a", "b", "c"], 20)
    attributes.store_graph(study, Interactions(FOUND[1:]), ["a", "b", "c"], 30)
    assert learned_graph(study) == FOUND[1:]
    assert attributes.graph_evaluations(study) == 30


def test_long_graphs_are_split_and_a_half_written_one_is_not_read() -> None:
    study = optuna.create_study()
    names = [f'a "quoted" name, with a \\ and an ü, number {i}' for i in range(120)]
    many = [Interaction((names[i], names[i + 1]), 0.5, 0.01) for i in range(119)] + [
        Interaction(tuple(names), 0.5, 0.1)
    ]
    attributes.store_graph(study, Interactions(many), names, 10)
    assert learned_graph(study) == Interactions(many)
    stored = system_attributes(study)
    parts = [key for key in stored if key.startswith(attributes.GRAPH)]
    assert len(parts) > 5
    assert max(len(json.dumps(stored[key])) for key in parts) <= 2000
    attributes.store_graph(study, Interactions(many[:-1]), names, 20)
    assert learned_graph(study) == Interactions(many[:-1])
    # the next graph overwrites the older of the two, and its writer dies after one part
    set_system_attribute(study, f"{attributes.GRAPH}:0:0", [2, "new digest", 2, "{"])
    assert learned_graph(study) == Interactions(many[:-1])


@pytest.mark.parametrize("value", [None, "text", 3, [], ["mark", "x", "y"], [0, "digest", 1, '{"evaluations": 1}']])
def test_malformed_attributes_are_ignored(value: Any) -> None:
    study = optuna.create_study()
    attributes.write_attribute(study, f"{attributes.GRAPH}:0:0", value)
    assert learned_graph(study) is None
    assert attributes.graph_evaluations(study) is None


@pytest.mark.parametrize("content", [None, 3, [], {"names": ["a"], "factors": [[[1], 0.5, 0.5]]}])
def test_malformed_graphs_are_ignored(content: Any) -> None:
    study = optuna.create_study()
    attributes.write_json(study, attributes.GRAPH, content)
    assert attributes.read_json(study, attributes.GRAPH) == content
    assert learned_graph(study) is None


@pytest.mark.parametrize(("key", "found"), [("dechbo:seed", "before 0.2"), ("dechbo:study", "before 0.2")])
def test_a_study_of_an_older_version_is_refused(key: str, found: str) -> None:
    study = optuna.create_study(study_name="old", sampler=DecHBOSampler(seed=0))
    set_system_attribute(study, key, 3)
    with pytest.raises(StorageError, match=rf"study 'old' was written by dechbo {found}.*start a new study"):
        study.ask()
    with pytest.raises(StorageError, match=found):
        learned_graph(study)


def test_a_study_of_a_newer_version_is_refused() -> None:
    study = optuna.create_study(sampler=DecHBOSampler(seed=0))
    set_system_attribute(study, attributes.FORMAT, 99)
    with pytest.raises(StorageError, match="in format 99, this version reads format 2 only"):
        study.ask()


def test_given_and_random_graphs_are_not_stored() -> None:
    for graph in ("random", [("a", "b")]):
        study = optuna.create_study(sampler=DecHBOSampler(seed=0, graph=graph, n_startup_trials=4, **QUICK))
        study.optimize(product, n_trials=6)
        assert learned_graph(study) is None


class Full(optuna.storages.InMemoryStorage):
    """A storage that refuses the graph."""

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        if key.startswith(attributes.GRAPH):
            raise OSError("no space left on device")
        super().set_study_system_attr(study_id, key, value)


def test_a_storage_that_refuses_the_graph_does_not_stop_the_search() -> None:
    study = optuna.create_study(storage=Full(), sampler=DecHBOSampler(seed=0, n_startup_trials=4, **QUICK))
    study.optimize(product, n_trials=12)
    assert len(study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))) == 12
    assert learned_graph(study) is None


def test_the_seed_of_a_study() -> None:
    study = optuna.create_study()
    drawn = attributes.study_seed(study, None)
    assert attributes.study_seed(study, None) == drawn
    assert attributes.study_seed(study, 7) == 7
    assert attributes.study_seed(study, None) == 7
