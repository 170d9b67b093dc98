"""DecHBOSearchCV: scikit-learn's hyperparameter search, with candidates from dechbo.

Fits run through scikit-learn's own ``evaluate_candidates`` (joblib), not through ``dechbo.execution``: ``n_jobs``,
joblib's backends, metadata routing, callbacks and ``cv_results_`` then work as in every other search.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

try:
    from joblib import effective_n_jobs
    from sklearn.base import is_classifier
    from sklearn.exceptions import FitFailedWarning
    from sklearn.model_selection import check_cv
    from sklearn.model_selection._search import BaseSearchCV  # scikit-learn's own searches subclass it too
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted
except ModuleNotFoundError as missing:
    raise ImportError("DecHBOSearchCV needs scikit-learn: pip install 'scikit-learn>=1.5'") from missing

from dechbo import checks
from dechbo.errors import OptionError, SpaceExhausted
from dechbo.graph import FactorGraph
from dechbo.integrations.choices import Choices
from dechbo.interactions import Interactions
from dechbo.optimizer import Optimizer
from dechbo.space import Space
from dechbo.theory import TheoryOptions

MAX_IDLE_JOBS = 0.2  # share of the jobs that a batch may leave without work


class DecHBOSearchCV(BaseSearchCV):
    """Cross-validated search by Bayesian optimisation: each candidate is chosen from the scores of those before it.

    Use it like ``RandomizedSearchCV``; after ``fit`` it has the same attributes, and two more.

    Parameters
    ----------
    estimator
        What to tune; with a pipeline, parameters are named ``step__parameter``.
    space
        A ``Space``, or a dict from names to ``Float``, ``Int`` or ``Categorical``. In a dict, ``(low, high)`` is a
        range (of whole numbers if both are), and a list holds choices of any type: None, strings, estimators; of
        SciPy's distributions ``uniform``, ``loguniform`` and ``randint`` are understood.
    n_iter
        How many candidates to try.
    scoring, n_jobs, refit, cv, verbose, pre_dispatch, error_score, return_train_score
        As in scikit-learn. With several metrics, ``refit`` names the one to search by. All candidates see the same
        splits, even if ``cv`` shuffles.
    random_state
        Seed of the search.
    batch_size
        How many candidates to try at a time; by default, as few as keep ``n_jobs`` busy. With the same ``batch_size``
        the candidates are the same for any ``n_jobs``.
    n_initial, max_factor_size, noise
        As in ``Optimizer``.
    beta
        As in ``TheoryOptions``; "theory" and "theory-factor" switch other options off, as
        ``optimizer_.info.switched_off`` says.
    graph
        "learned" (or None), "random", a ``FactorGraph``, or the scopes of parameters that interact:
        ``[("C", "gamma"), ...]``.

    Attributes
    ----------
    optimizer_
        The ``Optimizer``, with all scores: use it to ``predict``, ``recommend`` or ``ask`` for more. Choices that are
        not plain values appear as labels.
    interactions_
        Which parameters interact, the largest share first; needs a learned graph.
    """

    def __init__(
        self,
        estimator: Any,
        space: Space | Mapping[str, Any],
        *,
        n_iter: int = 50,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: int | str = "2*n_jobs",
        error_score: float | str = np.nan,
        return_train_score: bool = False,
        random_state: Any = None,
        batch_size: int | None = None,
        n_initial: int | None = None,
        max_factor_size: int = 3,
        graph: FactorGraph | Sequence[Sequence[str]] | str | None = None,
        noise: float | None = None,
        beta: Any = "practical",
    ) -> None:
        super().__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.space = space
        self.n_iter = n_iter
        self.random_state = random_state
        self.batch_size = batch_size
        self.n_initial = n_initial
        self.max_factor_size = max_factor_size
        self.graph = graph
        self.noise = noise
        self.beta = beta

    @property
    def interactions_(self) -> Interactions:
        """Which parameters interact, the most important first; empty if no candidate has a score."""
        check_is_fitted(self)
        return self.optimizer_.interactions() if self.optimizer_.best is not None else Interactions()

    def _run_search(self, evaluate_candidates: Callable[..., Any], *, callback_ctx: Any = None) -> None:
        """Ask for candidates and tell their scores; all arguments are checked before anything is fitted."""
        n_iter = checks.whole("n_iter", self.n_iter, 1)
        size = 1 if self.batch_size is None else checks.whole("batch_size", self.batch_size, 1)
        self._check_metric_is_named()
        choices = Choices.of(self.space)
        optimizer = self._new_optimizer(choices.space)
        splits = None if isinstance(self.cv, Iterator) else _FixedSplits(self.cv, self.estimator)
        self._failed = _FailedCandidates()
        results: dict[str, Any] = {}
        tried = 0
        with _task(self, callback_ctx, "search") as search:
            while tried < n_iter:
                batch = _next_batch(optimizer, min(size, n_iter - tried))
                if not batch:
                    warnings.warn(f"the space has only {tried} points, fewer than n_iter={n_iter}", stacklevel=2)
                    break
                candidates = [choices.candidate(params) for params in batch]
                with _task(self, search, "batch", sequential_subtasks=False) as task:
                    reporting = {} if task is None else {"callback_ctx": task}
                    try:
                        results = evaluate_candidates(candidates, cv=splits, **reporting)
                        scores = self._scores(results)[tried:]
                    except ValueError as error:
                        self._failed.add(tried, candidates, error)
                        scores = [self.error_score] * len(batch)
                for params, score in zip(batch, scores, strict=True):
                    optimizer.tell(params, float(score))
                tried += len(batch)
                if self.batch_size is None and results:
                    size = _default_batch_size(effective_n_jobs(self.n_jobs), self._failed.n_splits)
        if not results:
            raise self._failed.errors[-1]
        results.update(self._format_results(*self._failed.reported))  # adds those that failed after the last success
        failed = sum(evaluation.failed for evaluation in optimizer.evaluations)
        if failed:
            warnings.warn(f"{failed} of {tried} candidates have no finite score", stacklevel=2)
        self.optimizer_ = optimizer
        del self._failed

    def _format_results(self, candidate_params: Any, n_splits: int, out: Any, more_results: Any = None) -> Any:
        """As in scikit-learn, plus the candidates whose fits all failed, each in its place."""
        with warnings.catch_warnings():  # it would repeat its warning about NaN after every batch
            warnings.filterwarnings("ignore", "One or more of the", UserWarning)
            return super()._format_results(*self._failed.merged(candidate_params, n_splits, out, self.error_score))

    def _new_optimizer(self, space: Space) -> Optimizer:
        graph = self.graph
        if graph is not None and not isinstance(graph, str | FactorGraph):
            graph = FactorGraph.from_names(space, graph)
        return Optimizer(
            space,
            graph=graph,
            direction="maximize",
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            n_initial=self.n_initial,
            max_factor_size=self.max_factor_size,
            noise=self.noise,
            theory=TheoryOptions(beta=self.beta),
        )

    def _check_metric_is_named(self) -> None:
        several = self.scoring is not None and not isinstance(self.scoring, str) and not callable(self.scoring)
        if several and not isinstance(self.refit, str):
            raise OptionError(
                f"with several metrics the search needs the one to go by: refit='name', one of {list(self.scoring)}, "
                f"got refit={self.refit!r}"
            )

    def _scores(self, results: Mapping[str, Any]) -> Any:
        """The mean scores to search by; what a callable scorer returns is known only now."""
        metrics = [key.removeprefix("mean_test_") for key in results if key.startswith("mean_test_")]
        name = self.refit if self.refit in metrics else "score"
        if name not in metrics:
            raise OptionError(f"the scorer has several metrics, {metrics}: name the one to search by as refit='name'")
        return results[f"mean_test_{name}"]


def _default_batch_size(jobs: int, n_splits: int) -> int:
    """The smallest number of candidates whose fits keep nearly all jobs busy."""

    def idle(size: int) -> float:
        fits = size * n_splits
        return 1 - fits / (math.ceil(fits / jobs) * jobs)

    return next(size for size in range(1, jobs + 1) if idle(size) <= MAX_IDLE_JOBS)


def _next_batch(optimizer: Optimizer, size: int) -> list[dict[str, Any]]:
    """Up to ``size`` points, fewer if the space has no more."""
    batch: list[dict[str, Any]] = []
    try:
        while len(batch) < size:
            batch.append(optimizer.ask())
    except SpaceExhausted:
        pass
    return batch


class _FixedSplits:
    """A splitter that splits once, so that scores are comparable even if ``cv`` shuffles."""

    def __init__(self, cv: Any, estimator: Any) -> None:
        self.cv = cv
        self.classifier = is_classifier(estimator)
        self.splits: list[Any] | None = None

    def split(self, X: Any, y: Any = None, **params: Any) -> Iterator[Any]:
        """The splits of the first call."""
        if self.splits is None:
            self.splits = list(check_cv(self.cv, y, classifier=self.classifier).split(X, y, **params))
        return iter(self.splits)


class _FailedCandidates:
    """Candidates whose fits all failed.

    If a batch holds no others, scikit-learn raises and drops it. With small batches that is no mistake of the user:
    such parameters simply do not work.
    """

    def __init__(self) -> None:
        self.candidates: list[tuple[int, dict[str, Any]]] = []
        self.errors: list[ValueError] = []
        self.reported: tuple[Any, int, Any] = ([], 0, [])  # candidates, splits and rows of scikit-learn's last results

    @property
    def n_splits(self) -> int:
        """How many splits there are; 0 before the first result."""
        return self.reported[1]

    def add(self, place: int, candidates: list[dict[str, Any]], error: ValueError) -> None:
        """Record a batch that starts at number ``place``; an error that does not come from its fits is raised again."""
        if not str(error).startswith("\nAll the "):
            raise error
        self.candidates += enumerate(candidates, place)
        self.errors.append(error)
        warnings.warn(f"no fit succeeded with {candidates}:{error}", FitFailedWarning, stacklevel=3)

    def merged(self, candidates: Any, n_splits: int, rows: Any, error_score: Any) -> tuple[list[Any], int, list[Any]]:
        """All candidates, and a row for each of their splits, in the order of trying."""
        self.reported = (candidates, n_splits, rows)
        candidates, rows = list(candidates), list(rows)
        failed = dict(rows[0], fit_error="failed", fit_time=0.0, score_time=0.0)
        for key in ("test_scores", "train_scores"):
            if key in failed:
                several = isinstance(failed[key], dict)
                failed[key] = dict.fromkeys(failed[key], error_score) if several else error_score
        for place, candidate in self.candidates:
            candidates.insert(place, candidate)
            rows[place * n_splits : place * n_splits] = [failed] * n_splits
        return candidates, n_splits, rows


@contextmanager
def _task(search: Any, parent: Any, name: str, **about: Any) -> Iterator[Any]:
    """A step reported to scikit-learn's callbacks, if this version has them (since 1.9)."""
    if parent is None:
        yield None
        return
    context = parent.subcontext(task_name=name, max_subtasks=None, **about).call_on_fit_task_begin(estimator=search)
    yield context
    context.call_on_fit_task_end(estimator=search)
