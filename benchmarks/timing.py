"""Timing: clocks, calls measured in turn, rows of a table, and what the figures depend on."""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dechbo
from dechbo.bench import records

Call = Callable[[], Any]
PACKAGES = ("numpy", "scipy", "numba", "optuna", "torch", "botorch", "gpytorch")


@dataclass(frozen=True)
class Row:
    """One line of the table; ``ratio`` is value / reference and should be at most ``bar``."""

    section: str
    name: str
    value: float
    unit: str = "s"
    against: str = ""
    reference: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    bar: float | None = None

    @property
    def met(self) -> str:
        if self.bar is None or self.ratio is None:
            return ""
        return "yes" if self.ratio <= self.bar else "**no**"

    @property
    def bar_text(self) -> str:
        if self.bar is None:
            return ""
        return f"≤ {self.bar:.3g}" + (f" ({1 / self.bar:.3g}× faster)" if self.bar < 1 else "")

    def markdown(self) -> str:
        spread = "" if self.low is None or self.high is None else f"{self.low:.3g}–{self.high:.3g}"
        ratio = "" if self.ratio is None else f"{self.ratio:.3g}"
        reference = "" if self.reference is None else _quantity(self.reference, self.unit)
        cells = (self.name, _quantity(self.value, self.unit), self.against, reference, ratio, spread, self.bar_text)
        return "| " + " | ".join((*cells, self.met)) + " |"


HEADER = "| what | measured | against | reference | ratio | range | bar | met |\n|---|---|---|---|---|---|---|---|"


def _quantity(value: float, unit: str) -> str:
    return f"{value:.3g} {unit}".strip()


def compare(
    section: str, name: str, ours: Sequence[float], against: str, theirs: Sequence[float], bar: float | None = None
) -> Row:
    """Medians of both, and the median of the ratios within each repetition."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    middle = statistics.median
    return Row(section, name, middle(ours), "s", against, middle(theirs), middle(ratios), min(ratios), max(ratios), bar)


CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
_clock_name = "wall"


def clock() -> float:
    """Seconds now: wall time, or the CPU time of this process, which depends less on other processes."""
    return CLOCKS[_clock_name]()


def choose_clock(name: str) -> None:
    """Use this clock from now on."""
    global _clock_name
    _clock_name = name


def clock_name() -> str:
    """The clock in use."""
    return _clock_name


def seconds(call: Call) -> float:
    start = clock()
    call()
    return clock() - start


def in_turn(calls: dict[str, Call], repeats: int, *, warm: bool = True) -> dict[str, list[float]]:
    """Seconds of each call; every repetition runs all calls in turn, after one untimed repetition."""
    if warm:
        for call in calls.values():
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for k in range(repeats):
        for name, call in calls.items():
            times[name].append(seconds(call))
        progress(f"repetition {k + 1} of {repeats}")
    return times


def progress(text: str) -> None:
    """Report to stderr, so that stdout is the table."""
    print(f"  … {text}", file=sys.stderr, flush=True)


def exponent(sizes: Sequence[float], taken: Sequence[float]) -> float:
    """p of seconds ~ size^p, by least squares on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(taken), 1)[0])


def source_digest() -> str:
    """A digest of the package's code: figures of different digests are not comparable."""
    root = Path(dechbo.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def machine() -> dict[str, Any]:
    """What the figures depend on, without host name and paths."""
    hardware = records.machine()
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": hardware["cpu"],
        "cores": hardware["cores"],
        "threads": 1,
        "clock": _clock_name,
        "load": round(os.getloadavg()[1], 1),
        "source": source_digest(),
        "python": platform.python_version(),
        "packages": versions,
    }
