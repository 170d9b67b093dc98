"""Ask and tell as a user sees them."""

from __future__ import annotations

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
from dechbo.errors import NoObservations, OptionError, ParameterError, ScopeError, SpaceExhausted
from dechbo.models.options import ModelOptions
from dechbo.search.grids import Granularity
from dechbo.search.options import SearchOptions
from dechbo.structure import StructureOptions
from dechbo.theory import TheoryOptions
from optimizer_cases import Params, best_of, bowl, box, info_of, run

FACTORS = SearchOptions(score="factors")
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


# ------------------------------------------------------------------------------------------------ the search


def test_it_finds_the_optimum_of_a_mixed_space() -> None:
    optimizer = Optimizer(MIXED, graph=MIXED_GRAPH, seed=0)
    run(optimizer, lambda p: mixed_loss(**p), 40)
    best = best_of(optimizer)
    assert best.number_value < 0.05
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
    assert best_of(up).number_value == -best_of(down).number_value
    point = best_of(down).params
    assert up.predict(point)[0] == pytest.approx(-down.predict(point)[0])
    assert up.predict(point)[1] == pytest.approx(down.predict(point)[1])


def test_it_beats_random_search_on_an_additive_function() -> None:
    optimizer = Optimizer(box(6), seed=0)
    run(optimizer, bowl, 35)
    rng = np.random.default_rng(0)
    random_best = min(float(((rng.random((35, 6)) - 0.3) ** 2).sum(axis=1).min()) for _ in range(20))
    assert best_of(optimizer).number_value < 0.1 * random_best


def test_exact_and_maxsum_agree_on_a_tree() -> None:
    graph = FactorGraph(4, ((0, 1), (1, 2), (3,)))
    asked = [run(Optimizer(box(4), graph=graph, seed=5, maximizer=m), bowl, 13) for m in (MaxSum(), Exact())]
    assert np.allclose([list(p.values()) for p in asked[0]], [list(p.values()) for p in asked[1]], rtol=0, atol=1e-6)


def test_threads_may_share_an_optimiser() -> None:
    optimizer = Optimizer(box(2), seed=0)

    def work() -> None:
        for _ in range(12):
            params = optimizer.ask()
            optimizer.tell(params, bowl(params))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tuple(e.params.values()) for e in optimizer.evaluations}) == 36


def test_the_committees_scores_decide_unless_the_theory_forbids_it() -> None:
    decided: dict[str, set[str]] = {}
    for beta in ("practical", "theory-factor"):
        optimizer = Optimizer(box(1), seed=0, noise=0, theory=TheoryOptions(beta=beta))
        decided[beta] = set()
        for _ in range(14):
            run(optimizer, lambda p: (p["x0"] - 0.3) ** 2, 1)
            decided[beta].add(info_of(optimizer).acquisition)
    assert decided["practical"] == {"", "improvement", "bound"}
    assert decided["theory-factor"] == {"", "factors"}
    assert info_of(optimizer).certified


# --------------------------------------------------------------------------------------- no point twice


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
    assert best_of(optimizer).number_value == 0.0
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


def test_points_near_an_evaluation_are_excluded() -> None:
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
    assert optimizer.ask(fixed={"lr": 1e-3})["lr"] == 1e-3  # the number itself, not decoded from its logarithm
    with pytest.raises(ParameterError, match="nope"):
        optimizer.ask(fixed={"nope": 1})
    with pytest.raises(ParameterError, match="dict"):
        optimizer.ask(fixed="act")  # type: ignore[call-overload]
    with pytest.raises(ParameterError, match="relu"):
        optimizer.ask(fixed={"act": "gelu"})


# ------------------------------------------------------------------------------------------ hard ordinary input


@pytest.mark.parametrize("failure", [math.nan, math.inf, -math.inf, None, np.ma.masked, 10**400])
def test_a_failed_evaluation_is_kept_and_never_modelled(failure: Any) -> None:
    optimizer = Optimizer(box(2), seed=0, n_initial=4)
    run(optimizer, bowl, 6)
    params = optimizer.ask()
    optimizer.tell(params, failure)
    assert optimizer.evaluations[-1].failed
    assert optimizer.evaluations[-1].params == params
    after = optimizer.ask()
    assert np.abs(np.array(list(after.values())) - list(params.values())).max() > 1e-4
    assert best_of(optimizer).number_value == min(e.number_value for e in optimizer.evaluations if not e.failed)
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
def test_strange_values_work(values: Callable[[int], float]) -> None:
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
    assert info_of(optimizer).jitter > 0  # reported, not hidden
    assert len(optimizer.evaluations) == 5


def test_an_outlier_far_beyond_the_scale_is_fitted_at_once() -> None:
    optimizer = Optimizer(box(1), seed=0)
    for x in np.linspace(0, 1, 60):
        optimizer.tell({"x0": float(x)}, 1e-200 * x)
    optimizer.ask()
    optimizer.tell({"x0": 0.333}, 1e200)
    optimizer.ask()
    assert info_of(optimizer).refitted


def test_a_factor_too_wide_for_one_piece_is_solved_in_parts() -> None:
    optimizer = Optimizer(box(8), graph=FactorGraph(8, (tuple(range(8)),)), seed=0, n_initial=3, search=FACTORS)
    run(optimizer, bowl, 4)
    assert info_of(optimizer).source == "max-sum"
    assert info_of(optimizer).certified


def test_either_score_may_decide() -> None:
    chosen = {}
    for score in ("factors", "joint"):
        optimizer = Optimizer(
            box(4), graph=FactorGraph.singletons(4), seed=0, n_initial=5, search=SearchOptions(score=score)
        )
        chosen[score] = run(optimizer, bowl, 8)
        assert (info_of(optimizer).acquisition == "factors") == (score == "factors")
    assert chosen["factors"][:5] == chosen["joint"][:5]
    assert chosen["factors"][5:] != chosen["joint"][5:]


def test_the_theorys_betas_always_suggest_the_maximiser() -> None:
    optimizer = Optimizer(
        box(3),
        graph=FactorGraph.singletons(3),
        theory=TheoryOptions(beta="theory"),
        seed=0,
        n_initial=4,
        search=SearchOptions(score="joint"),
    )
    run(optimizer, bowl, 6)
    assert info_of(optimizer).source == "max-sum"
    assert info_of(optimizer).certified


def test_one_parameter() -> None:
    optimizer = Optimizer(Space({"x": Float(-5, 5)}), seed=0)
    run(optimizer, lambda p: (p["x"] - 1.2345) ** 2, 20)
    assert abs(best_of(optimizer).params["x"] - 1.2345) < 0.02


@pytest.mark.system
def test_two_thousand_parameters() -> None:
    for search in (SearchOptions(), FACTORS):
        optimizer = Optimizer(box(2000), seed=0, n_initial=4, search=search)
        points = run(optimizer, bowl, 5)
        assert all(len(p) == 2000 for p in points)
        assert info_of(optimizer).gap == 0.0


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


def test_recommend_averages_over_the_noise() -> None:
    optimizer = Optimizer(box(1), seed=0, noise=1.0)
    for x, values in ((0.3, (0.1, -0.1, 0.0, 0.05)), (0.8, (2.4, -0.2, 2.6, 2.5)), (0.5, (1.0, 1.1))):
        for value in values:
            optimizer.tell({"x0": x}, value)
    assert best_of(optimizer).params == {"x0": 0.8}  # one lucky value
    assert optimizer.recommend() == {"x0": 0.3}


def test_the_noise_of_a_single_value_is_used() -> None:
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
    assert best_of(optimizer).number_value == 3.0
    assert optimizer.recommend() == {"x0": 0.9}
    optimizer.ask()


def test_points_told_without_asking_count_and_keep_their_exact_numbers() -> None:
    optimizer = Optimizer(MIXED, graph=MIXED_GRAPH, seed=0, n_initial=2)
    told = {"lr": 0.1, "layers": 3, "act": "tanh", "drop": 0.15}
    optimizer.tell(told, 1.0)
    optimizer.tell({**told, "layers": 4}, 0.5)
    assert best_of(optimizer).params == {**told, "layers": 4}
    optimizer.ask()
    assert info_of(optimizer).source != "initial design"


def test_the_regret_report_puts_the_average_beside_its_bound() -> None:
    optimizer = Optimizer(box(2), seed=0, theory=TheoryOptions(beta="theory-factor"), direction="maximize")
    points = run(optimizer, lambda p: 5 - bowl(p), 14)
    report = optimizer.regret_report(5.0)
    assert report.average == pytest.approx(np.mean([bowl(p) for p in points]))
    assert report.average <= report.bound
    assert report.parts.steps == 14
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
def test_bad_points_are_refused_and_lose_nothing(params: dict[str, Any], message: str) -> None:
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
def test_values_that_are_no_numbers_are_refused(value: Any) -> None:
    optimizer = Optimizer(box(2), seed=0)
    params = optimizer.ask()
    with pytest.raises(ParameterError, match="number"):
        optimizer.tell(params, value)
    assert optimizer.evaluations == ()
    optimizer.tell(params, np.float32(0.5))  # type: ignore[arg-type]
    assert best_of(optimizer).number_value == 0.5


def test_other_bad_arguments() -> None:
    with pytest.raises(OptionError, match="Space"):
        Optimizer([(0, 1)])  # type: ignore[arg-type]
    with pytest.raises(ScopeError, match="3 variables"):
        Optimizer(box(2), graph=FactorGraph.singletons(3))
    optimizer = Optimizer(box(2), seed=0)
    for n in (0, -1, 1.5, True):
        with pytest.raises(OptionError, match="n must be"):
            optimizer.ask(n)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="feasible"):
        optimizer.tell(optimizer.ask(), 1.0, constraints={"c": math.nan})
    with pytest.raises(OptionError, match="variance"):
        optimizer.tell({"x0": 0.1, "x1": 0.2}, 1.0, noise=-1)
    assert optimizer.evaluations == ()


def test_many_categories_do_not_fill_the_memory() -> None:
    space = Space({f"c{i}": Categorical([str(k) for k in range(12)]) for i in range(8)})
    optimizer = Optimizer(space, seed=0, graph=FactorGraph(8, (tuple(range(8)),)), n_initial=4)
    run(optimizer, lambda p: float(sum(int(v) for v in p.values())), 6)
    assert not info_of(optimizer).certified


def test_a_slice_that_is_worse_than_the_best_is_still_optimised() -> None:
    space = Space({"c": Categorical(["good", "bad"]), "x": Float(0, 1), "y": Float(0, 1)})

    def function(p: Params) -> float:
        return float((p["x"] - 0.3) ** 2 + (p["y"] - 0.7) ** 2 + 10 * (p["c"] == "bad"))

    optimizer = Optimizer(space, seed=0)
    run(optimizer, function, 15)
    for _ in range(12):
        params = optimizer.ask(fixed={"c": "bad"})
        optimizer.tell(params, function(params))
    assert min(e.number_value for e in optimizer.evaluations if e.params["c"] == "bad") < 10.005


def test_a_value_told_while_the_model_answers_is_not_lost() -> None:
    def made() -> Optimizer:
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


def test_the_papers_algorithm(tmp_path: Path) -> None:
    quick = ModelOptions(centred=False, structure=StructureOptions(chains=1, sweeps=3, rounds=2))
    optimizer = Optimizer.paper(box(4), max_factor_size=2, seed=3, n_initial=4, model=quick)
    run(optimizer, bowl, 7)
    assert optimizer.graph == "learned"
    assert optimizer.max_factor_size == 2
    assert optimizer.maximizer == MaxSum(rounds=30, damping=0.5)
    assert optimizer.search == SearchOptions(score="factors", granularity=Granularity(polish_steps=0))
    info = info_of(optimizer)
    assert info.graph is not None
    assert (info.source, info.acquisition, info.members) == ("max-sum", "factors", ())
    assert info.graph.max_factor_size <= 2
    assert info.polished_value == info.value  # on its grid
    optimizer.save(tmp_path / "run.json")
    loaded = Optimizer.load(tmp_path / "run.json")
    for name in ("model", "search", "theory", "maximizer"):
        assert getattr(loaded, name) == getattr(optimizer, name), name
    assert loaded.ask() == optimizer.ask()
    assert Optimizer.paper(box(4)).model == ModelOptions(centred=False)
    assert Optimizer.paper(box(4), theory=TheoryOptions(beta=2.0)).theory.beta == 2.0
