"""The factor graph: what it holds, its flat views, and errors that say what was expected and what it got."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dechbo.errors import DechboError, ScopeError
from dechbo.graph import FactorGraph
from dechbo.space import Float, Space
from strategies import factor_graphs, relabelled_graph

SPACE = Space({name: Float(0, 1) for name in ("lr", "depth", "width")})

# ---------------------------------------------------------------- construction


def test_scopes_keep_their_order_and_become_plain_ints() -> None:
    graph = FactorGraph(np.int64(4), ([2, np.int32(0)], (1,), (3, 1, 0), (0,)))  # type: ignore[arg-type]
    assert graph.scopes == ((2, 0), (1,), (3, 1, 0), (0,))
    assert graph.dim == 4
    assert {type(i) for scope in graph.scopes for i in scope} | {type(graph.dim)} == {int}
    assert graph.max_factor_size == 3


def test_scopes_may_come_from_any_iterable() -> None:
    graph = FactorGraph(3, (range(k, k + 2) for k in range(2)))  # type: ignore[arg-type]
    assert graph.scopes == ((0, 1), (1, 2))
    assert FactorGraph(2, np.array([[0, 1]])).scopes == ((0, 1),)  # type: ignore[arg-type]


def test_equal_graphs_are_equal_and_hash_alike() -> None:
    left, right = FactorGraph(2, ((0, 1),)), FactorGraph(2, [[0, 1]])  # type: ignore[arg-type]
    assert left == right
    assert hash(left) == hash(right)
    assert left != FactorGraph(2, ((1, 0),))
    with pytest.raises(AttributeError):
        left.dim = 3  # type: ignore[misc]


def test_singletons() -> None:
    graph = FactorGraph.singletons(3)
    assert graph.scopes == ((0,), (1,), (2,))
    assert graph.max_factor_size == 1


def test_covering_adds_what_is_missing_at_the_end() -> None:
    assert FactorGraph.covering(5, [(3, 1)]).scopes == ((3, 1), (0,), (2,), (4,))
    assert FactorGraph.covering(2, ((0,), (1,))).scopes == ((0,), (1,))
    assert FactorGraph.covering(2, iter([[0, 1]])).scopes == ((0, 1),)  # type: ignore[arg-type]
    assert FactorGraph.covering(3, []) == FactorGraph.singletons(3)


def test_from_names() -> None:
    graph = FactorGraph.from_names(SPACE, [("width", "lr"), "depth"])
    assert graph == FactorGraph(3, ((2, 0), (1,)))


def test_relabelled() -> None:
    graph = FactorGraph(3, ((0, 1), (2,)))
    assert relabelled_graph(graph, [2, 0, 1]).scopes == ((2, 0), (1,))
    assert relabelled_graph(graph, {0: 1, 1: 0, 2: 2}).scopes == ((1, 0), (2,))
    assert relabelled_graph(graph, np.array([2, 0, 1])).scopes == ((2, 0), (1,))  # type: ignore[arg-type]
    with pytest.raises(ScopeError, match="twice"):
        relabelled_graph(graph, [0, 0, 1])
    with pytest.raises(ScopeError, match=r"variables \[2\] are in no scope"):
        relabelled_graph(graph, [0, 1, 1])
    with pytest.raises(ScopeError, match="from 0 to 2, got 3"):
        relabelled_graph(graph, [0, 1, 3])


@given(factor_graphs(), st.randoms())
def test_relabelling_back_gives_the_same_graph(graph: FactorGraph, random: Any) -> None:
    new = list(range(graph.dim))
    random.shuffle(new)
    back = {there: here for here, there in enumerate(new)}
    assert relabelled_graph(relabelled_graph(graph, new), back) == graph


# ---------------------------------------------------------------- views


@given(factor_graphs(max_dim=8, max_factors=8, max_size=4))
def test_starts_and_members_hold_the_scopes(graph: FactorGraph) -> None:
    assert graph.starts.dtype == graph.members.dtype == np.int64
    assert graph.starts[0] == 0
    assert graph.starts[-1] == len(graph.members)
    parts = np.split(graph.members, graph.starts[1:-1])
    assert [tuple(part.tolist()) for part in parts] == list(graph.scopes)


@given(factor_graphs(max_dim=8, max_factors=8, max_size=4))
def test_factors_of_and_scopes_say_the_same(graph: FactorGraph) -> None:
    assert len(graph.factors_of) == graph.dim
    for i, factors in enumerate(graph.factors_of):
        assert list(factors) == [k for k, scope in enumerate(graph.scopes) if i in scope]
        assert factors


@given(factor_graphs(max_dim=8, max_factors=8, max_size=4))
def test_by_size_holds_each_factor_once(graph: FactorGraph) -> None:
    found: dict[int, tuple[int, ...]] = {}
    for factors, scopes in graph.by_size:
        assert scopes.shape[0] == len(factors) > 0
        found |= {int(k): tuple(scope.tolist()) for k, scope in zip(factors, scopes, strict=True)}
    assert found == dict(enumerate(graph.scopes))
    sizes = [scopes.shape[1] for _, scopes in graph.by_size]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == graph.max_factor_size


@given(factor_graphs())
def test_a_graph_survives_pickle_and_copy_also_with_views_made(graph: FactorGraph) -> None:
    assert graph.by_size
    assert pickle.loads(pickle.dumps(graph)) == graph
    assert copy.deepcopy(graph) == graph


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("dim", "scopes", "message"),
    [
        (2, ((0, 2), (1,)), r"scope \(0, 2\) needs indices from 0 to 1, got 2"),
        (2, ((0, -1), (1,)), r"scope \(0, -1\) needs indices from 0 to 1, got -1"),
        (3, ((0,), (2,)), r"every variable needs a factor, but variables \[1\] are in no scope.*FactorGraph\.covering"),
        (3, (), r"variables \[0, 1, 2\] are in no scope"),
        (20, ((0,),), r"variables \[1, 2, 3, 4, 5, 6, 7, 8, …\] \(19 in all\) are in no scope"),
        (2, ((0, 1), (0, 1)), r"scope \(0, 1\) has the same variables as scope \(0, 1\): keep one"),
        (2, ((0, 1), (1, 0)), r"scope \(1, 0\) has the same variables as scope \(0, 1\): keep one"),
        (2, ((0, 0), (1,)), r"scope \(0, 0\) names a variable twice"),
        (2, ((0, 1), ()), "a scope needs at least one variable, got an empty one"),
        (2, (("a", "b"),), r"scope \('a', 'b'\) needs whole numbers, got 'a'; for names use FactorGraph\.from_names"),
        (2, ("ab",), "for names use FactorGraph.from_names"),
        (2, ((False, True),), r"scope \(False, True\) needs whole numbers, got False"),
        (2, ((np.True_, 0),), "needs whole numbers, got np.True_"),
        (2, ((0.0, 1.0),), "needs whole numbers, got 0.0"),
        (2, ((None, 1),), "needs whole numbers, got None"),
        (2, ((0, [1]),), r"needs whole numbers, got \[1\]"),
        (2, (0, 1), r"scopes are tuples of variables, got 0: write \(0,\)"),
        (2, 5, "scopes are tuples of variables, got 5"),
        (2, None, "scopes are tuples of variables, got None"),
    ],
)
def test_bad_scopes(dim: int, scopes: Any, message: str) -> None:
    with pytest.raises(ScopeError, match=message):
        FactorGraph(dim, scopes)
    if "in no scope" not in message:
        with pytest.raises(ScopeError, match=message):
            FactorGraph.covering(dim, scopes)


@pytest.mark.parametrize("dim", [0, -1, True, 2.0, "2", None, np.float64(2), np.inf])
def test_bad_dim(dim: Any) -> None:
    builds = [lambda d: FactorGraph(d, ((0,),)), lambda d: FactorGraph.covering(d, []), FactorGraph.singletons]
    for build in builds:
        with pytest.raises(ScopeError, match=r"needs dim >= 1 \(a whole number\), got " + re.escape(repr(dim))):
            build(dim)


@pytest.mark.parametrize(
    ("scopes", "message"),
    [
        ([("lr", "deph"), "width"], r"names \['deph'\], which are not parameters; the space has \['lr', 'depth', 'wid"),
        ([(0, 1), "width"], r"names \[0, 1\], which are not parameters"),
        ([(["lr"],), "width"], r"names \[\['lr'\]\], which are not parameters"),
        ([3], r"scopes are tuples of variables, got 3"),
        (3, r"scopes are tuples of variables, got 3"),
        (
            [("lr", "width")],
            r"every parameter needs a factor, but \['depth'\] are in no scope: add e\.g\. \('depth',\)",
        ),
        ([("lr", "lr"), "width", "depth"], "names a variable twice"),
        ([("lr", "width"), ("width", "lr"), "depth"], "has the same variables"),
        ([(), ("lr", "width", "depth")], "at least one variable"),
    ],
)
def test_bad_names(scopes: Any, message: str) -> None:
    with pytest.raises(ScopeError, match=message):
        FactorGraph.from_names(SPACE, scopes)


def test_messages_stay_short_with_many_parameters() -> None:
    space = Space({f"x{i}": Float(0, 1) for i in range(5000)})
    for scopes in ([("y",)], [("x0",)]):
        with pytest.raises(ScopeError, match="in all") as caught:
            FactorGraph.from_names(space, scopes)
        assert len(str(caught.value)) < 300
    assert isinstance(caught.value, DechboError)
    assert isinstance(caught.value, ValueError)


@given(factor_graphs(max_dim=8, max_factors=6, max_size=4))
def test_with_subsets_adds_every_subset_once(graph: FactorGraph) -> None:
    closed = graph.with_subsets()
    held = [frozenset(scope) for scope in closed.scopes]
    assert len(set(held)) == len(held)
    assert closed.scopes[: graph.dim] == tuple((i,) for i in range(graph.dim))
    for own in map(frozenset, graph.scopes):
        assert own in held
        assert all(own - {i} in held for i in own if len(own) > 1)
    assert all(any(part <= frozenset(scope) for scope in graph.scopes) for part in held)
    assert closed.with_subsets() == closed
