"""Storage URLs and ``make_storage``: SQLite with a write-ahead log by default, PostgreSQL for several machines.

The tables are Optuna's, so that its tools work. No message contains a password.
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
    """The Optuna storage at a URL such as "sqlite:///path.db" or "postgresql://user@host/database".

    With ``heartbeat``, running trials record a heartbeat every ``interval`` seconds; one without a heartbeat for
    ``grace`` seconds counts as stale and is evaluated again. ``existing`` creates no tables, ``readonly`` writes
    nothing.
    """
    from optuna.exceptions import ExperimentalWarning

    from dechbo.integrations.optuna import retry_stale
    from dechbo.integrations.optuna.adapter import Database
    from dechbo.studies.locks import exclusive

    for name, value in (("interval", interval), ("grace", grace)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise StorageError(f"{name} must be an integer number of seconds of at least 1, got {value!r}")
    address = checked_url(url)
    beats: dict[str, Any] = {
        "heartbeat_interval": interval,
        "grace_period": grace,
        "heartbeat_stale_trial_callback": retry_stale,
    }
    text = address.render_as_string(hide_password=False)
    may_create = not (existing or readonly)
    # two processes that create the same tables at the same time would both fail
    lock = exclusive(address, "tables") if may_create else nullcontext()
    with storage_errors(url, "cannot be opened"), lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        template = text.replace("{", "{{").replace("}", "}}")  # Optuna formats the URL: escape braces in a password
        return Database(
            template, existing=not may_create, readonly=readonly, **(beats if heartbeat and not readonly else {})
        )


@contextmanager
def storage_errors(url: str, trouble: str = "failed") -> Iterator[None]:
    """Turn errors of the database or its driver into a StorageError without secrets."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, StorageInternalError) as error:
        raise StorageError(f"the storage {redacted_url(url)} {trouble}: {error_reason(error, url)}") from None
    except RuntimeError as error:
        if type(error) is not RuntimeError or "table schema" not in str(error):
            raise
        # another version of Optuna wrote the tables
        raise StorageError(f"the storage {redacted_url(url)} {trouble}: {error}") from None


def absolute_url(url: str, folder: Path) -> str:
    """The URL with a relative SQLite path made absolute from ``folder``."""
    address = parse_url(url)
    if address.get_backend_name() != "sqlite" or not address.database or address.database.startswith((":", "file:")):
        return url
    path = str((folder / address.database).resolve())
    return address.set(database=path).render_as_string(hide_password=False)


def file_url(path: Path) -> str:
    """The URL of a SQLite file; its name may contain any characters."""
    from sqlalchemy import URL

    return URL.create("sqlite", database=str(path)).render_as_string()


def redacted_url(url: str) -> str:
    """The URL for messages: passwords are hidden, also those in its query."""
    try:
        address = parse_url(url)
    except StorageError:
        hidden = re.sub(r"^(\w*:?//)?.*@", r"\1***@", str(url), flags=re.DOTALL)
        return re.sub(r"([?&][^=&]*(?:passw|pwd|secret|token|key|auth)[^=&]*=)[^&]*", r"\1***", hidden, flags=re.I)
    query = {name: "***" if _SECRET.search(name) else value for name, value in address.query.items()}
    return address.set(query=query).render_as_string(hide_password=True)


def error_reason(error: BaseException, url: str) -> str:
    """The first line of a database driver's message, without the secrets of ``url``."""
    while error.__cause__ is not None:  # Optuna's own error says little, its cause says more
        error = error.__cause__
    original = getattr(error, "orig", None) or error
    lines = str(original).strip().splitlines()
    message = next((line.strip() for line in lines if line.strip()), type(original).__name__)
    for secret in sorted(_secrets(url), key=len, reverse=True):
        message = message.replace(secret, "***")
    return message


def parse_url(url: str) -> URL:
    """The parts of a storage URL."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    if not isinstance(url, str):
        raise StorageError(f"a storage must be a URL such as sqlite:///study.db, got {type(url).__name__}")
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        raise StorageError(
            "a storage must be a URL such as sqlite:///study.db or postgresql://user@host/database, and "
            "this is not one; a password belongs into ~/.pgpass or $PGPASSWORD"
        ) from None


def checked_url(url: str) -> URL:
    """The parts of a URL, after checking that its driver is installed and its folder exists."""
    address = parse_url(url)
    if address.drivername in ("postgresql", "postgres"):
        address = address.set(drivername="postgresql+psycopg")
    backend = address.drivername.split("+")[0]
    if backend == "sqlite":
        database = address.database
        if not database or ":memory:" in database or database.startswith("file:"):
            raise StorageError(
                f"a study needs a file that outlives its process, such as sqlite:///study.db, got {redacted_url(url)}"
            )
        path = Path(database).absolute()
        if not path.parent.is_dir():
            raise StorageError(f"the storage {redacted_url(url)} cannot be opened: there is no folder {path.parent}")
        if path.is_dir():
            raise StorageError(f"the storage {redacted_url(url)} cannot be opened: {path} is a folder")
        return address.set(database=str(path))
    try:
        address.get_dialect().import_dbapi()
    except ImportError as error:
        install = ': pip install "dechbo[postgres]"' if backend == "postgresql" else ""
        raise StorageError(f"the storage {redacted_url(url)} needs the package {error.name!r}{install}") from None
    except Exception:  # SQLAlchemy's NoSuchModuleError
        raise StorageError(
            f"the storage {redacted_url(url)} has an unknown kind of database, {backend!r}: use sqlite or postgresql"
        ) from None
    return address


def _secrets(url: str) -> set[str]:
    try:
        address = parse_url(url)
    except StorageError:
        return set()
    named = [value for name, value in address.query.items() if _SECRET.search(name)]
    texts = [address.password, *(text for value in named for text in ([value] if isinstance(value, str) else value))]
    return {str(text) for text in texts if text}
