from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from dechbo.distributed.ascent import ascend
from dechbo.distributed.exchange import Place, Program, all_reduce
from dechbo.distributed.in_process import run_in_process


def concave(
    place: Place, mine: np.ndarray, matrix: np.ndarray, centre: np.ndarray, points: np.ndarray
) -> Program[tuple[np.ndarray, np.ndarray]]:
    """-(x - c)^T A (x - c) / 2; parts share A (x - c), a sum over columns."""
    product = yield from all_reduce(place, (points - centre[mine]) @ matrix[mine])
    value = yield from all_reduce(place, -0.5 * ((points - centre[mine]) * product[:, mine]).sum(axis=1))
    return value, -product[:, mine]


@pytest.mark.parametrize("parts", [1, 3])
def test_bounded_quadratics(parts: int) -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(9, 9))
    matrix, centre = root @ root.T + np.eye(9), rng.uniform(-0.5, 1.5, 9)
    start = rng.random((4, 9))
    split = np.array_split(np.arange(9), parts)

    def program(p: int) -> Program[tuple[np.ndarray, np.ndarray]]:
        place, mine = Place(p, parts), split[p]
        return ascend(place, lambda x: concave(place, mine, matrix, centre, x), start[:, mine], 0.0, 1.0, 300)

    results = run_in_process([program(p) for p in range(parts)])
    ends = np.hstack([x for x, _ in results])
    best = minimize(
        lambda x: (0.5 * (x - centre) @ matrix @ (x - centre), matrix @ (x - centre)),
        start[0],
        jac=True,
        bounds=[(0, 1)] * 9,
        options={"ftol": 1e-15, "gtol": 1e-12},
    )
    for end in ends:
        np.testing.assert_allclose(end, best.x, atol=1e-4)
    np.testing.assert_allclose(results[0][1], -best.fun, atol=1e-6)


def test_no_value_falls() -> None:
    def rough(points: np.ndarray) -> Program[tuple[np.ndarray, np.ndarray]]:
        yield from all_reduce(Place(0, 1), np.zeros(1))
        return np.sin(40 * points).sum(axis=1), 40 * np.cos(40 * points)

    start = np.random.default_rng(1).random((20, 2))
    _, values = run_in_process([ascend(Place(0, 1), rough, start, 0.0, 1.0, 30)])[0]
    before = np.sin(40 * start).sum(axis=1)
    assert (values >= before).all()
    assert values.mean() > before.mean() + 0.5
