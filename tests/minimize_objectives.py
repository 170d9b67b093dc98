"""Objectives for worker processes, which import them by name."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np


class Odd(Exception):
    """Cannot be pickled: it does not take what it gives."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"odd {one + two}")


def bowl(x: np.ndarray, seconds: float = 0.0, turn: float = 0.0) -> float:
    """Takes longer, or with ``turn`` = 1 shorter, the larger the first coordinate."""
    time.sleep(seconds * abs(turn - x[0]))
    return float(((x - 0.3) ** 2).sum())


def signing(x: np.ndarray, folder: Path) -> float:
    (folder / str(os.getpid())).touch()
    while len(list(folder.iterdir())) < 2:  # until somebody else evaluates too
        time.sleep(0.01)
    return float(x.sum())


def mixed(params: dict[str, int]) -> float:
    return float("nan") if params["a"] == 2 else float(params["a"])


def raising(x: np.ndarray) -> float:
    if x[0] > 0.5:
        raise ValueError("a bad value")
    time.sleep(600)
    return 0.0


def oddly_raising(x: np.ndarray) -> float:
    raise Odd(1, 2)


def dying(x: np.ndarray) -> float:
    os._exit(3)


def unsendable(x: np.ndarray) -> Any:
    return lambda: x


class OnlyThere:
    """Can be pickled, but not loaded anywhere else."""

    def __init__(self) -> None:
        self.home = os.getpid()

    def __setstate__(self, state: dict[str, int]) -> None:
        if state["home"] != os.getpid():
            raise AttributeError("no such name here")

    def __call__(self, x: np.ndarray) -> float:
        return 0.0
