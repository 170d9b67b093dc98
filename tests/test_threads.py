"""One BLAS thread while it is needed, and the user's setting afterwards, also with several callers."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import threading
from threadpoolctl import threadpool_info
from dechbo.threads import one_blas_thread

def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

@one_blas_thread
def inner():
    return blas_threads()

@one_blas_thread
def outer(seen):
    seen.append(blas_threads())
    seen.append(inner())
    seen.append(blas_threads())

@one_blas_thread
def fails():
    raise KeyError

assert blas_threads() == {2}, blas_threads()
seen = []
threads = [threading.Thread(target=lambda: [outer(seen) for _ in range(30)]) for _ in range(4)]
for thread in threads:
    thread.start()
outer(seen)
for thread in threads:
    thread.join()
assert len(seen) == 363 and all(found == {1} for found in seen), seen
assert blas_threads() == {2}, blas_threads()
try:
    fails()
except KeyError:
    assert blas_threads() == {2}, blas_threads()
    print("restored")
"""


def test_the_limit_holds_inside_and_is_lifted_outside() -> None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.strip() == "restored", done.stderr
