"""Which parameters act together: 150 experiments with a pair, and a triple that shows in none of its pairs."""

import csv
import tempfile
from pathlib import Path

import numpy as np

import dechbo
from dechbo import Float, Optimizer, Space

space = Space({f"x{i}": Float(0, 1) for i in range(10)})
rng = np.random.default_rng(0)
X = rng.random((150, 10))
alone = np.sin(3 * X[:, 0]) + X[:, 1] + 2 * (X[:, 2] - 0.3) ** 2
pair = 4 * (X[:, 1] - 0.5) * (X[:, 4] - 0.5)
triple = 16 * (X[:, 2] - 0.5) * (X[:, 5] - 0.5) * (X[:, 8] - 0.5)
y = alone + pair + triple + 0.05 * rng.standard_normal(150)


def show(title: str, found: list) -> None:
    """The interactions that are more likely than not."""
    print(title)
    for one in found:
        if one.probability > 0.5:
            print(f"  {' '.join(one.scope):10}  probability {one.probability:.2f}  share of variance {one.share:.2f}")


show("from arrays (true shares: 0.30 and 0.22)", dechbo.interactions.from_table(X, y, space))

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "results.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([[*space.names, "loss"], *np.column_stack([X, y]).tolist()])
    show("from a file, its space read off the columns", dechbo.interactions.from_csv(path, target="loss"))

optimizer = Optimizer(space, seed=0)
for row, value in zip(X.tolist(), y, strict=True):
    optimizer.tell(dict(zip(space.names, row, strict=True)), value)
show("from an optimiser that was told the same", optimizer.interactions())
together = optimizer.pair_probabilities()
print(f"  in a common factor: x2 and x5 with probability {together[2, 5]:.2f}, x0 and x1 with {together[0, 1]:.2f}")

params = optimizer.ask()
print(f"what it would try next: x0 = {params['x0']:.2f}, x1 = {params['x1']:.2f}, … ({optimizer.info.source})")
