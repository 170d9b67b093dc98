"""How the command line says things: numbers, durations, courses of values, certificates, interactions."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from dechbo.interactions import Interaction
from dechbo.optimizer import AskInfo

BARS = "▁▂▃▄▅▆▇█"
FAINT = 0.1  # interactions less likely than this are not worth a line
CERTAINTY = ((0.95, "almost surely"), (0.7, "probably"), (0.3, "perhaps"), (0.0, "possibly"))
OUTPUT = "; its last output:"
LONGEST = 200  # characters of an error that a line shows
_FRAME = re.compile(r'^  File "(.+)", line (\d+)', re.MULTILINE)


def number(value: float | None) -> str:
    """A value as a person reads it."""
    return "–" if value is None or math.isnan(value) else f"{value:.6g}"


def setting(value: object) -> str:
    """A parameter's value as a person reads it."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """A time span in one or two units: 0.31 s, 42 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
    if seconds < 10:
        return f"{seconds:.2g} s" if seconds >= 0.1 else f"{1000 * seconds:.0f} ms"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    for unit, name, part, smaller in ((60, "min", 1, "s"), (3600, "h", 60, "min"), (86400, "d", 3600, "h")):
        if whole < unit * (60 if unit < 3600 else 24) or unit == 86400:
            rest = whole % unit // part
            return f"{whole // unit} {name}" + (f" {rest} {smaller}" if rest else "")
    raise AssertionError("every span has a unit")


def count(n: int, noun: str) -> str:
    """1 trial, 2 trials."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """The course of ``values``, a bar for each of at most ``width`` equal stretches; the last value is always there."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite or width < 1:
        return ""
    size = min(width, len(finite))
    shown = [finite[(k + 1) * len(finite) // size - 1] for k in range(size)]
    low, high = min(shown), max(shown)
    scale = (len(BARS) - 1) / ((high - low) or 1.0)
    return "".join(BARS[min(len(BARS) - 1, int((value - low) * scale))] for value in shown)


def bests(values: Sequence[float | None], direction: str) -> list[float]:
    """The best so far after each value; what failed changes nothing, and nothing stands before the first success."""
    better = max if direction == "maximize" else min
    course: list[float] = []
    for value in values:
        if value is not None and math.isfinite(value):
            course.append(better(course[-1], value) if course else value)
        elif course:
            course.append(course[-1])
    return course


def certificate(info: AskInfo | None, dim: int) -> str:
    """The gap of the last suggestion, or why it has none."""
    if info is None:
        return "–"
    if info.graph is None:
        return "none: a point of the initial design"
    if info.certified:
        if info.gap <= 0:
            return "0: proven best on its grid"
        return f"{'below 0.01%' if info.gap < 1e-4 else f'at most {info.gap:.2%}'} from the best on its grid"
    if info.source == "elsewhere":
        return "none: this point looks elsewhere"
    if info.source == "constrained":
        return "none: chosen by models of the constraints too"
    if any(len(scope) == dim for scope in info.graph.scopes) and dim > 1:
        return "none: one factor holds all parameters"
    return "none: chosen by the bound of the whole function"


def together(scope: Sequence[str], dim: int | None = None) -> str:
    """The parameters of an interaction in a few characters."""
    return "all parameters" if dim is not None and len(scope) == dim > 2 else " × ".join(scope)


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def in_words(interaction: Interaction, dim: int) -> str:
    """An interaction as a sentence with its probability and share of the variance."""
    certainty = next(word for limit, word in CERTAINTY if interaction.probability >= limit)
    who = "all parameters" if len(interaction.scope) == dim > 2 else listed(interaction.scope)
    said = f"{who} {certainty} act together ({percent(interaction.probability)})"
    if interaction.share < 0.001:
        return f"{said}, with no effect so far"
    return f"{said}: {percent(interaction.share)} of the variance"


def percent(part: float) -> str:
    """A part of one; what is not quite nothing or everything is not called so."""
    return "<1%" if 0 < part < 0.01 else ">99%" if part > 0.99 else f"{part:.0%}"


def strongest(interactions: Sequence[Interaction], most: int | None = None) -> list[Interaction]:
    """Those worth a line, the most telling first: likely and with effect."""
    shown = [i for i in interactions if len(i.scope) > 1 and i.probability >= FAINT]
    return sorted(shown, key=lambda i: (-i.probability * i.share, -i.probability, i.scope))[:most]


def essence(error: str | None) -> str:
    """The one line of an error that says most: the last of a traceback, the first of anything else; cut if long."""
    line = _telling(error)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _telling(error: str | None) -> str:
    lines = [line.strip() for line in (error or "").splitlines() if line.strip()]
    if not lines:
        return "no reason given"
    if lines[0].endswith(OUTPUT) and len(lines) > 1:  # of a command
        return f"{lines[0].removesuffix(OUTPUT)}: {lines[-1]}"
    return lines[-1] if lines[0].startswith("Traceback") else lines[0]


def kind_of(error: str | None) -> tuple[str, str]:
    """Equal for errors of one kind: the same exception from the same line of code, whatever its numbers."""
    place = _FRAME.findall(error or "")
    line = _telling(error)  # whole: numbers of other lengths would cut it elsewhere
    named = re.match(r"[\w.]+(?=:|$)", line) if place else None
    return (":".join(place[-1]) if place else "", named.group() if named else re.sub(r"[\d.]+", "#", line))


def as_yaml(params: Mapping[str, Any]) -> str:
    """Parameters as YAML, in their order, with all digits."""
    return "\n".join(f"{_plain(name)}: {_plain(value)}" for name, value in params.items())


def as_json(params: Mapping[str, Any]) -> str:
    """Parameters as one line of JSON, with all digits."""
    return json.dumps(dict(params), ensure_ascii=False)


def _plain(value: object) -> str:
    import yaml

    if isinstance(value, float):
        return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))  # 1e-05 would be a text in YAML 1.1
    text: str = yaml.safe_dump(value, allow_unicode=True, width=1000)
    return text.removesuffix("\n").removesuffix("\n...")
