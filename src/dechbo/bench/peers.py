"""Today's peers: the real packages, each in an environment of its own and driven over a pipe.

An environment is a folder of ``$DECHBO_PEERS`` (by default ``~/.cache/dechbo/peers``), made by ``dechbo bench peers
--install``; ``$DECHBO_PEERS_TORCH`` and the like name a Python or an environment elsewhere instead.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dechbo.bench.records import BenchError
from dechbo.errors import OptionError
from dechbo.space import Space

WORKERS = Path(__file__).parent / "workers"
ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "BLIS_NUM_THREADS"), "1"
)


@dataclass(frozen=True)
class Environment:
    """A virtual environment that peers share: what pip installs, and what shows that it is there."""

    name: str
    requirements: tuple[str, ...]
    packages: tuple[str, ...]  # the first one shows that it is there
    alone: tuple[str, ...] = ()  # installed last, without what they ask for themselves

    @property
    def folder(self) -> Path:
        """Where it lies, or would."""
        return peers_folder() / self.name

    @property
    def failure(self) -> Path:
        """Why installing it failed, if it did."""
        return peers_folder() / f"{self.name}.failed"

    @property
    def python(self) -> Path | None:
        """Its interpreter, or None."""
        named = os.environ.get(f"DECHBO_PEERS_{self.name.upper()}")
        home = Path(named).expanduser() if named else self.folder
        if home.is_file():
            return home  # an interpreter that the user vouches for
        installed = any(home.glob(f"lib/python*/site-packages/{self.packages[0]}-*.dist-info"))
        return home / "bin" / "python" if installed else None

    def absent(self) -> str | None:
        """Why it cannot be used, or None if it can."""
        if self.python is not None:
            return None
        if self.failure.exists():
            return "could not be installed: " + self.failure.read_text(encoding="utf-8").strip()
        return f"not installed: dechbo bench peers --install {self.name}"

    def versions(self) -> dict[str, str]:
        """The versions of its packages; absent ones are left out."""
        code = (
            "import json, sys\nfrom importlib import metadata\nfound = {'python': sys.version.split()[0]}\n"
            f"for name in {list(self.packages)!r}:\n"
            "    try:\n        found[name] = metadata.version(name)\n"
            "    except metadata.PackageNotFoundError:\n        pass\nprint(json.dumps(found))"
        )
        done = subprocess.run(
            [str(self.python), "-c", code], capture_output=True, text=True, check=True, env=environment_variables()
        )
        versions: dict[str, str] = json.loads(done.stdout)
        return versions


# HEBO 0.3.6 wants numpy < 1.25 and pymoo 0.6.0: versions of that time, or pip searches without end. GPy, which it also
# asks for, does not build any more and is not needed by its default model.
_BESIDE_HEBO = (
    "torch==2.13.0",
    "gpytorch==1.13",
    "linear_operator==0.5.3",
    "numpy==1.24.4",
    "scipy==1.11.4",
    "pandas==2.1.4",
    "scikit-learn==1.3.2",
    "matplotlib==3.8.4",
    "pymoo==0.6.0",
    "autograd==1.6.2",
    "catboost==1.2.5",
    "disjoint-set==0.7.4",
)

ENVIRONMENTS = {
    environment.name: environment
    for environment in (
        Environment(
            "torch", ("torch==2.13.0", "botorch>=0.16", "optuna>=4.4", "cmaes"), ("botorch", "torch", "optuna", "cmaes")
        ),
        Environment("hebo", _BESIDE_HEBO, ("HEBO", "torch", "gpytorch", "numpy"), alone=("HEBO==0.3.6",)),
        Environment("smac", ("smac>=2.2",), ("smac", "ConfigSpace")),
        Environment("nevergrad", ("nevergrad",), ("nevergrad", "cma")),
    )
}


@dataclass(frozen=True)
class PeerEntry:
    """A peer by name: how tables call it, its worker script and its environment."""

    name: str
    label: str
    script: str
    environment: str

    @property
    def python(self) -> Path:
        """The interpreter that runs it."""
        found = ENVIRONMENTS[self.environment].python
        if found is None and self.name == "optuna-tpe":
            return Path(sys.executable)  # dechbo needs Optuna itself
        if found is None:
            raise BenchError(f"the peer {self.name} is {ENVIRONMENTS[self.environment].absent()}")
        return found

    def absent(self) -> str | None:
        """Why it cannot run here, or None if it can."""
        return None if self.name == "optuna-tpe" else ENVIRONMENTS[self.environment].absent()


PEERS = {
    entry.name: entry
    for entry in (
        PeerEntry("botorch-logei", "BoTorch LogEI", "on_botorch.py", "torch"),
        PeerEntry("botorch-ucb", "BoTorch UCB", "on_botorch.py", "torch"),
        PeerEntry("turbo-1", "TuRBO-1", "on_turbo.py", "torch"),
        PeerEntry("optuna-tpe", "Optuna TPE", "on_optuna.py", "torch"),
        PeerEntry("optuna-gp", "Optuna GPSampler", "on_optuna.py", "torch"),
        PeerEntry("optuna-cmaes", "Optuna CMA-ES", "on_optuna.py", "torch"),
        PeerEntry("hebo", "HEBO", "on_hebo.py", "hebo"),
        PeerEntry("hebo-rd", "HEBO, random decomposition", "on_hebo.py", "hebo"),
        PeerEntry("smac", "SMAC3 (tuning)", "on_smac.py", "smac"),
        PeerEntry("smac-bb", "SMAC3 (black box)", "on_smac.py", "smac"),
        PeerEntry("nevergrad", "Nevergrad NGOpt", "on_nevergrad.py", "nevergrad"),
    )
}


class PeerOutOfTime(Exception):
    """The peer used up its CPU time in the middle of an ask."""


class Peer:
    """A peer as a process, with the face of ``Optimizer``."""

    def __init__(
        self,
        name: str,
        space: Space,
        *,
        seed: int,
        n_initial: int,
        budget: int,
        cpu_left: float | None = None,
        log: Path | None = None,
    ) -> None:
        entry = PEERS[name]
        self.name = name
        self._cpu = 0.0
        self._log = log
        stderr: int | IO[bytes] = subprocess.DEVNULL if log is None else open(log, "ab")  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [str(entry.python), str(WORKERS / entry.script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment_variables(),
                text=True,
                encoding="utf-8",
            )
        finally:
            if not isinstance(stderr, int):
                stderr.close()
        message = {"op": "start", "method": name, "space": space.to_json()["parameters"], "dim": space.dim}
        limits = {"seed": seed, "n_initial": n_initial, "budget": budget, "cpu_left": cpu_left}
        try:
            answer = self._call({**message, **limits})
        except BaseException:
            self.close()
            raise
        self.versions: dict[str, str] = answer["versions"]
        self.options: dict[str, Any] = answer["options"]

    def ask(self) -> dict[str, Any]:
        """The next point to evaluate."""
        params: dict[str, Any] = self._call({"op": "ask"})["params"]
        return params

    def tell(self, params: Mapping[str, Any], value: float | None) -> None:
        """Record the value of a point, asked for or not."""
        self._call({"op": "tell", "params": dict(params), "value": value})

    def cpu_clock(self) -> float:
        """The CPU time that the peer's process has spent on asks and tells, as ``time.process_time`` would say."""
        return self._cpu

    def close(self) -> None:
        """End the process, whatever it is doing."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def _call(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # it has died: the empty answer below says how
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise self._death()
        answer: dict[str, Any] = json.loads(line)
        self._cpu = answer["cpu"]
        if "error" in answer:
            raise BenchError(f"{self.name}: {answer['error']}")
        return answer

    def _death(self) -> Exception:
        code = self._process.wait()
        if code == -signal.SIGXCPU:
            return PeerOutOfTime(self.name)
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n") if self._log is not None else []
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return BenchError(f"{self.name}: its process ended ({how}) {last}".strip())


def peers_folder() -> Path:
    """Where the peers' environments lie."""
    named = os.environ.get("DECHBO_PEERS")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "dechbo" / "peers"


def environment_variables() -> dict[str, str]:
    """What a peer's process inherits: one thread, and nothing of our own Python's search path."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    return {**kept, **ONE_THREAD, "PYTHONNOUSERSITE": "1"}


def install(name: str) -> None:
    """Make the environment of a peer (or one named itself) anew with pip; a failure is kept with its reason."""
    environment = ENVIRONMENTS.get(PEERS[name].environment if name in PEERS else name)
    if environment is None:
        raise OptionError(f"--install takes {', '.join([*ENVIRONMENTS, *PEERS])}, got {name!r}")
    environment.folder.parent.mkdir(parents=True, exist_ok=True)
    environment.failure.unlink(missing_ok=True)
    python = str(environment.folder / "bin" / "python")
    commands = [[sys.executable, "-m", "venv", "--clear", str(environment.folder)]]
    commands.append([python, "-m", "pip", "install", *environment.requirements])
    if environment.alone:
        commands.append([python, "-m", "pip", "install", "--no-deps", *environment.alone])
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment_variables())
        if done.returncode != 0:
            reason = _reason(done.stderr)
            environment.failure.write_text(reason + "\n", encoding="utf-8")
            shutil.rmtree(environment.folder, ignore_errors=True)
            raise BenchError(f"the environment {environment.name} could not be installed: {reason}")


def _reason(output: str) -> str:
    """The last lines of pip that say what went wrong."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return " ".join((errors or lines or ["pip failed"])[-2:])[:300]
