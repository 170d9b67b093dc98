"""The search space of a define-by-run script, learned from its complete trials.

A parameter that all of them have, with one range, is always there. One that only some have is conditional on the
choices with which it was seen: with ``svm`` and never without, say. Each suggestion learns it anew, so a wrong guess
from few trials is mended by the next trial that contradicts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from dechbo.integrations.optuna.trials import RETRACTED

MAX_PARENTS = 3  # that a condition combines

Distributions = dict[str, BaseDistribution]
Conditions = dict[str, dict[str, tuple[Any, ...]]]  # by parameter: for each parent the choices that make it active


def learned_space(trials: Sequence[FrozenTrial]) -> tuple[Distributions, Conditions]:
    """The parameters that can be modelled, sorted by name, and the conditions of those that are not always there."""
    complete = [t for t in trials if t.state == TrialState.COMPLETE and RETRACTED not in t.system_attrs]
    if not complete:
        return {}, {}
    known = _one_range(complete)
    found = {name: known[name] for name in sorted(known) if all(name in trial.params for trial in complete)}
    conditions: Conditions = {}
    waiting = [name for name in sorted(known) if name not in found]
    most = 1  # parents; several only where no single one explains, not even one that is conditional itself
    while waiting and most <= MAX_PARENTS:
        explained = {name: when for name in waiting if (when := _condition(name, complete, found, most)) is not None}
        for name, when in explained.items():
            conditions[name], found[name] = when, known[name]
        waiting = [name for name in waiting if name not in explained]
        most = 1 if explained else most + 1
    return {name: found[name] for name in sorted(found)}, conditions


def _one_range(trials: Sequence[FrozenTrial]) -> Distributions:
    """The parameters that have the same distribution in every trial."""
    found: dict[str, BaseDistribution | None] = {}
    for trial in trials:
        for name, distribution in trial.distributions.items():
            found[name] = distribution if found.get(name, distribution) == distribution else None
    return {name: distribution for name, distribution in found.items() if distribution is not None}


def _condition(
    name: str, trials: Sequence[FrozenTrial], parents: Mapping[str, BaseDistribution], most: int
) -> dict[str, tuple[Any, ...]] | None:
    """The choices of at most ``most`` parents that explain exactly which trials have it; None if none do."""
    having = [trial for trial in trials if name in trial.params]
    lacking = [trial for trial in trials if name not in trial.params]
    choices: dict[str, dict[float, Any]] = {}
    for parent, distribution in parents.items():
        if isinstance(distribution, CategoricalDistribution) and all(parent in trial.params for trial in having):
            values = [trial.params[parent] for trial in having]
            choices[parent] = {distribution.to_internal_repr(value): value for value in values}
    when: dict[str, tuple[Any, ...]] = {}
    while lacking and choices and len(when) < most:
        left = {parent: [t for t in lacking if _has(t, parent, parents, choices[parent])] for parent in choices}
        best = min(choices, key=lambda parent: len(left[parent]))
        if len(left[best]) == len(lacking):
            return None
        when[best], lacking = tuple(choices.pop(best).values()), left[best]
    return when if when and not lacking else None


def _has(
    trial: FrozenTrial, parent: str, parents: Mapping[str, BaseDistribution], choices: Mapping[float, Any]
) -> bool:
    return parent in trial.params and parents[parent].to_internal_repr(trial.params[parent]) in choices
