"""Values as the terminal shows them: numbers, durations, sparklines, certificates, interactions, errors."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from dechbo.interactions import MIN_SHARE, Interaction
from dechbo.optimizer import AskInfo

SPARKS = "▁▂▃▄▅▆▇█"
CERTAINTY = ((0.95, "almost certainly"), (0.7, "probably"), (0.3, "perhaps"), (0.0, "possibly"))
LAST_OUTPUT = "; its last output:"  # ends the first line of a failed command's error
MAX_ERROR_LENGTH = 200  # characters of an error on one line
_FRAME = re.compile(r'^  File "(.+)", line (\d+)', re.MULTILINE)


def number(value: float | None) -> str:
    """A number with six digits; a dash for None and NaN."""
    return "–" if value is None or math.isnan(value) else f"{value:.6g}"


def setting(value: object) -> str:
    """A parameter's value."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """A time span in one or two units: 0.31 s, 42 s, 3 min 20 s, 2 h 5 min, 3 d 4 h; a dash for NaN."""
    if math.isnan(seconds):
        return "–"
    if seconds < 10:
        return f"{seconds:.2g} s" if seconds >= 0.1 else f"{1000 * seconds:.0f} ms"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    unit, name, part, smaller = (
        (60, "min", 1, "s") if whole < 3600 else (3600, "h", 60, "min") if whole < 86400 else (86400, "d", 3600, "h")
    )
    rest = whole % unit // part
    return f"{whole // unit} {name}" + (f" {rest} {smaller}" if rest else "")


def count(n: int, noun: str) -> str:
    """1 trial, 2 trials."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def percent(part: float) -> str:
    """A part of one. An estimate above 99% is never shown as certain."""
    return "<1%" if 0 < part < 0.01 else ">99%" if part > 0.99 else f"{part:.0%}"


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """``values`` as at most ``width`` bars of equal stretches; the last bar is the last value."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite or width < 1:
        return ""
    size = min(width, len(finite))
    shown = [finite[(k + 1) * len(finite) // size - 1] for k in range(size)]
    low, high = min(shown), max(shown)
    scale = (len(SPARKS) - 1) / ((high - low) or 1.0)
    return "".join(SPARKS[min(len(SPARKS) - 1, int((value - low) * scale))] for value in shown)


def running_best(values: Sequence[float | None], direction: str) -> list[float]:
    """The best value after each trial, from the first success on; a failure (None) repeats it."""
    better = max if direction == "maximize" else min
    best: list[float] = []
    for value in values:
        if value is not None and math.isfinite(value):
            best.append(better(best[-1], value) if best else value)
        elif best:
            best.append(best[-1])
    return best


# ------------------------------------------------------------ certificates, interactions


DECIDED_BY = {
    "improvement": "none: chosen by the committee's expected improvement",
    "bound": "none: chosen by the committee's bound",
    "feasibility": "none: chosen as the most probably feasible",
}


def certificate(info: AskInfo | None) -> str:
    """The gap of the last suggestion where it is max-sum's own; otherwise what decided."""
    if info is None:
        return "–"
    if info.source == "initial design":
        return "none: a point of the initial design"
    if info.certified:
        if info.gap <= 0:
            return "0: proven best on its grid"
        return f"{'below 0.01%' if info.gap < 1e-4 else f'at most {info.gap:.2%}'} from the best on its grid"
    if info.acquisition == "factors":
        return "none: a factor has too many parameters for a grid"
    return DECIDED_BY.get(info.acquisition, "none: chosen by the committee")


def scope_label(scope: Sequence[str], dim: int | None = None) -> str:
    """The parameters of a factor in short: a × b."""
    return "all parameters" if dim is not None and len(scope) == dim > 2 else " × ".join(scope)


def interaction_sentence(interaction: Interaction, dim: int, *, converged: bool = True) -> str:
    """Share, parameters and probability; the share comes first, because it says whether an interaction matters.

    A probability from chains that do not agree is not given.
    """
    certainty = next(word for limit, word in CERTAINTY if interaction.probability >= limit)
    *names, last = interaction.scope
    who = "all parameters" if len(names) + 1 == dim > 2 else f"{', '.join(names)} and {last}" if names else last
    share = f"{percent(interaction.share)} of the variance" if interaction.share >= 0.001 else "no effect so far"
    how = "interact" if interaction.share >= MIN_SHARE else "interact, too weakly to matter"
    return (
        f"{share}: {who} {certainty} {how} ({percent(interaction.probability)})"
        if converged
        else f"{share}: {who} may {how}"
    )


# ------------------------------------------------------------------------------- errors


def error_summary(error: str | None) -> str:
    """One line of an error: the last one of a traceback, the first one of anything else; cut if long."""
    line = _main_line(error)
    return line if len(line) <= MAX_ERROR_LENGTH else f"{line[: MAX_ERROR_LENGTH - 1]}…"


def error_kind(error: str | None) -> tuple[str, str]:
    """Equal for errors of one kind: the same exception from the same line of code, whatever its numbers."""
    place = _FRAME.findall(error or "")
    line = _main_line(error)  # uncut: numbers of other lengths would cut it elsewhere
    named = re.match(r"[\w.]+(?=:|$)", line) if place else None
    return (":".join(place[-1]) if place else "", named.group() if named else re.sub(r"[\d.]+", "#", line))


def _main_line(error: str | None) -> str:
    lines = [line.strip() for line in (error or "").splitlines() if line.strip()]
    if not lines:
        return "no reason given"
    if lines[0].endswith(LAST_OUTPUT) and len(lines) > 1:
        return f"{lines[0].removesuffix(LAST_OUTPUT)}: {lines[-1]}"
    return lines[-1] if lines[0].startswith("Traceback") else lines[0]


# ------------------------------------------------------------------- parameters to copy


def as_yaml(params: Mapping[str, Any]) -> str:
    """Parameters as YAML, in their order, with all digits."""
    from ruamel.yaml import YAML

    yaml: Any = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)  # quotes what either version of YAML would misread
    yaml.default_flow_style, yaml.width, yaml.sort_base_mapping_type_on_output = False, 100_000, False
    page = io.StringIO()
    yaml.dump(dict(params), page)
    return page.getvalue().partition("---\n")[2].rstrip("\n")
