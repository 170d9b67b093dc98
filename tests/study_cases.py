"""A small study as files, and the command as a user types it, in this process."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

STUDY = """
name: {name}
direction: {direction}
parameters:
  lr: {{type: float, low: 1.0e-4, high: 1, log: true}}
  layers: {{type: int, low: 1, high: 4}}
  act: {{type: categorical, choices: [relu, tanh]}}
{objective}
trials: {trials}
seed: 3
"""

OBJECTIVE = """
import math


def run(lr, layers, act):
    return (math.log10(lr) + 2) ** 2 + abs(layers - 2) + (act == "tanh")


def limited(lr, layers, act):
    return {"value": run(lr, layers, act), "constraints": {"size": layers - 2.5}}


def fails(lr, layers, act):
    raise ValueError(f"no luck with {layers} layers")


def sometimes(lr, layers, act):
    return run(lr, layers, act) if layers > 1 else fails(lr, layers, act)
"""


def write_study(
    folder: Path,
    function: str | None = "run",
    *,
    name: str = "small",
    trials: int = 4,
    direction: str = "minimize",
    more: str = "",
) -> Path:
    (folder / "small_objective.py").write_text(OBJECTIVE, encoding="utf-8")
    objective = "" if function is None else f'objective: {{python: "small_objective:{function}"}}'
    path = folder / f"{name}.yaml"
    text = STUDY.format(name=name, objective=objective, trials=trials, direction=direction)
    path.write_text(text + more, encoding="utf-8")
    return path


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


class CommandLine:
    """``dechbo`` in this process: its exit code and what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch

    def __call__(self, *arguments: object) -> Done:
        from dechbo.cli import main

        self._monkeypatch.setattr(sys, "argv", ["dechbo", *map(str, arguments)])
        self._capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        shown = self._capsys.readouterr()
        return Done(code, shown.out, shown.err)
