"""What a fresh clone needs: types, one version, the README's commands, nothing of a developer's machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import dechbo

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
# written with groups and classes so that this file does not match itself
OF_A_MACHINE = re.compile(r"(?<![\w.-])/(?:home|root|work)/|pypi[.]org|python[h]osted")


def marked_command(marker: str) -> str:
    """The first line of the fenced block that follows ``<!-- marker -->`` in the README."""
    found = re.search(rf"<!-- {marker} -->\s*```\w*\n(.+)\n", README.read_text(encoding="utf-8"))
    assert found, f"README.md needs <!-- {marker} --> and then a fenced block with the command"
    return found[1]


def tracked_texts() -> dict[str, str]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git clone")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    texts = {}
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        content = path.read_bytes() if path.is_file() else b""
        if b"\0" not in content:
            texts[name] = content.decode("utf-8", errors="replace")
    return texts


def test_the_package_is_typed() -> None:
    assert (ROOT / "src" / "dechbo" / "py.typed").is_file()


def test_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == dechbo.__version__


@pytest.mark.parametrize(("marker", "runs"), [("main job", "dechbo "), ("test command", "pytest")])
def test_readme_commands_install_and_run(marker: str, runs: str) -> None:
    install, run = marked_command(marker).split("&&", 1)
    assert install.startswith("pip install -e ")
    assert runs in run


def test_constraints_are_plain_pins() -> None:
    heading, *pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert heading.startswith("# ")
    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)] == []


def test_ci_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_no_tracked_file_names_a_machine_or_a_registry() -> None:
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in tracked_texts().items()
        for number, line in enumerate(text.splitlines(), start=1)
        if OF_A_MACHINE.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("/".join(["", "home", "someone"]), True),
        ('open("' + "/".join(["", "work", "x"]), True),
        ("https://" + ".".join(["pypi", "org"]), True),
        ("src/" + "work/file", False),
        ("at home/root", False),
    ],
)
def test_the_pattern_itself(text: str, matches: bool) -> None:
    assert bool(OF_A_MACHINE.search(text)) == matches
