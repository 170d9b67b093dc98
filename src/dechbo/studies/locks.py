"""Locks between processes: a file lock beside a SQLite file, an advisory lock on PostgreSQL.

Both end with the process that holds them, even if it is killed. A file system without such locks is refused.
"""

from __future__ import annotations

import errno
import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dechbo.errors import StorageError

if TYPE_CHECKING:
    from sqlalchemy import URL

LOCK_RETRY_SECONDS = 0.005  # short, so that a waiting process gets the lock between two asks of another


@contextmanager
def exclusive(address: URL, purpose: str) -> Iterator[None]:
    """Hold the lock of this storage for ``purpose``; waits until it is free."""
    backend = address.get_backend_name()
    if backend == "postgresql":
        with _advisory_lock(address, purpose):
            yield
        return
    if backend == "sqlite":
        path = Path(f"{address.database}.lock")
    else:  # other databases: the lock works between the processes of one machine
        digest = hashlib.sha256(f"{address.host} {address.port} {address.database}".encode()).hexdigest()[:16]
        path = Path(tempfile.gettempdir()) / f"dechbo-{digest}.lock"
    with _file_lock(path):  # one lock for all purposes: each is short, and they are never nested
        yield


@contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    from filelock import FileLock

    lock = FileLock(path, fallback_to_soft=False)  # a soft lock would outlive a killed process
    try:
        lock.acquire(poll_interval=LOCK_RETRY_SECONDS)
    except OSError as error:
        if error.errno == errno.ENOSYS:
            raise StorageError(
                f"the file system of {path.parent} has no file locks: put the storage on another one, or use postgresql"
            ) from None
        raise StorageError(f"the lock {path} cannot be opened: {error.strerror}") from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _advisory_lock(address: URL, purpose: str) -> Iterator[None]:
    from sqlalchemy import create_engine, text
    from sqlalchemy.pool import NullPool

    key = int.from_bytes(hashlib.sha256(f"dechbo {purpose}".encode()).digest()[:8], "big", signed=True)
    engine = create_engine(address, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        # if the machine that holds the lock is suspended, the server releases it after 30 seconds instead of hours
        for setting, value in (("idle", 10), ("interval", 5), ("count", 4)):
            connection.execute(text(f"SET tcp_keepalives_{setting} = {value}"))
        connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": key})
        yield  # closing the connection releases the lock
