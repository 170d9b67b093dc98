"""What the studies of ``examples/`` reach, from the records of ``dechbo bench run``: the table of examples/README.md.

    python benchmarks/examples.py

Prints, for each method, the mean best value over all seeds that have records and, in brackets, the best and the worst.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dechbo.bench.records import load_records

RESULTS = Path(__file__).parent / "results"
METHODS = {"dechbo": "dechbo", "optuna-tpe": "Optuna's TPE", "random": "random search"}
EXAMPLES = {  # the problem, its seeds, its evaluations (initial ones included) and the format of its values
    "boosting": ("boosting-21", 5, 100, ".4f"),
    "compressor": ("compressor-10", 5, 80, ",.0f"),
    "voltages": ("voltages-54", 5, 120, ".1f"),
    "wine": ("wine-12", 10, 80, ".4f"),
}


def table() -> list[str]:
    """The lines of the table."""
    finals: dict[tuple[str, str, int], dict[int, float]] = {}
    for record in load_records(RESULTS):
        if record.finished:
            key = (record.run.problem, record.run.method, record.run.total)
            finals.setdefault(key, {})[record.run.seed] = record.final_regret
    lines = [f"| example | trials | seeds | {' | '.join(METHODS.values())} |", "|---" * (3 + len(METHODS)) + "|"]
    for name, (problem, seeds, total, style) in EXAMPLES.items():
        cells = []
        for method in METHODS:
            found = finals[problem, method, total]
            assert set(found) == set(range(seeds)), (problem, method, sorted(found))
            values = np.array(list(found.values()))
            cells.append(f"{values.mean():{style}} ({values.min():{style}} to {values.max():{style}})")
        lines.append(f"| {name} | {total} | {seeds} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
