"""The cost of an ask when a thousand evaluations are known: 20 consecutive asks with 12 parameters, in CPU seconds.

python benchmarks/many_evaluations.py
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from dechbo import Float, Optimizer, Space


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=1000)
    parser.add_argument("--dim", type=int, default=12)
    chosen = parser.parse_args()
    space = Space({f"x{i}": Float(0, 1) for i in range(chosen.dim)})
    phases, rng = np.arange(chosen.dim), np.random.default_rng(0)

    def value(params: dict[str, float]) -> float:
        x = np.array(list(params.values()))
        return float(np.sin(3 * x + phases).sum() + 3 * x[0] * x[1])

    optimizer = Optimizer(space, seed=0)
    for point in rng.random((chosen.evaluations, chosen.dim)):
        params = space.decode(point)
        optimizer.tell(params, value(params))
    seconds = []
    for _ in range(21):
        started = time.process_time()
        params = optimizer.ask()
        seconds.append(time.process_time() - started)
        optimizer.tell(params, value(params))
    print(f"the first ask, which learns the graph and compiles: {seconds[0]:.1f} s")
    print(f"20 more: mean {np.mean(seconds[1:]):.2f} s, longest {max(seconds[1:]):.2f} s")


if __name__ == "__main__":
    main()
