"""minimize: a result like SciPy's, the same run for the same seed, and workers that leave nothing behind."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, OptimizeResult

import minimize_objectives
from dechbo import Categorical, FactorGraph, Float, Int, Optimizer, Space, minimize
from dechbo.errors import OptionError, ParameterError, SpaceError, WorkerDied
from process_cases import alive, children


def bowl(x: np.ndarray) -> float:
    return float(((x - 0.3) ** 2).sum())


def test_the_result_has_scipys_fields() -> None:
    result = minimize(bowl, bounds=[(0, 1)] * 3, n_calls=18, rng=0)
    assert isinstance(result, OptimizeResult)
    assert result.nfev == len(result.x_iters) == len(result.func_vals) == 18
    assert result.fun == result.func_vals.min() == bowl(result.x)
    assert result.fun < 1e-3
    assert isinstance(result.graph, FactorGraph)
    assert result.success


def test_same_seed_same_run_in_any_spelling() -> None:
    runs = [
        minimize(bowl, bounds=b, n_calls=13, rng=7).x_iters
        for b in ([(0, 1)] * 2, Bounds([0, 0], [1, 1]), [(0.0, 1)] * 2)
    ]
    assert np.array_equal(runs[0], runs[1])
    assert np.array_equal(runs[0], runs[2])
    generators = [minimize(bowl, bounds=[(0, 1)], n_calls=5, rng=np.random.default_rng(1)).x_iters for _ in range(2)]
    assert np.array_equal(generators[0], generators[1])


def test_the_callback_sees_each_step_and_can_stop() -> None:
    seen: list[int] = []

    def callback(result: OptimizeResult) -> bool:
        seen.append(result.nfev)
        return bool(result.nfev == 4)

    result = minimize(bowl, bounds=[(0, 1)] * 2, n_calls=10, rng=0, callback=callback)
    assert seen == [1, 2, 3, 4]
    assert result.nfev == 4
    assert "callback" in result.message

    def stopping(result: OptimizeResult) -> None:
        raise StopIteration

    assert minimize(bowl, bounds=[(0, 1)] * 2, n_calls=10, rng=0, callback=stopping).nfev == 1


def test_starting_points_and_extra_arguments() -> None:
    result = minimize(lambda x, shift: bowl(x - shift), [(0, 1)] * 2, n_calls=4, rng=0, x0=[0.5, 0.25], args=(0.1,))
    assert np.array_equal(result.x_iters[0], [0.5, 0.25])
    assert result.func_vals[0] == bowl(np.array([0.4, 0.15]))


def test_a_space_in_place_of_bounds() -> None:
    space = Space({"x": Float(0, 1), "kind": Categorical(["good", "bad"])})
    result = minimize(lambda p: p["x"] + (p["kind"] == "bad"), space, n_calls=15, rng=0, x0={"x": 0.5, "kind": "bad"})
    assert result.x_iters[0] == {"x": 0.5, "kind": "bad"}
    assert result.x["kind"] == "good"


def test_failures_are_nan_in_the_record() -> None:
    result = minimize(lambda x: np.nan, [(0, 1)], n_calls=3, rng=0)
    assert result.x is None
    assert not result.success
    assert np.isnan(result.func_vals).all()


@pytest.mark.parametrize("error", [ValueError, StopIteration, KeyboardInterrupt])
def test_an_exception_of_fun_ends_the_run_and_reaches_the_caller(error: type[BaseException]) -> None:
    def raises(x: Any) -> float:
        raise error("here")

    with pytest.raises(error, match="here") as caught:
        minimize(raises, [(0, 1)], n_calls=3, rng=0)
    assert caught.value.__cause__ is None


def test_an_exhausted_space_ends_the_run_and_keeps_it() -> None:
    result = minimize(lambda p: p["a"], Space({"a": Int(0, 4)}), n_calls=9, rng=0)
    assert result.nfev == 5
    assert result.x == {"a": 0}
    assert "every point" in result.message


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"bounds": []}, SpaceError, "empty"),
        ({"bounds": [(1, 0)]}, SpaceError, r"bounds\[0\]"),
        ({"bounds": [(0, np.inf)]}, SpaceError, r"bounds\[0\]"),
        ({"bounds": [(0, 1), 3]}, SpaceError, r"bounds\[1\]"),
        ({"n_calls": 0}, OptionError, "n_calls .* a whole number"),
        ({"x0": [0.5, 0.5, 0.5]}, OptionError, "x0"),
        ({"x0": [5.0]}, ParameterError, "x0"),
        ({"x0": "ab"}, OptionError, "x0 must be one point"),
        ({"bounds": None}, SpaceError, "bounds"),
        ({"seed": 3}, OptionError, "rng"),
        ({"direction": "maximize"}, OptionError, "direction"),
        ({"workers": 0}, OptionError, "workers must be a whole number of at least 1, -1 for all cores"),
        ({"workers": -2}, OptionError, "workers"),
        ({"workers": 1.5}, OptionError, "workers"),
        ({"workers": True}, OptionError, "workers"),
        ({"workers": "two"}, OptionError, "workers"),
        ({"workers": 2}, OptionError, "cannot be pickled.*top of a module"),
        ({"workers": 2, "batch_size": 2}, OptionError, "batch_size must be left out"),
        ({"workers": map, "batch_size": 0}, OptionError, "batch_size"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_evaluated(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    def never(x: Any) -> float:
        raise AssertionError("evaluated")

    with pytest.raises(error, match=message):
        minimize(never, **{"bounds": [(0, 1)], "n_calls": 3, "rng": 0, **arguments})


# ---------------------------------------------------------------- workers


def test_one_worker_is_the_plain_loop() -> None:
    space = Space({"x0": Float(0, 1), "x1": Float(0, 1)})
    optimizer = Optimizer(space, seed=3)
    for _ in range(9):
        params = optimizer.ask()
        optimizer.tell(params, bowl(np.array(list(params.values()))))
    result = minimize(bowl, [(0, 1)] * 2, n_calls=9, rng=3, workers=1)
    assert [list(x) for x in result.x_iters] == [list(e.params.values()) for e in optimizer.evaluations]


def test_processes_give_the_same_run_whichever_evaluation_is_faster() -> None:
    runs = [
        minimize(
            minimize_objectives.bowl, [(0, 1)] * 2, n_calls=12, rng=0, workers=2, x0=[0.5, 0.25], args=(0.05, turn)
        )
        for turn in (0.0, 1.0)
    ]
    assert np.array_equal(runs[0].x_iters, runs[1].x_iters)
    assert np.array_equal(runs[0].x_iters[0], [0.5, 0.25])
    assert runs[0].nfev == 12
    assert runs[0].message == "all evaluations made"
    assert runs[0].fun < 0.05
    assert children() == []

    optimizer = Optimizer(runs[0].optimizer.space, seed=0)  # the point after the next is asked with one value unknown
    optimizer.tell({"x0": 0.5, "x1": 0.25}, bowl(np.array([0.5, 0.25])))
    asked = [optimizer.ask(), optimizer.ask()]
    for k in range(2, 11):
        optimizer.tell(asked[k - 2], bowl(np.array(list(asked[k - 2].values()))))
        asked.append(optimizer.ask())
    assert [list(x) for x in runs[0].x_iters[1:]] == [list(params.values()) for params in asked]


def test_evaluations_run_side_by_side_in_other_processes(tmp_path: Path) -> None:
    result = minimize(minimize_objectives.signing, [(0, 1)] * 2, n_calls=2, rng=0, workers=2, args=(tmp_path,))
    assert result.nfev == 2
    pids = {int(path.name) for path in tmp_path.iterdir()}
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_workers_take_dicts_and_failures_and_see_the_end_of_a_space() -> None:
    result = minimize(minimize_objectives.mixed, Space({"a": Int(0, 4)}), n_calls=9, rng=0, workers=3)
    assert sorted(x["a"] for x in result.x_iters) == [0, 1, 2, 3, 4]
    assert np.isnan(result.func_vals).sum() == 1
    assert result.x == {"a": 0}
    assert "every point" in result.message


def test_a_callback_ends_a_run_while_evaluations_are_running() -> None:
    result = minimize(
        minimize_objectives.bowl, [(0, 1)] * 2, n_calls=20, rng=0, workers=2, callback=lambda result: result.nfev == 3
    )
    assert result.nfev == 3
    assert "callback" in result.message
    assert result.optimizer.pending == []
    assert children() == []


# a module of its own: worker processes import it by name
WITH_ANOTHER = """
import os, subprocess, time

def sleeping_with_another(x, folder):
    if x[0] < 0.5:  # only waits for the other evaluation
        while len(list(folder.iterdir())) < 2:
            time.sleep(0.01)
        return 0.0
    another = subprocess.Popen(["sleep", "600"])
    (folder / str(os.getpid())).touch()
    (folder / str(another.pid)).touch()
    return float(another.wait())
"""


def test_what_an_evaluation_has_started_ends_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "with_another.py").write_text(WITH_ANOTHER)
    monkeypatch.syspath_prepend(tmp_path)
    fun = importlib.import_module("with_another").sleeping_with_another
    folder = tmp_path / "pids"
    folder.mkdir()
    minimize(
        fun, [(0, 1)], n_calls=2, rng=0, workers=2, x0=[[0.1], [0.9]], args=(folder,), callback=lambda result: True
    )
    pids = [int(path.name) for path in folder.iterdir()]
    assert pids
    deadline = time.monotonic() + 30
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(alive, pids))


@pytest.mark.parametrize(
    ("fun", "error", "message", "traceback"),
    [
        (minimize_objectives.raising, ValueError, "a bad value", "in raising"),  # while another evaluation sleeps
        (minimize_objectives.oddly_raising, RuntimeError, "Odd: odd 3", "in oddly_raising"),
        (minimize_objectives.dying, WorkerDied, "a worker died.*output may say more", "exit code 3"),
        (minimize_objectives.OnlyThere(), OptionError, "cannot be loaded.*no such name here", "__setstate__"),
    ],
)
def test_what_goes_wrong_in_a_process_reaches_the_caller(
    fun: Callable[..., float], error: type[Exception], message: str, traceback: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        minimize(fun, [(0, 1)] * 2, n_calls=8, rng=0, workers=2, x0=[[0.1, 0.1], [0.9, 0.9]])
    assert traceback in str(caught.value.__cause__)
    assert children() == []


def test_a_map_evaluates_in_batches() -> None:
    sizes: list[int] = []

    def counting(fun: Callable[[Any], Any], points: Iterable[Any]) -> Iterable[Any]:
        sizes.append(len(list(points)))
        return map(fun, points)

    result = minimize(bowl, [(0, 1)] * 2, n_calls=10, rng=0, workers=counting)
    assert sizes == [4, 4, 2]
    with ThreadPoolExecutor(2) as pool:
        threads = minimize(lambda x: bowl(x), [(0, 1)] * 2, n_calls=10, rng=0, workers=pool.map, batch_size=4)
    assert np.array_equal(result.x_iters, threads.x_iters)
    optimizer = Optimizer(result.optimizer.space, seed=0)
    for batch_size in (4, 4, 2):
        for params in optimizer.ask(batch_size):
            optimizer.tell(params, bowl(np.array(list(params.values()))))
    assert [list(x) for x in result.x_iters] == [list(e.params.values()) for e in optimizer.evaluations]


def test_a_map_gives_one_value_per_point() -> None:
    with pytest.raises(OptionError, match="one value per point, got 1 for 4"):
        minimize(bowl, [(0, 1)] * 2, n_calls=10, rng=0, workers=lambda fun, points: [fun(next(iter(points)))])


def test_all_cores_may_be_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3}, raising=False)  # whatever the machine has
    result = minimize(minimize_objectives.signing, [(0, 1)] * 2, n_calls=4, rng=0, workers=-1, args=(tmp_path,))
    assert result.nfev == 4
    pids = {int(path.name) for path in tmp_path.iterdir()}
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert children() == []


def test_a_value_that_no_process_can_send_is_a_type_error_and_no_crash() -> None:
    with pytest.raises(TypeError, match="the value cannot be sent to another process"):
        minimize(minimize_objectives.unsendable, [(0, 1)], n_calls=4, rng=0, workers=2)


def test_a_script_that_exits_when_it_is_imported_does_not_end_the_run_silently(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from dechbo import minimize\n"
        "def fun(x):\n"
        "    return float(x[0])\n"
        "if __name__ == '__main__':\n"
        "    minimize(fun, [(0, 1)], n_calls=2, workers=2)\n"
        "sys.exit(0)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "OptionError: the objective cannot be loaded in a worker process (SystemExit: 0)" in done.stderr
    assert 'under if __name__ == "__main__":' in done.stderr.splitlines()[-1]


@pytest.mark.system
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_an_interrupted_or_killed_run(sent: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "pids").mkdir()
    (tmp_path / "with_another.py").write_text(WITH_ANOTHER)
    script = tmp_path / "script.py"
    script.write_text(
        "import signal\n"
        "from pathlib import Path\n"
        "from with_another import sleeping_with_another\n"
        "from dechbo import minimize\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it\n"
        f"    folder = Path({str(tmp_path / 'pids')!r})\n"
        "    minimize(sleeping_with_another, [(0.5, 1)], n_calls=5, workers=2, args=(folder,))\n"
    )
    run = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while len(list((tmp_path / "pids").iterdir())) < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        pids = [int(path.name) for path in (tmp_path / "pids").iterdir()]
        assert len(pids) == 4  # two of ours, and what each has started
        if sent == signal.SIGINT:
            os.killpg(run.pid, sent)  # as Ctrl-C in a terminal, which everybody hears
        else:
            run.kill()
        _, errors = run.communicate(timeout=60)
        while any(map(alive, pids)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(map(alive, pids))
        assert errors.count("KeyboardInterrupt") == (1 if sent == signal.SIGINT else 0)
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
