"""DecHBOSearchCV: a scikit-learn search like its own ones, and what it adds."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config
from scipy.stats import loguniform, norm, randint, uniform
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris, make_regression
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import KFold, RandomizedSearchCV, ShuffleSplit
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from dechbo import Categorical, FactorGraph, Float, Int, Space
from dechbo.errors import OptionError, SpaceError
from dechbo.integrations.choices import Choices
from dechbo.integrations.sklearn import DecHBOSearchCV, _default_batch_size

X, y = load_iris(return_X_y=True)
SVM = {"C": Float(1e-2, 1e3, log=True), "gamma": Float(1e-4, 10, log=True)}


class Shaped(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Fits nothing; its score is a function of its parameters."""

    def __init__(self, a: float = 0.5, b: float = 0.5, kind: Any = None, fails_above: float = 2.0) -> None:
        self.a, self.b, self.kind, self.fails_above = a, b, kind, fails_above

    def fit(self, X: Any, y: Any) -> Shaped:
        if self.a > self.fails_above:
            raise RuntimeError("no fit there")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])

    def score(self, X: Any, y: Any) -> float:
        return 1 - (self.a - 0.3) ** 2 - (self.a - self.b) ** 2


def shaped(space: Any = None, **options: Any) -> DecHBOSearchCV:
    space = {"a": (0.0, 1.0), "b": (0.0, 1.0)} if space is None else space
    return DecHBOSearchCV(Shaped(), space, **{"n_iter": 15, "cv": 2, "random_state": 0, **options})


# ------------------------------------------------ scikit-learn's own checks


def instances() -> Iterator[tuple[Any, dict[str, Any]]]:
    """What scikit-learn checks its own searches with; one of them over an interval, where the model chooses too."""
    pca, values, interval = ("pca", PCA()), [0.1, 1.0], (0.1, 1.0)
    yield Ridge(), {"alpha": interval}
    yield LogisticRegression(), {"C": values}
    yield Pipeline([pca, ("ridge", Ridge())]), {"ridge__alpha": values}
    yield Pipeline([pca, ("logisticregression", LogisticRegression())]), {"logisticregression__C": values}


SEARCHES = [
    DecHBOSearchCV(estimator, space, n_iter=3, n_initial=2, cv=2, error_score="raise", random_state=0)
    for estimator, space in instances()
]
EXPECTED = {  # the same as for GridSearchCV and RandomizedSearchCV
    "check_supervised_y_2d": "DataConversionWarning not caught",
    "check_requires_y_none": "Doesn't fail gracefully",
}


def those_that_run_here(checks: Any) -> pytest.MarkDecorator:
    """scikit-learn's checks but for those of array libraries that are not installed, which would only be skipped."""
    names, cases = checks.args
    kept = [case for case in cases if "array_api" not in repr(case)]
    return pytest.mark.parametrize(names, kept, **checks.kwargs)


@those_that_run_here(parametrize_with_checks(SEARCHES, expected_failed_checks=lambda _: EXPECTED))
def test_it_passes_the_checks_of_searches(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as scikit-learn's own test does
        check(estimator)


def test_it_is_a_search_that_others_recognise() -> None:
    search = shaped()
    assert isinstance(search, RandomizedSearchCV.__mro__[1])
    assert clone(search).get_params().keys() == search.get_params().keys()
    assert search.set_params(estimator__a=0.25, n_iter=3).estimator.a == 0.25
    assert set(DecHBOSearchCV.__init__.__annotations__) >= {"estimator", "space", "n_iter", "random_state"}


# ------------------------------------------------------------ the search


def test_it_tunes_a_real_model_and_knows_which_parameters_interact() -> None:
    search = DecHBOSearchCV(SVC(), SVM, n_iter=18, cv=3, random_state=0).fit(X, y)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max() >= 0.97
    assert search.best_params_ == search.cv_results_["params"][search.best_index_]
    assert search.score(X, y) == accuracy_score(y, search.predict(X)) > 0.95
    assert search.best_params_["C"] == search.best_estimator_.C
    assert len(search.optimizer_.evaluations) == 18
    assert search.optimizer_.best.value == search.best_score_
    assert all(0 <= found.probability <= 1 for found in search.interactions_)
    assert isinstance(search.interactions_, list)


def test_the_model_chooses_well_after_the_initial_design() -> None:
    scores = shaped(n_iter=15, noise=0).fit(X, y).cv_results_["mean_test_score"]
    assert scores[6:].max() > scores[:6].max() > 0.9
    assert scores[6:].mean() > scores[:6].mean()


def test_same_random_state_same_candidates_also_from_a_pickle() -> None:
    first = shaped().fit(X, y)
    again = pickle.loads(pickle.dumps(shaped())).fit(X, y)
    assert first.cv_results_["params"] == again.cv_results_["params"]
    assert first.cv_results_["params"] != shaped(random_state=1).fit(X, y).cv_results_["params"]
    restored = pickle.loads(pickle.dumps(first))
    assert restored.optimizer_.ask() == first.optimizer_.ask()


def test_jobs_change_nothing_at_the_same_batch_size() -> None:
    one = shaped(n_iter=13, batch_size=3).fit(X, y)
    with parallel_config("threading", n_jobs=2):
        two = shaped(n_iter=13, batch_size=3).fit(X, y)
    assert one.cv_results_["params"] == two.cv_results_["params"]
    assert len(one.cv_results_["params"]) == 13


@pytest.mark.parametrize(
    ("jobs", "splits", "size"), [(1, 5, 1), (2, 5, 1), (4, 5, 2), (8, 5, 3), (8, 2, 4), (5, 10, 1)]
)
def test_a_batch_fills_the_jobs(jobs: int, splits: int, size: int) -> None:
    assert _default_batch_size(jobs, splits) == size


def test_batches_for_several_jobs_once_the_splits_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    with parallel_config("threading"):
        shaped(n_iter=6, n_jobs=2, cv=[(np.arange(100), np.arange(100, 150))], verbose=1).fit(X, y)
    sizes = [line.split()[6] for line in capsys.readouterr().out.splitlines() if line.startswith("Fitting")]
    assert sizes == ["1", "2", "2", "1"]


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("error_score", [np.nan, -1.0])
def test_candidates_that_cannot_be_fitted_are_ordinary(batch_size: int | None, error_score: float) -> None:
    search = shaped(n_iter=14, batch_size=batch_size, error_score=error_score, return_train_score=True)
    search.estimator.fails_above = 0.6
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    a = np.array([params["a"] for params in search.cv_results_["params"]])
    assert len(scores) == 14
    assert np.array_equal(a > 0.6, ~(scores > 0))
    assert 0 < (a > 0.6).sum() < 10
    told = [evaluation.params["a"] for evaluation in search.optimizer_.evaluations]
    assert np.array_equal(a, told)
    failed = [evaluation.failed for evaluation in search.optimizer_.evaluations]
    assert failed == [bool(np.isnan(score)) for score in scores]
    assert search.best_score_ == np.nanmax(scores) > 0.9
    kinds = [warning.category for warning in caught]
    assert FitFailedWarning in kinds
    assert kinds.count(UserWarning) == bool(np.isnan(error_score))


def test_several_metrics_and_the_last_candidate_lost() -> None:
    search = shaped(n_iter=4, scoring={"one": "accuracy", "two": "accuracy"}, refit="two")
    fourth = shaped(n_iter=4).fit(X, y).cv_results_["params"][3]["a"]
    search.estimator.fails_above = np.nextafter(fourth, 0)
    with pytest.warns(FitFailedWarning, match="no fit succeeded with"), pytest.warns(UserWarning, match="no finite"):
        search.fit(X, y)
    assert len(search.cv_results_["mean_test_one"]) == len(search.cv_results_["params"]) == 4
    assert np.isnan(search.cv_results_["mean_test_two"][3])
    assert search.cv_results_["rank_test_two"][3] == 4 or np.isnan(search.cv_results_["mean_test_two"]).sum() > 1


def test_nothing_can_be_fitted_at_all() -> None:
    search = shaped(n_iter=3)
    search.estimator.fails_above = -1
    with pytest.warns(FitFailedWarning), pytest.raises(ValueError, match="All the 2 fits failed"):
        search.fit(X, y)
    assert not hasattr(search, "optimizer_")
    with pytest.raises(RuntimeError, match="no fit there"):
        search.set_params(error_score="raise").fit(X, y)


def test_no_score_at_all_leaves_no_interactions() -> None:
    search = shaped(n_iter=3, scoring=lambda estimator, X, y: np.nan)
    with pytest.warns(UserWarning, match="3 of 3 candidates have no finite score"):
        search.fit(X, y)
    assert search.interactions_ == []
    assert search.optimizer_.best is None


@pytest.mark.parametrize("cv", [ShuffleSplit(2), KFold(2, shuffle=True), KFold(2).split(X)])
def test_all_candidates_see_the_same_splits(cv: Any) -> None:
    seen = []

    def scoring(estimator: Any, X: Any, y: Any) -> Any:
        seen.append(X.sum())
        return estimator.score(X, y)

    search = shaped(n_iter=4, cv=cv, scoring=scoring).fit(X, y)
    assert len(seen) == 8
    assert len(set(seen)) == 2
    assert search.n_splits_ == 2


# ---------------------------------------------------------------- spaces


def test_choices_of_any_type_reach_the_estimator_unchanged() -> None:
    scalers = [None, StandardScaler(), MinMaxScaler(), MinMaxScaler()]
    kinds = [None, True, 1, 1.0, "1", np.float64(2.5), float("nan"), (1, 2), len]
    seen = []

    class Seeing(Shaped):
        def fit(self, X: Any, y: Any) -> Any:
            seen.append(self.kind)
            return super().fit(X, y)

    pipeline = Pipeline([("scaler", None), ("model", Seeing())])
    space = {"scaler": scalers, "model__kind": kinds}
    search = DecHBOSearchCV(pipeline, space, n_iter=36, cv=2, random_state=0, refit=False).fit(X, y)
    tried = {id(params["model__kind"]) for params in search.cv_results_["params"]}
    assert tried == {id(kind) for kind in kinds}
    assert {id(params["scaler"]) for params in search.cv_results_["params"]} == {id(scaler) for scaler in scalers}
    assert {type(kind) for kind in seen} == {type(kind) for kind in kinds}
    labels = search.optimizer_.space["scaler"].choices
    assert labels == (None, "StandardScaler()", "MinMaxScaler()", "MinMaxScaler() #3")


def test_the_best_of_several_estimators_is_fitted_again() -> None:
    pipeline = Pipeline([("model", DummyClassifier())])
    models = [DummyClassifier(), SVC()]
    with pytest.warns(UserWarning, match="only 2 points, fewer than n_iter=50"):
        search = DecHBOSearchCV(pipeline, {"model": models}, cv=2, random_state=0).fit(X, y)
    assert isinstance(search.best_estimator_["model"], SVC)
    assert search.best_params_["model"] is models[1]
    assert not hasattr(models[1], "classes_")


def test_tuples_are_ranges_and_a_space_is_a_space() -> None:
    search = shaped({"a": (0.0, 1), "b": (np.int64(0), 5), "kind": Categorical(["x"])}, n_iter=3).fit(X, y)
    expected = Space({"a": Float(0, 1), "b": Int(0, 5), "kind": Categorical(["x"])})
    assert search.optimizer_.space == expected
    assert shaped(expected, n_iter=3).fit(X, y).cv_results_["params"] == search.cv_results_["params"]
    assert all(type(params["b"]) is int for params in search.cv_results_["params"])


@pytest.mark.parametrize("graph", [[("a", "b")], FactorGraph(2, ((0, 1),)), "random"])
def test_a_graph_may_be_given(graph: Any) -> None:
    search = shaped(graph=graph, n_iter=12).fit(X, y)
    assert (0, 1) in search.optimizer_.last_graph.scopes
    with pytest.raises(OptionError, match="learned"):
        _ = search.interactions_


# --------------------------------------------------------------- metrics


METRICS = {"accuracy": "accuracy", "worse": make_scorer(accuracy_score, greater_is_better=False)}


@pytest.mark.parametrize("name", ["accuracy", "worse"])
def test_with_several_metrics_refit_names_the_one_to_search_by(name: str) -> None:
    search = DecHBOSearchCV(SVC(), SVM, n_iter=5, cv=2, random_state=0, scoring=METRICS, refit=name).fit(X, y)
    told = [evaluation.value for evaluation in search.optimizer_.evaluations]
    assert told == list(search.cv_results_[f"mean_test_{name}"])
    assert search.best_score_ == max(told)


def test_a_callable_scorer_with_several_metrics() -> None:
    def scoring(estimator: Any, X: Any, y: Any) -> Any:
        return {"good": estimator.score(X, y), "bad": -1.0}

    search = shaped(n_iter=3, scoring=scoring, refit="good").fit(X, y)
    assert search.optimizer_.best.value == search.best_score_ == max(search.cv_results_["mean_test_good"])
    with pytest.raises(OptionError, match=r"several metrics, \['good', 'bad'\]"):
        shaped(n_iter=3, scoring=scoring, refit=False).fit(X, y)


def test_refit_may_choose_by_itself_among_the_results() -> None:
    search = shaped(n_iter=4, refit=lambda results: 2).fit(X, y)
    assert search.best_params_ == search.cv_results_["params"][2]


# --------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_iter": 0}, OptionError, "n_iter"),
        ({"n_iter": 2.5}, OptionError, "n_iter"),
        ({"batch_size": 0}, OptionError, "batch_size"),
        ({"n_initial": 0}, OptionError, "n_initial"),
        ({"graph": "tree"}, OptionError, "graph"),
        ({"scoring": METRICS, "refit": False}, OptionError, "refit='name'.*accuracy.*got refit=False"),
        ({"scoring": METRICS, "refit": max}, OptionError, "refit='name'"),
        ({"space": {}}, SpaceError, "at least one"),
        ({"space": [("a", 0, 1)]}, SpaceError, "a Space or a dict"),
        ({"space": {"a": (0, 1, 2)}}, SpaceError, "parameter 'a'.*range"),
        ({"space": {"a": (1, 0)}}, SpaceError, "parameter 'a'"),
        ({"space": {"a": (False, True)}}, SpaceError, "parameter 'a'"),
        ({"space": {"a": norm(0, 1)}}, SpaceError, "parameter 'a'.*uniform, loguniform and randint.*norm"),
        ({"space": {"a": []}}, SpaceError, "parameter 'a'.*at least one"),
        ({"space": {"a": [1, 1]}}, SpaceError, "parameter 'a'.*twice"),
        ({"space": {"typo": (0.0, 1.0)}}, ValueError, "Invalid parameter 'typo'"),
    ],
)
def test_bad_arguments_are_refused_in_fit_before_anything_is_fitted(
    options: dict[str, Any], error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Shaped, "fit", lambda *_: pytest.fail("fitted"))
    search = shaped(**options)  # the constructor only stores
    with pytest.raises(error, match=message):
        search.fit(X, y)


def test_what_it_adds_exists_only_after_fit() -> None:
    search = shaped()
    assert not hasattr(search, "optimizer_")
    assert not hasattr(search, "interactions_")


def test_the_distributions_of_scipy_are_understood() -> None:
    given = {"a": loguniform(1e-3, 1e2), "b": uniform(2, 3), "c": randint(1, 9)}
    space = Choices.of(given).space
    assert space == Space({"a": Float(1e-3, 1e2, log=True), "b": Float(2, 5), "c": Int(1, 8)})
    search = DecHBOSearchCV(Ridge(), {"alpha": loguniform(1e-3, 1e3)}, n_iter=2, cv=2, random_state=0).fit(X, y)
    assert 1e-3 <= search.best_params_["alpha"] <= 1e3


def test_regression_targets_and_trains_scores() -> None:
    inputs, targets = make_regression(60, 4, random_state=0)
    search = DecHBOSearchCV(Ridge(), {"alpha": Float(1e-3, 1e3, log=True)}, n_iter=6, random_state=0)
    search.set_params(return_train_score=True, scoring="neg_mean_squared_error").fit(inputs, targets)
    assert "mean_train_score" in search.cv_results_
    assert search.best_params_["alpha"] < 0.1


@pytest.mark.system
def test_it_needs_no_pandas() -> None:
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.split('.')[0] == 'pandas': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from sklearn.datasets import load_iris\n"
        "from sklearn.svm import SVC\n"
        "from dechbo.integrations.sklearn import DecHBOSearchCV\n"
        "search = DecHBOSearchCV(SVC(), {'C': (0.1, 9.0)}, n_iter=2, cv=2).fit(*load_iris(return_X_y=True))\n"
        "print(len(search.cv_results_['params']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2"
