from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dechbo.errors import ScopeError
from dechbo.graph import Scope
from dechbo.structure import GraphPrior
from dechbo.structure.scopes import ScopeIndex, interaction_graph


def test_the_graph_has_every_singleton_and_the_interactions() -> None:
    graph = interaction_graph(4, frozenset({(1, 2, 3), (0, 1)}))
    assert graph.scopes == ((0,), (1,), (2,), (3,), (0, 1), (1, 2, 3))


@settings(max_examples=60)
@given(st.data())
def test_a_changed_index_is_the_index_of_the_changed_set(data: st.DataObject) -> None:
    scopes = [scope for size in range(2, 5) for scope in combinations(range(5), size)]
    prior = GraphPrior(5, max_factor_size=4)
    before = data.draw(st.sets(st.sampled_from(scopes)))
    after = data.draw(st.sets(st.sampled_from(scopes)))
    changed = ScopeIndex.of(prior, before).changed(tuple(before - after), tuple(after - before))
    fresh = ScopeIndex.of(prior, after)
    assert changed.scopes == fresh.scopes == tuple(sorted(after))
    assert changed.interactions == fresh.interactions == after
    for i in range(5):
        assert changed.by_variable.get(i, ()) == tuple(sorted(scope for scope in after if i in scope))


@pytest.mark.parametrize(
    ("scopes", "message"),
    [([(0,)], "2 to 3"), ([(0, 1, 2, 3)], "2 to 3"), ([(0, 9)], "0 to 4"), ([(0, 1), (1, 0)], "same variables")],
)
def test_bad_interactions(scopes: list[Scope], message: str) -> None:
    with pytest.raises(ScopeError, match=message):
        ScopeIndex.of(GraphPrior(5), scopes)
