"""A mixed space with a known factor graph: floats, integers and categories, minimised in 40 evaluations."""

import math

from dechbo import Categorical, FactorGraph, Float, Int, Optimizer, Space

space = Space(
    {
        "lr": Float(1e-5, 1, log=True),
        "layers": Int(1, 8),
        "act": Categorical(["relu", "tanh"]),
        "drop": Float(0, 1, step=0.05),
    }
)
graph = FactorGraph.from_names(space, [("lr", "layers"), ("layers", "act"), ("drop",)])


def validation_loss(lr: float, layers: int, act: str, drop: float) -> float:
    """A stand-in for a training run: best at lr = 1e-3, 4 layers, dropout 0.35."""
    depth = (layers - 4) ** 2 * (1.0 if act == "relu" else 0.5)
    return (math.log10(lr) + 3) ** 2 * (0.5 + 0.1 * layers) + depth + abs(drop - 0.35)


optimizer = Optimizer(space, graph=graph, seed=0)
for k in range(40):
    params = optimizer.ask()
    optimizer.tell(params, validation_loss(**params))
    if k % 10 == 9:
        print(f"{k + 1:3d} evaluations: best {optimizer.best.value:.5f} at {optimizer.best.params}")

mean, deviation = optimizer.predict(optimizer.best.params)
print(f"the model expects {mean:.4f} ± {deviation:.4f} there; the last suggestion came from: {optimizer.info.source}")
