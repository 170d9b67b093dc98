"""Statistics over runs: means and medians with bootstrap intervals, ranks, and tests with Holm's correction.

A run that crashed or ran out of time counts with the regret that it reached; no run is dropped.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dechbo.bench.records import RunRecord
from dechbo.errors import DataError

Array = NDArray[np.float64]
Finals = Mapping[str, Mapping[str, Mapping[int, float]]]  # problem -> method -> seed -> final regret

LEVEL, RESAMPLES = 0.95, 10_000


@dataclass(frozen=True)
class ConfidenceInterval:
    """An estimate and its bootstrap interval."""

    value: float
    low: float
    high: float


def bootstrap(
    values: Sequence[float],
    statistic: Literal["mean", "median"] = "mean",
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> ConfidenceInterval:
    """SciPy's percentile bootstrap; one value has an interval of length 0."""
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or not len(data) or np.isnan(data).any():
        raise DataError(f"a bootstrap needs at least one number and no NaN, got {values!r:.80}")
    function = np.mean if statistic == "mean" else np.median
    estimate = float(function(data))
    if len(data) == 1:
        return ConfidenceInterval(estimate, estimate, estimate)
    with np.errstate(invalid="ignore"), warnings.catch_warnings():  # where SciPy interpolates between infinities
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        result = stats.bootstrap(
            (data,),
            function,
            n_resamples=resamples,
            confidence_level=level,
            method="percentile",
            rng=np.random.default_rng(seed),
        )
    low, high = result.confidence_interval
    if not np.isfinite(data).all():
        tail = (1 - level) / 2
        low, high = np.quantile(result.bootstrap_distribution, [tail, 1 - tail], method="higher")
    return ConfidenceInterval(estimate, float(low), float(high))


@dataclass(frozen=True)
class Summary:
    """The runs of one method on one problem."""

    problem: str
    method: str
    runs: int
    mean: ConfidenceInterval
    median: ConfidenceInterval
    crashed: int
    out_of_time: int
    ask_seconds: float  # mean CPU seconds of an ask
    run_seconds: float  # mean CPU seconds of all asks of a run


def summarise(records: Iterable[RunRecord], *, seed: int = 0) -> dict[tuple[str, str], Summary]:
    """A summary for every problem and method, in the order of ``records``."""
    grouped: dict[tuple[str, str], list[RunRecord]] = defaultdict(list)
    for record in records:
        grouped[record.run.problem, record.run.method].append(record)
    return {key: _summary(key, group, seed) for key, group in grouped.items()}


def _summary(key: tuple[str, str], group: list[RunRecord], seed: int) -> Summary:
    finals = [record.final_regret for record in group]
    asks = [seconds for record in group for seconds in record.ask_cpu]
    return Summary(
        *key,
        runs=len(group),
        mean=bootstrap(finals, "mean", seed=seed),
        median=bootstrap(finals, "median", seed=seed),
        crashed=sum(record.status.startswith("crashed") for record in group),
        out_of_time=sum(record.status == "out of time" for record in group),
        ask_seconds=float(np.mean(asks)) if asks else float("nan"),
        run_seconds=float(np.mean([sum(record.ask_cpu) for record in group])),
    )


def final_regrets(records: Iterable[RunRecord]) -> dict[str, dict[str, dict[int, float]]]:
    """The final regret of every run, by problem, method and seed."""
    finals: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        finals[record.run.problem][record.run.method][record.run.seed] = record.final_regret
    return finals


# ------------------------------------------------------------------- ranks


@dataclass(frozen=True)
class Block:
    """A complete block design: every method has runs on every problem."""

    problems: tuple[str, ...]
    methods: tuple[str, ...]
    left_out: tuple[str, ...]  # methods that lack a problem or a seed


def complete_block(finals: Finals) -> Block:
    """The problems that at least half of the methods have, and the methods that have all their seeds.

    The seeds of a problem are those that at least half of its methods have. A method with fewer is left out, so that
    it does not reduce the comparison of the others.
    """
    methods = list(dict.fromkeys(method for by_method in finals.values() for method in by_method))
    problems = [name for name, by_method in finals.items() if 2 * len(by_method) >= len(methods)]
    wanted = {name: _majority([set(by_seed) for by_seed in finals[name].values()]) for name in problems}
    complete = [m for m in methods if all(wanted[name] <= set(finals[name].get(m, ())) for name in problems)]
    shared = [name for name in problems if _common_seeds(finals, name, complete)]
    return Block(tuple(shared), tuple(complete), tuple(method for method in methods if method not in complete))


def _majority(sets: Sequence[set[int]]) -> set[int]:
    """The elements of at least half of the sets."""
    return {one for one in set().union(*sets) if 2 * sum(one in held for held in sets) >= len(sets)}


def _common_seeds(finals: Finals, problem: str, methods: Sequence[str]) -> list[int]:
    seeds = [set(finals[problem][method]) for method in methods]
    return sorted(set.intersection(*seeds)) if seeds else []


def mean_ranks(finals: Finals, block: Block) -> Array:
    """Rank of each method within a seed (1 is best, ties averaged), mean over the common seeds, (problems, methods)."""
    rows = []
    for problem in block.problems:
        seeds = _common_seeds(finals, problem, block.methods)
        values = [[finals[problem][method][seed] for method in block.methods] for seed in seeds]
        rows.append(stats.rankdata(np.array(values), axis=1).mean(axis=0))
    return np.array(rows).reshape(len(block.problems), len(block.methods))


def ranks_of_means(finals: Finals, block: Block) -> Array:
    """Rank of each method by its mean final regret, ties averaged, (problems, methods)."""
    means = [[np.mean(list(finals[p][m].values())) for m in block.methods] for p in block.problems]
    return np.array(stats.rankdata(np.array(means), axis=1)).reshape(len(block.problems), len(block.methods))


# ------------------------------------------------------------------- tests


@dataclass(frozen=True)
class Comparison:
    """Two methods over problems; ``adjusted`` is the p value after Holm's correction."""

    first: str
    second: str
    difference: float  # mean over problems of rank(first) - rank(second): below 0, the first is better
    p: float
    adjusted: float


def friedman(ranks: Array) -> float:
    """The p value of Friedman's test; NaN for fewer than three methods or two problems."""
    problems, methods = ranks.shape
    if methods < 3 or problems < 2 or np.ptp(ranks) == 0:
        return float("nan")
    return float(stats.friedmanchisquare(*ranks.T).pvalue)


def wilcoxon(first: Array, second: Array) -> float:
    """The two-sided p value of Wilcoxon's signed-rank test over problems; 1 if all differences are 0.

    Differences of 0 are dropped. SciPy's p value is then exact for up to 50 differences, 13 if some are tied.
    """
    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    if not np.any(difference):
        return 1.0
    return float(stats.wilcoxon(difference[difference != 0]).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: max_{j <= i} (m - j + 1) p_(j), at most 1, for the i-th smallest of m."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    result = np.empty(len(p))
    result[order] = adjusted
    return result.tolist()


def compare(ranks: Array, methods: Sequence[str], *, control: str | None = None) -> list[Comparison]:
    """Wilcoxon's test on the mean ranks of all pairs, or of ``control`` and each other, with Holm's correction."""
    index = {method: k for k, method in enumerate(methods)}
    pairs = list(combinations(methods, 2)) if control is None else [(control, m) for m in methods if m != control]
    p = [wilcoxon(ranks[:, index[a]], ranks[:, index[b]]) for a, b in pairs]
    gaps = [float(np.mean(ranks[:, index[a]] - ranks[:, index[b]])) for a, b in pairs]
    return [Comparison(a, b, d, q, r) for (a, b), d, q, r in zip(pairs, gaps, p, holm(p), strict=True)]
