"""Peers: current packages for the same task, each in its own virtual environment and driven over a pipe.

``dechbo bench peers --install`` creates the environments in ``$DECHBO_PEERS`` (by default ``~/.cache/dechbo/peers``).
To use an environment or a Python elsewhere, set ``$DECHBO_PEERS_TORCH``, ``$DECHBO_PEERS_HEBO`` and so on.
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

PEER_SCRIPTS = Path(__file__).parent / "peer_scripts"
ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "BLIS_NUM_THREADS"), "1"
)


@dataclass(frozen=True)
class Environment:
    """A virtual environment that one or more peers share."""

    name: str
    requirements: tuple[str, ...]
    packages: tuple[str, ...]  # whose versions are recorded; the environment is complete once the first is installed
    no_deps: tuple[str, ...] = ()  # installed last, with pip's --no-deps

    @property
    def folder(self) -> Path:
        """The folder of the environment."""
        return peers_folder() / self.name

    @property
    def failure_file(self) -> Path:
        """The file with the reason why the installation failed, if it did."""
        return peers_folder() / f"{self.name}.failed"

    @property
    def python(self) -> Path | None:
        """Its interpreter; None if it is not installed."""
        named = os.environ.get(f"DECHBO_PEERS_{self.name.upper()}")
        home = Path(named).expanduser() if named else self.folder
        if home.is_file():
            return home
        installed = any(home.glob(f"lib/python*/site-packages/{self.packages[0]}-*.dist-info"))
        return home / "bin" / "python" if installed else None

    def unavailable_reason(self) -> str | None:
        """Why it cannot be used; None if it can."""
        if self.python is not None:
            return None
        if self.failure_file.exists():
            return "could not be installed: " + self.failure_file.read_text(encoding="utf-8").strip()
        return f"not installed: dechbo bench peers --install {self.name}"

    def versions(self) -> dict[str, str]:
        """The versions of Python and of its installed packages."""
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


# HEBO 0.3.6 needs numpy < 1.25 and pymoo 0.6.0. All versions are pinned, because pip's resolver does not terminate
# otherwise. Its dependency GPy no longer builds, and its default model does not need it.
_HEBO_REQUIREMENTS = (
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
        Environment("hebo", _HEBO_REQUIREMENTS, ("HEBO", "torch", "gpytorch", "numpy"), no_deps=("HEBO==0.3.6",)),
        Environment("smac", ("smac>=2.2",), ("smac", "ConfigSpace")),
        Environment("nevergrad", ("nevergrad",), ("nevergrad", "cma")),
    )
}


@dataclass(frozen=True)
class PeerSpec:
    """A peer: its name, its label in tables, its script and its environment."""

    name: str
    label: str
    script: str
    environment: str
    takes_conditions: bool = False  # and known constraints

    @property
    def python(self) -> Path:
        """The interpreter that runs the script."""
        found = ENVIRONMENTS[self.environment].python
        if found is None and self.name == "optuna-tpe":
            return Path(sys.executable)  # dechbo depends on Optuna
        if found is None:
            raise BenchError(f"the peer {self.name} is {self.unavailable_reason()}")
        return found

    def unavailable_reason(self) -> str | None:
        """Why it cannot run on this machine; None if it can."""
        return None if self.name == "optuna-tpe" else ENVIRONMENTS[self.environment].unavailable_reason()


PEERS = {
    spec.name: spec
    for spec in (
        PeerSpec("botorch-logei", "BoTorch LogEI", "botorch_peer.py", "torch"),
        PeerSpec("botorch-ucb", "BoTorch UCB", "botorch_peer.py", "torch"),
        PeerSpec("turbo-1", "TuRBO-1", "turbo_peer.py", "torch"),
        PeerSpec("optuna-tpe", "Optuna TPE", "optuna_peer.py", "torch", takes_conditions=True),
        PeerSpec("optuna-gp", "Optuna GPSampler", "optuna_peer.py", "torch"),
        PeerSpec("optuna-cmaes", "Optuna CMA-ES", "optuna_peer.py", "torch"),
        PeerSpec("hebo", "HEBO", "hebo_peer.py", "hebo"),
        PeerSpec("hebo-rd", "HEBO, random decomposition", "hebo_peer.py", "hebo"),
        PeerSpec("smac", "SMAC3 (tuning)", "smac_peer.py", "smac"),
        PeerSpec("smac-bb", "SMAC3 (black box)", "smac_peer.py", "smac"),
        PeerSpec("nevergrad", "Nevergrad NGOpt", "nevergrad_peer.py", "nevergrad"),
    )
}


class PeerOutOfTime(Exception):
    """The peer used up its CPU time."""


class PeerProcess:
    """A peer in its own process, with ``ask`` and ``tell``."""

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
        spec = PEERS[name]
        if (space.conditions or space.constraints) and not spec.takes_conditions:
            raise BenchError(f"the peer {name} is not set up for conditional parameters and known constraints here")
        self.name = name
        self._cpu = 0.0
        self._log = log
        stderr: int | IO[bytes] = subprocess.DEVNULL if log is None else open(log, "ab")  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [str(spec.python), str(PEER_SCRIPTS / spec.script)],
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
        stated = {"constraints": [], **space.to_json()}
        message = {"op": "start", "method": name, "space": stated["parameters"], "constraints": stated["constraints"]}
        limits = {"seed": seed, "n_initial": n_initial, "budget": budget, "cpu_left": cpu_left}
        try:
            answer = self._call({**message, **limits})
        except BaseException:
            self.close()
            raise
        self.versions: dict[str, str] = answer["versions"]
        self.options: dict[str, Any] = answer["options"]

    def ask(self) -> dict[str, Any]:
        """Return the next point to evaluate."""
        params: dict[str, Any] = self._call({"op": "ask"})["params"]
        return params

    def tell(self, params: Mapping[str, Any], value: float | None) -> None:
        """Add the value of a point, asked for or not."""
        self._call({"op": "tell", "params": dict(params), "value": value})

    def cpu_clock(self) -> float:
        """The CPU seconds that the process has spent on asks and tells."""
        return self._cpu

    def close(self) -> None:
        """Kill the process."""
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
        with suppress(BrokenPipeError):  # it has died: the missing answer below says how
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise self._exit_error()
        answer: dict[str, Any] = json.loads(line)
        self._cpu = answer["cpu"]
        if "error" in answer:
            raise BenchError(f"{self.name}: {answer['error']}")
        return answer

    def _exit_error(self) -> Exception:
        code = self._process.wait()
        if code == -signal.SIGXCPU:
            return PeerOutOfTime(self.name)
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n") if self._log is not None else []
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return BenchError(f"{self.name}: its process ended ({how}) {last}".strip())


def peers_folder() -> Path:
    """The folder of the peers' environments."""
    named = os.environ.get("DECHBO_PEERS")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "dechbo" / "peers"


def environment_variables() -> dict[str, str]:
    """The variables of a peer's process: one thread, and no search path of this Python."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    return {**inherited, **ONE_THREAD, "PYTHONNOUSERSITE": "1"}


def install(name: str) -> None:
    """Create the environment ``name``, or that of the peer ``name``, with pip; record the reason of a failure."""
    environment = ENVIRONMENTS.get(PEERS[name].environment if name in PEERS else name)
    if environment is None:
        raise OptionError(f"--install takes {', '.join([*ENVIRONMENTS, *PEERS])}, got {name!r}")
    environment.folder.parent.mkdir(parents=True, exist_ok=True)
    environment.failure_file.unlink(missing_ok=True)
    python = str(environment.folder / "bin" / "python")
    commands = [[sys.executable, "-m", "venv", "--clear", str(environment.folder)]]
    commands.append([python, "-m", "pip", "install", *environment.requirements])
    if environment.no_deps:
        commands.append([python, "-m", "pip", "install", "--no-deps", *environment.no_deps])
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment_variables())
        if done.returncode != 0:
            reason = _reason(done.stderr)
            environment.failure_file.write_text(reason + "\n", encoding="utf-8")
            shutil.rmtree(environment.folder, ignore_errors=True)
            raise BenchError(f"the environment {environment.name} could not be installed: {reason}")


def _reason(output: str) -> str:
    """The last error lines of pip."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return " ".join((errors or lines or ["pip failed"])[-2:])[:300]
