"""Statistics over runs: means and medians with bootstrap intervals, ranks, and tests corrected for their number.

A run that crashed or ran out of time counts with the regret that it had reached; nothing is dropped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dechbo.bench.records import Record
from dechbo.errors import DataError

Array = NDArray[np.float64]
Finals = Mapping[str, Mapping[str, Mapping[int, float]]]  # problem -> method -> seed -> final regret

LEVEL, RESAMPLES = 0.95, 10_000


@dataclass(frozen=True)
class Interval:
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
) -> Interval:
    """The percentile bootstrap: quantiles of the statistic over samples of the same size, drawn with replacement."""
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or not len(data) or np.isnan(data).any():
        raise DataError(f"a bootstrap needs at least one number and no NaN, got {values!r:.80}")
    reduce = np.mean if statistic == "mean" else np.median
    drawn = data[np.random.default_rng(seed).integers(len(data), size=(resamples, len(data)))]
    estimates = np.sort(reduce(drawn, axis=1))
    tail = (1 - level) / 2
    # between two infinite estimates there is nothing to interpolate
    method: Literal["linear", "higher"] = "linear" if np.isfinite(data).all() else "higher"
    low, high = np.quantile(estimates, [tail, 1 - tail], method=method)
    return Interval(float(reduce(data)), float(low), float(high))


@dataclass(frozen=True)
class Summary:
    """A method on a problem over its seeds."""

    problem: str
    method: str
    runs: int
    mean: Interval
    median: Interval
    crashed: int
    out_of_time: int
    ask_seconds: float  # CPU seconds of a method's asks, the mean over all of them
    run_seconds: float  # CPU seconds of all asks of a run, the mean over runs

    @property
    def unfinished(self) -> int:
        """Runs that count with what they had reached."""
        return self.crashed + self.out_of_time


def summarise(records: Iterable[Record], *, seed: int = 0) -> dict[tuple[str, str], Summary]:
    """A summary for every problem and method, both in the order in which they come."""
    grouped: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        grouped[record.run.problem, record.run.method].append(record)
    return {key: _summary(key, group, seed) for key, group in grouped.items()}


def _summary(key: tuple[str, str], group: list[Record], seed: int) -> Summary:
    finals = [record.final for record in group]
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


def finals_of(records: Iterable[Record]) -> dict[str, dict[str, dict[int, float]]]:
    """The final regret of every run, by problem, method and seed."""
    finals: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        finals[record.run.problem][record.run.method][record.run.seed] = record.final
    return finals


# ------------------------------------------------------------------- ranks


@dataclass(frozen=True)
class Block:
    """Methods that were all run on the same problems; what was left out of the comparison is named."""

    problems: tuple[str, ...]
    methods: tuple[str, ...]
    left_out: tuple[str, ...]  # methods that miss a problem of the block, or a seed


def complete_block(finals: Finals) -> Block:
    """The problems that at least half of the methods have, and the methods with all their seeds.

    The seeds of a problem are those that at least half of its methods have: a method that was run less is left out of
    the comparison, and named, rather than the comparison cut down to it.
    """
    methods = list(dict.fromkeys(method for by_method in finals.values() for method in by_method))
    problems = [name for name, by_method in finals.items() if 2 * len(by_method) >= len(methods)]
    wanted = {name: _majority([set(by_seed) for by_seed in finals[name].values()]) for name in problems}
    complete = [m for m in methods if all(wanted[name] <= set(finals[name].get(m, ())) for name in problems)]
    shared = [name for name in problems if _common_seeds(finals, name, complete)]
    return Block(tuple(shared), tuple(complete), tuple(method for method in methods if method not in complete))


def _majority(sets: Sequence[set[int]]) -> set[int]:
    """What at least half of the sets hold."""
    return {one for one in set().union(*sets) if 2 * sum(one in held for held in sets) >= len(sets)}


def _common_seeds(finals: Finals, problem: str, methods: Sequence[str]) -> list[int]:
    seeds = [set(finals[problem][method]) for method in methods]
    return sorted(set.intersection(*seeds)) if seeds else []


def mean_ranks(finals: Finals, block: Block) -> Array:
    """The rank of each method among all (1 is best, ties averaged), mean over the common seeds, (problems, methods)."""
    rows = []
    for problem in block.problems:
        seeds = _common_seeds(finals, problem, block.methods)
        values = [[finals[problem][method][seed] for method in block.methods] for seed in seeds]
        rows.append(stats.rankdata(np.array(values), axis=1).mean(axis=0))
    return np.array(rows).reshape(len(block.problems), len(block.methods))


def ranks_of_means(finals: Finals, block: Block) -> Array:
    """The rank of each method by its mean final regret, ties averaged, (problems, methods)."""
    means = [[np.mean(list(finals[p][m].values())) for m in block.methods] for p in block.problems]
    return np.array(stats.rankdata(np.array(means), axis=1)).reshape(len(block.problems), len(block.methods))


# ------------------------------------------------------------------- tests


@dataclass(frozen=True)
class Comparison:
    """Two methods over problems; ``adjusted`` is Holm's p value among all comparisons made."""

    first: str
    second: str
    difference: float  # mean over problems of rank(first) - rank(second): below 0, the first is better
    p: float
    adjusted: float


def friedman(ranks: Array) -> float:
    """The p value of "all methods rank alike"; NaN for fewer than three methods or two problems."""
    problems, methods = ranks.shape
    if methods < 3 or problems < 2 or np.ptp(ranks) == 0:
        return float("nan")
    return float(stats.friedmanchisquare(*ranks.T).pvalue)


def wilcoxon(first: Array, second: Array) -> float:
    """The two-sided p value of Wilcoxon's signed-rank test over problems; 1 where nothing differs."""
    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    if not np.any(difference):
        return 1.0
    differing = difference[difference != 0]
    tied = len(np.unique(np.abs(differing))) < len(differing)
    method: Literal["exact", "approx"] = "approx" if tied and len(differing) > 13 else "exact"
    if tied and method == "exact":  # the exact distribution with ties: every assignment of signs
        return _sign_flips(differing)
    return float(stats.wilcoxon(differing, method=method).pvalue)


def _sign_flips(difference: Array) -> float:
    """P(|W+ - E W+| at least as seen) over all 2^n signs, with averaged ranks."""
    ranks = stats.rankdata(np.abs(difference))
    signs = (np.arange(2 ** len(ranks))[:, None] >> np.arange(len(ranks))) & 1
    sums = signs @ ranks
    seen = abs(ranks[difference > 0].sum() - ranks.sum() / 2)
    return float((np.abs(sums - ranks.sum() / 2) >= seen - 1e-12).mean())


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down: the i-th smallest of m times m - i + 1, never below the one before it, at most 1."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    result = np.empty(len(p))
    result[order] = adjusted
    return result.tolist()


def compare(ranks: Array, methods: Sequence[str], *, control: str | None = None) -> list[Comparison]:
    """Wilcoxon on the mean ranks of every pair, or of ``control`` with every other, with Holm's correction."""
    index = {method: k for k, method in enumerate(methods)}
    pairs = list(combinations(methods, 2)) if control is None else [(control, m) for m in methods if m != control]
    p = [wilcoxon(ranks[:, index[a]], ranks[:, index[b]]) for a, b in pairs]
    gaps = [float(np.mean(ranks[:, index[a]] - ranks[:, index[b]])) for a, b in pairs]
    return [Comparison(a, b, d, q, r) for (a, b), d, q, r in zip(pairs, gaps, p, holm(p), strict=True)]
