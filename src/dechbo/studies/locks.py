"""Locks between processes: a file lock beside a SQLite file, an advisory lock on PostgreSQL.

Both end with the process that holds them, however it ends.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dechbo.errors import StorageError

if TYPE_CHECKING:
    from sqlalchemy import URL


@contextmanager
def exclusive(address: URL, purpose: str) -> Iterator[None]:
    """Hold the one lock of this storage and ``purpose``; waits for whoever holds it."""
    backend = address.get_backend_name()
    if backend == "postgresql":
        with _advisory(address, purpose):
            yield
        return
    if backend == "sqlite":
        place = Path(f"{address.database}.lock")
    else:  # other databases: safe between processes of one machine
        known = hashlib.sha256(f"{address.host} {address.port} {address.database}".encode()).hexdigest()[:16]
        place = Path(tempfile.gettempdir()) / f"dechbo-{known}.lock"
    with _file_lock(place):  # one for all purposes: none is held for long, nor inside of another
        yield


@contextmanager
def _file_lock(place: Path) -> Iterator[None]:
    import fcntl

    try:
        file = open(place, "ab")  # noqa: SIM115  (closed below; never deleted, or two could hold "the" lock)
    except OSError as error:
        raise StorageError(f"the lock {place} cannot be opened: {error.strerror}") from None
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _advisory(address: URL, purpose: str) -> Iterator[None]:
    from sqlalchemy import create_engine, text
    from sqlalchemy.pool import NullPool

    key = int.from_bytes(hashlib.sha256(f"dechbo {purpose}".encode()).digest()[:8], "big", signed=True)
    engine = create_engine(address, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        # a machine that falls asleep with the lock loses it after half a minute, not after hours
        for setting, value in (("idle", 10), ("interval", 5), ("count", 4)):
            connection.execute(text(f"SET tcp_keepalives_{setting} = {value}"))
        connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": key})
        yield  # closing the connection releases the lock
