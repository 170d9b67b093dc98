"""Outcome: what one evaluation gives; ``evaluate`` turns a call of the objective into one."""

from __future__ import annotations

import math
import pickle
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, variance
from typing import Any

MAX_ERROR = 4000  # characters of an error that an outcome holds


@dataclass(frozen=True)
class Outcome:
    """A value with its constraints (feasible at or below 0), or the text of the error if there is no value.

    ``exception`` is what the objective raised, or why the executor ended the task (``WorkerDied``, ``TimeoutError``,
    ``CancelledError``).
    """

    value: float | None
    constraints: dict[str, float] = field(default_factory=dict)
    error: str | None = None
    seconds: float = 0.0
    curve: dict[int, float] = field(default_factory=dict)  # values by step, on the way
    pruned: bool = False  # stopped on the way, without a value
    noise: float | None = None  # the variance of the value, where it is a mean of repeats
    exception: BaseException | None = field(default=None, compare=False, repr=False)

    @property
    def failed(self) -> bool:
        """Whether the evaluation gave no number, for another reason than that it was pruned."""
        return self.value is None and not self.pruned

    @classmethod
    def failure(cls, error: str, seconds: float = 0.0, exception: BaseException | None = None) -> Outcome:
        """An evaluation without a value; of a long ``error`` the beginning and the end remain."""
        return cls(None, {}, shortened_error(error, MAX_ERROR), seconds, exception=exception)

    @classmethod
    def of_exception(cls, error: BaseException, *, hidden: int = 0) -> Outcome:
        """The failure of an objective that raised ``error``; the first ``hidden`` frames are ours and not shown."""
        frames = error.__traceback__
        for _ in range(hidden):
            frames = frames.tb_next if frames is not None else None
        lines = traceback.format_exception(type(error), error, frames)
        return cls.failure("".join(lines).rstrip())

    @classmethod
    def of_result(cls, result: object) -> Outcome:
        """What an objective returned: a number, or {"value": …, "constraints": {…} or […]}."""
        given: dict[str, Any] = dict(result) if isinstance(result, Mapping) else {"value": result}
        unknown = sorted(set(map(str, given)) - {"value", "constraints"})
        if unknown or "value" not in given:
            came = f"the fields {sorted(map(str, given))}" if given else "an empty dict"
            return cls.failure(f'the objective must give a number or {{"value": …, "constraints": {{…}}}}, got {came}')
        value = _number(given["value"])
        if value is None:
            return cls.failure(f"the objective gave {given['value']!r:.200} where a finite number was expected")
        try:
            return cls(value, _constraints(given.get("constraints")))
        except ValueError as error:
            return cls.failure(str(error))

    @classmethod
    def mean_of(cls, outcomes: Sequence[Outcome]) -> Outcome:
        """The mean of successful repeats, with the variance of that mean; the worst of each constraint."""
        if len(outcomes) == 1:
            return outcomes[0]
        values = [outcome.value for outcome in outcomes if outcome.value is not None]
        names = {name for outcome in outcomes for name in outcome.constraints}
        worst = {name: max(o.constraints[name] for o in outcomes if name in o.constraints) for name in sorted(names)}
        return cls(fmean(values), worst, noise=variance(values) / len(values), curve=outcomes[0].curve)

    def portable(self) -> Outcome:
        """The same for another process.

        An exception that cannot be pickled becomes a RuntimeError; a value that cannot be pickled, a failure.
        """
        try:
            exception: BaseException | None = pickle.loads(pickle.dumps(self.exception))
        except Exception:
            exception = RuntimeError(f"{type(self.exception).__name__}: {self.exception}")
        outcome = replace(self, exception=exception)
        try:
            pickle.loads(pickle.dumps(outcome))
        except Exception as error:
            text = f"the value cannot be sent to another process: {error}"
            return Outcome.failure(text, self.seconds, TypeError(text))
        return outcome


def evaluate(objective: Callable[[dict[str, Any]], Any], params: dict[str, Any]) -> Outcome:
    """Call ``objective(params)``; whatever it raises is a failed outcome, so that it cannot end its worker."""
    started = time.perf_counter()
    try:
        result = objective(params)
        outcome = result if isinstance(result, Outcome) else Outcome.of_result(result)
    except BaseException as error:
        outcome = replace(Outcome.of_exception(error, hidden=1), exception=error)
    return replace(outcome, seconds=time.perf_counter() - started)


def shortened_error(text: str, most: int) -> str:
    """The beginning and the end of a long error; the end usually says what went wrong."""
    if len(text) <= most:
        return text
    head = most // 4
    return f"{text[:head]}\n[…]\n{text[-(most - head - 5) :]}"


def _number(value: object) -> float | None:
    """``value`` as a finite float; None for texts, bools, NaN and infinities."""
    try:
        plain: Any = value.item() if hasattr(value, "item") else value  # scalars of NumPy and torch
        if isinstance(plain, (str, bytes, bool)) or plain is None:
            return None
        number = float(plain)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
    return number if math.isfinite(number) else None


def _constraints(given: object) -> dict[str, float]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        named = {str(name): value for name, value in given.items()}
    elif isinstance(given, (list, tuple)):
        named = {str(index): value for index, value in enumerate(given)}
    else:
        raise ValueError(
            f"constraints must be a dict or a list of numbers (feasible at or below 0), got {given!r:.100}"
        )
    checked = {}
    for name, value in named.items():
        number = _number(value)
        if number is None:
            raise ValueError(
                f"constraint {name!r} must be a finite number (feasible at or below 0), got {value!r:.100}"
            )
        checked[name] = number
    return checked
