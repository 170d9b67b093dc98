"""A suggestion depends only on the storage."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.trial import TrialState

from dechbo.integrations.optuna import OWNER, this_process
from optuna_cases import MIXED, listening, mixed, objective, params_of, sampler, sampler_of, suggest


@pytest.fixture(autouse=True)
def heard() -> Any:
    with listening() as said:
        yield said


@pytest.mark.parametrize("seed", range(2))
def test_the_same_finished_and_pending_trials_give_the_same_suggestion(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lasting = sampler(search_space=MIXED)
    study = optuna.create_study(sampler=lasting)
    running: list[optuna.Trial] = []
    for step in range(14):
        fixed = {"c": None} if rng.random() < 0.2 else None
        suggestion = lasting.suggest(study, fixed=fixed)
        if step % 5 == 2 or fixed:
            assert sampler(search_space=MIXED).suggest(study, fixed=fixed) == suggestion
        running.append(study.ask(MIXED))
        assert fixed or running[-1].params == suggestion
        while running and (len(running) > 3 or rng.random() < 0.4):
            done = running.pop(int(rng.integers(len(running))))
            if rng.random() < 0.15:
                study.tell(done, state=TrialState.FAIL)
            else:
                study.tell(done, mixed(done.params))
    shuffled = {name: MIXED[name] for name in reversed(MIXED)}
    assert sampler(search_space=shuffled).suggest(study) == lasting.suggest(study)


@pytest.mark.system
def test_another_process_suggests_the_same(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    study = optuna.create_study(storage=url, study_name="s", sampler=sampler(seed=None, search_space=MIXED))
    study.optimize(objective, n_trials=6)
    study.ask(MIXED)
    code = f"""
import optuna
from optuna.distributions import *
from dechbo.integrations.optuna import DecHBOSampler
from dechbo.models.options import ModelOptions
from dechbo.search.grids import Granularity
from dechbo.search.options import SearchOptions
from dechbo.structure import StructureOptions
space = dict(x=FloatDistribution(0, 1), y=FloatDistribution(1e-3, 1, log=True), n=IntDistribution(1, 6),
             c=CategoricalDistribution(["a", None]))
search = SearchOptions(granularity=Granularity(work=1e5, polish_steps=3))
options = dict(model=ModelOptions(structure=StructureOptions(sweeps=1, rounds=1)), search=search)
sampler = DecHBOSampler(n_startup_trials=4, search_space=space, **options)
study = optuna.load_study(storage={url!r}, study_name="s", sampler=sampler)
print(sampler.suggest(study))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(sampler_of(study).suggest(study))


def test_a_random_seed_is_stored_and_a_given_one_overrides_it() -> None:
    storage = optuna.storages.InMemoryStorage()
    study = optuna.create_study(storage=storage, study_name="s", sampler=sampler(seed=None, search_space=MIXED))
    first = sampler_of(study).suggest(study)
    assert sampler(seed=None, search_space=MIXED).suggest(study) == first
    given = sampler(seed=5, search_space=MIXED).suggest(study)
    assert given != first
    assert sampler(seed=None, search_space=MIXED).suggest(study) == given


def test_a_pickled_sampler_suggests_the_same() -> None:
    study = optuna.create_study(sampler=sampler(search_space=MIXED))
    study.optimize(objective, n_trials=6)
    revived = pickle.loads(pickle.dumps(study.sampler))
    assert revived.suggest(study) == sampler_of(study).suggest(study)
    assert revived.info is not None


def test_one_sampler_serves_several_studies() -> None:
    shared = sampler(search_space=MIXED)
    studies = [optuna.create_study(sampler=shared, study_name="s") for _ in range(2)]
    for k, study in enumerate(studies):
        study.enqueue_trial({"x": 0.1 + k / 2})
        study.optimize(objective, n_trials=6)
    assert params_of(studies[0]) != params_of(studies[1])
    for study in studies:
        assert shared.suggest(study) == sampler(search_space=MIXED).suggest(study)


def test_two_threads_repeat_no_point() -> None:
    study = optuna.create_study(sampler=sampler())
    study.optimize(objective, n_trials=16, n_jobs=2)
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE] * 16
    assert len({str(sorted(params.items())) for params in params_of(study)}) == 16


@pytest.mark.parametrize("first", [0, 1])
def test_what_this_process_has_suggested_is_pending_before_it_is_stored(first: int) -> None:
    space: dict[str, BaseDistribution] = {"n": IntDistribution(0, 3), "m": IntDistribution(0, 1)}
    study = optuna.create_study(sampler=sampler(search_space=space))
    done = optuna.create_trial(params={"n": 0, "m": 0}, distributions=space, value=0.0)
    study.add_trial(done)
    early = [study.ask(), study.ask()]
    planned = [early[first].relative_params]  # nothing is stored yet, and the history changes in the meantime
    study.add_trial(optuna.create_trial(params={"n": 1, "m": 0}, distributions=space, value=-1.0))
    planned.append(early[1 - first].relative_params)
    others = [study.ask(space).params for _ in range(4)]
    assert len({tuple(sorted(params.items())) for params in planned + others}) == 6


def test_workers_that_ask_at_once_get_different_points() -> None:
    studies = [optuna.create_study(sampler=sampler(search_space=MIXED)) for _ in range(2)]
    for study in studies:
        study.optimize(objective, n_trials=6)
    in_order = [studies[0].ask(MIXED).params for _ in range(3)]
    at_once = [studies[1].ask() for _ in range(3)]  # none has a parameter yet
    for trial in reversed(at_once):
        for name, distribution in MIXED.items():
            suggest(trial, name, distribution)
    assert at_once[2].params == in_order[2]  # as if the others had asked first
    assert len({tuple(trial.params.values()) for trial in at_once}) == 3


def test_the_process_of_a_trial_is_stored() -> None:
    study = optuna.create_study(sampler=sampler())
    study.optimize(objective, n_trials=1)
    assert study.trials[0].system_attrs[OWNER] == this_process()
