"""A study killed at any moment and run again ends with the same trials as one never interrupted."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dechbo.execution import Outcome, ProcessExecutor
from dechbo.integrations.optuna import STALE
from dechbo.integrations.optuna.trials import evaluated
from dechbo.studies import StudyFile, StudyRun

STUDY = """\
name: killed
direction: minimize
parameters:
  lr: {{type: float, low: 1e-5, high: 1, log: true}}
  layers: {{type: int, low: 1, high: 8}}
  act: {{type: categorical, choices: [relu, tanh]}}
  drop: {{type: float, low: 0, high: 0.5}}
objective: {{python: "train:run"}}
trials: {trials}
seed: 3
options: {options}
"""

TRAIN = """\
import math, time
def run(lr, layers, act, drop):
    time.sleep(0.05)
    if round(1e6 * drop) % 8 == 3:  # all over the space: three failures in a row would end the run
        raise ValueError("diverged")
    value = (math.log10(lr) + 3) ** 2 + 0.3 * (layers - 3) ** 2 + (act == "relu") + drop
    return {"value": value, "constraints": {"memory": layers - 7}}
"""

# Runs the study and prints its events; can kill itself right before or after its n-th write to the database.
RUN = """\
import os, signal, sys
from dechbo.execution import Outcome, ProcessExecutor
from dechbo.integrations.optuna.adapter import Database
from dechbo.studies import StudyFile, StudyRun

left = int(sys.argv[1])

def deadly(method, after):
    def counted(*args, **kwargs):
        global left
        left -= 1
        if left == 0 and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = method(*args, **kwargs)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return counted

WRITES = ("set_trial_user_attr", "set_trial_system_attr", "set_trial_state_values", "_create_new_trial", "fail_stale")
if left:
    for name in WRITES:
        setattr(Database, name, deadly(getattr(Database, name), after=sys.argv[2] == "after"))

file = StudyFile.read("study.yaml")
run = StudyRun(file)
print("open", flush=True)
with ProcessExecutor(file.objective, 1) as workers:
    run.run(workers, on_event=lambda event: print(event.kind, flush=True))
"""


def prepared(folder: Path, *, trials: int, options: str) -> Path:
    folder.mkdir()
    (folder / "study.yaml").write_text(STUDY.format(trials=trials, options=options), encoding="utf-8")
    (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    (folder / "run.py").write_text(RUN, encoding="utf-8")
    return folder


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "run.py", *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run_to_the_end(folder: Path) -> None:
    process = started(folder, "0", "")
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


def run_here(folder: Path, kind: type[StudyRun] = StudyRun, workers: int = 1) -> StudyRun:
    file = StudyFile.read(folder / "study.yaml")
    run = kind(file)
    with ProcessExecutor(file.objective, workers) as processes:
        run.run(processes)
    return run


def killed_at_write(folder: Path, count: int, when: str) -> None:
    """The process kills itself at its ``count``-th write."""
    process = started(folder, str(count), when)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL, errors


def killed_at_event(folder: Path, kind: str, count: int, delay: float) -> None:
    """Killed from outside, ``delay`` seconds after the ``count``-th event of a kind."""
    process = started(folder, "0", "")
    assert process.stdout is not None
    seen = 0
    for line in process.stdout:
        seen += line.strip() == kind
        if seen == count:
            break
    assert seen == count, process.communicate()
    time.sleep(delay)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def results(folder: Path) -> list[tuple[dict[str, Any], float | None, dict[str, float]]]:
    """The evaluations in order: parameters, value and constraints; without stale trials."""
    run = StudyRun(StudyFile.read(folder / "study.yaml"), create=False)
    finished = [t for t in run.trials if t.state.is_finished() and STALE not in t.system_attrs]
    return [(dict(sorted(t.params.items())), t.value if t.values else None, t.constraints) for t in finished]


def deaths(folder: Path) -> int:
    run = StudyRun(StudyFile.read(folder / "study.yaml"), create=False)
    return sum(STALE in trial.system_attrs for trial in run.trials)


@pytest.mark.system
def test_a_study_killed_five_times_ends_like_one_never_killed(tmp_path: Path) -> None:
    options = "{graph: random, n_initial: 4}"
    whole = prepared(tmp_path / "whole", trials=14, options=options)
    broken = prepared(tmp_path / "broken", trials=14, options=options)
    run_here(whole)
    expected = results(whole)
    assert len(expected) == 14
    counts = []
    kills: tuple[Callable[[], None], ...] = (
        lambda: killed_at_event(broken, "started", 3, 0.02),  # while evaluating
        lambda: killed_at_write(broken, 4, "before"),  # the first three retry the stale trial
        lambda: killed_at_write(broken, 8, "after"),  # while telling
        lambda: killed_at_event(broken, "asking", 3, 0.03),  # while asking
        lambda: killed_at_write(broken, 14, "before"),
    )
    for kill in kills:
        kill()
        counts.append(len(results(broken)))
    assert counts == sorted(counts)
    assert 0 < counts[0] < counts[-1] < 14  # killed in the middle of the work, which continued
    assert deaths(broken) >= 2
    run_to_the_end(broken)
    assert results(broken) == expected


@pytest.mark.system
@pytest.mark.parametrize("options", ["{n_initial: 4}", "{graph: random, n_initial: 4}"])
def test_a_study_killed_twenty_times_ends_like_one_never_killed(tmp_path: Path, options: str) -> None:
    trials = 30
    whole = prepared(tmp_path / "whole", trials=trials, options=options)
    broken = prepared(tmp_path / "broken", trials=trials, options=options)
    run_here(whole)
    expected = results(whole)
    rng = random.Random(7)
    done = 0
    for kill in range(20):
        if kill % 2:
            killed_at_write(broken, rng.randint(1, 10), rng.choice(["before", "after"]))
        else:
            kind = rng.choice(["asking", "started", "finished", "open"])
            killed_at_event(broken, kind, 1, rng.uniform(0, 0.1))
        now = len(results(broken)) if (broken / "killed.db").exists() else 0
        assert done <= now < trials, f"kill {kill} was not in the middle of the run"
        done = now
    assert done > 5
    assert deaths(broken) > 5
    run_to_the_end(broken)
    assert results(broken) == expected


def revise(folder: Path) -> None:
    """Second thoughts about the third, fifth, sixth and last evaluation, whatever their numbers are."""
    run = StudyRun(StudyFile.read(folder / "study.yaml"), create=False)
    numbers = [trial.number for trial in evaluated(run.trials)]
    run.retract(numbers[2])
    run.correct(numbers[4], Outcome(3.25, {"memory": -1.0}))
    assert run.retry(numbers[5])
    run.correct(numbers[-1], Outcome(None))


def current(folder: Path) -> list[tuple[dict[str, Any], float | None, dict[str, float]]]:
    """The evaluations that count, in order."""
    run = StudyRun(StudyFile.read(folder / "study.yaml"), create=False)
    return [
        (dict(sorted(t.params.items())), t.value if t.values else None, t.constraints) for t in evaluated(run.trials)
    ]


@pytest.mark.system
@pytest.mark.parametrize("options", ["{n_initial: 4}", "{graph: random, n_initial: 4}"])
def test_a_study_killed_between_retractions_and_corrections_ends_like_one_never_killed(
    tmp_path: Path, options: str
) -> None:
    whole, broken = (prepared(tmp_path / name, trials=10, options=options) for name in ("whole", "broken"))
    run_here(whole)
    rng = random.Random(5)
    for _ in range(3):
        killed_at_write(broken, rng.randint(2, 8), rng.choice(["before", "after"]))
    run_to_the_end(broken)
    assert current(broken) == current(whole)
    for folder in (whole, broken):
        revise(folder)
        text = (folder / "study.yaml").read_text(encoding="utf-8")
        (folder / "study.yaml").write_text(text.replace("trials: 10", "trials: 17"), encoding="utf-8")
    assert current(broken) == current(whole)
    assert len(current(whole)) == 8  # one retracted, one to be evaluated again
    run_here(whole)
    for _ in range(4):
        killed_at_write(broken, rng.randint(2, 8), rng.choice(["before", "after"]))
    run_to_the_end(broken)
    assert len(current(broken)) == 17
    assert current(broken) == current(whole)


class Recorded(StudyRun):
    """Remembers the finished and pending trials before each suggestion."""

    def __init__(self, file: StudyFile) -> None:
        super().__init__(file)
        self.records: list[dict[str, Any]] = []

    def _next_trial(self, *args: Any, **kwargs: Any) -> Any:
        before = [
            {
                "state": trial.state.name,
                "params": dict(trial.params),
                "values": trial.values,
                "constraints": {f"constraints:{name}": value for name, value in trial.constraints.items()},
            }
            for trial in self.trials
        ]
        found = super()._next_trial(*args, **kwargs)
        assert found is not None
        self.records.append({"before": before, "params": dict(found[0].params)})
        return found


# In a fresh process, last suggestion first: a study that has the recorded trials and nothing else.
REPEAT = """\
import json, warnings
import optuna
from dechbo.integrations.optuna import DecHBOSampler, distributions_of
from dechbo.studies import StudyFile

optuna.logging.set_verbosity(optuna.logging.WARNING)
file = StudyFile.read("study.yaml")
space = distributions_of(file.space)
answers = []
for record in reversed(json.load(open("records.json"))):
    sampler = DecHBOSampler(seed=3, graph="random", n_startup_trials=4, search_space=file.space)
    study = optuna.create_study(sampler=sampler)
    for trial in record["before"]:
        study.add_trial(optuna.trial.create_trial(
            state=optuna.trial.TrialState[trial["state"]], values=trial["values"], params=trial["params"],
            distributions=space, system_attrs=trial["constraints"]))
    answers.append(sampler.suggest(study))
print(json.dumps(answers[::-1]))
"""


@pytest.mark.system
def test_with_three_workers_the_same_finished_and_pending_trials_give_the_same_suggestion(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "three", trials=14, options="{graph: random, n_initial: 4}")
    run = run_here(folder, Recorded, workers=3)
    assert isinstance(run, Recorded)
    records = run.records
    (folder / "records.json").write_text(json.dumps(records), encoding="utf-8")
    (folder / "script.py").write_text(REPEAT, encoding="utf-8")
    result = subprocess.run([sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert len(records) == 14
    pending = [sum(trial["state"] == "RUNNING" for trial in record["before"]) for record in records]
    assert max(pending) == 2  # three side by side
    assert json.loads(result.stdout) == [record["params"] for record in records]
