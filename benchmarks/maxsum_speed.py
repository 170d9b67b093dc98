"""Speed of max-sum against reading the tables once per round: python benchmarks/maxsum_speed.py"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from dechbo.graph import FactorGraph
from dechbo.maxsum import Maximum, MaxSum
from dechbo.maxsum.forest import connected_components
from dechbo.maxsum.messages import max_sum_rounds
from dechbo.maxsum.reduction import minima_and_maxima, reduce_tables
from dechbo.tables import FactorTables
from timing import exponent

ROUNDS = 30
MAX_RATIO = 3.0
Row = dict[str, object]


def ternary_tables(factors: int = 2000, dim: int = 2000, candidates: int = 20, seed: int = 0) -> FactorTables:
    """Random ternary factors with random tables; most of them are in one component with many cycles."""
    rng = np.random.default_rng(seed)
    scopes: dict[frozenset[int], tuple[int, ...]] = {}
    while len(scopes) < factors:
        scope = tuple(int(i) for i in rng.choice(dim, 3, replace=False))
        scopes.setdefault(frozenset(scope), scope)
    graph = FactorGraph.covering(dim, scopes.values())
    return FactorTables(graph, tuple(rng.normal(size=[candidates] * len(scope)) for scope in graph.scopes))


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Median wall time, after one call that compiles."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def rounds_only(tables: FactorTables, rounds: int) -> Callable[[], object]:
    packed = reduce_tables(tables).packed(connected_components(tables.graph).cyclic)
    choice = np.zeros(tables.graph.dim, dtype=np.int64)
    return lambda: max_sum_rounds(packed, packed.zero_messages(), choice, rounds, 0.5, 0.0)


def maximize_uncached(tables: FactorTables) -> Maximum:
    """Everything from a buffer of cells to the maximum; only the schedule of the graph is cached."""
    return MaxSum(rounds=ROUNDS).maximize(FactorTables.from_flat(tables.graph, tables.sizes, tables.flat))


def readers(tables: FactorTables) -> dict[str, Callable[[], object]]:
    """Ways to read every cell once."""
    parts = len(tables.starts) - 1
    low, high = np.empty(parts), np.empty(parts)
    return {
        "flat.max()": tables.flat.max,
        "flat.sum()": tables.flat.sum,
        "compiled min and max": lambda: minima_and_maxima(
            tables.flat, tables.starts[:-1], tables.starts[1:], low, high
        ),
    }


def repeat(call: Callable[[], object], count: int) -> Callable[[], None]:
    def repeated() -> None:
        for _ in range(count):
            call()

    return repeated


def measure(repeats: int = 5) -> list[Row]:
    """Rows (name, seconds, reference, ratio, bar); the reference is the fastest of ``readers``, ROUNDS times."""
    tables = ternary_tables()
    read = {name: seconds(repeat(call, ROUNDS), repeats) for name, call in readers(tables).items()}
    reader = min(read, key=lambda name: read[name])
    reference = f"tables read {ROUNDS} times by {reader}"
    rows: list[Row] = [{"name": reference, "seconds": read[reader], "reference": reference, "ratio": 1.0, "bar": None}]
    calls: list[tuple[str, Callable[[], object], float | None]] = [
        (f"{ROUNDS} max-sum rounds", rounds_only(tables, ROUNDS), MAX_RATIO),
        (f"MaxSum(rounds={ROUNDS}).maximize, with bound", lambda: maximize_uncached(tables), None),
    ]
    for name, call, bar in calls:
        taken = seconds(call, repeats)
        rows.append({"name": name, "seconds": taken, "reference": reference, "ratio": taken / read[reader], "bar": bar})
    return rows


def growth(repeats: int = 5) -> list[Row]:
    """Seconds against rounds, and against candidates per variable (cells grow with their cube), with exponents."""
    rows: list[Row] = []
    tables, counts = ternary_tables(factors=500, dim=500), [10, 20, 40]
    grids, rounds = [5, 10, 20], ROUNDS
    by_rounds = [seconds(rounds_only(tables, n), repeats) for n in counts]
    by_grid = [seconds(rounds_only(ternary_tables(500, 500, n), rounds), repeats) for n in grids]
    for name, sizes, taken, bar in (("rounds", counts, by_rounds, 1.0), ("candidates", grids, by_grid, 3.0)):
        for size, value in zip(sizes, taken, strict=True):
            rows.append({"name": f"{name} = {size}", "seconds": value, "reference": "", "ratio": None, "bar": None})
        power = exponent(sizes, taken)
        rows.append({"name": f"exponent in {name}", "seconds": None, "reference": "", "ratio": power, "bar": bar})
    return rows


def markdown(rows: list[Row]) -> str:
    def cell(value: object) -> str:
        return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)

    lines = ["| name | seconds | ratio | bar |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(cell(row[key]) for key in ('name', 'seconds', 'ratio', 'bar'))} |" for row in rows]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="number of repetitions; the median counts")
    repeats = parser.parse_args().repeats
    print("2,000 ternary factors, 20 candidates, one thread\n")
    print(markdown(measure(repeats)))
    print("\n500 ternary factors, rounds only\n")
    print(markdown(growth(repeats)))


if __name__ == "__main__":
    main()
