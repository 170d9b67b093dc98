"""What every method promises: valid points, the same ask after the same history, failures survived, no repeats."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from baseline_cases import BASELINES, CUBE, MIXED, MODELLED, mixed_value, quadratic, random_start, run
from dechbo.baselines import GPUCB, REMBO, AddGPUCB, AddMES, RandomSearch, SobolSearch
from dechbo.errors import OptionError, ParameterError, ScopeError
from dechbo.space import Categorical, Int, Space
from space_strategies import same, spaces

every_baseline = pytest.mark.parametrize("name", BASELINES)


@every_baseline
def test_a_new_instance_told_the_same_asks_the_same(name: str) -> None:
    """Also in the middle between two cold fits, and with a failure in the history."""
    first = BASELINES[name](MIXED, seed=3, n_initial=6)
    history = random_start(MIXED, mixed_value, 7)
    history[2] = (history[2][0], float("nan"))
    for params, value in history:
        first.tell(params, value)
    history += run(first, mixed_value, 7)
    second = BASELINES[name](MIXED, seed=3, n_initial=6)
    for params, value in history:
        second.tell(params, value)
    assert second.ask() == first.ask()
    assert second.ask() == first.ask()  # with one pending
    other = BASELINES[name](MIXED, seed=4, n_initial=6)
    for params, value in history:
        other.tell(params, value)
    if name not in ("gp-ucb", "add-gp-ucb"):  # with enough data these need no luck
        assert other.ask() != first.ask()


@pytest.mark.parametrize("name", [name for name in MODELLED if name != "rembo"])
def test_models_beat_the_random_start_and_random_search(name: str) -> None:
    """10 told points, then 25 asks: far below the best told, and below random search with as many asks.

    Not REMBO: this function has no low-dimensional subspace to find.
    """
    start = random_start(CUBE, quadratic)
    reached = {}
    for who in (name, "random"):
        method = BASELINES[who](CUBE, seed=0)
        for params, value in start:
            method.tell(params, value)
        run(method, quadratic, 25)
        reached[who] = method.best.value
    assert reached[name] < 0.5 * min(value for _, value in start)
    assert reached[name] < reached["random"]


@pytest.mark.parametrize("name", ["random", "sobol"])
def test_searches_beat_the_start_by_luck_alone(name: str) -> None:
    method = BASELINES[name](CUBE, seed=1)
    start = run(method, quadratic, 10)
    assert min(value for _, value in run(method, quadratic, 100)) < min(value for _, value in start)


@every_baseline
def test_directions_mirror_each_other(name: str) -> None:
    one, two = (
        BASELINES[name](CUBE, seed=2, n_initial=4),
        BASELINES[name](CUBE, seed=2, n_initial=4, direction="maximize"),
    )
    for _ in range(7):
        params = one.ask()
        assert two.ask() == params
        one.tell(params, quadratic(params))
        two.tell(params, -quadratic(params))
    assert one.best.params == two.best.params
    assert one.best.value == -two.best.value


@every_baseline
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(space=spaces, seed=st.integers(0, 2**32), data=st.data())
def test_every_ask_is_a_point_of_the_space(name: str, space: Space, seed: int, data: st.DataObject) -> None:
    """Any mixture of parameters, any values told (huge, equal, failed): what is asked can be told."""
    method = BASELINES[name](space, seed=seed, n_initial=3)
    values = st.none() | st.floats() | st.sampled_from([1e300, -1e300, 0.0, 1.0])
    for _ in range(6):
        params = method.ask()
        assert tuple(params) == space.names
        decoded = space.decode(space.encode(params))  # an error outside of the space
        for key, value in params.items():
            assert same(decoded[key], value) or value == pytest.approx(decoded[key], rel=1e-9, abs=1e-300)
            assert same(decoded[key], value) or space.is_continuous[space.names.index(key)]
        method.tell(params, data.draw(values))
    numbers = [e.value for e in method.evaluations if e.value is not None]
    assert method.best is None if not numbers else method.best.value == min(numbers)


@every_baseline
def test_failures_are_kept_and_not_modelled(name: str) -> None:
    method = BASELINES[name](CUBE, seed=1, n_initial=4)
    for k in range(9):
        params = method.ask()
        method.tell(params, None if k in (0, 5) else float("nan") if k == 6 else quadratic(params))
    assert len(method.evaluations) == 9
    assert sum(e.failed for e in method.evaluations) == 3
    assert np.isfinite(method.best.value)
    dead = BASELINES[name](CUBE, seed=1, n_initial=2)
    for _ in range(4):
        dead.tell(dead.ask(), None)
    assert dead.best is None
    assert set(dead.ask()) == set(CUBE)


@pytest.mark.parametrize("name", [name for name in BASELINES if name != "rembo"])
def test_no_point_twice_until_a_finite_space_is_exhausted(name: str) -> None:
    space = Space({"n": Int(0, 3), "c": Categorical(["u", "v", "w"])})
    method = BASELINES[name](space, seed=0, n_initial=3)
    seen = [tuple(params.values()) for params, _ in run(method, lambda p: p["n"] + (p["c"] == "u"), 12)]
    assert len(set(seen)) == 12
    assert method.ask()["n"] in range(4)  # exhausted: a repeat, and no error


@every_baseline
def test_pending_points_are_not_asked_again(name: str) -> None:
    method = BASELINES[name](CUBE, seed=0, n_initial=3)
    run(method, quadratic, 6)
    asked = [tuple(method.ask().values()) for _ in range(5)]
    assert len(set(asked)) == 5


def test_points_told_count_towards_the_initial_design() -> None:
    """After n_initial told points the next ask is the model's; one less, and it is a point of the Sobol sequence."""
    start = random_start(CUBE, quadratic, 10)
    design = [SobolSearch(CUBE, seed=7) for _ in range(2)]
    for told in (9, 10):
        method, sequence = GPUCB(CUBE, seed=7, n_initial=10), design[told - 9]
        for params, value in start[:told]:
            method.tell(params, value)
            sequence.tell(params, value)
        assert (method.ask() == sequence.ask()) == (told == 9)


def test_sobol_search_is_evenly_spread() -> None:
    """Of 16 scrambled Sobol points one lies in each sixteenth of every axis."""
    method = SobolSearch(CUBE, seed=11)
    points = np.array([list(params.values()) for params, _ in run(method, quadratic, 16)])
    cells = np.floor((points + 1) / 3 * 16).astype(int)
    assert (np.sort(cells, axis=0) == np.arange(16)[:, None]).all()


def test_wrong_options_are_refused() -> None:
    with pytest.raises(OptionError, match="direction"):
        GPUCB(CUBE, direction="up")
    with pytest.raises(OptionError, match="Space"):
        RandomSearch({"x": (0, 1)})  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="not both"):
        AddGPUCB(CUBE, groups=[["x0", "x1"], ["x2", "x3"]], group_size=2)
    with pytest.raises(ScopeError, match="disjoint"):
        AddGPUCB(CUBE, groups=[["x0", "x1"], ["x1", "x2", "x3"]])
    with pytest.raises(ScopeError, match="x3"):
        AddMES(CUBE, groups=[["x0", "x1", "x2"]])
    with pytest.raises(OptionError, match="samples"):
        AddMES(CUBE, samples="magic")
    with pytest.raises(OptionError, match="beta"):
        GPUCB(CUBE, beta="theory")
    with pytest.raises(OptionError, match=r"GPUCB has no option 'group_size'; its options are kernel, beta, direction"):
        GPUCB(CUBE, group_size=2)  # type: ignore[call-arg]
    with pytest.raises(OptionError, match=r"AddMES has no option 'betta'.* features, .* seed, .* group_size"):
        AddMES(CUBE, betta=1.0)  # type: ignore[call-arg]
    with pytest.raises(OptionError, match="RandomSearch has no option 'kernel'; its options are direction, seed"):
        RandomSearch(CUBE, kernel="se")
    with pytest.raises(OptionError, match="embedding_dim"):
        REMBO(CUBE, embedding_dim=0)
    with pytest.raises(ParameterError):
        GPUCB(CUBE).tell({"x0": 0.0}, 1.0)


@pytest.mark.parametrize("search", [RandomSearch, SobolSearch])
def test_searches_keep_known_constraints(search: type[RandomSearch]) -> None:
    space = Space({"a": Int(0, 4), "b": Int(0, 4)}, ["a + b <= 2"])
    method = search(space, seed=0)
    asked = [method.ask() for _ in range(6)]
    assert all(params["a"] + params["b"] <= 2 for params in asked)
    assert len({tuple(params.items()) for params in asked}) == 6  # every point that there is
