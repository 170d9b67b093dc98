"""StudyRun and StudyStore: run, stop, continue, retry; refuse a study that was started with other settings."""

from __future__ import annotations

import contextlib
import gc
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import optuna
import pytest
import sqlalchemy
from optuna.trial import FrozenTrial, TrialState

from dechbo.errors import AllEvaluationsFailed, OptionError, ParameterError, StorageError, StudyError
from dechbo.execution import InlineExecutor, Outcome, ProcessExecutor
from dechbo.integrations.optuna import OWNER, STALE, this_process
from dechbo.integrations.optuna.adapter import (
    database_of,
    set_system_attribute,
    storage_of,
    study_id,
    system_attributes,
    trial_id,
)
from dechbo.integrations.optuna.recovery import abandon, recover_silent
from dechbo.studies import Event, StudyFile, StudyRun
from dechbo.studies.settings import check_settings
from dechbo.studies.trial_table import trial_rows

STUDY = """\
name: s
parameters:
  x: {type: float, low: -2, high: 2}
  n: {type: int, low: 1, high: 9}
  c: {type: categorical, choices: [a, b]}
trials: 6
options: {graph: random, n_initial: 4}
"""


class Inline(InlineExecutor):
    """Counts the tasks that run at once; what its function raises gets through."""

    most = 0

    def submit(self, number: int, params: dict[str, Any]) -> None:
        super().submit(number, params)
        self.most = max(self.most, len(self._running))

    def wait(self, timeout: float) -> list[tuple[int, Outcome]]:
        finished = super().wait(timeout)
        for _, outcome in finished:
            if outcome.exception is not None:
                raise outcome.exception
        return finished


def value_of(params: dict[str, Any]) -> Outcome:
    return Outcome(params["x"] ** 2 + params["n"] + (params["c"] == "a"))


def study_file(folder: Path, text: str = STUDY) -> StudyFile:
    (folder / "study.yaml").write_text(textwrap.dedent(text), encoding="utf-8")
    return StudyFile.read(folder / "study.yaml")


def points(run: StudyRun) -> list[dict[str, Any]]:
    return [dict(trial.params) for trial in run.trials if trial.state == TrialState.COMPLETE]


def test_a_run_from_beginning_to_end(tmp_path: Path) -> None:
    run = StudyRun(study_file(tmp_path))
    events: list[Event] = []
    run.run(Inline(value_of), on_event=events.append)
    assert [event.kind for event in events] == ["asking", "started", "finished"] * 6
    assert [event.number for event in events if event.kind == "finished"] == list(range(6))
    assert (run.finished, run.failed, run.target) == (6, 0, 6)
    values = [trial.value for trial in run.trials]
    assert run.best is not None
    assert run.best.value == min(v for v in values if v is not None)
    last = events[-1]
    assert last.outcome is not None
    assert last.params is not None
    assert list(last.params) == ["x", "n", "c"]
    assert last.outcome.value == value_of(dict(last.params)).value
    assert last.info is not None
    assert last.info.source != "initial design"
    assert all("seconds" in trial.user_attrs for trial in run.trials)
    assert len(run.optimizer().evaluations) == 6


def test_a_run_that_has_all_its_trials_does_nothing(tmp_path: Path) -> None:
    file = study_file(tmp_path)
    StudyRun(file).run(Inline(value_of))
    events: list[Event] = []
    again = StudyRun(file)
    again.run(Inline(value_of), on_event=events.append)
    assert events == []
    more = StudyRun(file, trials=8)
    more.run(Inline(value_of))
    assert (more.finished, len(more.trials)) == (8, 8)


def test_stopped_and_run_again_it_goes_on_as_if_never_stopped(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    whole = StudyRun(study_file(tmp_path / "a"))
    whole.run(Inline(value_of))
    file = study_file(tmp_path / "b")
    for count in (2, 5):
        run = StudyRun(file)
        run.run(Inline(value_of), stop=lambda run=run, count=count: run.finished >= count)  # type: ignore[misc]
        assert run.finished == count
    run = StudyRun(file)
    run.run(Inline(value_of))
    assert points(run) == points(whole)


def test_a_time_limit_waits_for_what_is_under_way(tmp_path: Path) -> None:
    def slow(params: dict[str, Any]) -> Outcome:
        time.sleep(1.2)
        return value_of(params)

    run = StudyRun(study_file(tmp_path))
    run.run(Inline(slow), timeout=1.0)  # the first ask takes a tenth of it
    assert (run.finished, len(run.trials)) == (1, 1)


def test_stopped_while_the_next_point_is_chosen_nothing_is_begun(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    whole = StudyRun(study_file(tmp_path / "a"))
    whole.run(Inline(value_of))
    for folder, timeout in (("b", None), ("c", 0.5)):
        asking: list[Event] = []

        def noted(event: Event, asking: list[Event] = asking, timeout: float | None = timeout) -> None:
            if event.kind == "asking":
                asking.append(event)
                if timeout is not None and len(asking) == 1:
                    time.sleep(timeout)

        run = StudyRun(study_file(tmp_path / folder))
        begun = 0 if timeout else 2  # the time is over, or Ctrl-C comes, while the next one is chosen
        run.run(
            Inline(value_of),
            timeout=timeout,
            stop=lambda asking=asking, timeout=timeout: timeout is None and len(asking) == 3,  # type: ignore[misc]
            on_event=noted,
        )
        assert len(asking) == begun + 1
        assert len(run.trials) == run.finished == begun
        run.run(Inline(value_of))
        assert points(run) == points(whole)


def test_stopped_before_a_waiting_trial_is_taken_it_goes_on_waiting(tmp_path: Path) -> None:
    run = StudyRun(study_file(tmp_path))
    run.study.enqueue_trial({"n": 7})
    asking: list[Event] = []
    run.run(Inline(value_of), stop=lambda: bool(asking), on_event=asking.append)
    assert [event.kind for event in asking] == ["asking"]
    assert [(trial.state, trial.params) for trial in run.trials] == [(TrialState.WAITING, {})]


def test_failures_are_recorded_with_their_error(tmp_path: Path) -> None:
    def function(params: dict[str, Any]) -> Outcome:
        return (
            Outcome.failure("Traceback\n" + "x" * 5000 + "\nValueError: no") if params["c"] == "a" else value_of(params)
        )

    run = StudyRun(study_file(tmp_path))
    events: list[Event] = []
    run.run(Inline(function), on_event=events.append, keep_going=True)
    failed = [trial for trial in run.trials if trial.state == TrialState.FAIL]
    assert run.finished == 6
    assert run.failed == len(failed) == sum(event.kind == "failed" for event in events) > 0
    assert failed[0].user_attrs["error"].endswith("ValueError: no")
    assert len(failed[0].user_attrs["error"]) <= 2000
    assert all(trial.params["c"] == "b" for trial in run.trials if trial.state == TrialState.COMPLETE)


def test_a_run_whose_first_evaluations_all_fail_ends_with_the_reason(tmp_path: Path) -> None:
    run = StudyRun(study_file(tmp_path), trials=20)
    with pytest.raises(
        AllEvaluationsFailed, match=r"the first 5 evaluations of this run all failed(.|\n)*ValueError: no data"
    ):
        run.run(Inline(lambda params: Outcome.failure(f"Traceback …\nValueError: no data{'!' * (run.finished % 2)}")))
    assert run.finished == run.failed == 5
    run.run(Inline(value_of), stop=lambda: run.finished >= 7)  # repaired, it continues
    assert (run.finished, run.failed) == (7, 5)
    run.run(Inline(lambda _: Outcome.failure("again")), stop=lambda: run.finished >= 13, keep_going=True)
    assert run.failed == 11
    with pytest.raises(AllEvaluationsFailed, match="3 evaluations in a row failed with the same error:\nagain"):
        run.run(Inline(lambda _: Outcome.failure("again")))
    assert run.failed == 14  # although others succeeded before


def test_constraints_are_optunas_own(tmp_path: Path) -> None:
    def function(params: dict[str, Any]) -> Outcome:
        return Outcome(value_of(params).value, {"size": params["n"] - 5.0, "0": -1.0})

    run = StudyRun(study_file(tmp_path), trials=8)
    run.run(Inline(function))
    sizes = {trial.number: trial.params["n"] - 5.0 for trial in run.trials}
    assert {trial.number: trial.constraints for trial in run.trials} == {
        number: {"0": -1.0, "size": size} for number, size in sizes.items()
    }
    assert run.best is not None
    assert run.best.number == run.study.best_trial.number
    assert sizes[run.best.number] <= 0
    assert len({size > 0 for size in sizes.values()}) == 2  # some were not feasible


def test_maximisation(tmp_path: Path) -> None:
    run = StudyRun(study_file(tmp_path, STUDY + "direction: maximize\n"))
    run.run(Inline(value_of))
    assert run.best is not None
    assert run.best.value == max(trial.value or 0.0 for trial in run.trials) == run.study.best_value


def test_several_side_by_side(tmp_path: Path) -> None:
    workers = Inline(value_of, capacity=3)
    run = StudyRun(study_file(tmp_path), trials=7)
    run.run(workers)
    assert workers.most == 3
    assert run.finished == len(run.trials) == 7  # never more than asked for
    assert len({tuple(point.items()) for point in points(run)}) == 7


def test_a_finite_space_is_evaluated_once_and_the_run_says_so(tmp_path: Path) -> None:
    text = "name: s\nparameters:\n  a: {type: categorical, choices: [x, y, z]}\n  b: {type: int, low: 0, high: 1}\n"
    run = StudyRun(study_file(tmp_path, text))
    run.run(Inline(lambda p: Outcome(float(p["b"])), capacity=2))
    assert run.finished == 6
    assert run.exhausted is not None
    assert len({tuple(point.items()) for point in points(run)}) == 6


def test_known_linear_constraints_are_never_broken(tmp_path: Path) -> None:
    text = """\
    name: s
    parameters:
      a: {type: float, low: 0, high: 1}
      b: {type: float, low: 0, high: 1}
    constraints: ["a + b <= 1"]
    options: {graph: random, n_initial: 3}
    trials: 7
    """
    run = StudyRun(study_file(tmp_path, text))
    run.run(Inline(lambda p: Outcome(-p["a"] - p["b"])))
    assert run.finished == 7
    assert all(point["a"] + point["b"] <= 1 + 1e-9 for point in points(run))


def test_known_factors_are_used(tmp_path: Path) -> None:
    text = STUDY.replace("graph: random, ", "") + "factors: [[x, n], [c]]\n"
    run = StudyRun(study_file(tmp_path, text))
    events: list[Event] = []
    run.run(Inline(value_of), on_event=events.append)
    graph = next(e.info.graph for e in reversed(events) if e.info is not None and e.info.graph is not None)
    assert {len(scope) for scope in graph.scopes} == {1, 2}
    assert sum(len(scope) == 2 for scope in graph.scopes) == 1


# ------------------------------------------------------- exceptions, stale trials


def test_what_runs_when_an_exception_ends_a_run_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    whole = StudyRun(study_file(tmp_path / "a"))
    whole.run(Inline(value_of))

    def interrupted(_: dict[str, Any]) -> Outcome:
        raise KeyboardInterrupt

    file = study_file(tmp_path / "b")
    run = StudyRun(file)
    run.run(Inline(value_of), stop=lambda: run.finished >= 3)
    with pytest.raises(KeyboardInterrupt):
        run.run(Inline(interrupted))
    assert [trial.state.name for trial in run.trials[3:]] == ["FAIL", "WAITING"]
    assert [row.state for row in trial_rows(run.trials, file.space.names)[3:]] == ["stale", "waiting"]
    assert run.finished == 3  # a stale trial is not an evaluation
    again = StudyRun(file)
    again.run(Inline(value_of))
    assert again.finished == 6
    assert points(again) == points(whole)
    assert again.trials[4].params == run.trials[3].params
    assert again.trials[4].system_attrs["failed_trial"] == 3


def owned(run: StudyRun, owner: str) -> FrozenTrial:
    """A running trial of another process."""
    return run._create_trial({"x": 0.5, "n": 3, "c": "a"}, TrialState.RUNNING, {OWNER: owner})


def dead_process() -> str:
    code = "from dechbo.integrations.optuna import this_process; print(this_process())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_trials_of_dead_processes_are_tried_again_and_those_of_living_ones_are_not(tmp_path: Path) -> None:
    run = StudyRun(study_file(tmp_path))
    dead, alive = owned(run, dead_process()), owned(run, this_process())
    events: list[Event] = []
    run.run(Inline(value_of), on_event=events.append, stop=lambda: run.finished >= 5)
    assert [event.number for event in events if event.kind == "recovered"] == [dead.number]
    states = {trial.number: trial for trial in run.trials}
    assert STALE in states[dead.number].system_attrs
    assert states[alive.number].state == TrialState.RUNNING
    assert run.finished == 5  # another process runs the sixth


def test_a_trial_without_a_heartbeat_for_too_long_is_tried_again(tmp_path: Path) -> None:
    """Its owner is on another machine, so only the heartbeat can tell."""
    file = study_file(tmp_path)
    run = StudyRun(file, interval=1, grace=1)
    trial = owned(run, '{"host": "elsewhere", "pid": 1}')
    run.run(Inline(value_of))  # waits for the sixth until its heartbeat is too old
    assert run.finished == 6
    assert STALE in run.trials[trial.number].system_attrs
    retried = [other for other in run.trials if other.system_attrs.get("failed_trial") == trial.number]
    assert [other.params for other in retried] == [trial.params]
    assert retried[0].state == TrialState.COMPLETE


def test_long_evaluations_stay_alive(tmp_path: Path) -> None:
    file = study_file(tmp_path)
    seen: list[list[int]] = []

    def slow(params: dict[str, Any]) -> Outcome:
        time.sleep(2.5)
        other = StudyRun(file, interval=1, grace=1)
        seen.append(database_of(other.study).silent_trial_ids(study_id(other.study)))
        return value_of(params)

    run = StudyRun(file, trials=1, interval=1, grace=1)
    run.run(Inline(slow))
    assert seen == [[]]
    assert run.finished == 1


def test_an_outcome_that_comes_too_late_is_dropped(tmp_path: Path) -> None:
    """Another process has taken the trial for stale and queued it again."""
    run = StudyRun(study_file(tmp_path), trials=2)
    taken: list[int] = []

    def late(params: dict[str, Any]) -> Outcome:
        if not taken:
            trial = run.trials[-1]
            taken.append(trial.number)
            assert abandon(run.study, trial_id(trial))
        return value_of(params)

    events: list[Event] = []
    run.run(Inline(late), on_event=events.append)
    assert run.finished == 2
    assert taken == [0]
    assert sorted(event.number or 0 for event in events if event.kind == "finished") == [1, 2]


# ----------------------------------------------------------- waiting trials


def test_enqueued_trials_come_first(tmp_path: Path) -> None:
    run = StudyRun(study_file(tmp_path))
    run.study.enqueue_trial({"x": 1.25, "n": 2, "c": "b"})
    run.study.enqueue_trial({"n": 7})
    run.study.enqueue_trial({"n": 70})
    run.study.enqueue_trial({"nn": 7})
    run.run(Inline(value_of))
    first, second, third, fourth = run.trials[:4]
    assert first.params == {"x": 1.25, "n": 2, "c": "b"}
    assert second.params["n"] == 7
    assert first.state == second.state == TrialState.COMPLETE
    assert third.state == fourth.state == TrialState.FAIL
    assert "enqueued with impossible parameters" in third.user_attrs["error"]
    assert "nn" in fourth.user_attrs["error"]
    assert run.finished == 6
    assert all(OWNER in trial.system_attrs for trial in (first, second))


def test_an_enqueued_trial_whose_process_died_while_it_was_filled_in(tmp_path: Path) -> None:
    run = StudyRun(study_file(tmp_path))
    run.study.enqueue_trial({"n": 7})
    waiting = run.trials[0]
    storage_of(run.study).set_trial_param(trial_id(waiting), "x", 0.25, run._distributions["x"])
    run.run(Inline(value_of), stop=lambda: run.finished >= 1)
    assert (run.trials[0].params["n"], run.trials[0].params["x"]) == (7, 0.25)
    assert run.trials[0].state == TrialState.COMPLETE


def test_a_waiting_trial_whose_process_died_while_it_took_it(tmp_path: Path) -> None:
    run = StudyRun(study_file(tmp_path))
    run.study.enqueue_trial({"n": 7})
    storage_of(run.study).set_trial_system_attr(trial_id(run.trials[0]), OWNER, dead_process())
    asked = run.ask()
    assert (asked.number, asked.params["n"]) == (0, 7)
    run.run(Inline(value_of))
    assert run.trials[0].state == TrialState.RUNNING  # asked for by hand: neither stale nor counted
    assert run.finished == 6


def test_a_trial_taken_over_by_hand_never_goes_silent(tmp_path: Path) -> None:
    run = StudyRun(study_file(tmp_path))
    run.study.enqueue_trial({"n": 7})
    waiting = trial_id(run.trials[0])
    storage_of(run.study).set_trial_system_attr(waiting, OWNER, '{"host": "elsewhere", "pid": 1}')  # it died right here
    database_of(run.study).record_heartbeat(waiting)
    with database_of(run.study).engine.begin() as connection:
        connection.execute(sqlalchemy.text("UPDATE trial_heartbeats SET heartbeat = '2020-01-01 00:00:00'"))
    asked = run.ask()
    assert OWNER not in asked.system_attrs
    assert recover_silent(run.study) == []
    run.tell(asked.number, Outcome(1.0))
    assert run.finished == 1


def test_a_failure_that_comes_before_a_trial_is_given_up_counts(tmp_path: Path) -> None:
    """It is written while another process is about to fail the trial as stale."""
    run = StudyRun(study_file(tmp_path))
    trial = owned(run, '{"host": "elsewhere", "pid": 1}')
    other = StudyRun(run.file)
    assert run._write_outcome(trial_id(trial), Outcome.failure("broke"))
    assert not abandon(other.study, trial_id(trial))
    assert (run.finished, run.failed, len(run.trials)) == (1, 1, 1)
    assert STALE not in run.trials[0].system_attrs
    second = owned(run, '{"host": "elsewhere", "pid": 1}')
    writes: list[str] = []
    engine = database_of(other.study).engine

    def counted(*_: Any) -> None:
        writes.append("commit")

    sqlalchemy.event.listen(engine, "commit", counted)
    assert database_of(other.study).fail_stale(trial_id(second))
    assert writes == ["commit"]  # stale and failed in one transaction
    assert not run._write_outcome(trial_id(second), Outcome.failure("too late"))
    assert STALE in run.trials[1].system_attrs


def test_enqueued_parameters_that_break_a_known_constraint_are_impossible(tmp_path: Path) -> None:
    run = StudyRun(study_file(tmp_path, STUDY + 'constraints: ["x + n <= 4"]\n'))
    run.study.enqueue_trial({"x": 1.5, "n": 9, "c": "a"})
    run.study.add_trial(
        optuna.trial.create_trial(
            state=TrialState.WAITING, params={"x": 1.5, "n": 8, "c": "a"}, distributions=run._distributions
        )
    )
    run.study.enqueue_trial({"x": 1.5, "n": 1, "c": "a"})
    seen: list[dict[str, Any]] = []

    def function(params: dict[str, Any]) -> Outcome:
        seen.append(params)
        return value_of(params)

    run.run(Inline(function))
    assert [trial.state for trial in run.trials[:3]] == [TrialState.FAIL, TrialState.FAIL, TrialState.COMPLETE]
    assert all("impossible parameters: {" in trial.user_attrs["error"] for trial in run.trials[:2])
    assert all(params["x"] + params["n"] <= 4 for params in seen)


# ---------------------------------------------------------------- by hand


def test_ask_and_tell_by_hand(tmp_path: Path) -> None:
    file = study_file(tmp_path)
    first = StudyRun(file).ask()
    second = StudyRun(file).ask(fixed={"c": "b", "n": 4})
    assert second.params["c"] == "b"
    assert second.params["n"] == 4
    assert list(second.params) == ["x", "n", "c"]
    run = StudyRun(file)
    assert [trial.state for trial in run.trials] == [TrialState.RUNNING] * 2  # nobody took them for stale
    run.tell(first.number, Outcome(1.5, {"size": -1.0}))
    run.tell(second.number, Outcome.failure("broke"))
    assert (run.finished, run.failed) == (2, 1)
    assert run.trials[0].constraints == {"size": -1.0}
    with pytest.raises(StudyError, match="trial 0 is not running, but complete"):
        run.tell(0, Outcome(1.0))
    with pytest.raises(StudyError, match="has no trial 17"):
        run.tell(17, Outcome(1.0))
    with pytest.raises(ParameterError, match="'n'"):
        run.ask(fixed={"n": 40})


def test_a_trial_asked_for_by_hand_holds_nobody_up(tmp_path: Path) -> None:
    file = study_file(tmp_path)
    asked = StudyRun(file).ask()
    run = StudyRun(file)
    run.run(Inline(value_of))
    assert run.finished == 6
    assert run.trials[asked.number].state == TrialState.RUNNING
    assert asked.params not in points(run)  # it is pending


def test_old_results_teach_and_do_not_count(tmp_path: Path) -> None:
    run = StudyRun(study_file(tmp_path))
    for x in (-1.0, 0.1, 0.3333333333333333):
        run.add({"x": x, "n": 2.0, "c": "b"}, Outcome(x**2 + 2))
    run.add({"x": 1.5, "n": 9, "c": "a"}, Outcome.failure("lost"))
    with pytest.raises(ParameterError, match="'n'"):
        run.add({"x": 1.5, "n": 90, "c": "a"}, Outcome(1.0))
    assert run.trials[2].params == {"x": 0.3333333333333333, "n": 2, "c": "b"}
    assert run.best is not None
    assert run.best.value == pytest.approx(2.01)
    run.run(Inline(value_of))
    assert run.finished == 6
    assert len(run.trials) == 10
    assert len(run.optimizer().evaluations) == 10


# ------------------------------------------------------- other settings


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("high: 2}", "high: 3}", "parameter 'x' was .*2.0.*, is .*3.0"),
        ("n: {type: int", "m: {type: int", "parameter 'n' is gone; parameter 'm' is new"),
        ("[a, b]", "[a, b, d]", "parameter 'c' was"),
        ("trials: 6", "direction: maximize", 'direction was "minimize", is "maximize"'),
        ("trials: 6", "seed: 5", "seed was 0, is 5"),
        ("options: {graph: random, n_initial: 4}", "factors: [[x, n]]", r'factors was null, is \[\["x", "n"\]\]'),
        ("trials: 6", 'constraints: ["x + n <= 9"]', "constraints was"),
    ],
)
def test_a_changed_file_is_refused_with_the_difference(tmp_path: Path, old: str, new: str, message: str) -> None:
    study = optuna.create_study()
    assert check_settings(study, study_file(tmp_path), None, "here") == 0
    changed = study_file(tmp_path, STUDY.replace(old, new))
    with pytest.raises(StudyError, match=message) as caught:
        check_settings(study, changed, None, "here")
    assert "in here was started with other settings" in str(caught.value)
    assert "another name or in another storage" in str(caught.value)


def test_a_changed_file_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    StudyRun(study_file(tmp_path)).ask()
    with pytest.raises(StudyError, match=f"{tmp_path}/s.db was started with other settings: parameter 'n' was"):
        StudyRun(study_file(tmp_path, STUDY.replace("high: 9", "high: 8")))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("high: 2}", "high: 3}"),
        ("[a, b]", "[a, d]"),
        ("n: {type: int", "n: {type: float"),
        ("trials: 6", "direction: maximize\ntrials: 6"),
        ("trials: 6", "seed: 5\ntrials: 6"),
    ],
)
def test_a_study_without_a_result_takes_new_settings(tmp_path: Path, old: str, new: str) -> None:
    def misspelt(_: dict[str, Any]) -> Outcome:
        raise StudyError("no such module")

    first = StudyRun(study_file(tmp_path))
    with pytest.raises(StudyError, match="no such module"):
        first.run(Inline(misspelt))
    first.study.enqueue_trial({"n": 7})
    first.study.enqueue_trial({"c": "b"})
    states = [trial.state for trial in first.trials]
    assert states == [TrialState.FAIL, *[TrialState.WAITING] * 3]  # stale, its retry, and two enqueued
    file = study_file(tmp_path, STUDY.replace(old, new))
    run = StudyRun(file)
    fits = [{"n": 7}, {"c": "b"}] if "d]" not in new else [{"n": 7}]
    assert [trial.system_attrs["fixed_params"] for trial in run.trials] == fits
    run.run(Inline(lambda params: value_of({**params, "x": 0.0})))
    assert run.finished == len(run.trials) == 6
    assert run.study.direction.name.lower() == file.direction
    with pytest.raises(StudyError, match="was started with other settings"):
        StudyRun(study_file(tmp_path))


def test_a_changed_objective_is_told_and_not_refused(tmp_path: Path) -> None:
    def store_of(objective: str, **options: Any) -> StudyRun:
        return StudyRun(study_file(tmp_path, f"{STUDY}objective: {{{objective}}}\n"), **options)

    assert store_of('python: "a:f"').objective_changed is None
    run = store_of('python: "b:f"')  # the other has no evaluations
    assert run.objective_changed is None
    run.add({"x": 1, "n": 2, "c": "a"}, Outcome(1.0))
    assert store_of('python: "b:f"').objective_changed is None
    for options in ({}, {"readonly": True}):
        told = store_of("command: \"run 'it now' {params}\"", **options).objective_changed
        assert told is not None
        assert told.startswith("the study was started with another objective: 'b:f', now ")
        assert "'it now'" in told
        assert "Its results still count; use a new name" in told
    assert StudyRun(study_file(tmp_path)).objective_changed is None


def test_what_may_change(tmp_path: Path) -> None:
    StudyRun(study_file(tmp_path)).run(Inline(value_of), stop=lambda: False)
    text = STUDY.replace("trials: 6", "trials: 7").replace("n_initial: 4", "n_initial: 5")
    run = StudyRun(study_file(tmp_path, text + 'objective: {python: "a:b"}\n'))
    run.run(Inline(value_of))
    assert run.finished == 7


def test_a_seed_of_the_command_line_stays_with_the_study(tmp_path: Path) -> None:
    file = study_file(tmp_path)
    assert StudyRun(file, seed=7).seed == 7
    assert StudyRun(file).seed == 7
    StudyRun(file).ask()
    with pytest.raises(StudyError, match="seed was 7, is 8"):
        StudyRun(file, seed=8)
    with pytest.raises(StudyError, match="seed was 7, is 1"):
        StudyRun(study_file(tmp_path, STUDY + "seed: 1\n"))


def test_many_parameters_are_kept_whole(tmp_path: Path) -> None:
    many = "".join(f'  "p{i} é": {{type: float, low: 0, high: {i + 1}}}\n' for i in range(150))
    text = f"name: s\nparameters:\n{many}"
    run = StudyRun(study_file(tmp_path, text))
    run.add({f"p{i} é": 0.5 for i in range(150)}, Outcome(1.0))
    parts = system_attributes(run.study)
    assert all(len(str(part)) <= 2000 for part in parts.values())
    with pytest.raises(StudyError, match="parameter 'p149 é' was"):
        StudyRun(study_file(tmp_path, text.replace("high: 150}", "high: 151}")))


def test_a_study_that_optuna_began_is_taken_over(tmp_path: Path) -> None:
    file = study_file(tmp_path)
    theirs = optuna.storages.RDBStorage(f"sqlite:///{tmp_path}/s.db")
    study = optuna.create_study(storage=theirs, study_name="s", direction="maximize")
    with pytest.raises(StudyError, match='direction was "maximize", is "minimize"'):
        StudyRun(file)
    assert study.trials == []
    theirs.engine.dispose()
    run = StudyRun(study_file(tmp_path, STUDY + "direction: maximize\n"))
    assert run.study.study_name == "s"


@pytest.mark.parametrize("options", [{}, {"create": False}, {"readonly": True}])
def test_a_study_of_an_older_version_is_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    file = study_file(tmp_path)
    optuna_storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path}/s.db")
    set_system_attribute(optuna.create_study(storage=optuna_storage, study_name="s"), "dechbo:study", 1)
    optuna_storage.engine.dispose()
    with pytest.raises(StorageError, match=r"study 's' was written by dechbo before 0\.2.*`dechbo import`"):
        StudyRun(file, **options)


def test_opening_without_creating(tmp_path: Path) -> None:
    file = study_file(tmp_path)
    with pytest.raises(StudyError, match=rf"there is no study 's' yet: sqlite:///{tmp_path}/s.db does not exist"):
        StudyRun(file, create=False)
    assert not (tmp_path / "s.db").exists()
    StudyRun(study_file(tmp_path, STUDY.replace("name: s", "name: t") + f"storage: sqlite:///{tmp_path}/s.db\n"))
    with pytest.raises(StudyError, match=r"there is no study 's' in sqlite:///.*s\.db yet"):
        StudyRun(file, create=False)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(("-shm", "-wal"))}


def test_looking_at_a_study_changes_nothing(tmp_path: Path) -> None:
    file = study_file(tmp_path)
    run = StudyRun(file)
    run.run(Inline(value_of))
    dead = owned(run, '{"host": "elsewhere", "pid": 1}')
    del run
    (tmp_path / "s.db.lock").unlink()
    before = files(tmp_path)
    looked = StudyRun(file, readonly=True)
    assert looked.finished == 6
    assert looked.best is not None
    assert len(looked.optimizer().evaluations) == 6
    assert looked.trials[dead.number].state == TrialState.RUNNING
    with pytest.raises(StorageError, match="readonly"):
        looked.ask()
    (tmp_path / "s.db.lock").unlink()  # of the attempt
    assert files(tmp_path) == before
    with pytest.raises(StudyError, match="other settings"):
        StudyRun(study_file(tmp_path, STUDY.replace("high: 9", "high: 8")), readonly=True)


def test_looking_at_a_study_on_a_read_only_file_system(tmp_path: Path) -> None:
    file = study_file(tmp_path)
    run = StudyRun(file)
    run.add({"x": 1, "n": 2, "c": "a"}, Outcome(1.0))
    del run
    gc.collect()
    assert not (tmp_path / "s.db-wal").exists()  # all is in the one file
    (tmp_path / "s.db-shm").symlink_to("nowhere")  # SQLite does not follow links, so it cannot create its file
    assert len(StudyRun(file, readonly=True).trials) == 1


@pytest.mark.parametrize("options", [{"readonly": True}, {"create": False}])
def test_looking_into_a_file_of_others_leaves_no_tables(tmp_path: Path, options: dict[str, bool]) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    with pytest.raises(StudyError, match=r"there is no study 's' in sqlite:///.*s\.db yet"):
        StudyRun(study_file(tmp_path), **options)  # type: ignore[arg-type]
    with contextlib.closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    assert not (tmp_path / "s.db.lock").exists()


def test_a_study_that_is_there_is_opened_while_another_holds_the_lock(tmp_path: Path) -> None:
    file = study_file(tmp_path)
    run = StudyRun(file)
    number = run.ask().number
    with run._lock():
        StudyRun(file, create=False).tell(number, Outcome(1.0))
    assert run.finished == 1


def test_another_storage_is_taken_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    file = study_file(tmp_path)
    monkeypatch.chdir(tmp_path / "elsewhere")
    StudyRun(file, storage="sqlite:///mine.db")
    assert (tmp_path / "elsewhere" / "mine.db").exists()
    assert not (tmp_path / "s.db").exists()


@pytest.mark.parametrize("options", [{"trials": 0}, {"trials": 1.5}, {"seed": -1}, {"seed": True}])
def test_options_are_checked(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=r"(trials|seed) .*whole number .*at least"):
        StudyRun(study_file(tmp_path), **options)


def test_a_storage_that_fails_on_the_way_is_reported(tmp_path: Path) -> None:
    run = StudyRun(study_file(tmp_path))

    def destroying(params: dict[str, Any]) -> Outcome:
        with sqlite3.connect(tmp_path / "s.db") as connection:
            connection.execute("DROP TABLE trial_user_attributes")
        connection.close()
        return value_of(params)

    with pytest.raises(StorageError, match=r"sqlite:///.*s\.db failed: no such table: trial_user_attributes"):
        run.run(Inline(destroying))


# ------------------------------------------------------------ real processes


def test_a_broken_objective_ends_the_run_and_costs_no_trial(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import not_there_at_all\n")
    file = study_file(tmp_path, STUDY + 'objective: {python: "train:run"}\n')
    run = StudyRun(file)
    with ProcessExecutor(file.objective, 1) as workers, pytest.raises(StudyError, match="not_there_at_all"):
        run.run(workers)
    assert run.finished == 0
    (tmp_path / "train.py").write_text("def run(x, n, c): return x ** 2 + n\n")
    with ProcessExecutor(file.objective, 2) as workers:
        run.run(workers)
    assert (run.finished, run.failed) == (6, 0)
    assert run.trials[1].params == run.trials[0].params


TOGETHER = """\
from dechbo.execution import ProcessExecutor
from dechbo.studies import StudyFile, StudyRun
file = StudyFile.read("study.yaml")
with ProcessExecutor(file.objective, 2) as workers:
    StudyRun(file).run(workers)
"""


@pytest.mark.system
def test_several_coordinators_share_a_study_on_sqlite(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ndef run(x, n, c):\n    time.sleep(0.1)\n    return x ** 2 + n\n")
    file = study_file(tmp_path, STUDY.replace("trials: 6", "trials: 13") + 'objective: {python: "train:run"}\n')
    processes = [
        subprocess.Popen([sys.executable, "-c", TOGETHER], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    errors = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    run = StudyRun(file)
    assert run.finished == len(run.trials) == 13
    assert len({tuple(point.items()) for point in points(run)}) == 13
    assert len({trial.system_attrs[OWNER] for trial in run.trials}) == 2  # both took part
