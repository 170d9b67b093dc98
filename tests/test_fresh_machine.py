"""The README's main job, as a stranger runs it: a fresh clone, a fresh virtual environment, one command, a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def readme_command(marker: str) -> str:
    match = re.search(
        rf"<!-- {marker} -->\s*```\w*\n(.+?)\n```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S
    )
    assert match, f"README.md has no command marked {marker!r}"
    return match.group(1)


def in_terminal(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run ``command`` on a pseudo-terminal and collect what it shows."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=environment, stdin=follower, stdout=follower, stderr=follower
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the last writer has closed the terminal
            break
        if not part:
            break
        shown += part
    os.close(leader)
    return process.wait(), shown.decode(errors="replace")


@pytest.mark.system
def test_the_main_job_runs_on_a_fresh_clone(tmp_path: Path) -> None:
    clone, venv = tmp_path / "dechbo", tmp_path / "venv"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    environment = {**os.environ, "VIRTUAL_ENV": str(venv), "PATH": f"{venv / 'bin'}:{os.environ['PATH']}"}
    environment |= {"TERM": "xterm-256color", "COLUMNS": "110", "LINES": "40"}
    code, shown = in_terminal(readme_command("main job"), clone, environment)
    assert code == 0, shown[-3000:]
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    for word in ("dechbo · wine", "best so far", "left", "gap", "interactions", "80 trials in"):  # while it ran
        assert word in shown
    for word in ("as YAML", "as JSON", "Interactions", "stored in", "next"):  # at the end
        assert word in shown
    assert float(re.findall(r"best value (\d+\.\d+)", shown)[-1]) < 0.15  # scikit-learn's own settings have 0.31
    assert (clone / "examples" / "wine.png").read_bytes().startswith(b"\x89PNG")
