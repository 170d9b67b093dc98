"""Upper bounds on the maximum from dual messages, and the MPLP sweeps that tighten them."""

from __future__ import annotations

import math

import numpy as np

from dechbo.compiled import compiled
from dechbo.maxsum.fast_max import fast_max
from dechbo.maxsum.messages import Array, Indices, Packed, argmax, beliefs, decode, incoming_messages, outgoing_messages


def upper_bound(packed: Packed, messages: Array) -> float:
    """sum_I max_{x_I} [phi_I - sum_{i in I} m_{I->i}] + sum_i max_h [unary_i + sum_I m_{I->i}](h), for any messages.

    Rounded up by a bound on the error of the terms; ``fsum`` itself adds none.
    """
    terms, size = bound_terms(packed, messages)
    return math.fsum(terms) + 16.0 * float(np.finfo(np.float64).eps) * size


@compiled
def bound_terms(packed: Packed, messages: Array) -> tuple[Array, float]:
    """The maxima that ``upper_bound`` adds (factors first), and the sum of the magnitudes of all numbers in them."""
    factors = len(packed.tables)
    terms = np.empty(factors + len(packed.variables))
    size = factor_bounds(packed, messages, terms, np.empty(factors))
    belief = beliefs(packed, messages)
    for n, i in enumerate(packed.variables):
        here = belief[packed.unary_starts[i] : packed.unary_starts[i + 1]]
        terms[factors + n] = here[argmax(here)]
        size += abs(terms[factors + n])
    return terms, size


@compiled
def factor_bounds(packed: Packed, messages: Array, terms: Array, sizes: Array) -> float:
    """terms[k] = max_{x_I} [phi_I - sum_{i in I} m_{I->i}]; sizes[k] are the magnitudes of what is in it.

    Returns the sum of these magnitudes.
    """
    sums, spare = np.empty(packed.max_partial_cells), np.empty(packed.max_partial_cells)
    incoming, outgoing = np.empty(packed.max_message_entries), np.empty(packed.max_message_entries)
    size = 0.0
    for k in range(len(packed.tables)):
        origin, end = packed.message_starts[packed.scopes[k]], packed.message_starts[packed.scopes[k + 1]]
        for entry in range(end - origin):
            incoming[entry] = -messages[origin + entry]
        sizes[k] = 0.0
        for e in range(packed.scopes[k], packed.scopes[k + 1]):
            largest = 0.0
            for entry in range(packed.message_starts[e], packed.message_starts[e + 1]):
                largest = fast_max(largest, abs(messages[entry]))
            size += 2.0 * largest
            sizes[k] += 2.0 * largest
        outgoing_messages(packed, k, incoming, outgoing, sums, spare)
        best = -np.inf
        for h in range(packed.lengths[packed.scopes[k]]):
            best = max(best, outgoing[h] + incoming[h])
        terms[k] = best
        size += abs(best)
        sizes[k] += abs(best)
    return size


@compiled
def dual_update(
    packed: Packed, k: int, belief: Array, messages: Array, incoming: Array, outgoing: Array, work: Array
) -> None:
    """The step of MPLP at factor k: its messages and the beliefs of its variables, in place."""
    sums, spare = work[: packed.max_partial_cells], work[packed.max_partial_cells :]
    origin = packed.message_starts[packed.scopes[k]]
    incoming_messages(packed, k, belief, messages, incoming)
    outgoing_messages(packed, k, incoming, outgoing, sums, spare)
    share = 1.0 / (packed.scopes[k + 1] - packed.scopes[k])
    for e in range(packed.scopes[k], packed.scopes[k + 1]):
        base, first = packed.unary_starts[packed.members[e]], packed.message_starts[e]
        for h in range(packed.lengths[e]):
            given = incoming[first - origin + h]
            belief[base + h] = share * (given + outgoing[first - origin + h])
            messages[first + h] = belief[base + h] - given


@compiled
def dual_sweeps(
    packed: Packed, messages: Array, best_choice: Indices, best: float, sweeps: int, tolerance: float
) -> float:
    """MPLP, in place, factor by factor: m_{I->i} <- -q_i + (q_i + max_{x_I: x_i} [phi_I + sum_{j != i} q_j]) / |I|.

    From m = 0 the bound never rises: after one sweep max_{x_I} [phi_I - sum_i m_{I->i}] = 0 for every factor, and the
    bound is sum_i max b_i. Each sweep's beliefs are decoded; ``best_choice`` changes when that beats ``best``.
    Stops when a sweep gains no more than ``tolerance``. Returns the best score.
    """
    work = np.empty(2 * packed.max_partial_cells)
    incoming, outgoing = np.empty(packed.max_message_entries), np.empty(packed.max_message_entries)
    choice = best_choice.copy()
    belief = beliefs(packed, messages)
    bound = np.inf
    for _ in range(sweeps):
        for k in range(len(packed.tables)):
            dual_update(packed, k, belief, messages, incoming, outgoing, work)
        before, bound = bound, 0.0
        for i in packed.variables:
            here = belief[packed.unary_starts[i] : packed.unary_starts[i + 1]]
            bound += here[argmax(here)]
        found = decode(packed, belief, choice)
        if found > best:
            best = found
            best_choice[:] = choice
        if before - bound <= tolerance or bound - best <= tolerance:
            break
    return best
