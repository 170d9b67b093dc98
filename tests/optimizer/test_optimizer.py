"""Ask / tell as a user meets it."""

from __future__ import annotations

import itertools
import math
import pickle
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dechbo import Categorical, Exact, FactorGraph, Float, Int, MaxSum, Optimizer, Space
from dechbo.acquisition import Acquisition
from dechbo.errors import NoObservations, OptionError, ParameterError, ScopeError, SpaceExhausted
from dechbo.models.options import ModelOptions
from dechbo.search.grids import Granularity
from dechbo.search.options import SearchOptions
from dechbo.structure.learner import Effort
from dechbo.theory import TheoryOptions

MIXED = Space(
    {
        "lr": Float(1e-5, 1, log=True),
        "layers": Int(1, 8),
        "act": Categorical(["relu", "tanh"]),
        "drop": Float(0, 1, step=0.05),
    }
)
MIXED_GRAPH = FactorGraph.from_names(MIXED, [("lr", "layers"), ("layers", "act"), ("drop",)])


def mixed_loss(lr: float, layers: int, act: str, drop: float) -> float:
    return (math.log10(lr) + 3) ** 2 + (layers - 4) ** 2 * (1.0 if act == "relu" else 0.5) + abs(drop - 0.35)


def box(dim: int) -> Space:
    return Space({f"x{i}": Float(0, 1) for i in range(dim)})


def bowl(params: dict[str, float]) -> float:
    return sum((x - 0.3) ** 2 for x in params.values())


def run(optimizer: Optimizer, objective, evaluations: int) -> list[dict]:
    points = []
    for _ in range(evaluations):
        params = optimizer.ask()
        optimizer.tell(params, objective(params))
        points.append(params)
    return points


# ------------------------------------------------------------------------------------------------ the search


def test_it_finds_the_optimum_of_a_mixed_space() -> None:
    optimizer = Optimizer(MIXED, graph=MIXED_GRAPH, seed=0)
    run(optimizer, lambda p: mixed_loss(**p), 40)
    best = optimizer.best
    assert best.value < 0.05
    assert (best.params["layers"], best.params["drop"]) == (4, 0.35)


def test_suggestions_are_real_values_of_their_own_type() -> None:
    optimizer = Optimizer(MIXED, graph=MIXED_GRAPH, seed=1)
    for params in run(optimizer, lambda p: mixed_loss(**p), 14):
        assert list(params) == list(MIXED.names)
        assert [type(v) for v in params.values()] == [float, int, str, float]
        assert 1e-5 <= params["lr"] <= 1
        assert params["layers"] in range(1, 9)
        assert params["drop"] == round(round(params["drop"] / 0.05) * 0.05, 2)


def test_maximising_is_minimising_the_negative() -> None:
    down = Optimizer(box(3), seed=2)
    up = Optimizer(box(3), seed=2, direction="maximize")
    assert run(down, bowl, 14) == run(up, lambda p: -bowl(p), 14)
    assert up.best.value == -down.best.value
    point = down.best.params
    assert up.predict(point)[0] == pytest.approx(-down.predict(point)[0])
    assert up.predict(point)[1] == pytest.approx(down.predict(point)[1])


def test_it_beats_random_search_on_an_additive_function() -> None:
    optimizer = Optimizer(box(6), seed=0)
    run(optimizer, bowl, 35)
    rng = np.random.default_rng(0)
    random_best = min(float(((rng.random((35, 6)) - 0.3) ** 2).sum(axis=1).min()) for _ in range(20))
    assert optimizer.best.value < 0.1 * random_best


def test_the_point_is_never_worse_than_the_grid_and_the_bound_holds() -> None:
    ring = FactorGraph(4, ((0, 1), (1, 2), (2, 3), (3, 0)))
    optimizer = Optimizer(box(4), seed=3, graph=ring)
    grid = np.array(list(itertools.product(np.linspace(0, 1, 9), repeat=4)))
    for params in (optimizer.ask() for _ in range(16)):
        info = optimizer.info
        if info.source == "acquisition":
            model = optimizer._models.latest[1]
            acquisition = Acquisition(model.gp.condition(model.data), info.beta)
            here = acquisition.values(optimizer.space.encode(params)[None])[0]
            assert here == pytest.approx(info.polished_value, abs=1e-9)
            told = [tuple(e.params.values()) for e in optimizer.evaluations]
            free = np.array([x for x in grid if tuple(x) not in told])  # of a grid that the optimiser never saw
            assert here >= acquisition.values(free).max() - 1e-9
            assert info.value <= info.polished_value
            assert info.gap >= 0
            assert info.certified
        optimizer.tell(params, bowl(params) + params["x0"] * params["x2"])
    assert optimizer.info.rounds > 0  # a ring is cyclic: messages ran


def test_exact_and_maxsum_agree_on_a_tree() -> None:
    graph = FactorGraph(4, ((0, 1), (1, 2), (3,)))
    asked = [run(Optimizer(box(4), graph=graph, seed=5, maximizer=m), bowl, 13) for m in (MaxSum(), Exact())]
    assert np.allclose([list(p.values()) for p in asked[0]], [list(p.values()) for p in asked[1]], rtol=0, atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_on_a_finite_space_the_certificate_covers_the_whole_space(seed: int) -> None:
    """Oracle: the acquisition enumerated over all points."""
    space = Space({name: Int(0, 8) for name in "abcd"})
    graph = FactorGraph(4, tuple(itertools.combinations(range(4), 2)))
    optimizer = Optimizer(space, graph=graph, seed=seed, noise=0)
    everything = np.array(list(itertools.product(np.linspace(0, 1, 9), repeat=4)))
    for _ in range(18):
        params = optimizer.ask()
        if optimizer.info.source == "acquisition":
            model = optimizer._models.latest[1]
            values = Acquisition(model.gp.condition(model.data), optimizer.info.beta).values(everything)
            assert values.max() <= optimizer.info.upper_bound + 1e-9
            here = (np.abs(everything - space.encode(params)) < 1e-9).all(axis=1)
            assert optimizer.info.polished_value == pytest.approx(float(values[here][0]), abs=1e-9)
        optimizer.tell(params, math.sin(params["a"]) + params["b"] * params["c"] / 9 - params["d"])


def test_threads_may_share_an_optimiser() -> None:
    optimizer = Optimizer(box(2), seed=0)

    def work():
        for _ in range(12):
            params = optimizer.ask()
            optimizer.tell(params, bowl(params))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tuple(e.params.values()) for e in optimizer.evaluations}) == 36


def test_info_says_what_the_ask_did() -> None:
    optimizer = Optimizer(box(2), seed=0, n_initial=3, theory=TheoryOptions(beta=2.5))
    assert optimizer.info is None
    run(optimizer, bowl, 3)
    assert optimizer.info.source == "initial design"
    run(optimizer, bowl, 1)
    info = optimizer.info
    assert info["beta"] == info.beta == 2.5
    assert info.graph.dim == 2
    assert info.seconds > 0
    assert info.jitter == 0.0
    assert info.step_bound > 0
    with pytest.raises(KeyError, match="nonsense"):
        info["nonsense"]


@pytest.mark.parametrize("beta", ["theory", "theory-factor", "practical", 1.5, lambda t: 2 * math.log(t + 1)])
@pytest.mark.parametrize("space", [box(2), Space({"a": Int(0, 9), "b": Categorical(["p", "q", "r"])})])
def test_every_beta_works_on_finite_and_continuous_spaces(beta: Any, space) -> None:
    optimizer = Optimizer(space, seed=0, theory=TheoryOptions(beta=beta), n_initial=3)
    run(optimizer, lambda p: float(len(str(p))), 5)
    assert optimizer.info.beta > 0


def test_an_exhausted_optimum_is_left_unless_a_guarantee_forbids_it() -> None:
    sources = {}
    for beta in ("practical", "theory-factor"):
        optimizer = Optimizer(box(1), seed=0, noise=0, theory=TheoryOptions(beta=beta))
        run(optimizer, lambda p: (p["x0"] - 0.3) ** 2, 10)
        sources[beta] = set()
        for _ in range(15):
            run(optimizer, lambda p: (p["x0"] - 0.3) ** 2, 1)
            sources[beta].add(optimizer.info.source)
    assert "elsewhere" in sources["practical"]
    assert sources["theory-factor"] == {"acquisition"}
    assert optimizer.info.certified


def test_theory_factor_is_smaller_than_theory() -> None:
    betas = []
    for beta in ("theory", "theory-factor"):
        optimizer = Optimizer(box(6), seed=0, theory=TheoryOptions(beta=beta), n_initial=3)
        run(optimizer, bowl, 4)
        betas.append(optimizer.info.beta)
    assert betas[1] < betas[0]


# --------------------------------------------------------------------------------------- points, not twice


def test_a_batch_has_distinct_points_that_wait_for_their_values() -> None:
    optimizer = Optimizer(box(3), seed=0)
    run(optimizer, bowl, 12)
    batch = optimizer.ask(5)
    points = np.array([list(p.values()) for p in batch])
    distances = np.abs(points[:, None] - points[None]).max(axis=2)
    assert distances[~np.eye(5, dtype=bool)].min() > 1e-4
    more = optimizer.ask()
    assert more not in batch
    for params in [*batch, more]:
        optimizer.tell(params, bowl(params))
    assert len(optimizer.evaluations) == 18


def test_the_initial_design_also_respects_pending_points() -> None:
    optimizer = Optimizer(box(2), seed=0, n_initial=8)
    batch = optimizer.ask(8)
    assert len({tuple(p.values()) for p in batch}) == 8


def test_a_finite_space_is_walked_without_repeats_until_it_is_exhausted() -> None:
    space = Space({"a": Int(0, 3), "b": Categorical(["x", "y", "z"]), "c": Float(0, 1, step=0.5)})
    optimizer = Optimizer(space, seed=0, noise=0)
    points = run(optimizer, lambda p: p["a"] * (p["b"] == "y") + p["c"], 4 * 3 * 3)
    assert len({tuple(p.values()) for p in points}) == 36
    with pytest.raises(SpaceExhausted, match="all 36 points"):
        optimizer.ask()
    assert optimizer.best.value == 0.0
    assert len(optimizer.evaluations) == 36


def test_pending_points_exhaust_a_space_too_and_a_fixed_slice_on_its_own() -> None:
    space = Space({"a": Int(0, 1), "b": Int(0, 2)})
    optimizer = Optimizer(space, seed=0)
    optimizer.ask(3, fixed={"a": 0})
    with pytest.raises(SpaceExhausted, match="fixed"):
        optimizer.ask(fixed={"a": 0})
    assert optimizer.ask(fixed={"a": 1})["a"] == 1


def test_asking_for_more_than_is_left_is_refused_whole_and_pending_points_can_be_seen_and_forgotten() -> None:
    optimizer = Optimizer(Space({"a": Int(1, 3)}), seed=0)
    with pytest.raises(SpaceExhausted, match="asked for 5"):
        optimizer.ask(5)
    assert optimizer.pending == []
    batch = optimizer.ask(3)
    assert optimizer.pending == batch
    optimizer.forget(batch[1])
    assert optimizer.pending == [batch[0], batch[2]]
    assert optimizer.ask() == batch[1]
    optimizer.tell(batch[0], 1.0)
    with pytest.raises(ParameterError, match="not pending"):
        optimizer.forget(batch[0])


def test_pending_points_of_a_noisy_finite_space_do_not_block_it() -> None:
    optimizer = Optimizer(Space({"c": Categorical(["a", "b"])}), noise=0.1, seed=0, n_initial=1)
    assert len(optimizer.ask(3)) == 3
    optimizer.tell({"c": "a"}, 1.0)
    assert len(optimizer.ask(4)) == 4


def test_near_a_taken_point_counts_as_taken_everywhere() -> None:
    space = Space({"x": Float(0, 1), "c": Categorical(["a", "b"])})
    for n_initial in (1, 10):
        optimizer = Optimizer(space, seed=0, n_initial=n_initial)
        for c in "ab":
            optimizer.tell({"x": 0.50001, "c": c}, 1.0)
        with pytest.raises(SpaceExhausted, match="fixed"):
            optimizer.ask(fixed={"x": 0.5})
        assert optimizer.ask(fixed={"x": 0.51})["x"] == 0.51


def test_failures_may_use_up_the_whole_initial_sequence() -> None:
    optimizer = Optimizer(Space({"a": Int(0, 5), "b": Int(0, 9)}), seed=0)
    points = run(optimizer, lambda p: None, 60)
    assert len({tuple(p.values()) for p in points}) == 60


def test_noisy_values_allow_a_point_again() -> None:
    optimizer = Optimizer(Space({"a": Int(0, 2)}), seed=0, noise=0.1)
    points = run(optimizer, lambda p: float(p["a"]), 8)
    assert len({p["a"] for p in points}) < len(points)


def test_fixed_parameters_stay() -> None:
    optimizer = Optimizer(MIXED, graph=MIXED_GRAPH, seed=0)
    for _ in range(13):
        params = optimizer.ask(fixed={"act": "tanh", "drop": 0.5})
        assert (params["act"], params["drop"]) == ("tanh", 0.5)
        optimizer.tell(params, mixed_loss(**params))
    assert optimizer.ask(fixed={"lr": 1e-3})["lr"] == 1e-3  # the very number, not its way through a logarithm
    with pytest.raises(ParameterError, match="nope"):
        optimizer.ask(fixed={"nope": 1})
    with pytest.raises(ParameterError, match="dict"):
        optimizer.ask(fixed="act")
    with pytest.raises(ParameterError, match="relu"):
        optimizer.ask(fixed={"act": "gelu"})


# ------------------------------------------------------------------------------------------ hard ordinary input


@pytest.mark.parametrize("failure", [math.nan, math.inf, -math.inf, None, np.ma.masked, 10**400])
def test_a_failed_evaluation_is_kept_and_never_modelled(failure) -> None:
    optimizer = Optimizer(box(2), seed=0, n_initial=4)
    run(optimizer, bowl, 6)
    params = optimizer.ask()
    optimizer.tell(params, failure)
    assert optimizer.evaluations[-1].failed
    assert optimizer.evaluations[-1].params == params
    after = optimizer.ask()
    assert np.abs(np.array(list(after.values())) - list(params.values())).max() > 1e-4
    assert optimizer.best.value == min(e.value for e in optimizer.evaluations if not e.failed)
    assert all(math.isfinite(v) for v in optimizer.predict(params))


def test_only_failures_so_far_still_gives_points() -> None:
    optimizer = Optimizer(box(2), seed=0, n_initial=3)
    points = run(optimizer, lambda p: None, 9)
    assert len({tuple(p.values()) for p in points}) == 9
    assert optimizer.best is None
    with pytest.raises(NoObservations, match="tell one first"):
        optimizer.predict(points[0])
    with pytest.raises(NoObservations):
        optimizer.recommend()


@pytest.mark.parametrize(
    "values",
    [
        lambda k: 5.0,
        lambda k: 0.0,
        lambda k: 1e300 * (-1) ** k * (1 + k / 100),
        lambda k: 1e-300 * (1 + k),
        lambda k: 1e300,
        lambda k: -1.7e308 + 1e300 * k,
        lambda k: 1e15 + k * 0.125,
    ],
)
def test_strange_values_work(values) -> None:
    optimizer = Optimizer(box(2), seed=0, n_initial=2)
    for k in range(5):
        optimizer.tell(optimizer.ask(), values(k))
    mean, deviation = optimizer.predict(optimizer.ask())
    assert not math.isnan(mean)
    assert deviation >= 0


def test_one_observation_and_duplicated_points() -> None:
    optimizer = Optimizer(box(2), seed=0, n_initial=1, noise=0)
    optimizer.tell({"x0": 0.5, "x1": 0.5}, 1.0)
    optimizer.tell(optimizer.ask(), 0.5)
    for _ in range(3):
        optimizer.tell({"x0": 0.5, "x1": 0.5}, 1.0)
    optimizer.ask()
    assert optimizer.info.jitter > 0  # reported, not hidden
    assert len(optimizer.evaluations) == 5


def test_an_outlier_far_beyond_the_scale_is_fitted_at_once() -> None:
    optimizer = Optimizer(box(1), seed=0)
    for x in np.linspace(0, 1, 60):
        optimizer.tell({"x0": float(x)}, 1e-200 * x)
    optimizer.ask()
    optimizer.tell({"x0": 0.333}, 1e200)
    optimizer.ask()
    assert optimizer.info.refitted


def test_a_factor_too_wide_for_one_piece_is_solved_in_parts() -> None:
    optimizer = Optimizer(box(8), graph=FactorGraph(8, (tuple(range(8)),)), seed=0, n_initial=3)
    run(optimizer, bowl, 4)
    assert optimizer.info.source == "acquisition"


@pytest.mark.parametrize("dim", [9, 30])
def test_a_factor_too_large_for_a_table_is_searched_off_the_grid(dim: int) -> None:
    optimizer = Optimizer(box(dim), graph=FactorGraph(dim, (tuple(range(dim)),)), seed=0, n_initial=5)
    run(optimizer, bowl, 25)
    info = optimizer.info
    assert info.source == "joint bound"
    assert not info.certified
    assert info.upper_bound == np.inf
    assert info.gap == np.inf
    assert info.step_bound == np.inf
    values = [e.value for e in optimizer.evaluations]
    assert min(values[5:]) < min(values[:5])


def test_the_joint_bound_may_choose() -> None:
    chosen = {}
    for choose in ("factors", "joint"):
        optimizer = Optimizer(
            box(4), graph=FactorGraph.singletons(4), seed=0, n_initial=5, search=SearchOptions(score=choose)
        )
        chosen[choose] = run(optimizer, bowl, 8)
        assert optimizer.info.source == {"factors": "acquisition", "joint": "joint bound"}[choose]
    assert chosen["factors"][:5] == chosen["joint"][:5]
    assert chosen["factors"][5:] != chosen["joint"][5:]


def test_the_theorems_betas_never_leave_the_maximiser() -> None:
    optimizer = Optimizer(
        box(3),
        graph=FactorGraph.singletons(3),
        theory=TheoryOptions(beta="theory"),
        seed=0,
        n_initial=4,
        search=SearchOptions(score="joint"),
    )
    run(optimizer, bowl, 6)
    assert optimizer.info.source == "acquisition"
    assert optimizer.info.certified


def test_one_parameter() -> None:
    optimizer = Optimizer(Space({"x": Float(-5, 5)}), seed=0)
    run(optimizer, lambda p: (p["x"] - 1.2345) ** 2, 20)
    assert abs(optimizer.best.params["x"] - 1.2345) < 0.02


def test_two_thousand_parameters() -> None:
    optimizer = Optimizer(box(2000), seed=0, n_initial=4)
    points = run(optimizer, bowl, 6)
    assert all(len(p) == 2000 for p in points)
    assert optimizer.info.source == "acquisition"
    assert optimizer.info.gap == 0.0


# ------------------------------------------------------------------------------------------ what it answers


def test_predict_knows_what_it_was_told() -> None:
    optimizer = Optimizer(box(2), seed=0, noise=0)
    points = run(optimizer, lambda p: 1000 + 10 * bowl(p), 15)
    for params in points[:3]:
        mean, deviation = optimizer.predict(params)
        assert mean == pytest.approx(1000 + 10 * bowl(params), abs=1e-3)
        assert 0 <= deviation < 0.05


def test_asking_for_a_prediction_does_not_change_the_next_suggestion() -> None:
    quiet, curious = Optimizer(box(3), seed=4), Optimizer(box(3), seed=4)
    for _ in range(16):
        params = quiet.ask()
        assert curious.ask() == params
        quiet.tell(params, bowl(params))
        curious.tell(params, bowl(params))
        curious.predict(params)
        curious.recommend()


def test_recommend_looks_through_the_noise() -> None:
    optimizer = Optimizer(box(1), seed=0, noise=1.0)
    for x, values in ((0.3, (0.1, -0.1, 0.0, 0.05)), (0.8, (2.4, -0.2, 2.6, 2.5)), (0.5, (1.0, 1.1))):
        for value in values:
            optimizer.tell({"x0": x}, value)
    assert optimizer.best.params == {"x0": 0.8}  # one lucky value
    assert optimizer.recommend() == {"x0": 0.3}


def test_the_noise_of_one_value_is_believed() -> None:
    exact, vague = Optimizer(box(1), seed=0, n_initial=1), Optimizer(box(1), seed=0, n_initial=1)
    for optimizer, noise in ((exact, None), (vague, 25.0)):
        for x, value in ((0.1, 0.0), (0.5, 5.0), (0.9, 0.0), (0.3, 1.0), (0.7, 1.5)):
            optimizer.tell({"x0": x}, value, noise=noise if x == 0.5 else None)
    assert vague.predict({"x0": 0.5})[0] < exact.predict({"x0": 0.5})[0] - 1


def test_an_infeasible_point_is_never_best_nor_recommended() -> None:
    optimizer = Optimizer(box(1), seed=0)
    optimizer.tell({"x0": 0.1}, -100.0, constraints={"weight": 0.5})
    assert optimizer.best is None
    optimizer.tell({"x0": 0.9}, 3.0, constraints={"weight": -0.5})
    assert optimizer.best.value == 3.0
    assert optimizer.recommend() == {"x0": 0.9}
    optimizer.ask()


def test_points_told_without_asking_count_and_keep_their_very_numbers() -> None:
    optimizer = Optimizer(MIXED, graph=MIXED_GRAPH, seed=0, n_initial=2)
    told = {"lr": 0.1, "layers": 3, "act": "tanh", "drop": 0.15}
    optimizer.tell(told, 1.0)
    optimizer.tell({**told, "layers": 4}, 0.5)
    assert optimizer.best.params == {**told, "layers": 4}
    optimizer.ask()
    assert optimizer.info.source == "acquisition"


def test_the_regret_report_puts_the_average_beside_its_bound() -> None:
    optimizer = Optimizer(box(2), seed=0, theory=TheoryOptions(beta="theory-factor"), direction="maximize")
    points = run(optimizer, lambda p: 5 - bowl(p), 14)
    report = optimizer.regret_report(5.0)
    assert report.average == pytest.approx(np.mean([bowl(p) for p in points]))
    assert report.average <= report.bound
    assert report.allowed.steps == 14
    assert "R_n/n" in str(report)
    assert "b of Assumption 3" in str(report)


# --------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"x0": 0.5}, "x1"),
        ({"x0": 0.5, "x1": 0.5, "x2": 0.5}, "x2"),
        ({"x0": 0.5, "x1": 1.5}, "x1"),
        ({"x0": 0.5, "x1": "0.5"}, "x1"),
        ({"x0": 0.5, "x1": math.nan}, "x1"),
        ({"x0": 0.5, "x1": None}, "x1"),
    ],
)
def test_bad_points_are_refused_and_lose_nothing(params, message: str) -> None:
    optimizer = Optimizer(box(2), seed=0)
    run(optimizer, bowl, 3)
    before = optimizer.evaluations
    with pytest.raises(ParameterError, match=message):
        optimizer.tell(params, 1.0)
    with pytest.raises(ParameterError, match=message):
        optimizer.predict(params)
    assert optimizer.evaluations == before


@pytest.mark.parametrize(
    "value", ["1.0", True, np.True_, [1.0, 2.0], {"value": 1}, object(), np.datetime64("2020-01-01"), 1j]
)
def test_values_that_are_no_numbers_are_refused(value) -> None:
    optimizer = Optimizer(box(2), seed=0)
    params = optimizer.ask()
    with pytest.raises(ParameterError, match="number"):
        optimizer.tell(params, value)
    assert optimizer.evaluations == ()
    optimizer.tell(params, np.float32(0.5))
    assert optimizer.best.value == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"direction": "down"}, "minimize"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"model": "matern52"}, r"ModelOptions\(…\)"),
        ({"search": 3}, r"SearchOptions\(…\)"),
        ({"theory": 2.0}, r"TheoryOptions\(…\)"),
        ({"maximizer": 3}, "maximizer"),
        ({"maximizer": MaxSum}, "maximizer"),
        ({"noise": 10**400}, "noise"),
        ({"noise": -0.1}, "noise"),
        ({"noise": "low"}, "noise"),
        ({"n_initial": 0}, "n_initial"),
        ({"graph": [(0, 1)]}, "FactorGraph"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Optimizer(box(2), **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ModelOptions(kernel="rbf"), "matern52"),
        (lambda: ModelOptions(graph_samples=0), "graph_samples"),
        (lambda: SearchOptions(granularity=3), "granularity"),
        (lambda: TheoryOptions(beta="huge"), "theory"),
        (lambda: TheoryOptions(beta=-1.0), "beta"),
        (lambda: TheoryOptions(delta=1.0), "delta"),
        (lambda: TheoryOptions(delta="a"), "delta"),
    ],
)
def test_bad_grouped_options_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make()


def test_a_beta_schedule_of_the_theory_says_what_it_switches_off() -> None:
    options: dict[str, Any] = {"seed": 0, "n_initial": 3, "search": SearchOptions(score="joint")}
    for beta, switched_off in {"theory": ("full_factor", "restarts", 'score="joint"'), "practical": ()}.items():
        optimizer = Optimizer(box(2), theory=TheoryOptions(beta=beta), **options)
        run(optimizer, bowl, 4)
        assert optimizer.info is not None
        assert optimizer.info.switched_off == switched_off


def test_other_bad_arguments() -> None:
    with pytest.raises(OptionError, match="Space"):
        Optimizer([(0, 1)])  # type: ignore[arg-type]
    with pytest.raises(ScopeError, match="3 variables"):
        Optimizer(box(2), graph=FactorGraph.singletons(3))
    optimizer = Optimizer(box(2), seed=0)
    for n in (0, -1, 1.5, True):
        with pytest.raises(OptionError, match="n is"):
            optimizer.ask(n)
    with pytest.raises(ParameterError, match="feasible"):
        optimizer.tell(optimizer.ask(), 1.0, constraints={"c": math.nan})
    with pytest.raises(OptionError, match="variance"):
        optimizer.tell({"x0": 0.1, "x1": 0.2}, 1.0, noise=-1)
    assert optimizer.evaluations == ()


def test_many_categories_do_not_fill_the_memory() -> None:
    space = Space({f"c{i}": Categorical([str(k) for k in range(12)]) for i in range(8)})
    optimizer = Optimizer(space, seed=0, graph=FactorGraph(8, (tuple(range(8)),)), n_initial=4)
    run(optimizer, lambda p: float(sum(int(v) for v in p.values())), 6)
    assert optimizer.info.source == "joint bound"


def test_a_slice_that_is_worse_than_the_best_is_still_optimised() -> None:
    space = Space({"c": Categorical(["good", "bad"]), "x": Float(0, 1), "y": Float(0, 1)})

    def function(p):
        return (p["x"] - 0.3) ** 2 + (p["y"] - 0.7) ** 2 + 10 * (p["c"] == "bad")

    optimizer = Optimizer(space, seed=0)
    run(optimizer, function, 15)
    for _ in range(12):
        params = optimizer.ask(fixed={"c": "bad"})
        optimizer.tell(params, function(params))
    assert min(e.value for e in optimizer.evaluations if e.params["c"] == "bad") < 10.005


def test_a_value_told_while_the_model_answers_is_not_lost() -> None:
    def made():
        optimizer = Optimizer(box(3), seed=0, n_initial=5)
        for x in np.random.default_rng(0).random((60, 3)):
            optimizer.tell(dict(zip(optimizer.space.names, x.tolist(), strict=True)), float(x.sum()))
        return optimizer

    alone, busy = made(), made()
    last = {"x0": 0.1, "x1": 0.2, "x2": 0.3}
    thread = threading.Thread(target=busy.predict, args=(last,))
    thread.start()
    time.sleep(0.03)
    busy.tell(last, 0.5)
    thread.join()
    alone.tell(last, 0.5)
    assert busy.ask() == alone.ask()


@pytest.mark.parametrize("beta", [1.5, "practical"])
def test_it_can_be_pickled_with_any_beta(beta: Any) -> None:
    optimizer = Optimizer(box(2), seed=0, theory=TheoryOptions(beta=beta))
    assert pickle.loads(pickle.dumps(optimizer)).ask() == optimizer.ask()


def test_before_the_first_model_nothing_is_known_of_a_learned_graph() -> None:
    assert Optimizer(box(3), seed=0).last_graph == FactorGraph.singletons(3)


def test_two_points_of_a_batch_are_no_twins_unless_a_guarantee_forbids_to_look_elsewhere() -> None:
    space = Space({f"x{i}": Float(0, 1) for i in range(2)})
    told = np.random.default_rng(0).random((12, 2))
    apart = {}
    for name, more in {
        "default": {},
        "theory": {"theory": TheoryOptions(beta="theory")},
        "staying": {"search": SearchOptions(restarts=False)},
    }.items():
        optimizer = Optimizer(space, graph=FactorGraph.singletons(2), seed=0, **more)
        for x in told:
            optimizer.tell({"x0": float(x[0]), "x1": float(x[1])}, float(((x - 0.4) ** 2).sum()))
        first, second = optimizer.ask(2)
        apart[name] = max(abs(first[key] - second[key]) for key in first)
        assert optimizer.info is not None
        assert (optimizer.info.source == "elsewhere") == (name == "default")
    assert apart["default"] > 0.05
    assert apart["staying"] < 0.05


def test_the_papers_algorithm(tmp_path: Path) -> None:
    quick = ModelOptions(centred=False, full_factor=False, effort=Effort(chains=1, steps=60, rounds=2))
    optimizer = Optimizer.paper(box(4), max_factor_size=2, seed=3, n_initial=4, model=quick)
    run(optimizer, bowl, 7)
    assert optimizer.graph == "learned"
    assert optimizer.max_factor_size == 2
    assert optimizer.maximizer == MaxSum(rounds=30, damping=0.5)
    assert optimizer.search == SearchOptions(score="factors", restarts=False, granularity=Granularity(polish_steps=0))
    info = optimizer.info
    assert info is not None
    assert info.graph is not None
    assert info.source == "acquisition"
    assert info.graph.max_factor_size <= 2
    assert info.polished_value == info.value  # on its grid
    optimizer.save(tmp_path / "run.json")
    loaded = Optimizer.load(tmp_path / "run.json")
    for name in ("model", "search", "theory", "maximizer"):
        assert getattr(loaded, name) == getattr(optimizer, name), name
    assert loaded.ask() == optimizer.ask()
    assert Optimizer.paper(box(4)).model == ModelOptions(centred=False, full_factor=False)
    assert Optimizer.paper(box(4), theory=TheoryOptions(beta=2.0)).theory.beta == 2.0


@pytest.mark.parametrize(
    ("options", "name"), [(ModelOptions, "centred"), (ModelOptions, "full_factor"), (SearchOptions, "restarts")]
)
def test_flags_are_true_or_false(options: Callable[..., object], name: str) -> None:
    with pytest.raises(OptionError, match=name):
        options(**{name: "yes"})


def test_score_is_one_of_two_words() -> None:
    with pytest.raises(OptionError, match="'factors', 'joint'"):
        SearchOptions(score="best")
