"""Ray Tune with dechbo as its search algorithm, through OptunaSearch: 20 trials, two at a time."""

import math
import os
import tempfile

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray warns if this is not set

import optuna
import ray
from ray import tune
from ray.tune.search.optuna import OptunaSearch

from dechbo.integrations.optuna import DecHBOSampler


def train(config: dict[str, float]) -> dict[str, float]:
    """A stand-in for a training run: best at lr = 0.01, with relu, where the width is 32 x the depth."""
    shape = config["depth"] - config["width"] / 32
    return {"loss": shape**2 / 16 + (math.log10(config["lr"]) + 2) ** 2 + (config["act"] == "tanh")}


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    sampler, storage = DecHBOSampler(seed=0, n_startup_trials=6), optuna.storages.InMemoryStorage()
    tuner = tune.Tuner(
        train,
        param_space={
            "lr": tune.loguniform(1e-4, 1e-1),
            "depth": tune.randint(1, 9),
            "width": tune.qrandint(16, 256, 16),
            "act": tune.choice(["relu", "tanh"]),
        },
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            num_samples=20,
            max_concurrent_trials=2,
            reuse_actors=True,
            search_alg=OptunaSearch(sampler=sampler, storage=storage, study_name="tune"),
        ),
        run_config=tune.RunConfig(storage_path=tempfile.mkdtemp(), verbose=0),
    )
    results = tuner.fit()
    ray.shutdown()

    best = results.get_best_result()
    print(f"{len(results)} trials, {results.num_errors} failed")
    print(f"best loss {best.metrics['loss']:.4f} at {best.config}")

    study = optuna.load_study(study_name="tune", storage=storage, sampler=sampler)
    optimizer = sampler.optimizer(study)
    print(f"the last trial came from: {optimizer.info.source}")
    mean, deviation = optimizer.predict(best.config)
    print(f"the model expects {mean:.3f} ± {deviation:.3f} at the best point")
