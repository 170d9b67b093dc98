"""How the acquisition in parts scales: seconds, processor time and bytes of one maximisation.

Variables on a ring, each with a factor of three that sees it and two of the next ten; t observations, five candidates
a variable. One part is the same code in one single-threaded process. Every row is one call after a first one that
loads the compiled loops and starts the workers. With ``--check`` the choices of all rows of a size must be the same.

    python benchmarks/parts.py --dims 1000 10000 50000 --parts 1 2 4 --transport processes
    python benchmarks/parts.py --dims 10000 --parts 1 2 --transport ray --repeats 3
    python benchmarks/parts.py --dims 10000 --parts 2 4 16 --cuts
    python benchmarks/parts.py --quality
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import sys
import time
from typing import Any
from unittest import mock

import numpy as np

from dechbo.data.observations import Observations
from dechbo.distributed import PartsEngine, ProcessEngine, SynchronousMaxSum
from dechbo.distributed.partition import cut_weight, partition
from dechbo.gp import AdditiveGP
from dechbo.gp.additive import Hyperparameters
from dechbo.graph import FactorGraph
from dechbo.maxsum import Exact, MaxSum
from dechbo.tables import FactorTables
from dechbo.threads import one_blas_thread

CANDIDATES = 5


def ring(rng: np.random.Generator, dim: int) -> FactorGraph:
    offsets = [rng.choice(np.arange(1, 11), 2, replace=False) for _ in range(dim)]
    scopes = {tuple(sorted((i, (i + int(a)) % dim, (i + int(b)) % dim))) for i, (a, b) in enumerate(offsets)}
    return FactorGraph.covering(dim, sorted(scopes))


def engine_of(transport: str, parts: int) -> PartsEngine:
    if parts == 1:
        return PartsEngine(parts=1)
    if transport == "processes":
        return ProcessEngine(parts=parts)
    from dechbo.distributed.ray import RayEngine

    return RayEngine(parts=parts, cpus=min(1.0, (os.cpu_count() or 1) / parts))


def quality(graphs: int = 30, dim: int = 24) -> None:
    """Values and bounds of the schedule of parts and of MaxSum, beside the optimum: rings with random chords."""
    rows = []
    for seed in range(graphs):
        rng = np.random.default_rng(seed)
        scopes = [(i, (i + 1) % dim) for i in range(dim)]
        scopes += [tuple(rng.choice(dim, 3, replace=False).tolist()) for _ in range(dim // 2)]
        sizes = rng.integers(2, 6, dim)
        graph = FactorGraph(dim, tuple({frozenset(scope): scope for scope in scopes}.values()))
        tables = FactorTables(graph, tuple(rng.normal(size=sizes[list(scope)]) for scope in graph.scopes))
        optimum = Exact().maximize(tables).value
        scale = optimum - tables.mean
        found = [maximizer.maximize(tables) for maximizer in (SynchronousMaxSum(), MaxSum())]
        rows.append([x for m in found for x in ((optimum - m.value) / scale, (m.upper_bound - optimum) / scale)])
    for k, name in enumerate(("SynchronousMaxSum", "MaxSum")):
        short, above = np.array(rows)[:, 2 * k : 2 * k + 2].T
        print(f"{name}: value {short.mean():.4%} below the optimum in the mean, {short.max():.3%} at worst;", end=" ")
        print(f"bound {above.mean():.3%} above it in the mean")


def cuts(dim: int, parts: int) -> None:
    """The share of edges that METIS, and a breadth-first order without it, cut on a ring and on random triples."""
    rng = np.random.default_rng(0)
    triples = {tuple(sorted(rng.choice(dim, 3, replace=False).tolist())) for _ in range(dim)}
    sizes = np.full(dim, CANDIDATES)
    for name, graph in (("ring", ring(rng, dim)), ("random triples", FactorGraph.covering(dim, sorted(triples)))):
        row: dict[str, object] = {"graph": name, "dim": dim, "parts": parts}
        edges = sum(len(scope) for scope in graph.scopes if len(scope) > 1)
        for method in ("metis", "breadth-first"):
            began = time.process_time()
            with mock.patch.dict(sys.modules, {} if method == "metis" else {"pymetis": None}):
                cut = partition(graph, sizes, parts)
            seconds = time.process_time() - began
            row[method] = {
                "share": round(cut_weight(graph, sizes, cut) / CANDIDATES / edges, 4),
                "cpu": round(seconds, 2),
            }
        print(json.dumps(row), flush=True)


@one_blas_thread
def measured(engine: PartsEngine, case: tuple[Any, ...], dim: int, transport: str) -> dict[str, object]:
    gp, data, candidates = case
    began, cpu = time.perf_counter(), time.process_time()
    engine.suggest(gp, data, 1.0, candidates)
    wall, driver = time.perf_counter() - began, time.process_time() - cpu
    reports, parts = engine.reports, len(engine.reports)
    sizes = np.full(dim, CANDIDATES)
    traffic = getattr(engine.transport, "traffic", {})
    slowest = {k: max(r.seconds[k] for r in reports) for k in ("tables", "messages")}
    busiest = {k: max(r.cpu_seconds[k] for r in reports) for k in ("tables", "messages")}
    tables = np.array([r.table_bytes for r in reports])
    messages = np.array([r.message_bytes for r in reports])
    return {
        "dim": dim,
        "t": len(data),
        "parts": parts,
        "transport": "one process" if parts == 1 else transport,
        "seconds": {k: round(v, 3) for k, v in slowest.items()},
        "cpu_seconds": {k: round(v, 3) for k, v in busiest.items()},
        "wall": round(wall, 3),
        "driver_cpu": round(driver, 3),
        "table_mb": round(float(tables.sum()) / 1e6, 2),
        "table_share": round(float(tables.max() * parts / tables.sum()), 3),
        "message_share": round(float(messages.max() * parts / messages.sum()), 3),
        "cut": cut_weight(gp.graph, sizes, engine._partition(gp.graph, sizes)),
        "rounds": reports[0].maximum.rounds,
        "sent": {} if parts == 1 else {k: list(v) for k, v in sorted(traffic.items())},
        "value": reports[0].maximum.value,
        "gap": round(reports[0].maximum.upper_bound - reports[0].maximum.value, 6),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--parts", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--transport", choices=["processes", "ray"], default="processes")
    parser.add_argument("--t", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--quality", action="store_true", help="only compare values and bounds with MaxSum")
    parser.add_argument("--cuts", action="store_true", help="only compare the cuts of partitions")
    arguments = parser.parse_args()
    if arguments.quality:
        quality()
        return
    if arguments.cuts:
        for dim, parts in itertools.product(arguments.dims, arguments.parts):
            cuts(dim, parts)
        return
    print(json.dumps({"machine": platform.processor() or platform.machine(), "cores": os.cpu_count()}))
    for dim in arguments.dims:
        rng = np.random.default_rng(0)
        graph = ring(rng, dim)
        theta = Hyperparameters(rng.uniform(0.2, 1.0, dim), np.full(len(graph.scopes), 1.0 / len(graph.scopes)), 1e-2)
        data = Observations(rng.random((arguments.t, dim)), rng.normal(size=arguments.t))
        case = (AdditiveGP(graph, theta), data, [np.linspace(0, 1, CANDIDATES)] * dim)
        warm = ring(np.random.default_rng(1), 50)
        small = (
            AdditiveGP(warm, Hyperparameters(np.full(50, 0.5), np.full(len(warm.scopes), 0.1), 1e-2)),
            Observations(rng.random((20, 50)), rng.normal(size=20)),
            [np.linspace(0, 1, CANDIDATES)] * 50,
        )
        engines = [engine_of(arguments.transport, parts) for parts in arguments.parts]
        values = set()
        for engine in engines:
            engine.suggest(small[0], small[1], 1.0, small[2])  # starts the workers and loads the compiled loops
        for _ in range(arguments.repeats):  # in turns, so that a busy machine slows all of them
            for engine in engines:
                row = measured(engine, case, dim, arguments.transport)
                values.add(row["value"])
                print(json.dumps(row), flush=True)
        assert len(values) == 1, "the answer depends on the partition"
        for engine in engines:
            engine.close()


if __name__ == "__main__":
    main()
