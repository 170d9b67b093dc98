from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dechbo.maxsum.messages import Packed, beliefs, decode, factor_messages, max_sum_rounds, pack

Array = NDArray[np.float64]


def factor_to_variable(table: Array, incoming: list[Array], axis: int) -> Array:
    """The reference: m_{I->i}(h) = max over x_I with x_i = h of phi_I(x_I) + sum_{j in I, j != i} q_{j->I}(x_j)."""
    total = table
    for j, message in enumerate(incoming):
        if j != axis:
            total = total + np.reshape(message, [-1 if k == j else 1 for k in range(table.ndim)])
    others = tuple(k for k in range(table.ndim) if k != axis)
    return np.asarray(total.max(axis=others))


def packed_messages(table: Array, incoming: list[Array]) -> list[Array]:
    outgoing = np.empty(sum(table.shape))
    shape = np.array(table.shape)
    work = np.empty(table.ndim * table.size)
    factor_messages(table.ravel(), shape, np.concatenate(incoming), outgoing, work, work.copy())
    return np.split(outgoing, np.cumsum(shape)[:-1])


def two_factors(rng: np.random.Generator) -> tuple[Packed, Array, Array]:
    """Scopes (0, 1, 2) and (2, 0): they share two variables, so there is a cycle."""
    sizes = np.array([3, 2, 4])
    first, second = rng.normal(size=sizes), rng.normal(size=(sizes[2], sizes[0]))
    unary_starts = np.concatenate([[0], np.cumsum(sizes)])
    unary = rng.normal(size=unary_starts[-1])
    flat = np.concatenate([first.ravel(), second.ravel()])
    starts = np.array([0, first.size])
    return pack(flat, starts, [(0, 1, 2), (2, 0)], sizes, unary, unary_starts), first, second


def test_message_of_a_binary_factor_by_hand() -> None:
    table = np.array([[0.0, 5.0], [2.0, 1.0]])
    incoming = [np.array([0.0, 10.0]), np.array([7.0, 1.0])]
    np.testing.assert_array_equal(factor_to_variable(table, incoming, 0), [7.0, 9.0])
    np.testing.assert_array_equal(factor_to_variable(table, incoming, 1), [12.0, 11.0])


@settings(max_examples=60)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_messages_equal_the_reference(shape: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    table, incoming = rng.normal(size=shape), [rng.normal(size=n) for n in shape]
    for axis, message in enumerate(packed_messages(table, incoming)):
        np.testing.assert_allclose(message, factor_to_variable(table, incoming, axis), rtol=1e-13, atol=1e-13)


def test_rows_longer_than_a_vector_register() -> None:
    rng = np.random.default_rng(3)
    table, incoming = rng.normal(size=(7, 19, 23)), [rng.normal(size=n) for n in (7, 19, 23)]
    for axis, message in enumerate(packed_messages(table, incoming)):
        np.testing.assert_allclose(message, factor_to_variable(table, incoming, axis), rtol=1e-13)


def test_a_constant_in_an_incoming_message_moves_all_others_alike() -> None:
    rng = np.random.default_rng(4)
    table, incoming = rng.normal(size=(3, 4)), [rng.normal(size=3), rng.normal(size=4)]
    shifted = [incoming[0] + 5.0, incoming[1]]
    np.testing.assert_allclose(factor_to_variable(table, shifted, 1), factor_to_variable(table, incoming, 1) + 5.0)
    np.testing.assert_array_equal(factor_to_variable(table, shifted, 0), factor_to_variable(table, incoming, 0))


@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_one_round_is_equation_3_shifted_to_maximum_0(damping: float) -> None:
    packed, first, second = two_factors(np.random.default_rng(5))
    messages = np.random.default_rng(6).normal(size=packed.message_starts[-1])
    old = np.split(messages.copy(), packed.message_starts[1:-1])
    belief = np.split(beliefs(packed, messages), packed.unary_starts[1:-1])
    max_sum_rounds(packed, messages, np.zeros(3, dtype=np.int64), 1, damping, 0.0)
    new = np.split(messages, packed.message_starts[1:-1])
    for table, scope, edges in ((first, (0, 1, 2), (0, 1, 2)), (second, (2, 0), (3, 4))):
        incoming = [belief[i] - old[e] for i, e in zip(scope, edges, strict=True)]
        for axis, e in enumerate(edges):
            expected = damping * old[e] + (1 - damping) * factor_to_variable(table, incoming, axis)
            np.testing.assert_allclose(new[e], expected - expected.max(), atol=1e-12)


def test_beliefs_add_unary_terms_and_all_messages() -> None:
    packed, *_ = two_factors(np.random.default_rng(7))
    messages = np.random.default_rng(8).normal(size=packed.message_starts[-1])
    edges, unary = np.split(messages, packed.message_starts[1:-1]), np.split(packed.unary, packed.unary_starts[1:-1])
    expected = [unary[0] + edges[0] + edges[4], unary[1] + edges[1], unary[2] + edges[2] + edges[3]]
    np.testing.assert_allclose(beliefs(packed, messages), np.concatenate(expected))


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.floats(-100, 100))
def test_a_constant_added_to_a_message_changes_no_choice(seed: int, edge: int, constant: float) -> None:
    packed, *_ = two_factors(np.random.default_rng(seed))
    messages = np.random.default_rng(seed + 1).normal(size=packed.message_starts[-1])
    choices = [np.zeros(3, dtype=np.int64) for _ in range(4)]
    decode(packed, beliefs(packed, messages), choices[0])
    shifted = messages.copy()
    shifted[packed.message_starts[edge] : packed.message_starts[edge + 1]] += constant
    decode(packed, beliefs(packed, shifted), choices[1])
    np.testing.assert_array_equal(choices[0], choices[1])
    scores = [max_sum_rounds(packed, start, choices[n], 5, 0.5, 0.0)[0] for n, start in ((2, messages), (3, shifted))]
    np.testing.assert_array_equal(choices[2], choices[3])
    assert scores[0] == scores[1]


def test_the_score_is_the_value_of_the_decoded_choice() -> None:
    packed, first, second = two_factors(np.random.default_rng(9))
    choice = np.zeros(3, dtype=np.int64)
    score = decode(packed, packed.unary, choice)
    x, y, z = choice
    unary = np.split(packed.unary, packed.unary_starts[1:-1])
    assert score == pytest.approx(first[x, y, z] + second[z, x] + unary[0][x] + unary[1][y] + unary[2][z])
