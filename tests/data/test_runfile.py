"""Files of saved runs: written whole or not at all, and clear errors for what is not one."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from dechbo.data import runfile
from dechbo.errors import StudyFileError


def test_what_is_written_is_read_with_numpys_numbers_as_pythons(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    content = {"seed": np.int64(3), "values": [0.1 + 0.2, np.float64(1e-300), None], "name": "größer"}
    runfile.write(path, content)
    again = runfile.read(path)
    assert (again.pop("format"), again.pop("version")) == (runfile.FORMAT, runfile.VERSION)
    assert again == content


@pytest.mark.parametrize("bad", [object(), float("nan"), float("inf"), {1, 2}])
def test_content_that_json_cannot_hold_leaves_the_old_file(tmp_path: Path, bad: object) -> None:
    path = tmp_path / "run.json"
    runfile.write(path, {"seed": 1})
    before = path.read_bytes()
    with pytest.raises(StudyFileError, match="plain JSON"):
        runfile.write(path, {"seed": bad})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_crash_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    runfile.write(path, {"seed": 1})

    def crash(source: object, target: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(OSError, match="no space left"):
        runfile.write(path, {"seed": 2})
    assert runfile.read(path)["seed"] == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_saved_run_has_the_permissions_of_any_other_file(tmp_path: Path) -> None:
    path, other = tmp_path / "run.json", tmp_path / "other.txt"
    runfile.write(path, {})
    other.write_text("x")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_a_file_of_an_older_layout_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"format": runfile.FORMAT, "version": 1, "told": []}))
    before = path.read_text()
    with pytest.raises(StudyFileError, match=r"has format 1, and dechbo 0\.2 reads format 2: load it with the dechbo"):
        runfile.read(path)
    assert path.read_text() == before


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[]", b'{"format": "other"}', b"3"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(StudyFileError, match=r"run\.json is not a saved run"):
        runfile.read(path)


@pytest.mark.parametrize("error", [KeyError("space"), IndexError(), TypeError(), AttributeError(), ValueError("x")])
def test_damage_is_reported_as_one_error(error: Exception) -> None:
    with (
        pytest.raises(StudyFileError, match=r"a\.json is a saved run, but damaged") as caught,
        runfile.damage_reported("a.json"),
    ):
        raise error
    assert caught.value.__cause__ is error
