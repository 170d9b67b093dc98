"""An Optuna study that is stopped and continued: python examples/optuna_study.py."""

import math
import tempfile
from pathlib import Path

import optuna

from dechbo.integrations.optuna import DecHBOSampler, learned_graph, recover


def train(trial: optuna.Trial) -> float:
    """A stand-in for a training run: learning rate and batch size interact, the others act alone."""
    lr = trial.suggest_float("lr", 1e-5, 1, log=True)
    batch = trial.suggest_int("batch", 8, 512, log=True)
    layers = trial.suggest_int("layers", 1, 8)
    drop = trial.suggest_float("drop", 0, 0.6, step=0.1)
    act = trial.suggest_categorical("act", ["relu", "tanh", "gelu"])
    trial.set_constraint("memory", batch * layers / 512 - 2)  # feasible at or below 0
    misfit = math.log10(lr) + 4 - math.log2(batch) / 3
    return misfit**2 + 0.1 * (layers - 5) ** 2 + abs(drop - 0.2) + {"relu": 0.1, "tanh": 0.3, "gelu": 0.0}[act]


def session(url: str, trials: int) -> optuna.Study:
    """What one run of your script does; the next one continues."""
    study = optuna.create_study(
        storage=url, study_name="demo", load_if_exists=True, sampler=DecHBOSampler(seed=0, noise=0)
    )
    recover(study)  # fails and retries trials of a process that was killed
    study.optimize(train, n_trials=trials)
    return study


def main() -> None:
    """Two sessions on one storage."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'demo.db'}"
        for trials in (12, 12):
            study = session(url, trials)
            print(f"after {len(study.trials)} trials: best {study.best_value:.3f}")
        print("best parameters:", study.best_params)
        print("its constraint (feasible at or below 0):", study.best_trial.constraints)
        for found in (learned_graph(study) or [])[:3]:
            print(f"interaction: {', '.join(found.scope)} (probability {found.probability:.2f})")


if __name__ == "__main__":
    main()
