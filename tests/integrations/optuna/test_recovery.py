"""Killed studies end with the same trials, and stale trials are retried."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.trial import TrialState

from dechbo.integrations.optuna import OWNER, STALE, DecHBOSampler, recover, retry_stale, this_process, trials
from dechbo.integrations.optuna.adapter import storage_of, study_id, trial_id
from dechbo.integrations.optuna.trials import INDEX
from optuna_cases import sampler_of

GONE = this_process().replace('"started": ', '"started": 9')
SPACE: dict[str, BaseDistribution] = {"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)}

# Forks a worker, waits for a number of signals from it, kills it, and repeats; the last worker may finish.
SCRIPT = """
import json, os, random, signal, sys, time
import optuna
from dechbo.integrations.optuna import DecHBOSampler, recover, trials
from dechbo.models.options import ModelOptions
from dechbo.search.grids import Granularity
from dechbo.search.options import SearchOptions
from dechbo.structure import StructureOptions

optuna.logging.set_verbosity(optuna.logging.ERROR)
trials.OWNER_DELAY_SECONDS = 0.0  # a fork restarts faster than a new process
folder, kills, target = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
search = SearchOptions(granularity=Granularity(work=1e4, polish_steps=2))
quick = dict(model=ModelOptions(structure=StructureOptions(sweeps=1, rounds=1)), search=search, n_startup_trials=4)


def objective(trial):
    x = trial.suggest_float("x", 0, 1)
    os.write(sign, b".")
    c = trial.suggest_categorical("c", ["a", "b"])
    y = trial.suggest_float("y", 1e-3, 1, log=True)
    z = trial.suggest_int("z", 0, 9) if c == "a" else 4
    os.write(sign, b".")
    time.sleep(0.01)
    return (x - 0.3) ** 2 + y + 0.1 * z


def report(study):
    print(json.dumps([[trial.params, trial.value, trial.state.name] for trial in study.trials]))


def work(url, recovers):
    study = optuna.load_study(storage=url, study_name="s", sampler=DecHBOSampler(seed=1, **quick))
    if recovers:
        recover(study)
    complete = sum(trial.state == optuna.trial.TrialState.COMPLETE for trial in study.trials)
    study.optimize(objective, n_trials=target - complete)


signs, sign = os.pipe()
undisturbed = optuna.create_study(sampler=DecHBOSampler(seed=1, **quick))
undisturbed.optimize(objective, n_trials=target)
report(undisturbed)
for how in ("plain", "recover"):
    url = f"sqlite:///{folder}/{how}.db"
    draw = random.Random(kills)
    optuna.create_study(storage=url, study_name="s")
    for life in range(1, kills + 2):
        signs, sign = os.pipe()
        worker = os.fork()
        if worker == 0:
            work(url, how == "recover")
            os._exit(0)
        os.close(sign)
        if life <= kills:
            for _ in range(draw.randint(1, 2 * target // kills)):
                os.read(signs, 1)
            time.sleep(draw.random() * 0.03)
            os.kill(worker, signal.SIGKILL)
        pid, status = os.waitpid(worker, 0)
        assert status in (0, signal.SIGKILL), status
        os.close(signs)
    report(optuna.load_study(storage=url, study_name="s"))
"""


def check(folder: Path, kills: int, target: int) -> None:
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(folder), str(kills), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    undisturbed, plain, recovered = map(json.loads, done.stdout.splitlines())
    assert [trial[2] for trial in undisturbed] == ["COMPLETE"] * target
    for disturbed in (plain, recovered):
        assert [trial for trial in disturbed if trial[2] == "COMPLETE"] == undisturbed
        assert len(disturbed) > target  # at least one trial is stale
    assert {trial[2] for trial in plain} == {"COMPLETE", "RUNNING"}
    # a trial whose process died before its owner was stored has no parameters, and stays running
    assert {trial[2] for trial in recovered if trial[0] or trial[2] != "RUNNING"} == {"COMPLETE", "FAIL"}


@pytest.mark.system
def test_a_killed_study_ends_with_the_same_trials(tmp_path: Path) -> None:
    check(tmp_path, 5, 13)


@pytest.mark.system
def test_a_study_killed_twenty_times_ends_with_the_same_trials(tmp_path: Path) -> None:
    check(tmp_path, 20, 42)


WORKER = """
import sys, time
import optuna
from dechbo.integrations.optuna import DecHBOSampler
from dechbo.models.options import ModelOptions
from dechbo.structure import StructureOptions

sampler = DecHBOSampler(n_startup_trials=6, model=ModelOptions(structure=StructureOptions(sweeps=1, rounds=1)))
storage = optuna.storages.RDBStorage(sys.argv[1], engine_kwargs={"connect_args": {"timeout": 100}})
study = optuna.load_study(storage=storage, study_name="s", sampler=sampler)


def objective(trial):
    x, n = trial.suggest_float("x", 0, 1), trial.suggest_int("n", 0, 9)
    print(trial.number, flush=True)
    time.sleep(0.05)
    return (x - 0.3) ** 2 + n


study.optimize(objective, n_trials=8)
"""


@pytest.mark.system
def test_four_processes_one_of_which_is_killed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    study = optuna.create_study(storage=url, study_name="s", sampler=DecHBOSampler(n_startup_trials=6))
    command = [sys.executable, "-W", "ignore", "-c", WORKER, url]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    victim = workers[0]
    assert victim.stdout is not None
    doomed = [int(victim.stdout.readline()) for _ in range(3)][-1]
    victim.kill()
    for worker in workers:
        _, error = worker.communicate()
        assert worker is victim or worker.returncode == 0, error
    states = [trial.state for trial in study.trials]
    assert states.count(TrialState.COMPLETE) in (24 + 2, 24 + 3)
    assert recover(study) in ([doomed], [])  # it may have finished just before
    points = [(trial.params["x"], trial.params["n"]) for trial in study.trials if trial.state == TrialState.COMPLETE]
    assert len(set(points)) >= len(points) - 2  # two workers that ask at the same moment may get the same point
    assert TrialState.RUNNING not in [trial.state for trial in study.trials]


def study_with(**more: Any) -> optuna.Study:
    study = optuna.create_study(sampler=DecHBOSampler(seed=0, search_space=SPACE), **more)
    study.add_trial(optuna.create_trial(params={"x": 0.5, "y": 0.5}, distributions=SPACE, value=1.0))
    return study


def die(study: optuna.Study, trial: optuna.Trial, owner: str = GONE) -> None:
    """Let the trial belong to a dead process."""
    storage_of(study).set_trial_system_attr(trial_id(trial), OWNER, owner)


def test_stale_trials_are_failed_and_queued_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "OWNER_DELAY_SECONDS", 0.0)
    study = study_with()
    trial = study.ask(SPACE)
    trial.set_user_attr("note", "kept")
    alive = study.ask(SPACE)
    die(study, trial)
    assert recover(study) == [1]
    assert recover(study) == []
    first, second, retry = study.trials[1:]
    assert (first.state, first.system_attrs[STALE]) == (TrialState.FAIL, True)
    assert second.number == alive.number
    assert second.state == TrialState.RUNNING
    assert (retry.state, retry.params, retry.user_attrs) == (TrialState.WAITING, trial.params, {"note": "kept"})
    assert retry.system_attrs["retry_history"] == [1]
    assert retry.system_attrs["failed_trial"] == 1
    assert retry.system_attrs[INDEX] == 1
    again = study.ask(SPACE)
    assert (again.number, again.params) == (3, trial.params)
    die(study, again)
    assert recover(study) == [3]
    assert study.trials[-1].system_attrs["retry_history"] == [1, 3]
    assert study.trials[-1].system_attrs["failed_trial"] == 1


def test_without_retry_stale_trials_are_only_failed() -> None:
    study = study_with()
    die(study, study.ask(SPACE))
    assert recover(study, retry=False) == [1]
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE, TrialState.FAIL]


def test_an_incomplete_stale_trial_is_the_next_suggestion() -> None:
    study = study_with()
    trial = study.ask()
    x = trial.suggest_float("x", 0, 1)
    die(study, trial)
    assert recover(study) == [1]
    assert len(study.trials) == 2
    assert study.ask(SPACE).params["x"] == x


def test_what_was_enqueued_is_never_lost() -> None:
    study = study_with()
    study.enqueue_trial({"x": 0.125})
    trial = study.ask()
    assert trial.suggest_float("x", 0, 1) == 0.125
    die(study, trial)
    study.ask(SPACE)  # replaces the stale trial, but not its enqueued parameters
    assert recover(study) == [1]
    assert study.trials[-1].state == TrialState.WAITING
    assert study.ask(SPACE).params["x"] == 0.125


def test_a_replaced_trial_is_not_retried() -> None:
    study = study_with()
    trial = study.ask(SPACE)
    die(study, trial)
    assert study.ask(SPACE).params == trial.params
    assert recover(study) == [1]
    assert len(study.trials) == 3


def test_trials_of_other_hosts_are_left_alone_unless_nobody_else_works() -> None:
    study = study_with()
    for owner in ('{"host": "elsewhere", "pid": 1}', "nonsense"):
        die(study, study.ask(SPACE), owner)
    storage_of(study).create_new_trial(study_id(study))
    assert recover(study) == []
    assert recover(study, nobody_else=True) == [1, 2, 3]
    assert [trial.state for trial in study.trials[4:]] == [TrialState.WAITING] * 2


def test_other_samplers_studies_can_be_recovered_too() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.add_trial(optuna.create_trial(params={"x": 0.5}, distributions={"x": SPACE["x"]}, value=1.0))
    trial = study.ask({"x": SPACE["x"]})
    die(study, trial)
    assert recover(study) == [1]
    assert study.ask().params == trial.params


def test_stale_heartbeats(tmp_path: Path) -> None:
    """As RDBStorage calls it: the trial has failed already and cannot be changed."""
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        storage = optuna.storages.RDBStorage(
            f"sqlite:///{tmp_path}/s.db",
            heartbeat_interval=1,
            grace_period=1,
            heartbeat_stale_trial_callback=retry_stale,
        )
    study = optuna.create_study(storage=storage, sampler=DecHBOSampler(seed=0, search_space=SPACE))
    with pytest.warns(UserWarning, match="Heartbeat"):
        trial = study.ask(SPACE)
    storage_of(study).set_trial_state_values(trial_id(trial), state=TrialState.FAIL)
    callback = storage.get_heartbeat_stale_trial_callback()
    assert callback is not None
    callback(study, study.trials[0])
    callback(study, study.trials[0])  # the second call does nothing
    assert [t.state for t in study.trials] == [TrialState.FAIL, TrialState.WAITING]
    assert study.trials[1].params == trial.params
    assert sampler_of(study).optimizer(study).evaluations == ()


def test_a_retry_without_a_new_owner_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_with()
    trial = study.ask(SPACE)
    die(study, trial)
    assert recover(study) == [1]
    waiting = study.trials[-1]
    assert storage_of(study).set_trial_state_values(
        trial_id(waiting), state=TrialState.RUNNING
    )  # and then the process dies
    assert recover(study) == []  # its new process may not have stored its owner yet
    monkeypatch.setattr(trials, "OWNER_DELAY_SECONDS", 0.0)
    assert recover(study) == [2]
    assert study.ask(SPACE).params == trial.params


def test_a_trial_without_owner_and_parameters_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trials, "OWNER_DELAY_SECONDS", 0.0)
    undisturbed, study = study_with(), study_with()
    storage_of(study).create_new_trial(study_id(study))  # and then the process dies
    assert recover(study) == []
    asked, expected = study.ask(), undisturbed.ask()
    for name in ("x", "y", "z"):  # z is sampled independently
        assert asked.suggest_float(name, 0, 1) == expected.suggest_float(name, 0, 1)
