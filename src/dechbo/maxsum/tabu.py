"""Tabu search: the best change of one variable in every step, even downhill, but never straight back."""

from __future__ import annotations

import numpy as np

from dechbo.compiled import compiled
from dechbo.maxsum.local_search import ROUNDING
from dechbo.maxsum.messages import Array, Indices, Packed, score

STEPS = 1000  # from each start
# A value that was left stays forbidden for this many times the number of variables, or up to twice as long: the short
# spells search around a maximum, the long ones leave it. They take turns from start to start.
SHORT, LONG = 0.4, 1.2
TENURE_VARIABLES = 50  # of so many at most: in large graphs a search is local
REDRAWN, MOST_REDRAWN = 0.5, 20  # the share of the variables that a restart changes at random, and their number


@compiled
def tabu_search(packed: Packed, choice: Indices, restarts: int, target: float) -> None:
    """Improve ``choice`` in place, until its score reaches ``target``, from itself and from ``restarts`` more starts.

    Each of them is the best choice so far with some variables redrawn. The random numbers are the same in every call.
    """
    scores, best_values = np.empty(len(packed.unary)), np.empty(len(choice), dtype=np.int64)
    forbidden_until = np.zeros(len(packed.unary), dtype=np.int64)
    best, top = choice.copy(), score(packed, choice)
    many, noise, step = min(len(packed.variables), TENURE_VARIABLES), 1, 0
    for start in range(restarts + 1):
        choice[:] = best
        if start > 0:
            noise = redraw(packed, choice, noise)
        conditional_scores(packed, choice, scores)
        for i in packed.variables:
            best_values[i] = best_change(scores[packed.unary_starts[i] : packed.unary_starts[i + 1]], choice[i])
        value = score(packed, choice)
        tenure = 1 + int((SHORT if start % 2 == 0 else LONG) * many)
        for _ in range(STEPS):
            if top >= target:
                break
            step += 1
            i, h = best_move(packed, scores, best_values, choice, forbidden_until, step, top - value)
            if i < 0:
                continue  # everything is forbidden for now
            base = packed.unary_starts[i]
            noise = next_noise(noise)
            forbidden_until[base + choice[i]] = step + tenure + (noise >> 8) % tenure
            value += scores[base + h] - scores[base + choice[i]]
            change(packed, i, h, choice, scores, best_values)
            if value > top + ROUNDING * abs(top):
                value = score(packed, choice)  # the running sum has its own rounding errors
                if value > top + ROUNDING * abs(top):
                    top = value
                    best[:] = choice
    choice[:] = best


@compiled
def next_noise(noise: int) -> int:
    """A linear congruential generator; its low bits are poor."""
    return (noise * 1103515245 + 12345) & 0x7FFFFFFF


@compiled
def redraw(packed: Packed, choice: Indices, noise: int) -> int:
    """Set random variables to random values; returns the new state of the generator."""
    share = min(REDRAWN, MOST_REDRAWN / len(packed.variables))
    for i in packed.variables:
        noise = next_noise(noise)
        if (noise >> 8) % 4096 < 4096 * share:
            noise = next_noise(noise)
            choice[i] = (noise >> 8) % (packed.unary_starts[i + 1] - packed.unary_starts[i])
    return noise


@compiled
def conditional_scores(packed: Packed, choice: Indices, scores: Array) -> None:
    """scores_i(h) = unary_i(h) + sum_I phi_I(h, x_others) of every variable."""
    scores[:] = packed.unary
    for edge in range(len(packed.members)):
        k = packed.owners[edge]
        cell = packed.tables[k]
        for e in range(packed.scopes[k], packed.scopes[k + 1]):
            if e != edge:
                cell += packed.strides[e] * choice[packed.members[e]]
        base = packed.unary_starts[packed.members[edge]]
        for h in range(packed.lengths[edge]):
            scores[base + h] += packed.flat[cell + h * packed.strides[edge]]


@compiled
def best_change(scores: Array, now: int) -> int:
    """The best value other than ``now``; -1 if there is none."""
    best, chosen = -np.inf, -1
    for h in range(len(scores)):
        if scores[h] > best and h != now:
            best = scores[h]
            chosen = h
    return chosen


@compiled
def best_allowed_change(scores: Array, now: int, forbidden_until: Indices, step: int) -> int:
    """The best value other than ``now`` that is not forbidden in this step; -1 if there is none."""
    best, chosen = -np.inf, -1
    for h in range(len(scores)):
        if scores[h] > best and h != now and forbidden_until[h] < step:
            best = scores[h]
            chosen = h
    return chosen


@compiled
def best_move(
    packed: Packed,
    scores: Array,
    best_values: Indices,
    choice: Indices,
    forbidden_until: Indices,
    step: int,
    needed: float,
) -> tuple[int, int]:
    """(variable, value) with the largest gain; forbidden ones only if they gain more than ``needed``; (-1, -1) if none.

    ``best_values`` are the best ones of each variable, forbidden or not.
    """
    best, chosen_i, chosen_h = -np.inf, -1, -1
    for i in packed.variables:
        h = best_values[i]
        if h < 0:
            continue
        base, end = packed.unary_starts[i], packed.unary_starts[i + 1]
        now = scores[base + choice[i]]
        gain = scores[base + h] - now
        if gain <= best:
            continue
        if forbidden_until[base + h] >= step and not gain > needed:
            h = best_allowed_change(scores[base:end], choice[i], forbidden_until[base:end], step)
            if h < 0 or scores[base + h] - now <= best:
                continue
            gain = scores[base + h] - now
        best, chosen_i, chosen_h = gain, i, h
    return chosen_i, chosen_h


@compiled
def change(packed: Packed, i: int, new: int, choice: Indices, scores: Array, best_values: Indices) -> None:
    """Set x_i to ``new`` and bring the scores of its neighbours, and their best values, up to date."""
    edges = packed.edges[packed.edge_starts[i] : packed.edge_starts[i + 1]]
    for edge in edges:
        k = packed.owners[edge]
        first, end = packed.scopes[k], packed.scopes[k + 1]
        cell = packed.tables[k]
        for e in range(first, end):
            cell += packed.strides[e] * choice[packed.members[e]]
        step = (new - choice[i]) * packed.strides[edge]
        for e in range(first, end):
            if e != edge:
                j = packed.members[e]
                base, stride = packed.unary_starts[j], packed.strides[e]
                start = cell - choice[j] * stride
                for h in range(packed.lengths[e]):
                    scores[base + h] += packed.flat[start + step + h * stride] - packed.flat[start + h * stride]
    choice[i] = new
    best_values[i] = best_change(scores[packed.unary_starts[i] : packed.unary_starts[i + 1]], new)
    for edge in edges:
        k = packed.owners[edge]
        for e in range(packed.scopes[k], packed.scopes[k + 1]):
            if e != edge:
                j = packed.members[e]
                here = scores[packed.unary_starts[j] : packed.unary_starts[j + 1]]
                best_values[j] = best_change(here, choice[j])
