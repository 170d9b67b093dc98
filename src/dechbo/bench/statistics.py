"""Statistics over runs: means with Student's t intervals, ranks, and tests with Holm's correction.

A run that crashed or ran out of time counts with the regret that it reached; no run is dropped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dechbo.bench.records import RunRecord
from dechbo.errors import DataError

Array = NDArray[np.float64]
Finals = Mapping[str, Mapping[str, Mapping[int, float]]]  # problem -> method -> seed -> final regret

LEVEL = 0.95


@dataclass(frozen=True)
class ConfidenceInterval:
    """An estimate and its interval; the ends are NaN where there is none."""

    value: float
    low: float
    high: float

    def text(self, digits: int = 4) -> str:
        """The estimate, and the interval in brackets with one digit less; a single value has none."""
        value = f"{self.value:.{digits}g}"
        return value if np.isnan(self.low) else f"{value} [{self.low:.{digits - 1}g}, {self.high:.{digits - 1}g}]"


def mean_interval(values: Sequence[float], *, level: float = LEVEL) -> ConfidenceInterval:
    """Mean and Student's t interval, mean +- t_{n-1} s / sqrt(n).

    A percentile bootstrap of five values covers the mean in about 84 % of the cases, not in 95. There is no interval of
    a single value, nor where a value is infinite (a run that crashed before its first value).
    """
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or not len(data) or np.isnan(data).any():
        raise DataError(f"an interval needs at least one number and no NaN, got {values!r:.80}")
    mean = float(data.mean())
    if len(data) == 1 or not np.isfinite(data).all():
        return ConfidenceInterval(mean, float("nan"), float("nan"))
    half = float(stats.t.ppf((1 + level) / 2, len(data) - 1) * stats.sem(data))
    return ConfidenceInterval(mean, mean - half, mean + half)


def paired_difference(
    first: Mapping[int, float], second: Mapping[int, float], *, level: float = LEVEL
) -> ConfidenceInterval | None:
    """Mean of first - second over the seeds that both have, with Student's t interval; None without common seeds."""
    gaps = [first[seed] - second[seed] for seed in sorted(set(first) & set(second))]
    return mean_interval(gaps, level=level) if gaps and not np.isnan(gaps).any() else None


@dataclass(frozen=True)
class Summary:
    """The runs of one method on one problem."""

    problem: str
    method: str
    runs: int
    mean: ConfidenceInterval
    median: float
    crashed: int
    out_of_time: int
    ask_seconds: float  # mean CPU seconds of an ask
    run_seconds: float  # mean CPU seconds of all asks of a run


def summarise(records: Iterable[RunRecord]) -> dict[tuple[str, str], Summary]:
    """A summary for every problem and method, in the order of ``records``."""
    grouped: dict[tuple[str, str], list[RunRecord]] = defaultdict(list)
    for record in records:
        grouped[record.run.problem, record.run.method].append(record)
    return {key: _summary(key, group) for key, group in grouped.items()}


def _summary(key: tuple[str, str], group: list[RunRecord]) -> Summary:
    finals = [record.final_regret for record in group]
    asks = [seconds for record in group for seconds in record.ask_cpu]
    return Summary(
        *key,
        runs=len(group),
        mean=mean_interval(finals),
        median=float(np.median(finals)),
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
    """Wilcoxon's test on the mean ranks of all pairs, or of ``control`` and each other, with Holm's correction.

    Each pair is compared over the problems where neither rank is NaN.
    """
    index = {method: k for k, method in enumerate(methods)}
    pairs = list(combinations(methods, 2)) if control is None else [(control, m) for m in methods if m != control]
    gaps = [ranks[:, index[a]] - ranks[:, index[b]] for a, b in pairs]
    gaps = [gap[~np.isnan(gap)] for gap in gaps]
    p = [wilcoxon(gap, np.zeros(len(gap))) for gap in gaps]
    means = [float(gap.mean()) if len(gap) else float("nan") for gap in gaps]
    return [Comparison(a, b, d, q, r) for (a, b), d, q, r in zip(pairs, means, p, holm(p), strict=True)]
