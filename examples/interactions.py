"""Interactions from 150 experiments: a pair, and a triple that shows in none of its pairs."""

import csv
import tempfile
from pathlib import Path

import numpy as np

import dechbo
from dechbo import Float, Optimizer, Space

space = Space({f"x{i}": Float(0, 1) for i in range(10)})
rng = np.random.default_rng(0)
X = rng.random((150, 10))
single = np.sin(3 * X[:, 0]) + X[:, 1] + 2 * (X[:, 2] - 0.3) ** 2
pair = 4 * (X[:, 1] - 0.5) * (X[:, 4] - 0.5)
triple = 16 * (X[:, 2] - 0.5) * (X[:, 5] - 0.5) * (X[:, 8] - 0.5)
y = single + pair + triple + 0.05 * rng.standard_normal(150)


def show(title: str, found: list) -> None:
    """Print the interactions with a probability above 0.5."""
    print(title)
    for one in found:
        if one.probability > 0.5:
            print(f"  {' '.join(one.scope):10}  probability {one.probability:.2f}  share of variance {one.share:.2f}")


show("from arrays (true shares: 0.30 and 0.22)", dechbo.interactions.from_table(X, y, space))

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "results.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([[*space.names, "loss"], *np.column_stack([X, y]).tolist()])
    show("from a CSV file, with the space inferred from its columns", dechbo.interactions.from_csv(path, target="loss"))

optimizer = Optimizer(space, seed=0)
for row, value in zip(X.tolist(), y, strict=True):
    optimizer.tell(dict(zip(space.names, row, strict=True)), value)
show("from an optimizer that was told the same data", optimizer.interactions())
pairs = optimizer.pair_probabilities()
print(f"  in a common factor: x2 and x5 with probability {pairs[2, 5]:.2f}, x0 and x1 with {pairs[0, 1]:.2f}")

params = optimizer.ask()
print(f"the next suggestion: x0 = {params['x0']:.2f}, x1 = {params['x1']:.2f}, … ({optimizer.info.source})")
