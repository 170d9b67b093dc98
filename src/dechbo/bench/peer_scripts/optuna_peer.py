"""Optuna's samplers, through ``study.ask`` and ``study.tell``.

The initial points are added as finished trials and count as start-up trials. TPE is multivariate, and grouped if
parameters are conditional. A point of TPE that breaks a known constraint is told as infeasible, by as much as it does,
and TPE is asked again; it is not evaluated and does not count. CMA-ES ignores earlier trials, so it starts from the
best of them (x0), with Optuna's default step size.

Covered by ``tests/bench/test_peers.py``.
"""

from __future__ import annotations

from typing import Any

import optuna
import peer_protocol
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import Trial, TrialState, create_trial

optuna.logging.set_verbosity(optuna.logging.ERROR)
MAX_REFUSED = 1000  # points in a row that break a known constraint


def distribution(entry: dict[str, Any]) -> BaseDistribution:
    """Optuna's distribution of a parameter."""
    if entry["type"] == "categorical":
        return CategoricalDistribution(entry["choices"])
    if entry["type"] == "int":
        return IntDistribution(entry["low"], entry["high"], log=entry["log"], step=entry["step"])
    return FloatDistribution(entry["low"], entry["high"], log=entry["log"], step=entry["step"])


class Optuna(peer_protocol.PeerMethod):
    """A study in memory; the sampler is created at the first ask."""

    def __init__(self, setup: peer_protocol.Setup) -> None:
        self.setup = setup
        self.distributions = {entry["name"]: distribution(entry) for entry in setup.space}
        self.entries = {entry["name"]: entry for entry in setup.space}
        self.is_conditional = any("when" in entry for entry in setup.space)
        self.study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=setup.seed))
        self.asked: list[Trial] = []
        self.sampler: optuna.samplers.BaseSampler | None = None
        options: dict[str, dict[str, Any]] = {
            "optuna-tpe": {"sampler": "TPESampler", "multivariate": True},
            "optuna-gp": {"sampler": "GPSampler"},
            "optuna-cmaes": {"sampler": "CmaEsSampler", "x0": "best initial point"},
        }
        self.options = options[setup.method]
        if setup.method == "optuna-tpe" and self.is_conditional:
            self.options = {**self.options, "group": True}
        if setup.method == "optuna-gp":
            import torch

            torch.set_num_threads(1)
        if setup.method == "optuna-cmaes":
            import cmaes  # noqa: F401  (if it is missing, fail now)

    def tell(self, params: peer_protocol.Params, value: float | None) -> None:
        state = TrialState.FAIL if value is None else TrialState.COMPLETE
        for trial in self.asked:
            if trial.params == params:
                self.asked.remove(trial)
                self.study.tell(trial, value, state=state)
                return
        distributions = self.distributions
        if self.is_conditional:
            distributions = {name: distributions[name] for name in params}
        self.study.add_trial(create_trial(params=params, distributions=distributions, value=value, state=state))

    def ask(self) -> peer_protocol.Params:
        if self.sampler is None:
            self.sampler = self.study.sampler = self._sampler()
        for _ in range(MAX_REFUSED):
            trial = self._conditional_trial() if self.is_conditional else self.study.ask(self.distributions)
            violations = [self._violation(trial.params, constraint) for constraint in self.setup.constraints]
            if max(violations, default=0.0) <= 0:
                self.asked.append(trial)
                return dict(trial.params)
            for k, violation in enumerate(violations):
                trial.set_constraint(str(k), violation)
            self.study.tell(trial, state=TrialState.PRUNED)
        raise RuntimeError(f"{MAX_REFUSED} points in a row break a known constraint")

    def _conditional_trial(self) -> Trial:
        trial = self.study.ask()
        for name in self.entries:
            self._suggest(trial, name)
        return trial

    def _suggest(self, trial: Trial, name: str) -> bool:
        """Give a parameter its value, after those that it depends on; False if it is not there."""
        if name in trial.params:
            return True
        entry = self.entries[name]
        for parent, choices in entry.get("when", {}).items():
            there = self._suggest(trial, parent)
            if not there or not any(peer_protocol.same_choice(each, trial.params[parent]) for each in choices):
                return False
        if entry["type"] == "categorical":
            trial.suggest_categorical(name, entry["choices"])
        elif entry["type"] == "int":
            trial.suggest_int(name, entry["low"], entry["high"], log=entry["log"], step=entry["step"])
        else:
            trial.suggest_float(name, entry["low"], entry["high"], log=entry["log"], step=entry["step"])
        return True

    @staticmethod
    def _violation(params: peer_protocol.Params, constraint: dict[str, Any]) -> float:
        total = sum(c * params[name] for name, c in constraint["coefficients"].items())
        return float(total - constraint["upper"])

    def _sampler(self) -> optuna.samplers.BaseSampler:
        seed, n_initial = self.setup.seed, self.setup.n_initial
        if self.setup.method == "optuna-tpe":
            group = self.is_conditional
            return optuna.samplers.TPESampler(seed=seed, multivariate=True, group=group, n_startup_trials=n_initial)
        if self.setup.method == "optuna-gp":
            return optuna.samplers.GPSampler(seed=seed, n_startup_trials=n_initial)
        finished = self.study.get_trials(states=(TrialState.COMPLETE,))
        x0 = self.study.best_params if finished else None
        return optuna.samplers.CmaEsSampler(seed=seed, x0=x0, n_startup_trials=0)


if __name__ == "__main__":
    peer_protocol.serve(Optuna, ["optuna"])
