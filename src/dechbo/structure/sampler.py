"""Metropolis–Hastings over sets of interactions: p(U | data) ∝ p(U) p(data | U).

``GraphSampler`` is the fixed kernel, ``State`` the state of a chain; ``StepInfo`` and ``Trace`` record what happened.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dechbo.checks import whole
from dechbo.errors import DataError
from dechbo.graph import Scope
from dechbo.structure.moves import Moves
from dechbo.structure.prior import GraphPrior
from dechbo.structure.scope_distribution import ScopeDistribution
from dechbo.structure.scopes import ScopeIndex, ScopeSet


@dataclass(frozen=True, eq=False)
class State:
    """The interactions, their log densities, and the payload that the target stores with them."""

    index: ScopeIndex
    log_prior: float
    log_likelihood: float
    payload: Any = None

    @property
    def interactions(self) -> ScopeSet:
        """U, without the singletons, which are always present."""
        return self.index.interactions

    @property
    def log_posterior(self) -> float:
        """log p(U) + log p(data | U), up to a constant."""
        return self.log_prior + self.log_likelihood


class Target(Protocol):
    """A likelihood that may build on the current state's payload, such as a Gram matrix or a Cholesky factor."""

    def propose(
        self, rng: np.random.Generator, current: State | None, added: tuple[Scope, ...], removed: tuple[Scope, ...]
    ) -> tuple[float, Any, float]:
        """log p(data | U'), its payload, and what the Hastings ratio needs for parameters that came or went.

        U' is ``current`` without ``removed`` and with ``added``; ``current`` is None at the start of a chain: U' is
        then ``added``. A value of −inf rejects U'. The payload of ``current`` must not be changed: the proposal may be
        rejected.
        """
        ...


@dataclass(frozen=True)
class StepInfo:
    """What one step did; ``log_ratio`` is the log of the Hastings ratio, NaN if no proposal was possible."""

    move: str
    possible: bool
    accepted: bool
    log_ratio: float


@dataclass(frozen=True)
class MoveCounts:
    """How often a move was proposed, was accepted, and was drawn in a state where it is impossible."""

    proposed: int = 0
    accepted: int = 0
    impossible: int = 0


@dataclass(frozen=True, eq=False)
class Trace:
    """Every ``thin``-th state of a run, and the counts of all its steps."""

    samples: tuple[ScopeSet, ...]
    log_posteriors: NDArray[np.float64]  # (len(samples),)
    moves: Mapping[str, MoveCounts] = field(default_factory=dict)


class GraphSampler:
    """A Markov chain over interactions with the stationary distribution p(U | data).

    ``scope_distribution`` (default: uniform) and ``move_probabilities`` change how fast it mixes, not where it
    converges to.
    """

    def __init__(
        self,
        prior: GraphPrior,
        *,
        scope_distribution: ScopeDistribution | None = None,
        move_probabilities: Mapping[str, float] | None = None,
    ) -> None:
        self.prior = prior
        self.moves = Moves(prior, scope_distribution, move_probabilities)

    def init(self, rng: np.random.Generator, interactions: Iterable[Sequence[int]], target: Target) -> State:
        """The initial state of a chain."""
        index = ScopeIndex.of(self.prior, interactions)
        value, payload, _ = target.propose(rng, None, index.scopes, ())
        if not math.isfinite(value):
            raise DataError(f"a chain needs a start with a finite log likelihood, got {value!r}; start with no scopes")
        return State(index, self.prior.log_density(index.scopes), float(value), payload)

    def step(self, rng: np.random.Generator, state: State, target: Target) -> tuple[State, StepInfo]:
        """One move: log ratio = Δ log prior + Δ log likelihood + log reverse − log forward."""
        move = self.moves.pick(rng)
        proposal = self.moves.propose(rng, state.index, move)
        if proposal is None:
            return state, StepInfo(move, False, False, math.nan)
        added, removed = proposal.added, proposal.removed
        value, payload, correction = target.propose(rng, state, added, removed)
        if math.isnan(value) or value == math.inf:
            raise DataError(f"a log likelihood is finite, or -inf to reject, got {value!r} for +{added} -{removed}")
        index = state.index.changed(removed, added)
        new = State(index, self.prior.log_density(index.scopes), float(value), payload)
        log_ratio = new.log_posterior - state.log_posterior + correction + proposal.log_reverse - proposal.log_forward
        accepted = log_ratio >= 0 or rng.random() < math.exp(log_ratio)
        return new if accepted else state, StepInfo(move, True, accepted, log_ratio)

    def toggle(self, rng: np.random.Generator, state: State, scopes: Sequence[Scope], target: Target) -> State:
        """Add or remove a scope drawn from ``scopes``, which must not depend on ``state``.

        The draw is as likely on the way back, so the Hastings ratio needs no more than the posteriors and the target's
        own correction.
        """
        if not scopes:
            return state
        scope = scopes[int(rng.random() * len(scopes))]
        added, removed = ((), (scope,)) if scope in state.index else ((scope,), ())
        value, payload, correction = target.propose(rng, state, added, removed)
        index = state.index.changed(removed, added)
        new = State(index, self.prior.log_density(index.scopes), float(value), payload)
        log_ratio = new.log_posterior - state.log_posterior + correction
        return new if log_ratio >= 0 or rng.random() < math.exp(log_ratio) else state

    def run(
        self, rng: np.random.Generator, state: State, target: Target, steps: int, *, thin: int = 1
    ) -> tuple[State, Trace]:
        """Take ``steps`` steps from ``state``; the trace records every ``thin``-th state."""
        steps, thin = whole("steps", steps, 0), whole("thin", thin, 1)
        counts = {name: [0, 0, 0] for name in self.moves.probabilities}
        samples: list[ScopeSet] = []  # not the states: payloads may be large
        log_posteriors: list[float] = []
        for done in range(1, steps + 1):
            state, info = self.step(rng, state, target)
            tally = counts[info.move]
            tally[0] += info.possible
            tally[1] += info.accepted
            tally[2] += not info.possible
            if done % thin == 0:
                samples.append(state.interactions)
                log_posteriors.append(state.log_posterior)
        moves = {name: MoveCounts(*tally) for name, tally in counts.items()}
        return state, Trace(tuple(samples), np.array(log_posteriors), moves)
