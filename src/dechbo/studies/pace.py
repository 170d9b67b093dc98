"""The pace of a run: how long its asks and its evaluations take, and from both apart the time left.

Asks grow dearer with the number of evaluations; a mean over all steps so far would promise far too little.
Tested in test_progress.py.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import islice
from statistics import median

WINDOW = 25  # the latest asks and evaluations, whose means count
MAX_ASKS = 400  # from which the growth is estimated
MIN_ASKS_FOR_GROWTH = 8
MAX_STEPS = 200  # that an estimate adds up
DEFAULT_GROWTH, MAX_GROWTH = 0.5, 2.0  # seconds of an ask ~ n ** growth


class Pace:
    """Seconds of asks and evaluations, as they come."""

    def __init__(self, workers: int = 1, start: float = 0.0) -> None:
        self.workers = max(1, workers)
        self._asks: deque[tuple[int, float]] = deque(maxlen=MAX_ASKS)  # evaluations known, seconds: by a model
        self._evaluations: deque[float] = deque(maxlen=WINDOW)
        self._rest: deque[float] = deque(maxlen=WINDOW)  # seconds of a step that were neither
        self._last_ask, self._last_end = 0.0, start
        self._waits_for_model = True  # whether every ask so far took a point of the initial design

    def asked(self, known: int, seconds: float, *, by_model: bool) -> None:
        """An ask with ``known`` finished trials; those of the initial design take no time."""
        self._last_ask = max(seconds, 0.0)
        if by_model:
            self._waits_for_model = False
            self._asks.append((max(known, 1), max(seconds, 0.0)))

    def evaluated(self, seconds: float, now: float) -> None:
        """An evaluation ended ``now``."""
        known = max(seconds, 0.0) if math.isfinite(seconds) else 0.0
        self._evaluations.append(known)
        self._rest.append(max(0.0, now - self._last_end - self._step(self._last_ask, known)))
        self._last_ask, self._last_end = 0.0, now

    @property
    def is_lower_bound(self) -> bool:
        """Whether no ask by a model was seen yet: the time left is then longer than ``seconds_left``."""
        return self._waits_for_model

    def seconds_left(self, finished: int, target: int) -> float | None:
        """The estimate for the trials from ``finished`` to ``target``; None before two have ended."""
        evaluations = list(self._evaluations)  # a copy: the display's thread reads while the run's thread writes
        if len(evaluations) < 2:
            return None
        evaluation = sum(evaluations) / len(evaluations)
        level, growth = self._ask_cost()
        rest = median(list(self._rest))  # the median: a suspended laptop is no pace
        stride = max(1, (target - finished) // MAX_STEPS)
        steps = [self._step(level * max(n, 1) ** growth, evaluation) + rest for n in range(finished, target, stride)]
        return sum(steps) * (target - finished) / len(steps) if steps else 0.0

    def _step(self, ask: float, evaluation: float) -> float:
        """The seconds per trial; asks come one at a time, evaluations run side by side."""
        return max(ask, (ask + evaluation) / self.workers)

    def _ask_cost(self) -> tuple[float, float]:
        """The cost of an ask with n evaluations is level * n ** growth."""
        asks = list(self._asks)
        if len(asks) > 2:
            asks = asks[1:]  # the first may have compiled its loops
        if not asks:
            return 0.0, 0.0
        growth = _growth(asks)
        recent = list(islice(reversed(asks), WINDOW))
        return sum(s for _, s in recent) / sum(n**growth for n, _ in recent), growth


def _growth(asks: list[tuple[int, float]]) -> float:
    """The exponent by least squares in logarithms, within what is plausible."""
    points = [(math.log(n), math.log(seconds)) for n, seconds in asks if seconds > 0]
    if len(points) < MIN_ASKS_FOR_GROWTH:
        return DEFAULT_GROWTH
    middle = sum(x for x, _ in points) / len(points)
    spread = sum((x - middle) ** 2 for x, _ in points)
    if spread / len(points) < 0.01:  # all about the same number of evaluations
        return DEFAULT_GROWTH
    return min(max(sum((x - middle) * y for x, y in points) / spread, 0.0), MAX_GROWTH)
