"""Storage of studies: SQLite with a write-ahead log by default, PostgreSQL for several machines.

Optuna's tables, so that every tool for them works. No message ever holds a password.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dechbo.errors import StorageError

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from sqlalchemy import URL

HEARTBEAT_SECONDS = 10
GRACE_SECONDS = 30
_SECRET = re.compile(r"passw|pwd|passphrase|secret|token|key$|auth", re.IGNORECASE)


def make_storage(
    url: str,
    *,
    heartbeat: bool = True,
    interval: int = HEARTBEAT_SECONDS,
    grace: int = GRACE_SECONDS,
    existing: bool = False,
    readonly: bool = False,
) -> BaseStorage:
    """The storage of an Optuna study at ``url``: "sqlite:///path.db", "postgresql://user@host/database" or another.

    With ``heartbeat`` a running trial that gave no sign of life for ``grace`` seconds (one is due every ``interval``)
    counts as dead and is evaluated again. ``existing`` creates no tables, and ``readonly`` writes nothing at all.
    """
    from optuna.exceptions import ExperimentalWarning

    from dechbo.studies.database import Database, retry
    from dechbo.studies.locks import exclusive

    for name, value in (("interval", interval), ("grace", grace)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise StorageError(f"{name} is a whole number of seconds, at least 1, got {value!r}")
    address = checked(url)
    beats: dict[str, Any] = {
        "heartbeat_interval": interval,
        "grace_period": grace,
        "heartbeat_stale_trial_callback": retry,
    }
    text = address.render_as_string(hide_password=False)
    looking = existing or readonly
    # two processes that create the same tables at once would both fail
    alone = nullcontext() if looking else exclusive(address, "tables")
    with reported(url, "cannot be opened"), alone, warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        # Optuna fills fields of the text, so that braces of a password are doubled
        doubled = text.replace("{", "{{").replace("}", "}}")
        return Database(doubled, existing=looking, readonly=readonly, **(beats if heartbeat and not readonly else {}))


@contextmanager
def reported(url: str, trouble: str = "failed") -> Iterator[None]:
    """Turn what a database or its driver raises into a StorageError that names no secret."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, StorageInternalError) as error:
        raise StorageError(f"the storage {shown(url)} {trouble}: {reason(error, url)}") from None
    except RuntimeError as error:
        if type(error) is not RuntimeError or "table schema" not in str(error):
            raise
        raise StorageError(f"the storage {shown(url)} {trouble}: {error}") from None  # made by another Optuna


def absolute(url: str, folder: Path) -> str:
    """The URL with a relative SQLite path taken from ``folder``."""
    address = parsed(url)
    if address.get_backend_name() != "sqlite" or not address.database or address.database.startswith((":", "file:")):
        return url
    path = str((folder / address.database).resolve())
    return address.set(database=path).render_as_string(hide_password=False)


def file_url(path: Path) -> str:
    """The URL of a SQLite file, whatever characters its name has."""
    from sqlalchemy import URL

    return URL.create("sqlite", database=str(path)).render_as_string()


def shown(url: str) -> str:
    """The URL as messages show it: passwords hidden, also those in its query."""
    try:
        address = parsed(url)
    except StorageError:
        hidden = re.sub(r"^(\w*:?//)?.*@", r"\1***@", str(url), flags=re.DOTALL)
        return re.sub(r"([?&][^=&]*(?:passw|pwd|secret|token|key|auth)[^=&]*=)[^&]*", r"\1***", hidden, flags=re.I)
    query = {name: "***" if _SECRET.search(name) else value for name, value in address.query.items()}
    return address.set(query=query).render_as_string(hide_password=True)


def reason(error: BaseException, url: str) -> str:
    """The first line of what a database driver says, without the secrets of ``url``."""
    while error.__cause__ is not None:  # Optuna's errors say little, what is behind them says why
        error = error.__cause__
    original = getattr(error, "orig", None) or error
    lines = str(original).strip().splitlines()
    said = next((line.strip() for line in lines if line.strip()), type(original).__name__)
    for secret in sorted(_secrets(url), key=len, reverse=True):
        said = said.replace(secret, "***")
    return said


def parsed(url: str) -> URL:
    """The parts of a storage URL."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    if not isinstance(url, str):
        raise StorageError(f"a storage is a URL such as sqlite:///study.db, got {type(url).__name__}")
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        raise StorageError(
            "a storage is a URL such as sqlite:///study.db or postgresql://user:password@host/database, and this is "
            "none; special characters of a password are written in percent code, such as %40 for @"
        ) from None


def checked(url: str) -> URL:
    """The parts of a URL that can be opened: its driver is there, its folder exists."""
    address = parsed(url)
    if address.drivername in ("postgresql", "postgres"):
        address = address.set(drivername="postgresql+psycopg")
    backend = address.drivername.split("+")[0]
    if backend == "sqlite":
        database = address.database
        if not database or ":memory:" in database or database.startswith("file:"):
            raise StorageError(f"a study needs a file that outlives its process, got {shown(url)}: sqlite:///study.db")
        path = Path(database).absolute()
        if not path.parent.is_dir():
            raise StorageError(f"the storage {shown(url)} cannot be opened: there is no folder {path.parent}")
        if path.is_dir():
            raise StorageError(f"the storage {shown(url)} cannot be opened: {path} is a folder")
        return address.set(database=str(path))
    try:
        address.get_dialect().import_dbapi()
    except ImportError as error:
        install = ': pip install "dechbo[postgres]"' if backend == "postgresql" else ""
        raise StorageError(f"the storage {shown(url)} needs the package {error.name!r}{install}") from None
    except Exception:  # SQLAlchemy's NoSuchModuleError
        raise StorageError(
            f"the storage {shown(url)}: no such kind of database is known, {backend!r}; use sqlite or postgresql"
        ) from None
    return address


def _secrets(url: str) -> set[str]:
    try:
        address = parsed(url)
    except StorageError:
        return set()
    named = [value for name, value in address.query.items() if _SECRET.search(name)]
    texts = [address.password, *(text for value in named for text in ([value] if isinstance(value, str) else value))]
    return {str(text) for text in texts if text}
