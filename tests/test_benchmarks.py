"""Every script of benchmarks/ can be imported: none of them uses what the package no longer has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "benchmarks"
IN_OTHER_ENVIRONMENTS = {"conditional_smac"}


def test_the_scripts_can_be_imported() -> None:
    names = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in IN_OTHER_ENVIRONMENTS)
    assert "ablation" in names
    code = f"import importlib\nfor name in {names!r}:\n    importlib.import_module(name)\n    print(name)"
    done = subprocess.run([sys.executable, "-c", code], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.stdout.split() == names, done.stderr
