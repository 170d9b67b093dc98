"""Metropolis–Hastings over sets of interactions: p(U | data) ∝ p(U) p(data | U).

``GraphSampler`` holds what stays fixed; ``State`` is where the chain is; ``StepInfo`` and ``Trace`` say what happened.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import DataError, OptionError
from dechbo.graph import Scope
from dechbo.structure.moves import Moves
from dechbo.structure.prior import GraphPrior, Interactions, ScopeDistribution, ScopeIndex


@dataclass(frozen=True, eq=False)
class State:
    """Where a chain is: the interactions, their log densities, and what the target keeps with them."""

    index: ScopeIndex
    log_prior: float
    log_likelihood: float
    payload: Any = None

    @property
    def interactions(self) -> Interactions:
        """U, without the singletons that are always there."""
        return self.index.interactions

    @property
    def log_posterior(self) -> float:
        """log p(U) + log p(data | U), up to a constant."""
        return self.log_prior + self.log_likelihood


@runtime_checkable
class Target(Protocol):
    """A likelihood that may build on the current state's payload, such as a Gram matrix or a Cholesky factor."""

    def log_likelihood(
        self, current: State | None, added: tuple[Scope, ...], removed: tuple[Scope, ...]
    ) -> tuple[float, Any]:
        """log p(data | U') and its payload, where U' is ``current`` without ``removed`` and with ``added``.

        ``current`` is None at the start of a chain: U' is then ``added``. A value of −inf rejects U'. The payload
        of ``current`` must not be changed: the proposal may be rejected.
        """
        ...


LogLikelihood: TypeAlias = Target | Callable[[Interactions], float]


@dataclass(frozen=True)
class _Plain:
    """A function of the interactions as a target without payload."""

    function: Callable[[Interactions], float]

    def log_likelihood(
        self, current: State | None, added: tuple[Scope, ...], removed: tuple[Scope, ...]
    ) -> tuple[float, Any]:
        before: Interactions = frozenset() if current is None else current.interactions
        return self.function(before.difference(removed).union(added)), None


@dataclass(frozen=True)
class StepInfo:
    """What one step did; ``log_ratio`` is the log of the Hastings ratio, NaN where no proposal was possible."""

    move: str
    possible: bool
    accepted: bool
    log_ratio: float


@dataclass(frozen=True)
class MoveCounts:
    """How often a move was proposed, was accepted, and was picked where it could not be carried out."""

    proposed: int = 0
    accepted: int = 0
    impossible: int = 0

    @property
    def acceptance(self) -> float:
        """Accepted among proposed; NaN where nothing was proposed."""
        return self.accepted / self.proposed if self.proposed else math.nan


@dataclass(frozen=True, eq=False)
class Trace:
    """Every ``thin``-th state of a run, and the counts of all its steps."""

    samples: tuple[Interactions, ...]
    log_posteriors: NDArray[np.float64]  # (len(samples),)
    moves: Mapping[str, MoveCounts]

    @property
    def visits(self) -> Counter[Interactions]:
        """How often each set of interactions was sampled."""
        return Counter(self.samples)


class GraphSampler:
    """A chain over interactions; ``scores`` (None: blind) and ``move_probabilities`` change its speed, not its law."""

    def __init__(
        self,
        prior: GraphPrior,
        *,
        scores: ScopeDistribution | None = None,
        move_probabilities: Mapping[str, float] | None = None,
    ) -> None:
        self.prior = prior
        self.moves = Moves(prior, scores, move_probabilities)

    def init(self, interactions: Iterable[Sequence[int]], log_likelihood: LogLikelihood) -> State:
        """The start of a chain; the likelihood is computed from nothing."""
        index = ScopeIndex.of(self.prior, interactions)
        value, payload = _as_target(log_likelihood).log_likelihood(None, index.scopes, ())
        if not math.isfinite(value):
            raise DataError(f"a chain needs a start with a finite log likelihood, got {value!r}; start with no scopes")
        return State(index, self.prior.log_density(index.scopes), float(value), payload)

    def step(self, rng: np.random.Generator, state: State, log_likelihood: LogLikelihood) -> tuple[State, StepInfo]:
        """One move: log ratio = Δ log prior + Δ log likelihood + log reverse − log forward."""
        return self._step(rng, state, _as_target(log_likelihood))

    def run(
        self, rng: np.random.Generator, state: State, log_likelihood: LogLikelihood, steps: int, *, thin: int = 1
    ) -> tuple[State, Trace]:
        """``steps`` steps from ``state``; the trace keeps every ``thin``-th state that was reached."""
        for name, given, least in (("steps", steps, 0), ("thin", thin, 1)):
            if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < least:
                raise OptionError(f"run needs {name} >= {least} (a whole number), got {given!r}")
        target = _as_target(log_likelihood)
        counts = {name: [0, 0, 0] for name in self.moves.probabilities}
        samples: list[Interactions] = []  # and not the states: payloads may be large
        log_posteriors: list[float] = []
        for done in range(1, steps + 1):
            state, info = self._step(rng, state, target)
            tally = counts[info.move]
            tally[0] += info.possible
            tally[1] += info.accepted
            tally[2] += not info.possible
            if done % thin == 0:
                samples.append(state.interactions)
                log_posteriors.append(state.log_posterior)
        return state, Trace(
            tuple(samples),
            np.array(log_posteriors),
            {name: MoveCounts(*tally) for name, tally in counts.items()},
        )

    def _step(self, rng: np.random.Generator, state: State, target: Target) -> tuple[State, StepInfo]:
        move = self.moves.pick(rng)
        proposal = self.moves.propose(rng, state.index, move)
        if proposal is None:
            return state, StepInfo(move, False, False, math.nan)
        added, removed = proposal.added, proposal.removed
        value, payload = target.log_likelihood(state, added, removed)
        if math.isnan(value) or value == math.inf:
            raise DataError(f"a log likelihood is finite, or -inf to reject, got {value!r} for +{added} -{removed}")
        weight = self.prior.log_weight
        log_prior_change = sum(weight(len(scope)) for scope in added) - sum(weight(len(scope)) for scope in removed)
        log_ratio = log_prior_change + float(value) - state.log_likelihood + proposal.log_reverse - proposal.log_forward
        accepted = log_ratio >= 0 or rng.random() < math.exp(log_ratio)
        if accepted:
            index = state.index.changed(removed, added)
            state = State(index, self.prior.log_density(index.scopes), float(value), payload)
        return state, StepInfo(move, True, accepted, log_ratio)


def _as_target(log_likelihood: LogLikelihood) -> Target:
    return log_likelihood if isinstance(log_likelihood, Target) else _Plain(log_likelihood)
