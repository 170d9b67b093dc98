"""Downloads, from a real server on this machine: complete, with the right checksum, or not there at all."""

from __future__ import annotations

import hashlib
import os
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dechbo.bench.problems import ProblemUnavailable, cifar10, pic
from dechbo.bench.problems.cifar10 import ARCHIVE


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "small").write_bytes(b"an archive" * 10_000)
    handler = partial(Quiet, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def test_a_download_appears_under_its_name(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = (tmp_path / "served" / "small").read_bytes()
    path = cifar10.download(tmp_path / "a" / "cifar10", url=f"{server}/small", md5=md5(content))
    assert path == tmp_path / "a" / "cifar10" / ARCHIVE
    assert path.read_bytes() == content
    assert os.listdir(path.parent) == [ARCHIVE]
    shown = capsys.readouterr()
    assert ARCHIVE in shown.err
    assert shown.out == ""
    # a second call needs no server, and what is wrong is replaced
    assert cifar10.download(path.parent, url="http://127.0.0.1:1/none", md5=md5(content)) == path
    path.write_bytes(b"damaged")
    assert cifar10.download(path.parent, url=f"{server}/small", md5=md5(content)).read_bytes() == content


def test_a_wrong_checksum_leaves_nothing(server: str, tmp_path: Path) -> None:
    with pytest.raises(ProblemUnavailable, match=r"md5 sum 0123, got [0-9a-f]{32}"):
        cifar10.download(tmp_path / "cifar10", url=f"{server}/small", md5="0123")
    assert os.listdir(tmp_path / "cifar10") == []


def test_without_internet_it_says_what_to_do(server: str, tmp_path: Path) -> None:
    folder = tmp_path / "cifar10"
    with pytest.raises(ProblemUnavailable, match=r"404.*put it into"):
        cifar10.download(folder, url=f"{server}/no_such_file")
    with pytest.raises(ProblemUnavailable, match=r"cannot be downloaded .*put it into .*cifar10"):
        cifar10.download(folder, url="http://127.0.0.1:1/small")
    assert os.listdir(folder) == []


def test_the_table_of_an_archive_is_unpacked(server: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "served" / "proteins.zip", "w") as archive:
        archive.writestr("CASP.csv", "RMSD,F1\n1,2\n")
        archive.writestr("readme.txt", "nothing")
    content = b"RMSD,F1\n1,2\n"
    wanted = hashlib.sha256(content).hexdigest()
    path = pic.download(tmp_path / "protein", url=f"{server}/proteins.zip", sha256=wanted)
    assert path.read_bytes() == content
    assert pic.read_table(path).tolist() == [[1.0, 2.0]]
    assert os.listdir(path.parent) == ["CASP.csv"]
    with pytest.raises(ProblemUnavailable, match=r"no archive with CASP\.csv"):
        pic.download(tmp_path / "other", url=f"{server}/small")
    assert os.listdir(tmp_path / "other") == []
