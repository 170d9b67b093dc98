"""Batches of four evaluations in parallel processes, some of which fail."""

import itertools
from concurrent.futures import ProcessPoolExecutor

from dechbo import Float, Optimizer, Space

space = Space({f"x{i}": Float(-2, 2) for i in range(6)})


def rosenbrock(params: dict[str, float]) -> float | None:
    """Return None, a failed evaluation, in some corners, as simulators do."""
    x = list(params.values())
    if x[0] * x[1] < -2:
        return None
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in itertools.pairwise(x))


if __name__ == "__main__":
    optimizer = Optimizer(space, seed=0, noise=0)
    with ProcessPoolExecutor(4) as pool:
        for round_number in range(15):
            batch = optimizer.ask(4)
            for params, value in zip(batch, pool.map(rosenbrock, batch), strict=True):
                optimizer.tell(params, value)
            print(f"round {round_number + 1:2d}: best {optimizer.best.value:.3f}")
    failed = sum(evaluation.failed for evaluation in optimizer.evaluations)
    print(f"{len(optimizer.evaluations)} evaluations, {failed} failed")
