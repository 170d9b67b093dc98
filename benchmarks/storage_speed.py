"""Asking for 100 parameters through Optuna's default SQLite storage and through ``make_storage``.

    python benchmarks/storage_speed.py
    python benchmarks/storage_speed.py --markdown benchmarks/storage_speed.md

Measured in turn, on files in the same folder: ``study.ask`` with 100 ``suggest_float``, each of which writes, on both
storages, and a trial that a study creates in one transaction.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import optuna

from dechbo import make_storage
from dechbo.integrations.optuna.adapter import storage_of, study_id

MAX_RATIO = 0.2
NAMES = [f"x{k}" for k in range(100)]
UNIT: optuna.distributions.BaseDistribution = optuna.distributions.FloatDistribution(0, 1)


def suggest_seconds(study: optuna.Study) -> float:
    """Seconds of an ask with all suggestions."""
    began = time.perf_counter()
    trial = study.ask()
    for name in NAMES:
        trial.suggest_float(name, 0, 1)
    seconds = time.perf_counter() - began
    study.tell(trial, 0.0)
    return seconds


def create_seconds(study: optuna.Study) -> float:
    """Seconds of a trial created in one transaction, as a study does."""
    params = dict.fromkeys(NAMES, 0.5)
    running = optuna.trial.TrialState.RUNNING
    began = time.perf_counter()
    template = optuna.trial.create_trial(state=running, params=params, distributions=dict.fromkeys(NAMES, UNIT))
    trial_id = storage_of(study).create_new_trial(study_id(study), template_trial=template)
    seconds = time.perf_counter() - began
    storage_of(study).set_trial_state_values(trial_id, optuna.trial.TrialState.COMPLETE, [0.0])
    return seconds


def measure(folder: Path, repeats: int) -> dict[str, list[float]]:
    """Seconds of each way, measured in turn."""

    def study(storage: optuna.storages.BaseStorage) -> optuna.Study:
        return optuna.create_study(storage=storage, sampler=optuna.samplers.RandomSampler(seed=0))

    default = study(optuna.storages.RDBStorage(f"sqlite:///{folder}/default.db"))
    ours = study(make_storage(f"sqlite:///{folder}/ours.db", heartbeat=False))
    whole = study(make_storage(f"sqlite:///{folder}/whole.db", heartbeat=False))
    runs: dict[str, Callable[[], float]] = {
        "Optuna's default": lambda: suggest_seconds(default),
        "make_storage": lambda: suggest_seconds(ours),
        "make_storage, one transaction": lambda: create_seconds(whole),
    }
    for run in runs.values():  # the first one compiles statements
        run()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            seconds[name].append(run())
    return seconds


def summary(seconds: dict[str, list[float]]) -> str:
    """The table; ratios are within one repetition."""
    reference = seconds["Optuna's default"]
    lines = ["| storage | median | range | ratio, median | goal |", "|---|---|---|---|---|"]
    for name, times in seconds.items():
        ratio = statistics.median(t / r for t, r in zip(times, reference, strict=True))
        goal = "" if times is reference else f"≤ {MAX_RATIO}: {'met' if ratio <= MAX_RATIO else 'not met'}"
        spread = f"{statistics.median(times):.3f} s | {min(times):.3f}–{max(times):.3f} s"
        lines.append(f"| {name} | {spread} | {ratio:.3f} | {goal} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--folder", type=Path, help="folder of the database files (default: a temporary one)")
    parser.add_argument("--markdown", type=Path, help="write the table here")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        table = summary(measure(Path(folder), options.repeats))
    print(table)
    if options.markdown:
        machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
        versions = f"Python {platform.python_version()}, Optuna {optuna.__version__}"
        options.markdown.write_text(
            "# Asking for 100 parameters through SQLite\n\n"
            f"Written by `python benchmarks/storage_speed.py --markdown benchmarks/storage_speed.md` on "
            f"{datetime.date.today()}: {machine}, {versions}, {options.repeats} repetitions in turn.\n\n{table}\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
