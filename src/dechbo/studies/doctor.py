"""``dechbo doctor``: versions, threads, caches, storage and Ray, for a bug report. No secrets, nothing is changed.

Tested in test_commands.py.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "optuna", "sqlalchemy", "typer", "pydantic", "rich", "psutil")
OPTIONAL = ("ray", "psycopg", "scikit-learn", "matplotlib", "torch")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NUMBA_CACHE_DIR")


def report(study: Path | None = None, storage: str | None = None) -> Iterator[tuple[str, str]]:
    """Lines of the report: a name and what was found. Whatever is broken is a line, not an error."""
    from dechbo.execution.process import usable_cores

    yield "dechbo", f"{_version('dechbo') or 'not installed'} in {PACKAGE}"
    yield "python", f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"
    yield "system", f"{platform.platform()}, {platform.machine()}"
    yield "cores", f"{usable_cores()} usable of {os.cpu_count()}"
    yield "memory", _memory()
    for name in (*PACKAGES, *OPTIONAL):
        found = _version(name)
        if found is not None or name not in OPTIONAL:
            yield name, found or "missing"
    yield "not installed", ", ".join(name for name in OPTIONAL if _version(name) is None) or "none of the optional ones"
    yield "BLAS", _blas()
    yield (
        "thread variables",
        ", ".join(f"{name}={os.environ[name]}" for name in THREADS if name in os.environ) or "none",
    )
    yield "compiled loops", _cache(PACKAGE)
    yield "Ray", _ray()
    if study is not None:
        yield from _study(study, storage)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _memory() -> str:
    import psutil

    memory = psutil.virtual_memory()
    return f"{memory.available / 2**30:.1f} GiB free of {memory.total / 2**30:.1f}"


def _blas() -> str:
    import numpy  # noqa: F401 - loads its BLAS
    from threadpoolctl import threadpool_info

    found = [
        f"{pool.get('internal_api')} {pool.get('version') or ''} ({pool.get('num_threads')} threads)".replace("  ", " ")
        for pool in threadpool_info()
    ]
    return "; ".join(found) or "not recognised"


def _cache(package: Path) -> str:
    given = os.environ.get("NUMBA_CACHE_DIR")
    folder = Path(given) if given else package
    count = sum(1 for _ in folder.rglob("*.nbc")) if folder.is_dir() else 0
    writable = "writable" if os.access(folder, os.W_OK) else "read-only: the loops are compiled in every process"
    return f"{count} files in {folder}, {writable}" + ("" if count else " (the first model compiles for half a minute)")


def _ray() -> str:
    version = _version("ray")
    if version is None:
        return "not installed"
    address = os.environ.get("RAY_ADDRESS")
    where = f"RAY_ADDRESS={address}" if address else "no RAY_ADDRESS"
    current = Path("/tmp/ray/ray_current_cluster")
    return f"{version}, {where}, " + ("a cluster runs on this machine" if current.exists() else "no cluster here")


def _study(path: Path, storage: str | None) -> Iterator[tuple[str, str]]:
    from dechbo.errors import DechboError
    from dechbo.studies.storage import redacted_url
    from dechbo.studies.store import StudyStore
    from dechbo.studies.studyfile import StudyFile

    try:
        file = StudyFile.read(path)
        yield "study", f"{file.name!r}: {file.space.dim} parameters, {file.direction}, {file.trials} trials"
        yield "storage", redacted_url(storage or file.storage)
        store = StudyStore(file, storage=storage, create=False, readonly=True)
        states: dict[str, int] = {}
        for trial in store.trials:
            states[trial.state.name.lower()] = states.get(trial.state.name.lower(), 0) + 1
        yield "trials", ", ".join(f"{count} {state}" for state, count in states.items()) or "none"
    except DechboError as error:
        yield "problem", str(error)
