"""Records of finished cases: a line each, written at once, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


class ResultsFile:
    """The rows of a file, each known by the fields in ``key``."""

    def __init__(self, path: Path, key: tuple[str, ...]) -> None:
        self.path = path
        self.key = key
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def add(self, case: dict[str, Any], measure: Callable[..., dict[str, Any]]) -> None:
        """Measure ``case`` unless the file has it already, print it and write it down."""
        if any(all(row[name] == case[name] for name in self.key) for row in self.rows):
            return
        row = {**case, **measure(**case)}
        self.rows.append(row)
        print(row, flush=True)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
