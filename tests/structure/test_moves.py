"""Every proposal probability against an oracle that walks through all choices of a move, one by one."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations, product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chisquare

from dechbo.errors import OptionError
from dechbo.graph import Scope
from dechbo.structure import GraphPrior
from dechbo.structure.moves import MOVE_PROBABILITIES, REVERSE, Moves
from dechbo.structure.scope_distribution import ScopeDistribution
from dechbo.structure.scopes import ScopeIndex, ScopeSet

FALSE_ALARM = 1e-4  # chance that a correct move fails a chi-square test under a fresh seed; seeds are fixed
EPSILON = 0.3
WEIGHTS = {(0, 1): 5.0, (1, 2): 0.5, (2, 3): 1.0, (0, 3): 0.01}  # (0, 2) and (1, 3) have none
TRIPLES: dict[Scope, float] = {(0, 1, 2): 2.0, (0, 2, 3): 0.5}  # half of the triples are drawn by these weights


Choice = tuple[str, float, Sequence[set[int]], Sequence[set[int]] | None]  # move, probability, removed, added


def distribution(dim: int, informed: bool) -> ScopeDistribution:
    if not informed:
        return ScopeDistribution.uniform(dim)
    pairs = [pair for pair in WEIGHTS if max(pair) < dim]
    triples = {scope: math.log(weight) for scope, weight in triple_law(dim).items()}
    logs = [math.log(WEIGHTS[pair]) for pair in pairs]
    return ScopeDistribution.from_pairs(dim, pairs, logs, epsilon=EPSILON, triples=triples)


def triple_law(dim: int) -> dict[Scope, float]:
    possible = {scope: weight for scope, weight in TRIPLES.items() if max(scope) < dim}
    return {scope: weight / sum(possible.values()) for scope, weight in possible.items()}


def variable_law(dim: int, informed: bool, scope: Collection[int], banned: Scope = ()) -> dict[int, float]:
    """g(v | scope), straight from its definition."""
    allowed = [v for v in range(dim) if v not in scope and v not in banned]
    towards = {v: sum(WEIGHTS.get((min(s, v), max(s, v)), 0) for s in scope) if informed else 0 for v in allowed}
    total = sum(towards.values())
    if total == 0:
        return {v: 1 / len(allowed) for v in allowed}
    return {v: (1 - EPSILON) * towards[v] / total + EPSILON / len(allowed) for v in allowed}


def pair_law(dim: int, informed: bool) -> dict[tuple[int, int], float]:
    pairs = list(combinations(range(dim), 2))
    total = sum(WEIGHTS.get(pair, 0) for pair in pairs)
    blind = {pair: 1 / len(pairs) for pair in pairs}
    if not informed:
        return blind
    return {pair: (1 - EPSILON) * WEIGHTS.get(pair, 0) / total + EPSILON * blind[pair] for pair in pairs}


def all_choices(dim: int, largest: int, informed: bool, current: list[Scope]) -> Iterator[Choice]:
    """(move, probability within the move, removed, added) for each sequence of choices; None where it must stay."""
    n = len(current)
    sizes = [size for size in (2, 3) if size <= min(dim, largest)]
    for pair, q in pair_law(dim, informed).items():
        yield "birth", q * {1: 1, 2: 2 / 3}[len(sizes)], (), [set(pair)]
        if len(sizes) == 2:
            for third, g in variable_law(dim, informed, pair).items():
                yield "birth", q * g / (6 if informed else 3), (), [{*pair, third}]
    for scope, weight in triple_law(dim).items() if informed and len(sizes) == 2 else ():
        yield "birth", weight / 6, (), [set(scope)]
    for scope in current:
        yield "death", 1 / n, [set(scope)], () if len(scope) <= 3 else None
        if len(scope) < largest:
            for v, g in variable_law(dim, informed, scope).items():
                yield "grow", g / n, [set(scope)], [{*scope, v}]
        for v in scope:
            rest = set(scope) - {v}
            if len(scope) > 2:
                yield "shrink", 1 / n / len(scope), [set(scope)], [rest]
            for new, g in variable_law(dim, informed, rest, (v,)).items():
                yield "swap", g / n / len(scope), [set(scope)], [{*rest, new}]
            others = [other for other in current if v in other and other != scope]
            for other in others:
                union = {*scope, *other}
                fits = len(union) <= largest and union not in (set(scope), set(other))
                chance = 1 / n / len(scope) / len(others)
                yield "merge", chance, [set(scope), set(other)], [union] if fits else None
        ways = [
            [{i for i, part in zip(scope, parts, strict=True) if part in (a, 2)} for a in (0, 1)]
            for parts in product(range(3), repeat=len(scope))
            if set(parts) == {0, 1, 2}
        ]
        for first, second in ways:
            yield "split", 1 / n / len(ways), [set(scope)], [first, second]


def law_of_proposals(dim: int, largest: int, informed: bool, current: ScopeSet) -> dict[tuple[str, ScopeSet], float]:
    """(move, new state) -> probability, given the move."""
    law: dict[tuple[str, ScopeSet], float] = defaultdict(float)
    for move, chance, removed, added in all_choices(dim, largest, informed, sorted(current)):
        if added is None or any(tuple(sorted(scope)) in current for scope in added):
            continue
        out, into = ({tuple(sorted(scope)) for scope in scopes} for scopes in (removed, added))
        law[move, frozenset(current - out | into)] += chance
    return law


def states(dim: int, largest: int, *, some: int | None = None) -> list[ScopeSet]:
    scopes = [scope for size in range(2, largest + 1) for scope in combinations(range(dim), size)]
    every = range(2 ** len(scopes))
    if some is not None:
        every = np.random.default_rng(0).choice(len(every), size=some, replace=False).tolist()
    return [frozenset(scope for k, scope in enumerate(scopes) if mask >> k & 1) for mask in every]


@pytest.mark.parametrize("informed", [False, True], ids=["uniform", "informed"])
@pytest.mark.parametrize(("dim", "largest", "some"), [(3, 3, None), (4, 2, None), (4, 3, 30), (4, 4, 15)])
def test_forward_and_reverse_probabilities_are_those_of_the_oracle(
    dim: int, largest: int, some: int | None, informed: bool
) -> None:
    prior = GraphPrior(dim, max_factor_size=largest)
    moves = Moves(prior, distribution(dim, informed))
    laws: dict[ScopeSet, dict[tuple[str, ScopeSet], float]] = {}

    def law(state: ScopeSet) -> dict[tuple[str, ScopeSet], float]:
        return laws[state] if state in laws else laws.setdefault(state, law_of_proposals(dim, largest, informed, state))

    used = set()
    for state in states(dim, largest, some=some):
        current = ScopeIndex.of(prior, state)
        for (name, new), chance in law(state).items():
            proposal = moves.proposal(current, name, tuple(sorted(state - new)), tuple(sorted(new - state)))
            back = law(new)[REVERSE[name], state]
            assert_allclose(
                [proposal.log_forward, proposal.log_reverse],
                np.log([MOVE_PROBABILITIES[name] * chance, MOVE_PROBABILITIES[REVERSE[name]] * back]),
                rtol=0,
                atol=1e-12,
            )
            used.add(name)
        moved = [new for _, new in law(state)]
        assert len(moved) == len(set(moved))  # one move type for each change: p(type) times its choice is everything
        assert state not in moved
    assert used == {"birth", "death", "swap"} | ({"grow", "shrink", "merge", "split"} if largest > 2 else set())


FULL = [
    ("nested", 4, 3, {(0, 1), (0, 2), (1, 2, 3)}),
    ("crowded", 4, 3, {(0, 1), (0, 2), (0, 3), (0, 1, 2), (0, 2, 3)}),
    ("large", 4, 4, {(0, 1), (1, 2, 3), (0, 1, 2, 3)}),
]


@pytest.mark.parametrize("informed", [False, True], ids=["uniform", "informed"])
@pytest.mark.parametrize(("dim", "largest", "state"), [case[1:] for case in FULL], ids=[case[0] for case in FULL])
def test_proposals_are_drawn_as_often_as_they_say(dim: int, largest: int, state: set[Scope], informed: bool) -> None:
    prior = GraphPrior(dim, max_factor_size=largest)
    moves, current = Moves(prior, distribution(dim, informed)), ScopeIndex.of(prior, state)
    rng = np.random.default_rng(2)
    counts: Counter[object] = Counter()
    stated: dict[tuple[str, ScopeSet], float] = {}
    n = 15_000
    for _ in range(n):
        proposal = moves.propose(rng, current)
        if proposal is None:
            counts["stay"] += 1
            continue
        new = frozenset(state) - {*proposal.removed} | {*proposal.added}
        assert not set(proposal.added) & state
        assert set(proposal.removed) <= state
        counts[proposal.name, new] += 1
        stated[proposal.name, new] = proposal.log_forward
    proposals = law_of_proposals(dim, largest, informed, frozenset(state))
    law: dict[object, float] = {key: MOVE_PROBABILITIES[key[0]] * p for key, p in proposals.items()}
    for key, log_forward in stated.items():
        assert_allclose(log_forward, math.log(law[key]), atol=1e-12)
    law["stay"] = 1 - sum(law.values())
    assert set(counts) <= set(law)
    rare = [key for key in law if n * law[key] < 5]
    observed = [counts[key] for key in law if key not in rare] + [sum(counts[key] for key in rare)]
    expected = [n * law[key] for key in law if key not in rare] + [n * sum(law[key] for key in rare)]
    if not rare:
        observed, expected = observed[:-1], expected[:-1]
    assert chisquare(observed, expected).pvalue > FALSE_ALARM


def test_the_move_type_does_not_depend_on_the_state() -> None:
    moves, n = Moves(GraphPrior(4)), 20_000
    rng = np.random.default_rng(3)
    counts = Counter(moves.pick(rng) for _ in range(n))
    assert chisquare([counts[m] for m in moves.probabilities], [n * p for p in moves.probabilities.values()]).pvalue > (
        FALSE_ALARM
    )
    assert_allclose(sum(moves.probabilities.values()), 1)


@pytest.mark.parametrize("dim", [1, 2])
def test_what_cannot_be_done_stays(dim: int) -> None:
    prior = GraphPrior(dim)
    moves, rng = Moves(prior), np.random.default_rng(0)
    nothing, full = ScopeIndex.of(prior, []), ScopeIndex.of(prior, [(0, 1)] if dim == 2 else [])
    for _ in range(20):
        for name in MOVE_PROBABILITIES:
            assert (moves.propose(rng, nothing, name) is None) == (dim == 1 or name != "birth")
            assert (moves.propose(rng, full, name) is None) == (dim == 1 or name != "death")


def test_scopes_as_large_as_the_problem() -> None:
    prior = GraphPrior(1000, max_factor_size=1000)
    moves, rng = Moves(prior), np.random.default_rng(0)
    whole = tuple(range(1000))
    current = ScopeIndex.of(prior, [whole])
    assert {name for name in MOVE_PROBABILITIES if moves.propose(rng, current, name)} == {"birth", "shrink", "split"}
    split = moves.propose(rng, current, "split")
    assert split is not None
    back = moves.proposal(current.changed(split.removed, split.added), "merge", split.added, split.removed)
    assert (back.log_reverse, back.log_forward) == pytest.approx((split.log_forward, split.log_reverse))
    assert math.isfinite(split.log_forward)


def test_weights_are_relative_and_moves_left_out_are_never_tried() -> None:
    moves = Moves(GraphPrior(4), probabilities={"death": 1, "birth": 2, "swap": 0})
    assert_allclose([moves.probabilities[name] for name in ("birth", "death")], [2 / 3, 1 / 3])
    rng = np.random.default_rng(0)
    assert {moves.pick(rng) for _ in range(200)} == {"birth", "death"}


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        ({"birth": 1, "death": 1, "jump": 1}, "jump"),
        ({"birth": 1, "death": -1}, "at least 0"),
        ({"birth": 1, "death": math.nan}, "finite"),
        ({"birth": 1}, "'birth' comes without 'death'"),
        ({"birth": 1, "death": 1, "merge": 1}, "'merge' comes without 'split'"),
        ({"grow": 1, "shrink": 1}, "birth and death"),
        ({}, "birth and death"),
        ({"birth": 1, "death": 1, "swap": 1}, "more than 3 variables"),
    ],
)
def test_bad_move_probabilities(probabilities: dict[str, float], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Moves(GraphPrior(5, max_factor_size=4), probabilities=probabilities)


def test_a_distribution_of_another_dimension() -> None:
    with pytest.raises(OptionError, match="prior has 4 variables, the distribution has 5"):
        Moves(GraphPrior(4), ScopeDistribution.uniform(5))
