"""Maximizers on the same tables: ours beside toulbar2, PGMax and pyDCOP; values, bounds and CPU seconds.

    python benchmarks/maximizers.py --run random fresh celar asks [--wcsp celar6sub0.wcsp]
    python benchmarks/maximizers.py --run peers --pgmax PYTHON --pydcop PYTHON
    python benchmarks/maximizers.py            # the summary, from results/maximizers.jsonl, to maximizers.md

PYTHON is the interpreter of an environment with `pip install "jax<0.4.36" pgmax` (Python 3.11) or `pip install
pydcop "numpy<1.23"` (Python 3.9). toulbar2 (pytoulbar2) and HiGHS (SciPy's linprog) judge: they give the optimum and
the bound of the linear programming relaxation. The WCSP file is celar6sub0 of the CELAR frequency assignment problems.
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
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dechbo import BoundedMaxSum, Exact, FactorGraph, FactorTables, MaxSum, Optimizer, Toulbar2
from dechbo.bench import problems
from dechbo.errors import TableError
from dechbo.maxsum import Maximizer, Maximum

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "tests"))
from maximizers_page import Row, summary  # noqa: E402
from maxsum_cases import PLAIN, linear_program  # noqa: E402

RECORDS, PAGE = HERE / "results" / "maximizers.jsonl", HERE / "maximizers.md"
INSTANCES, PEER_INSTANCES = 20, 3
FRESH = ("MaxSum, no clusters", "MaxSum", "MaxSum, more clusters", "Toulbar2, 60 s")  # on seeds from 100 on

OURS: dict[str, Maximizer] = {
    "messages only": MaxSum(**PLAIN),
    "MaxSum, no clusters": MaxSum(cluster_cells=0),
    "MaxSum": MaxSum(),
    "MaxSum, more clusters": MaxSum(cluster_cells=2**18, work=2**30),
    "MaxSum, most clusters": MaxSum(cluster_cells=2**18, work=2**32),
    "BoundedMaxSum": BoundedMaxSum(),
    "Toulbar2, 60 s": Toulbar2(time_limit=60),
}
CELAR: dict[str, Maximizer] = {
    "messages only": MaxSum(**PLAIN),
    "MaxSum": MaxSum(),
    "MaxSum, more clusters": MaxSum(restarts=60, cluster_cells=2 * 10**6, work=2**30),
    "Toulbar2, 60 s": Toulbar2(time_limit=60),
}


def triples(seed: int, dim: int = 25, candidates: int = 8, factors: int = 30) -> FactorTables:
    """Random triples that cover all variables, no singletons, normal tables."""
    rng = np.random.default_rng(seed)
    scopes: dict[frozenset[int], tuple[int, ...]] = {}
    while len(set().union(*scopes)) < dim:
        scopes = {}
        while len(scopes) < factors:
            scope = tuple(int(i) for i in rng.choice(dim, 3, replace=False))
            scopes.setdefault(frozenset(scope), scope)
    graph = FactorGraph(dim, tuple(scopes.values()))
    return FactorTables(graph, tuple(rng.normal(size=(candidates,) * 3) for _ in graph.scopes))


def regular(seed: int, dim: int = 40, candidates: int = 8, degree: int = 4) -> FactorTables:
    """A random simple graph in which every variable has ``degree`` pairs, normal tables."""
    rng = np.random.default_rng(seed)
    pairs: set[tuple[int, ...]] = set()
    while len(pairs) < dim * degree // 2 or any(i == j for i, j in pairs):
        stubs = np.repeat(np.arange(dim), degree)
        rng.shuffle(stubs)
        pairs = {tuple(sorted(map(int, pair))) for pair in stubs.reshape(-1, 2)}
    graph = FactorGraph(dim, tuple(sorted(pairs)))
    return FactorTables(graph, tuple(rng.normal(size=(candidates,) * 2) for _ in graph.scopes))


FAMILIES: dict[str, Callable[[int], FactorTables]] = {"triples": triples, "4-regular pairs": regular}


def read_wcsp(path: Path) -> FactorTables:
    """Minus the costs of a weighted constraint problem; the largest cost is a cost like any other."""
    numbers = iter(map(int, path.read_text().split()[1:]))
    dim, _, constraints, _ = (next(numbers) for _ in range(4))
    sizes = [next(numbers) for _ in range(dim)]
    tables: dict[tuple[int, ...], Any] = {}
    for _ in range(constraints):
        scope = [next(numbers) for _ in range(next(numbers))]
        table = np.full([sizes[i] for i in scope], -float(next(numbers)))
        for _ in range(next(numbers)):
            cell = tuple(next(numbers) for _ in scope)
            table[cell] = -float(next(numbers))
        key = tuple(sorted(scope))
        tables[key] = tables.get(key, 0.0) + table.transpose(np.argsort(scope))
    return FactorTables(FactorGraph(dim, tuple(tables)), tuple(tables.values()))


def timed(maximizer: Maximizer, tables: FactorTables) -> tuple[Maximum, float]:
    start = time.process_time()
    answer = maximizer.maximize(tables)
    return answer, time.process_time() - start


def warm_up() -> None:
    """Compile everything, so that no row pays for it."""
    for family in FAMILIES.values():
        MaxSum().maximize(family(10**6))


def random_rows(first_seed: int = 0, methods: tuple[str, ...] = tuple(OURS), suffix: str = "") -> Iterator[Row]:
    for name, family in FAMILIES.items():
        for seed in range(first_seed, first_seed + INSTANCES):
            tables = family(seed)
            answers = {method: timed(OURS[method], tables) for method in methods}
            proven = answers["Toulbar2, 60 s"][0]
            judged = {"optimum": proven.value, "proven": proven.gap < 1e-6, "lp": linear_program(tables)}
            for method, (answer, seconds) in answers.items():
                row = {
                    "case": name + suffix,
                    "seed": seed,
                    "method": method,
                    "value": answer.value,
                    "bound": answer.upper_bound,
                }
                if hasattr(answer, "paper_bound"):
                    row["paper_bound"] = answer.paper_bound
                yield {**row, "seconds": seconds, "mean": tables.mean, **judged}


def celar_rows(path: Path) -> Iterator[Row]:
    tables = read_wcsp(path)
    MaxSum(work=2**28, cluster_cells=2**17).maximize(tables)
    for method, maximizer in CELAR.items():
        answer, seconds = timed(maximizer, tables)
        yield {"case": "celar6sub0", "method": method, "value": answer.value, "bound": answer.upper_bound} | {
            "seconds": seconds
        }


class Recorder:
    """MaxSum that keeps the tables it was given."""

    def __init__(self) -> None:
        self.tables: list[FactorTables] = []

    def maximize(self, tables: FactorTables) -> Maximum:
        self.tables.append(tables)
        return MaxSum().maximize(tables)


ASKS = {"NK-30": 80, "Overlapping-20": 45, "Hartmann-6": 40, "Levy-10": 40}


def optimizers(problem: problems.Problem, recorder: Recorder) -> dict[str, Optimizer]:
    made = {"paper": Optimizer.paper(problem.space, seed=0, maximizer=recorder)}
    made["default"] = Optimizer(problem.space, seed=0, maximizer=recorder)
    if problem.scopes is not None and max(map(len, problem.scopes)) > 1:
        graph = FactorGraph.from_names(problem.space, problem.scopes)
        made["paper, true graph"] = Optimizer.paper(problem.space, seed=0, maximizer=recorder, graph=graph)
    return made


def asks_rows() -> Iterator[Row]:
    """Tables of the asks of ``Optimizer.paper`` and of the default, seed 0; the cyclic ones are maximised again."""
    for name, evaluations in ASKS.items():
        problem, recorder = problems.problem(name, 0), Recorder()
        for kind, optimizer in optimizers(problem, recorder).items():
            recorder.tables.clear()
            start = time.process_time()
            for _ in range(evaluations):
                params = optimizer.ask()
                optimizer.tell(params, problem(params))
            whole = time.process_time() - start
            plain = full = 0.0
            gaps, shortfalls, better = [], [], 0
            for tables in recorder.tables:
                before, seconds = timed(MaxSum(**PLAIN), tables)
                plain += seconds
                after, seconds = timed(MaxSum(), tables)
                full += seconds
                if after.rounds == 0:
                    continue
                gaps.append(after.gap)
                better += bool((before.choice != after.choice).any())
                if after.gap > 0:
                    shortfalls.append((optimum(tables) - after.value) / (after.value - tables.mean))
                else:
                    shortfalls.append(0.0)
            yield {
                "case": "asks",
                "problem": name,
                "method": kind,
                "tables": len(recorder.tables),
                "cyclic": len(gaps),
                "gap": statistics.median(gaps) if gaps else None,
                "largest gap": max(gaps, default=None),
                "shortfall": max(shortfalls, default=None),
                "other choices": better,
                "plain seconds": plain,
                "seconds": full,
                "all seconds": whole,
            }


def optimum(tables: FactorTables) -> float:
    try:
        return Exact().maximize(tables).value
    except TableError:
        return Toulbar2(time_limit=60).maximize(tables).value


def peer_rows(interpreters: dict[str, str]) -> Iterator[Row]:
    """Each peer gets the tables in a file and prints one JSON line for each of its methods."""
    cases = [(name, seed, family(seed)) for name, family in FAMILIES.items() for seed in range(PEER_INSTANCES)]
    for peer, python in ((peer, python) for peer, python in interpreters.items() if python):
        script = HERE / "peer_maximizers" / f"{peer}.py"
        for name, seed, tables in cases:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "tables.npz"
                arrays = {f"t{k}": table for k, table in enumerate(tables.values)}
                scopes = np.array(tables.graph.scopes)
                np.savez(file, sizes=tables.sizes, scopes=scopes, **arrays)  # type: ignore[arg-type]
                ran = subprocess.run([python, str(script), str(file)], capture_output=True, text=True, check=False)
            for line in filter(lambda line: line.startswith("{"), ran.stdout.splitlines()):
                found = json.loads(line)
                value = tables.value(np.array(found.pop("choice")))
                yield {"case": name, "seed": seed, "value": value, "bound": None, "mean": tables.mean, **found}
            if ran.returncode:
                print(f"{peer} on {name} {seed}: {ran.stderr[-300:]}", file=sys.stderr)


def run(sections: list[str], chosen: argparse.Namespace) -> None:
    warm_up()
    made: dict[str, Callable[[], Iterator[Row]]] = {
        "random": random_rows,
        "fresh": lambda: random_rows(100, FRESH, ", fresh"),
        "celar": lambda: celar_rows(chosen.wcsp),
        "asks": asks_rows,
        "peers": lambda: peer_rows(
            {name: getattr(chosen, name) for name in ("pgmax", "pydcop") if getattr(chosen, name)}
        ),
    }
    old = [row for row in read(chosen.records) if row["section"] not in sections]
    chosen.records.write_text("".join(json.dumps(row) + "\n" for row in old))
    for section in sections:
        for row in made[section]():
            with chosen.records.open("a") as file:
                file.write(json.dumps({"section": section, **row}) + "\n")
            print(section, row.get("case"), row.get("seed", ""), row["method"], flush=True)


def read(records: Path) -> list[Row]:
    return [json.loads(line) for line in records.read_text().splitlines()] if records.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", nargs="+", default=[], choices=["random", "fresh", "celar", "asks", "peers"])
    parser.add_argument("--wcsp", type=Path, default=Path("celar6sub0.wcsp"))
    parser.add_argument("--pgmax", default="", help="the interpreter of PGMax's environment")
    parser.add_argument("--pydcop", default="", help="the interpreter of pyDCOP's environment")
    parser.add_argument(
        "--records", type=Path, default=RECORDS, help="where the rows go; the summary reads the default"
    )
    chosen = parser.parse_args()
    if chosen.run:
        run(chosen.run, chosen)
    if chosen.records == RECORDS:
        PAGE.write_text(summary(read(RECORDS)))


if __name__ == "__main__":
    main()
