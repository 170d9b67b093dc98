"""The code of the README, the guide and the examples runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
# ax_node needs torch; ray_tune has a test of its own; the others are what study files call (test_examples.py)
TESTED_ELSEWHERE = ("ax_node", "ray_tune", "wine", "boosting", "voltages", "telemetry")
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.stem not in TESTED_ELSEWHERE)


def python_blocks(name: str) -> str:
    text = (ROOT / name).read_text(encoding="utf-8")
    return "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))


def test_the_readme_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}  # nothing is given: it can be pasted
    exec(python_blocks("README.md"), names)
    assert names["opt"].best.value < 0.5
    assert names["result"].nfev == 60
    assert (tmp_path / "run.json").exists()


def test_the_guide_code_runs() -> None:
    names: dict[str, Any] = {}  # nothing is given: the page imports what it uses
    exec(python_blocks("docs/guide.md"), names)
    assert names["space"].names == ("lr", "layers", "act", "drop")


def test_links_between_documents_lead_somewhere() -> None:
    folders = [ROOT / "benchmarks" / "README.md", ROOT / "examples" / "README.md"]
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *folders]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.system
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_run(example: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 4
