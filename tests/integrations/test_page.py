"""The code in docs/integrations.md runs, each snippet as a script."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)


def test_there_is_a_snippet_for_each() -> None:
    wanted = ("DecHBOSearchCV(", "workers=2", "workers=pool.map", "OptunaSearch(", "RayExecutor(")
    assert [sum(text in snippet for snippet in SNIPPETS) for text in wanted] == [1] * len(wanted)


@pytest.mark.system
@pytest.mark.parametrize("snippet", SNIPPETS)
def test_the_snippets_run(snippet: str, tmp_path: Path) -> None:
    if "ray" in snippet.lower():
        pytest.importorskip("ray.tune")
    script = tmp_path / "snippet.py"
    script.write_text(snippet)
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=300, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
