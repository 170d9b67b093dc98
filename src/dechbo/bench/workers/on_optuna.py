"""Optuna's samplers, through ``study.ask`` and ``study.tell`` on Optuna's own distributions.

The points that every method is given enter as finished trials and count as start-up trials. TPE is multivariate;
CMA-ES, which does not look at earlier trials, starts from the best of them (x0), with Optuna's own step size.
"""

from __future__ import annotations

from typing import Any

import optuna
import wire
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import Trial, TrialState, create_trial

optuna.logging.set_verbosity(optuna.logging.ERROR)


def distribution(entry: dict[str, Any]) -> BaseDistribution:
    """Optuna's own form of a parameter."""
    if entry["type"] == "categorical":
        return CategoricalDistribution(entry["choices"])
    if entry["type"] == "int":
        return IntDistribution(entry["low"], entry["high"], log=entry["log"], step=entry["step"])
    return FloatDistribution(entry["low"], entry["high"], log=entry["log"], step=entry["step"])


class Optuna(wire.Worker):
    """A study in memory; its sampler is made at the first ask."""

    def __init__(self, start: wire.Start) -> None:
        self.start = start
        self.distributions = {entry["name"]: distribution(entry) for entry in start.space}
        self.study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=start.seed))
        self.asked: list[Trial] = []
        self.sampler: optuna.samplers.BaseSampler | None = None
        self.options = {
            "optuna-tpe": {"sampler": "TPESampler", "multivariate": True},
            "optuna-gp": {"sampler": "GPSampler"},
            "optuna-cmaes": {"sampler": "CmaEsSampler", "x0": "best initial point"},
        }[start.method]
        if start.method == "optuna-gp":
            import torch

            torch.set_num_threads(1)
        if start.method == "optuna-cmaes":
            import cmaes  # noqa: F401  (absent: fail now, not at the first ask)

    def tell(self, params: wire.Params, value: float | None) -> None:
        state = TrialState.FAIL if value is None else TrialState.COMPLETE
        for trial in self.asked:
            if trial.params == params:
                self.asked.remove(trial)
                self.study.tell(trial, value, state=state)
                return
        distributions = self.distributions
        self.study.add_trial(create_trial(params=params, distributions=distributions, value=value, state=state))

    def ask(self) -> wire.Params:
        if self.sampler is None:
            self.sampler = self.study.sampler = self._sampler()
        trial = self.study.ask(self.distributions)
        self.asked.append(trial)
        return dict(trial.params)

    def _sampler(self) -> optuna.samplers.BaseSampler:
        seed, n_initial = self.start.seed, self.start.n_initial
        if self.start.method == "optuna-tpe":
            return optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=n_initial)
        if self.start.method == "optuna-gp":
            return optuna.samplers.GPSampler(seed=seed, n_startup_trials=n_initial)
        finished = self.study.get_trials(states=(TrialState.COMPLETE,))
        x0 = self.study.best_params if finished else None
        return optuna.samplers.CmaEsSampler(seed=seed, x0=x0, n_startup_trials=0)


if __name__ == "__main__":
    wire.serve(Optuna, ["optuna"])
