"""Speed of the core on one thread, as ratios to references measured in the same run.

    python benchmarks/core_speed.py                        # all sections
    python benchmarks/core_speed.py evidence tables        # some of them
    python benchmarks/core_speed.py --json speed.json --markdown benchmarks/core_speed.md

The section ``ask`` needs the ``peers`` extra (torch, BoTorch) for its references. A ratio is the median of dechbo /
reference over repetitions that measure both in turn; the range is the smallest and the largest of them.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
from scipy.linalg.blas import dtrsm

import ask_speed
import maxsum_speed
from dechbo.acquisition import TableCache, ucb_tables
from dechbo.data.observations import Observations
from dechbo.maxsum import MaxSum
from speed_cases import Array, chain, model, observations, ring
from timing import (
    CLOCKS,
    HEADER,
    Call,
    Row,
    choose_clock,
    clock,
    compare,
    exponent,
    in_turn,
    machine,
    progress,
    seconds,
    source_digest,
)


def evidence(repeats: int) -> Iterator[Row]:
    """Evidence and gradient against one exponential per kernel entry."""
    d, t = 1811, 200
    graph, data = ring(d, seed=0), observations(d, t)
    matern, gaussian = model(graph), model(graph, kernel="se")
    entries = -np.random.default_rng(3).uniform(0.0, 5.0, t * (t - 1) // 2 * d)
    buffer = np.empty_like(entries)
    times = in_turn(
        {
            "matern52": lambda: matern.log_evidence_gradient(data),
            "np.exp": lambda: np.exp(entries, out=buffer),
            "se": lambda: gaussian.log_evidence_gradient(data),
        },
        repeats,
    )
    what = "evidence + gradient, d=1811, t=200, 1811 ternary factors"
    against = "np.exp of t(t-1)/2·d numbers"
    yield compare("evidence", f"{what}, Matérn-5/2", times["matern52"], against, times["np.exp"], 2.5)
    yield compare("evidence", f"{what}, squared exponential", times["se"], against, times["np.exp"])


def bare_solves(L: Array, cells: int, count: int, side: int) -> float:
    """Seconds of ``count`` triangular solves in place, t×t with t×cells, without filling the buffers."""
    t = len(L)
    right = np.random.default_rng(4).random((t, cells))
    fresh = np.asfortranarray(right if side == 0 else right.T)
    pool = [fresh.copy(order="F") for _ in range(32)]
    total = 0.0
    for first in range(0, count, len(pool)):
        part = pool[: min(len(pool), count - first)]
        for buffer in part:  # solving a solution again would lead to slow subnormal numbers
            buffer[:] = fresh
        start = clock()
        for buffer in part:
            dtrsm(1.0, L, buffer, side=side, lower=1, trans_a=side, overwrite_b=1)
        total += clock() - start
    return total


def tables(repeats: int) -> Iterator[Row]:
    """All UCB tables against the bare triangular solves of the same shapes."""
    d, t, g = 1811, 200, 10
    posterior = model(ring(d, seed=0)).condition(observations(d, t))
    candidates = [np.linspace(0.0, 1.0, g)] * d
    ucb_tables(posterior, candidates, 4.0)
    ours: list[float] = []
    sides: dict[str, list[float]] = {"left": [], "right": []}
    for k in range(repeats):
        ours.append(seconds(lambda: ucb_tables(posterior, candidates, 4.0)))
        for side, name in enumerate(sides):
            sides[name].append(bare_solves(posterior.L, g**3, d, side))
        progress(f"repetition {k + 1} of {repeats}")
    faster = min(sides, key=lambda name: statistics.median(sides[name]))
    what = "UCB tables, d=1811, t=200, 1811 ternary factors, 10 candidates"
    slower = "left" if faster == "right" else "right"
    against = f"bare dtrsm, L on the {faster} (on the {slower} {statistics.median(sides[slower]):.3g} s)"
    yield compare("tables", what, ours, against, sides[faster], 2.0)


def growth(repeats: int) -> Iterator[Row]:
    """Tables after one more observation, with the same hyperparameters and candidates, against tables from scratch."""
    d, t, g = 100, 500, 17
    gp, everything = model(chain(d)), observations(d, t + repeats + 1)
    candidates = [np.linspace(0.0, 1.0, g)] * d
    cache = TableCache()

    def first(n: int) -> Observations:
        return Observations(everything.X[:n], everything.y[:n])

    fits = cache.prepare(gp.condition(first(t - 1)), candidates)
    assert fits, "the solves do not fit into the memory limit of the cache"
    ucb_tables(gp.condition(first(t - 1)), candidates, 4.0, cache=cache)
    ucb_tables(gp.condition(first(t - 1)), candidates, 4.0)
    updated: list[float] = []
    scratch: list[float] = []
    conditions: list[float] = []
    for k in range(repeats):
        data = first(t + k)
        conditions.append(seconds(partial(gp.condition, data)))
        posterior = gp.condition(data)  # cached: the same object
        expected = ucb_tables(posterior, candidates, 4.0)  # untimed: brings both to the same state of the caches
        scratch.append(seconds(partial(ucb_tables, posterior, candidates, 4.0)))
        updated.append(seconds(partial(ucb_tables, posterior, candidates, 4.0, cache=cache)))
        again = ucb_tables(posterior, candidates, 4.0, cache=cache)
        np.testing.assert_allclose(again.flat, expected.flat, rtol=1e-6, atol=1e-8)
    what = f"d={d}, t={t}, chain of pairs, {g} candidates ({(d - 1) * g * g} cells)"
    yield compare("growth", f"tables after one more observation, {what}", updated, "from scratch", scratch, 0.2)
    with_gram = [a + b for a, b in zip(updated, conditions, strict=True)]
    all_scratch = [a + b for a, b in zip(scratch, conditions, strict=True)]
    name = f"the same with its Gram matrix and Cholesky, {what}"
    yield compare("growth", name, with_gram, "from scratch", all_scratch, 0.2)


def maxsum(repeats: int) -> Iterator[Row]:
    """Max-sum rounds against reading the tables the same number of times."""
    runs = []
    for k in range(repeats):
        runs.append(maxsum_speed.measure(1))
        progress(f"repetition {k + 1} of {repeats}")
    for same in zip(*runs, strict=True):
        if all(row["ratio"] == 1.0 for row in same):
            continue  # the reference itself
        ours = [float(row["seconds"]) for row in same]
        theirs = [float(row["seconds"]) / float(row["ratio"]) for row in same]
        what = f"{same[0]['name']}, 2000 ternary factors, 20 candidates"
        yield compare("maxsum", what, ours, str(same[0]["reference"]), theirs, same[0]["bar"])


def exponents(repeats: int) -> Iterator[Row]:
    """Slopes of log seconds, next to the paper's O(N_m D^|I| |I| (t^3 + |I|)) for one factor (its Appendix A).

    Here a cell costs at most t^2: L is factorised once for all cells and factors, and each cell is one column of a
    triangular solve. The paper's count solves a t×t system for every cell.
    """
    d = 50
    gp, everything = model(ring(d)), observations(d, 400)

    def tables_at(t: int, g: int) -> Call:
        posterior = gp.condition(Observations(everything.X[:t], everything.y[:t]))
        return lambda: ucb_tables(posterior, [np.linspace(0.0, 1.0, g)] * d, 4.0)

    def rounds_at(g: int, rounds: int) -> Call:
        return maxsum_speed.rounds_only(maxsum_speed.ternary_tables(500, 500, g), rounds)

    def both_at(t: int) -> Call:
        tables = tables_at(t, 8)
        return lambda: MaxSum().maximize(tables())

    ts, gs, counts = (50, 100, 200, 400), (5, 8, 12, 16, 20), (5, 10, 20, 40)
    series: list[tuple[str, Sequence[int], Callable[[int], Call], float]] = [
        (f"tables in t, ring of {d} ternary factors, 8 candidates", ts, lambda t: tables_at(t, 8), 3.0),
        ("tables and MaxSum in t, the same", ts, both_at, 3.0),
        (f"tables in candidates, ring of {d} ternary factors, t=100", gs, lambda g: tables_at(100, g), 3.0),
        ("30 rounds in candidates, 500 random ternary factors", gs, lambda g: rounds_at(g, 30), 3.0),
        ("rounds in their number, 500 random ternary factors, 20 candidates", counts, lambda n: rounds_at(20, n), 1.0),
    ]
    for name, sizes, build, paper in series:
        times = in_turn({str(size): build(size) for size in sizes}, repeats)
        taken = [statistics.median(times[str(size)]) for size in sizes]
        slope, last = exponent(sizes, taken), exponent(sizes[-2:], taken[-2:])
        what = f"exponent of {name}, {sizes[0]} … {sizes[-1]} (between the last two: {last:.3g})"
        yield Row("exponents", what, slope, "", "the paper", paper)


SECTIONS: dict[str, tuple[Callable[[int], Iterator[Row]], int]] = {
    "evidence": (evidence, 7),
    "tables": (tables, 5),
    "growth": (growth, 9),
    "maxsum": (maxsum, 5),
    "ask": (ask_speed.ask, 3),
    "scaling": (ask_speed.scaling, 3),
    "exponents": (exponents, 5),
}


def summary(rows: Sequence[Row]) -> str:
    """The page in Markdown."""
    facts = machine()
    packages = ", ".join(f"{name} {version}" for name, version in facts["packages"].items())
    lines = [
        "# How fast the core is",
        "",
        f"Written by `python benchmarks/core_speed.py --markdown benchmarks/core_speed.md` on {facts['date']}: "
        f"{facts['cpu']}, {facts['cores']} cores, one thread used, "
        f"{facts['clock']} time, load {facts['load']}, source {facts['source']}, Python {facts['python']}, {packages}.",
        "",
        "A ratio is the median of dechbo / reference over repetitions; the range is the smallest and the largest.",
    ]
    for section, (call, _) in SECTIONS.items():
        chosen = [row for row in rows if row.section == section]
        if chosen:
            title = " ".join((call.__doc__ or "").split())
            lines += ["", f"## {section}", "", title, "", HEADER, *(row.markdown() for row in chosen)]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="section", help=f"one of {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--repeats", type=int, help="repetitions in every section (default: the section's own number)")
    parser.add_argument("--json", type=Path, help="write rows, machine and versions here")
    parser.add_argument("--markdown", type=Path, help="write the table here")
    parser.add_argument(
        "--clock", choices=CLOCKS, default="wall", help="cpu for a busy machine (max-sum always uses wall)"
    )
    parser.add_argument("--probe", help=argparse.SUPPRESS)
    options = parser.parse_args()
    choose_clock(options.clock)
    if options.probe:
        print(json.dumps(ask_speed.probe(**json.loads(options.probe))))
        return
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"unknown sections {', '.join(unknown)}: choose from {', '.join(SECTIONS)}")
    before = source_digest()
    rows: list[Row] = []
    for name, (section, repeats) in SECTIONS.items():
        if options.sections and name not in options.sections:
            continue
        print(f"\n## {name}\n\n{HEADER}", flush=True)
        for row in section(options.repeats or repeats):
            rows.append(row)
            print(row.markdown(), flush=True)
    if source_digest() != before:
        parser.exit(1, "the code of the package changed during the run: nothing is written\n")
    if options.json:
        content = {"machine": machine(), "rows": [{**asdict(row), "met": row.met} for row in rows]}
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    if options.markdown:
        options.markdown.write_text(summary(rows))


if __name__ == "__main__":
    main()
