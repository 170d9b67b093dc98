"""Ray Tune through its OptunaSearch: the example, run for real."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "ray_tune.py"


@pytest.mark.system
def test_tune_takes_its_trials_from_the_model() -> None:
    pytest.importorskip("ray.tune")
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "20 trials, 0 failed" in done.stdout
    found = re.search(r"best loss (\S+) at \{'lr': (\S+), 'depth': (\d), 'width': (\d+), 'act': '(\w+)'\}", done.stdout)
    assert found is not None
    loss, lr, depth, width, act = found.groups()
    assert 0 <= float(loss) < 0.5  # a random point is better than that with probability 0.06
    assert 1e-4 <= float(lr) <= 1e-1
    assert 1 <= int(depth) <= 8
    assert int(width) in range(16, 257, 16)
    assert act == "relu"
    source = re.search(r"the last trial came from: (.*)", done.stdout)
    assert source is not None
    assert source.group(1) != "initial design"
    assert "the model expects" in done.stdout


@pytest.mark.system
def test_a_searcher_with_our_sampler_survives_being_saved_and_restored(tmp_path: Path) -> None:
    search = pytest.importorskip("ray.tune.search.optuna")
    import optuna
    from ray import tune

    from dechbo.integrations.optuna import DecHBOSampler

    space = {"x": tune.uniform(0, 1), "y": tune.uniform(0, 1), "kind": tune.choice(["a", "b"])}

    def fresh(**options: Any) -> Any:
        return search.OptunaSearch(sampler=DecHBOSampler(seed=0, n_startup_trials=3), **options)

    searcher = fresh()
    assert searcher.set_search_properties("loss", "min", space)
    for number in range(6):
        config = searcher.suggest(str(number))
        assert set(config) == set(space)
        loss = None if number == 2 else (config["x"] - 0.3) ** 2 + (config["kind"] == "a")
        searcher.on_trial_complete(str(number), None if loss is None else {"loss": loss}, error=loss is None)
    states = [trial.state for trial in searcher._ot_study.trials]
    assert states.count(optuna.trial.TrialState.FAIL) == 1
    searcher.save(str(tmp_path / "searcher"))
    restored = fresh()
    restored.restore(str(tmp_path / "searcher"))
    assert restored.suggest("6") == searcher.suggest("6")
    study = searcher._ot_study
    assert study.sampler.optimizer(study).info.source != "initial design"
