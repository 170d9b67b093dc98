"""Peers over the pipe: the real Optuna in this environment; the others where they are installed."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dechbo.bench import peers, runner
from dechbo.bench.peers import ENVIRONMENTS, PEER_SCRIPTS, PEERS, PeerProcess
from dechbo.bench.records import BenchError, Run
from dechbo.errors import OptionError
from dechbo.space import Categorical, Float, Int, Space

numbers = st.floats(-1e6, 1e6, allow_subnormal=False)
ranges = st.tuples(numbers, st.floats(1e-3, 1e6)).map(lambda pair: Float(pair[0], pair[0] + pair[1]))
logs = st.tuples(st.floats(1e-6, 1e3), st.floats(1.5, 1e6)).map(
    lambda pair: Float(pair[0], pair[0] * pair[1], log=True)
)
steps = st.tuples(st.integers(-50, 50), st.integers(1, 40), st.sampled_from([0.05, 0.1, 0.25, 2.0])).map(
    lambda triple: Float(triple[0], triple[0] + triple[1] * triple[2], step=triple[2])
)
whole = st.tuples(st.integers(1, 50), st.integers(3, 1000), st.booleans()).map(
    lambda triple: Int(triple[0], triple[0] + triple[1], log=triple[2], step=1 if triple[2] else 3)
)
categories = st.sampled_from([Categorical(["a", None, True, 1, 1.0]), Categorical([0]), Categorical(["b", "c"])])
spaces = st.lists(ranges | logs | steps | whole | categories, min_size=1, max_size=6).map(
    lambda parameters: Space({f"p{k}": parameter for k, parameter in enumerate(parameters)})
)

MIXED = Space(
    {
        "x": Float(-1, 2),
        "lr": Float(1e-4, 1, log=True),
        "step": Float(0, 1, step=0.25),
        "k": Int(1, 64, log=True),
        "even": Int(0, 10, step=2),
        "c": Categorical(["a", None, True, 1]),
    }
)


@pytest.fixture(scope="module")
def peer_protocol() -> ModuleType:
    sys.path.insert(0, str(PEER_SCRIPTS))
    try:
        return import_module("peer_protocol")
    finally:
        sys.path.remove(str(PEER_SCRIPTS))


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No environments of peers at all."""
    for name in ENVIRONMENTS:
        monkeypatch.delenv(f"DECHBO_PEERS_{name.upper()}", raising=False)
    monkeypatch.setenv("DECHBO_PEERS", str(tmp_path / "peers"))
    (tmp_path / "peers").mkdir()
    return tmp_path / "peers"


def drive(name: str, space: Space = MIXED, asks: int = 3) -> list[dict[str, Any]]:
    """Tell the given points and a few of its own, one of them a failure; what it asked for."""
    run = Run("mixed", name, 0, initial=4, evaluations=asks)
    peer = PeerProcess(name, space, seed=0, n_initial=4, budget=run.total)
    try:
        for k, params in enumerate(runner.initial_params(space, run)):
            peer.tell(params, float(k))
        asked = []
        for k in range(asks):
            before = peer.cpu_clock()
            asked.append(peer.ask())
            assert peer.cpu_clock() >= before
            space.encode(asked[-1])
            peer.tell(asked[-1], None if k == 1 else -float(k))
        assert peer.versions["python"]
        assert peer.options
    finally:
        peer.close()
    return asked


def test_optuna_asks_within_a_mixed_space_and_again_the_same(nowhere: Path) -> None:
    assert drive("optuna-tpe") == drive("optuna-tpe")


def test_optuna_keeps_to_conditions_and_known_constraints(nowhere: Path) -> None:
    space = Space(
        {
            "depth": Int(1, 3, when={"kernel": ["poly"]}),  # before what it depends on
            "kernel": Categorical(["rbf", "poly"], when={"model": True}),
            "model": Categorical([True, 1]),
            "lc": Int(0, 9),
            "lp": Int(0, 9),
        },
        ["lc + lp <= 2"],
    )
    asked = drive("optuna-tpe", space, asks=30)
    assert all(params["lc"] + params["lp"] <= 2 for params in asked)
    assert {tuple(sorted(params)) for params in asked} >= {("lc", "lp", "model"), ("kernel", "lc", "lp", "model")}
    assert asked == drive("optuna-tpe", space, asks=30)


def test_the_other_peers_refuse_conditions_and_constraints(nowhere: Path) -> None:
    for space in (
        Space({"c": Categorical(["a", "b"]), "x": Float(0, 1, when={"c": "a"})}),
        Space({"x": Float(0, 1), "y": Float(0, 1)}, ["x + y <= 1"]),
    ):
        with pytest.raises(BenchError, match="nevergrad is not set up for conditional parameters"):
            PeerProcess("nevergrad", space, seed=0, n_initial=4, budget=8)


def test_a_run_with_a_peer_ends_in_a_record(tmp_path: Path, nowhere: Path) -> None:
    run = Run("nk-8", "optuna-tpe", 0, initial=4, evaluations=5)
    record = runner.execute(run, tmp_path, cpu_limit=60.0)
    assert record.finished
    assert record.versions["optuna"]
    assert record.options["multivariate"]
    assert sum(record.ask_seconds) > 0
    assert len(record.ask_cpu) == 5  # a coarse clock may show none for asks as short as these
    assert min(record.ask_cpu) >= 0


def test_a_peer_that_dies_or_complains_says_how(tmp_path: Path, nowhere: Path) -> None:
    log = tmp_path / "log"
    peer = PeerProcess("optuna-tpe", MIXED, seed=0, n_initial=1, budget=3, log=log)
    with pytest.raises(BenchError, match=r"optuna-tpe: .*Error"):
        peer.tell({"x": "no number"}, 1.0)
    os.kill(peer._process.pid, signal.SIGKILL)
    with pytest.raises(BenchError, match="SIGKILL"):
        peer.ask()
    peer.close()


def test_the_kernels_limit_is_out_of_time(nowhere: Path) -> None:
    peer = PeerProcess("optuna-tpe", MIXED, seed=0, n_initial=1, budget=3)
    os.kill(peer._process.pid, signal.SIGXCPU)  # as the kernel does
    with pytest.raises(peers.PeerOutOfTime):
        peer.ask()
    peer.close()


def test_an_unavailable_peer_says_why_and_what_to_do(nowhere: Path) -> None:
    assert PEERS["optuna-tpe"].unavailable_reason() is None  # dechbo needs Optuna itself
    assert "dechbo bench peers --install torch" in str(PEERS["turbo-1"].unavailable_reason())
    (nowhere / "hebo.failed").write_text("no wheel for this Python\n")
    assert PEERS["hebo-rd"].unavailable_reason() == "could not be installed: no wheel for this Python"
    with pytest.raises(BenchError, match="smac"):
        _ = PEERS["smac"].python
    with pytest.raises(OptionError, match="nevergrad"):
        peers.install("matlab")


def test_an_environment_elsewhere_can_be_named(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECHBO_PEERS_SMAC", sys.executable)
    assert PEERS["smac"].unavailable_reason() is None
    assert ENVIRONMENTS["smac"].versions()["python"] == sys.version.split()[0]


def test_half_an_environment_is_none(nowhere: Path) -> None:
    (nowhere / "hebo" / "bin").mkdir(parents=True)
    (nowhere / "hebo" / "bin" / "python").symlink_to(sys.executable)
    assert ENVIRONMENTS["hebo"].python is None


def test_every_peer_has_its_script_and_environment() -> None:
    for spec in PEERS.values():
        assert (PEER_SCRIPTS / spec.script).is_file()
        assert spec.environment in ENVIRONMENTS


@given(spaces, st.integers(0, 2**32 - 1))
def test_the_cube_gives_back_every_value(peer_protocol: ModuleType, space: Space, seed: int) -> None:
    cube = peer_protocol.UnitCube(space.to_json()["parameters"])
    params = space.decode(space.from_uniform(np.random.default_rng(seed).random(space.dim)))
    back = cube.decode(cube.encode(params))
    for name, parameter in zip(space.names, space.parameters, strict=True):
        if isinstance(parameter, Categorical):
            assert type(back[name]) is type(params[name])
            assert back[name] == params[name]
        else:
            assert parameter.encode(back[name]) == pytest.approx(parameter.encode(params[name]), abs=1e-6)


@given(spaces, st.integers(0, 2**32 - 1))
def test_every_point_of_the_cube_is_a_point_of_the_space(peer_protocol: ModuleType, space: Space, seed: int) -> None:
    cube = peer_protocol.UnitCube(space.to_json()["parameters"])
    params = cube.decode(np.random.default_rng(seed).uniform(-0.1, 1.1, cube.dim).tolist())
    assert ((space.encode(params) >= 0) & np.isfinite(space.encode(params))).all()


@pytest.mark.system
@pytest.mark.parametrize("name", list(PEERS))
def test_every_installed_peer_asks_within_a_mixed_space(name: str) -> None:
    if PEERS[name].unavailable_reason():
        pytest.skip(str(PEERS[name].unavailable_reason()))
    assert len(drive(name)) == 3


@pytest.mark.system
def test_a_peer_can_be_installed_and_driven(nowhere: Path) -> None:
    peers.install("nevergrad")
    assert PEERS["nevergrad"].unavailable_reason() is None
    assert "nevergrad" in ENVIRONMENTS["nevergrad"].versions()
    drive("nevergrad")
