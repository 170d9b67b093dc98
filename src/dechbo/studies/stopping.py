"""When a run stops early: ``stop:`` in a study file, ``--stop`` in the command. Off by default.

=============  =======================================================================================================
no-gain        the model gives another ``trials`` trials a probability below ``probability`` to improve by ``epsilon``
target         the best value is this one or better
time           so many seconds after the run began ("90", "15min", "2h", "1d")
evaluations    so many evaluations of this run, failed ones included
=============  =======================================================================================================
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from dechbo.errors import DechboError, OptionError

if TYPE_CHECKING:
    from dechbo.optimizer.outlook import Outlook
    from dechbo.studies.store import StudyStore

UNITS = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
MIN_TRIALS = 20  # evaluations before a model is asked whether there is more to gain
CHECK_EVERY = 5  # evaluations between two such questions
WORTH_HAVING = 0.01  # a gain, as a part of the distance between the best value and the median


@dataclass(frozen=True)
class NoGain:
    """The rule of ``no-gain``."""

    trials: int = 20
    epsilon: float | None = None  # None: see default_epsilon
    probability: float = 0.05


@dataclass(frozen=True)
class Stopping:
    """The rules of a study; None where there is none."""

    no_gain: NoGain | None = None
    target: float | None = None
    time: float | None = None  # seconds
    evaluations: int | None = None

    @classmethod
    def parse(cls, texts: Sequence[str], given: Stopping) -> Stopping:
        """``given``, with the rules of ``--stop`` texts replaced: "no-gain", "target=0.1", "time=2h", "never"."""
        rules = given
        for text in texts:
            name, sign, value = text.partition("=")
            try:
                if text == "never":
                    rules = cls()
                elif name == "no-gain":
                    rules = replace(rules, no_gain=NoGain(epsilon=_not_negative(value) if sign else None))
                elif name == "target" and sign:
                    rules = replace(rules, target=_finite(value))
                elif name == "time" and sign:
                    rules = replace(rules, time=seconds(value))
                elif name == "evaluations" and sign and int(value) > 0:
                    rules = replace(rules, evaluations=int(value))
                else:
                    raise ValueError
            except ValueError:
                raise OptionError(
                    f"--stop takes no-gain, no-gain=EPSILON, target=X, time=2h, evaluations=N or never, got {text!r}"
                ) from None
        return rules


def seconds(text: str | float) -> float:
    """A time span: 90, "15min", "2h"."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h|d)?\s*", str(text))
    if found is None or float(found.group(1)) <= 0:
        raise ValueError(f"expected a time such as 90, 15min, 2h or 1d, got {text!r}")
    return float(found.group(1)) * UNITS[found.group(2) or ""]


class StoppingCheck:
    """The rules at work in one run: ``reason()`` is None as long as it goes on."""

    def __init__(self, rules: Stopping, study: StudyStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._rules, self._study, self._clock = rules, study, clock
        self._began, self._finished_before = clock(), study.finished
        self._asked_at = -math.inf  # evaluations when the model was asked last
        self.outlook: Outlook | None = None

    def reason(self) -> str | None:
        """Why the run stops now."""
        rules = self._rules
        if rules.time is not None and self._clock() - self._began >= rules.time:
            return f"stopped by stop: time, {rules.time:g} s"
        if rules == Stopping():
            return None
        finished = self._study.finished
        if rules.evaluations is not None and finished - self._finished_before >= rules.evaluations:
            return f"stopped by stop: evaluations, {rules.evaluations} in this run"
        best = self._study.best
        if rules.target is not None and best is not None and best.value is not None:
            sign = -1.0 if self._study.file.direction == "maximize" else 1.0
            if sign * best.value <= sign * rules.target:
                return f"stopped by stop: target, {best.value:.6g} is {rules.target:g} or better"
        return self._no_gain(finished) if rules.no_gain is not None and best is not None else None

    def _no_gain(self, finished: int) -> str | None:
        rule = self._rules.no_gain
        assert rule is not None
        if finished < MIN_TRIALS or finished - self._asked_at < CHECK_EVERY:
            return None
        self._asked_at = finished
        try:
            self.outlook = expected_outlook(self._study, rule)
        except DechboError:  # no model yet
            return None
        if self.outlook.probability >= rule.probability:
            return None
        return f"stopped by stop: no-gain: {self.outlook}"


def expected_outlook(study: StudyStore, rule: NoGain | None = None) -> Outlook:
    """What the model still expects of a study."""
    rule = rule or NoGain()
    optimizer: Any = study.optimizer()
    epsilon = rule.epsilon
    if epsilon is None:
        best = optimizer.best
        values = [evaluation.value for evaluation in optimizer.evaluations if evaluation.value is not None]
        epsilon = 0.0 if best is None else default_epsilon(values, best.value)
    found: Outlook = optimizer.outlook(rule.trials, epsilon=epsilon)
    return found


def default_epsilon(values: Sequence[float], best: float) -> float:
    """A gain worth having: it depends on typical values, not on how bad the worst ones are."""
    distance = WORTH_HAVING * abs(median(values) - best)
    return distance if math.isfinite(distance) else 0.0


def _not_negative(text: str) -> float:
    value = _finite(text)
    if value < 0:
        raise ValueError(text)
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value
