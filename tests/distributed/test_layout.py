from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dechbo.distributed.layout import greedy_colours, stretches
from dechbo.distributed.plan import plan_parts
from dechbo.graph import FactorGraph
from distributed_cases import random_partition
from strategies import factor_graphs


@given(factor_graphs(max_dim=8, max_factors=10), st.integers(1, 4), st.integers(0, 99))
def test_both_ends_of_a_link_list_the_same_and_a_part_sees_only_what_is_near(
    graph: FactorGraph, parts: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    cut, sizes = random_partition(rng, graph, parts), rng.integers(1, 4, graph.dim)
    plans = plan_parts(graph, sizes, cut)
    for plan in plans:
        me, layout = plan.graph.place.part, plan.graph.cyclic
        held = {i for k in plan.factors for i in graph.scopes[k]}
        assert set(plan.graph.variables.tolist()) == held | set(np.flatnonzero(cut.variables == me).tolist())
        assert (layout.sizes == sizes[layout.variables]).all()
        for q, link in layout.links.items():
            other = plans[q].graph.cyclic
            there, back = other.links[me], other.variables
            for mine, theirs in (
                (link.sent_variables, there.received_variables),
                (link.received_variables, there.sent_variables),
            ):
                assert (layout.variables[mine] == back[theirs]).all()
            assert (
                layout.variables[layout.edge_variables[link.sent_edges]]
                == back[other.edge_variables[there.received_edges]]
            ).all()
            assert (cut.variables[back[other.edge_variables[there.received_edges]]] == q).all()


@given(factor_graphs(max_dim=8, max_factors=10))
def test_equal_colours_share_nothing(graph: FactorGraph) -> None:
    colours = greedy_colours(graph.scopes, graph.dim)
    for scope in graph.scopes:
        assert len({int(colours[i]) for i in scope}) == len(scope)
    of_factors = greedy_colours(graph.factors_of, len(graph.scopes))
    for factors in graph.factors_of:
        assert len({int(of_factors[k]) for k in factors}) == len(factors)


def test_stretches() -> None:
    starts = np.array([0, 2, 5, 6])
    assert stretches(starts, np.array([2, 0])).tolist() == [5, 0, 1]
    assert stretches(starts, np.array([], dtype=np.int64)).tolist() == []
