"""ResultsFile: finished cases of a benchmark script, one JSON line each; an interrupted script continues from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


class ResultsFile:
    """The rows of a file; the fields ``key`` identify a row."""

    def __init__(self, path: Path, key: tuple[str, ...]) -> None:
        self.path = path
        self.key = key
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def add(self, case: dict[str, Any], measure: Callable[..., dict[str, Any]]) -> None:
        """Measure ``case`` unless the file contains it; print and append the row."""
        if any(all(row[name] == case[name] for name in self.key) for row in self.rows):
            return
        row = {**case, **measure(**case)}
        self.rows.append(row)
        print(row, flush=True)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
