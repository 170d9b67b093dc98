"""The step with the paper's parts: every beta schedule, and what it says."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dechbo import Categorical, FactorGraph, Int, Optimizer, Space
from dechbo.search.options import SearchOptions
from dechbo.theory import TheoryOptions
from optimizer_cases import bowl, box, info_of, run


def test_a_beta_schedule_of_the_theory_says_what_it_switches_off() -> None:
    options: dict[str, Any] = {"seed": 0, "n_initial": 3, "search": SearchOptions(score="joint")}
    for beta, switched_off in {"theory": ('score="joint"',), "practical": ()}.items():
        optimizer = Optimizer(box(2), theory=TheoryOptions(beta=beta), **options)
        run(optimizer, bowl, 4)
        assert info_of(optimizer).switched_off == switched_off


def test_a_given_graph_with_a_large_factor_says_that_its_kernels_are_plain() -> None:
    for size, switched_off in ((4, ()), (5, ("centred",))):
        graph = FactorGraph(6, (tuple(range(size)), (5,)) if size == 5 else (tuple(range(4)), (4,), (5,)))
        optimizer = Optimizer(box(6), seed=0, n_initial=2, graph=graph)
        run(optimizer, bowl, 3)
        assert info_of(optimizer).switched_off == switched_off


def test_theory_factor_is_smaller_than_theory() -> None:
    betas = []
    for beta in ("theory", "theory-factor"):
        optimizer = Optimizer(box(6), seed=0, theory=TheoryOptions(beta=beta), n_initial=3)
        run(optimizer, bowl, 4)
        betas.append(info_of(optimizer).beta)
    assert betas[1] < betas[0]


@pytest.mark.parametrize("beta", ["theory", "theory-factor", "practical", 1.5, lambda t: 2 * math.log(t + 1)])
@pytest.mark.parametrize("space", [box(2), Space({"a": Int(0, 9), "b": Categorical(["p", "q", "r"])})])
def test_every_beta_works_on_finite_and_continuous_spaces(beta: Any, space: Space) -> None:
    optimizer = Optimizer(space, seed=0, theory=TheoryOptions(beta=beta), n_initial=3)
    run(optimizer, lambda p: float(len(str(p))), 5)
    assert beta == "practical" or info_of(optimizer).beta > 0
