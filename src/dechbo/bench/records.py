"""Runs on disk: a journal while a run is under way, one small compressed record when it has ended.

    <results>/running/<problem>.<method>.<seed>-<initial>+<evaluations>.jsonl   a line per finished evaluation
    <results>/runs/<problem>/<method>/<seed>-<initial>+<evaluations>.json.gz

A record holds every value in full, the times, the best point, the versions and the machine. The other points are
dropped: dechbo's own runs repeat them from the seed, and 160 points of 180 parameters would fill the repository.
"""

from __future__ import annotations

import fcntl
import gzip
import io
import json
import math
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import DechboError

Array = NDArray[np.float64]

FINISHED, OUT_OF_TIME, CRASHED = "finished", "out of time", "crashed"
NOT_RUN = "not run"  # of a run without a record
FORMAT, VERSION = "dechbo bench run", 1


class BenchError(DechboError, RuntimeError):
    """A run, a record or a peer of the benchmark cannot be used."""


@dataclass(frozen=True, order=True)
class Run:
    """One method on one problem with one seed: ``initial`` given points, then ``evaluations`` of the method's own."""

    problem: str
    method: str
    seed: int
    initial: int = 10
    evaluations: int = 150

    @property
    def total(self) -> int:
        """The number of evaluations, initial points included."""
        return self.initial + self.evaluations

    @property
    def key(self) -> str:
        """A unique name, also of its files."""
        return f"{self.problem}.{self.method}.{self.seed}-{self.initial}+{self.evaluations}"

    def path(self, results: Path) -> Path:
        """The path of its record."""
        name = f"{self.seed}-{self.initial}+{self.evaluations}.json.gz"
        return results / "runs" / self.problem / self.method / name


@dataclass(frozen=True)
class Step:
    """One evaluation; ``value`` is None if it failed. The time of an ask includes the tell before it."""

    params: dict[str, Any]
    value: float | None
    ask_seconds: float = 0.0
    ask_cpu: float = 0.0
    evaluation_seconds: float = 0.0
    true_value: float | None = None  # without noise, where the problem is noisy


class Journal:
    """The steps of a run under way; each one is on disk before the next ask. One process at a time may open it."""

    def __init__(self, results: Path, run: Run) -> None:
        folder = results / "running"
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{run.key}.jsonl"
        self.saved = folder / f"{run.key}.run.json"  # the run file of a method that can save itself
        self.log = folder / f"{run.key}.log"  # the output of a peer
        self._file = open(self.path, "a+b")  # noqa: SIM115
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise BenchError(f"{run.key} is under way in another process: wait for it, or stop it") from None
        self.steps: list[Step] = []
        self.resumed: list[int] = []  # the number of steps at each resumption
        self._read()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def _read(self) -> None:
        """Read all complete lines; cut off a partial last line, left by a process killed while writing."""
        self._file.seek(0)
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._file.truncate(len(whole))
        for line in map(json.loads, whole.splitlines()):
            if "resumed" in line:
                self.resumed.append(line["resumed"])
            else:
                self.steps.append(Step(**line))
        if whole:
            self.resumed.append(len(self.steps))
            self._write({"resumed": len(self.steps)})

    def append(self, step: Step) -> None:
        """Write ``step`` to disk."""
        self._write(asdict(step))
        self.steps.append(step)

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, default=np.generic.item).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def remove(self) -> None:
        """Delete all files of the run under way."""
        unfinished = self.path.parent.glob(f".{self.saved.name}.*")  # of a process killed while saving
        for path in (self.path, self.saved, self.log, *unfinished):
            path.unlink(missing_ok=True)


@dataclass(frozen=True)
class RunRecord:
    """A run that has ended: finished, crashed or out of time. ``values`` are in the order of evaluation."""

    run: Run
    status: str  # "finished", "out of time", or "crashed: …"
    values: tuple[float | None, ...]
    optimum: float | None
    dim: int
    ask_seconds: tuple[float, ...]  # of the method's own evaluations
    ask_cpu: tuple[float, ...]
    evaluation_seconds: tuple[float, ...]
    best_params: Mapping[str, Any] | None
    options: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""
    resumed: tuple[int, ...] = ()  # the number of evaluations at each resumption
    cpu_limit: float | None = None
    true_values: tuple[float | None, ...] = ()  # without noise, where the problem is noisy: regret is theirs
    report: Mapping[str, float] = field(default_factory=dict)  # what the problem says of the best point
    peak_memory: int | None = None  # of the process, MiB

    @classmethod
    def from_steps(cls, run: Run, steps: list[Step], status: str, **facts: Any) -> RunRecord:
        """The record of a run from its steps."""
        best = min((s for s in steps if s.value is not None), key=lambda s: s.value or 0.0, default=None)
        own = steps[run.initial :]
        return cls(
            run=run,
            status=status,
            values=tuple(step.value for step in steps),
            ask_seconds=tuple(_four_digits(step.ask_seconds) for step in own),
            ask_cpu=tuple(_four_digits(step.ask_cpu) for step in own),
            evaluation_seconds=tuple(_four_digits(step.evaluation_seconds) for step in steps),
            best_params=None if best is None else best.params,
            true_values=tuple(s.true_value for s in steps) if any(s.true_value is not None for s in steps) else (),
            **facts,
        )

    @property
    def finished(self) -> bool:
        """Whether the whole budget was used."""
        return self.status == FINISHED

    @property
    def best_so_far(self) -> Array:
        """min_{i <= t} of the values, (total,), constant after an early end; inf before the first value.

        Of a noisy problem, of the values without noise.
        """
        reached = np.full(self.run.total, np.inf)
        known = [np.inf if value is None else value for value in self.true_values or self.values]
        reached[: len(known)] = known
        return np.minimum.accumulate(reached)

    @property
    def regret(self) -> Array:
        """min_{i <= t} f(x_i) - f(x*), or the best value itself if the optimum is unknown."""
        return self.best_so_far - (self.optimum or 0.0)

    @property
    def final_regret(self) -> float:
        """The regret after the last evaluation."""
        return float(self.regret[-1])

    def write(self, results: Path) -> Path:
        """Write the record atomically; the same content gives the same bytes."""
        path = self.run.path(results)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"format": FORMAT, "version": VERSION, **asdict(self)}
        text = json.dumps(content, default=np.generic.item, separators=(",", ":"), allow_nan=False)
        buffer = io.BytesIO()
        with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as file:
            file.write(text.encode())
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(buffer.getvalue())
        os.replace(temporary, path)
        return path

    @classmethod
    def read(cls, path: Path) -> RunRecord:
        """Load the record at ``path``."""
        try:
            content = json.loads(gzip.decompress(path.read_bytes()))
            if (content.pop("format"), content.pop("version")) != (FORMAT, VERSION):
                raise ValueError("not of this format and version")
            content = {"true_values": [], "report": {}, "peak_memory": None, **content}  # older records have none
            known = {name: content[name] for name in (f.name for f in fields(cls))}
            lists = {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
            return cls(**{**known, **lists, "run": Run(**known["run"])})
        except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BenchError(f"{path} is not a record of a bench run: {error}; delete it and run again") from error


def load_records(results: Path) -> Iterator[RunRecord]:
    """Every record under ``results``, sorted by path."""
    for path in sorted((results / "runs").glob("*/*/*.json.gz")):
        yield RunRecord.read(path)


# ------------------------------------------------------------- unavailable


def read_unavailable(results: Path) -> dict[str, str]:
    """Methods that could not run on this machine, with the reasons: every table names them."""
    path = results / "unavailable.json"
    reasons: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return reasons


def write_unavailable(results: Path, reasons: Mapping[str, str]) -> None:
    """Write ``reasons`` for the tables; without any, delete the file."""
    path = results / "unavailable.json"
    if reasons:
        results.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(dict(sorted(reasons.items())), indent=1) + "\n", encoding="utf-8")
    else:
        path.unlink(missing_ok=True)


# ----------------------------------------------------------------- machine


def machine() -> dict[str, Any]:
    """CPU, cores and system, for the record."""
    return {"cpu": _cpu_model(), "cores": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}"}


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown"


def _four_digits(seconds: float) -> float:
    return float(f"{seconds:.4g}")


def finite_or_none(value: object) -> float | None:
    """``value`` as a float; None, a failed evaluation, if it is not finite."""
    number = None if value is None else float(value)  # type: ignore[arg-type]
    return number if number is not None and math.isfinite(number) else None
