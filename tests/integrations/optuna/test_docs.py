"""The code in docs/optuna.md runs, and runs again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import optuna
import pytest

PAGE = Path(__file__).parents[3] / "docs" / "optuna.md"


def test_the_page_runs_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    names: dict[str, Any] = {}
    exec("\n".join(blocks), names)
    assert names["study"].best_value < 0.5
    assert names["sampler"].suggest(names["study"])["layers"] <= 8
    assert isinstance(names["storage"], optuna.storages.RDBStorage)
    exec(blocks[0].replace("n_trials=20", "n_trials=1"), {})
    assert len(names["study"].trials) == 21
