"""The picture of a study: the course of the search, what acts together, and the effect of each parameter."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import DechboError
from dechbo.integrations.optuna.trials import evaluated, is_feasible
from dechbo.interactions import Interaction
from dechbo.studies import words
from dechbo.studies.curves import Curve, curves_of
from dechbo.studies.store import StudyStore

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

INK, ACCENT, WARM, FAINT, GRID = "#22313f", "#0072B2", "#D55E00", "#a9b4bd", "#e8ecef"
STYLE: Any = {
    "font.size": 9.0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.titlesize": 11.0,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "savefig.dpi": 150,
}


def draw(study: StudyStore) -> bytes:
    """The picture as PNG; ImportError without matplotlib."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    trials = evaluated(study.trials)
    values = [trial.value if is_feasible(trial) else None for trial in trials]
    curves, found = _learned(study)
    rows = math.ceil(len(curves) / 4)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11, 4.2 + 2.2 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        top, *bottom = figure.subfigures(
            1 + bool(rows), 1, height_ratios=[4.2, 2.2 * rows] if rows else None, squeeze=False
        )[:, 0]
        left, right = top.subplots(1, 2, width_ratios=[1.35, 1])
        _course(left, values, study.file.direction, study.file.name)
        _graph(right, found, study.file.space.names)
        if bottom:
            _curves(bottom[0], curves, study.file.direction)
        page = io.BytesIO()
        figure.savefig(page, format="png", metadata={"Software": None})
    return page.getvalue()


def _learned(study: StudyStore) -> tuple[list[Curve], list[Interaction]]:
    """What the model knows; nothing where there is no model yet."""
    best = study.best
    if best is None:
        return [], []
    optimizer = study.optimizer()
    try:
        curves = curves_of(optimizer, study.file.space, best.params)
    except DechboError:
        curves = []
    try:
        return curves, optimizer.interactions()
    except DechboError:  # a given or a random graph
        return curves, [Interaction(scope, 1.0, 0.0) for scope in study.file.factors or ()]


# ---------------------------------------------------------------------- panels


def _course(axis: Axes, values: Sequence[float | None], direction: str, name: str) -> None:
    numbers = np.arange(1, len(values) + 1)
    given = np.array([math.nan if value is None else value for value in values], dtype=float)
    better = np.fmax if direction == "maximize" else np.fmin
    best = better.accumulate(given) if len(given) else given
    axis.scatter(numbers, given, s=16, color=FAINT, zorder=2, label="one trial")
    axis.step(numbers, best, where="post", color=ACCENT, linewidth=2.2, zorder=3, label="best so far")
    low, high = _window(given, best, direction)
    axis.set_ylim(low, high)
    outside = (given > high) if direction == "minimize" else (given < low)
    if outside.any():  # bad trials must not flatten what matters
        edge, marker = (high, "^") if direction == "minimize" else (low, "v")
        axis.scatter(numbers[outside], np.full(outside.sum(), edge), s=16, color=FAINT, marker=marker, clip_on=False)
    failed = np.isnan(given)
    if failed.any():
        axis.scatter(
            numbers[failed],
            np.full(failed.sum(), low),
            s=22,
            color=WARM,
            marker="x",
            clip_on=False,
            label="failed or infeasible",
        )
    if np.isfinite(best).any():
        place = int(np.nanargmax(given) if direction == "maximize" else np.nanargmin(given))
        axis.scatter([place + 1], [given[place]], s=70, facecolor="none", edgecolor=ACCENT, linewidth=1.8, zorder=4)
        axis.annotate(
            words.number(float(given[place])),
            (place + 1, given[place]),
            xytext=(0, -13 if direction == "minimize" else 9),
            textcoords="offset points",
            ha="center",
            color=ACCENT,
            weight="bold",
        )
    axis.set(title=_short(name, 30), xlabel="trial", ylabel="value")
    axis.margins(x=0.02)
    axis.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False, fontsize=8, borderpad=0)


def _window(given: Array, best: Array, direction: str) -> tuple[float, float]:
    """The stretch of values to show: all good ones, and as much of the bad as fits."""
    seen = given[np.isfinite(given)]
    if not len(seen):
        return 0.0, 1.0
    sign = 1.0 if direction == "minimize" else -1.0
    ordered = np.sort(sign * seen)
    first = float(np.nanmax(sign * best))  # the worst that was once the best
    good, median = float(ordered[0]), float(np.median(ordered))
    bad = min(float(ordered[-1]), max(good + 4 * (median - good), first))
    room = (bad - good) or abs(good) or 1.0
    low, high = good - 0.12 * room, bad + 0.06 * room
    return (low, high) if sign > 0 else (-high, -low)


def _graph(axis: Axes, found: Sequence[Interaction], names: Sequence[str]) -> None:
    """Parameters on a circle; a line joins those that act together, wider where that is more likely."""
    axis.set_axis_off()
    axis.set_title("what acts together")
    strong = words.strongest([i for i in found if len(i.scope) < len(names) or len(names) == 2], 8)
    whole = max((i.probability for i in found if len(i.scope) == len(names) > 2), default=0.0)
    shown = [name for name in names if len(names) <= 16 or any(name in i.scope for i in strong)]
    angles = {name: math.pi / 2 - 2 * math.pi * k / max(len(shown), 1) for k, name in enumerate(shown)}
    at = {name: (math.cos(angle), math.sin(angle)) for name, angle in angles.items()}
    joined: dict[tuple[str, str], float] = {}
    for interaction in strong:
        scope = sorted(interaction.scope, key=shown.index)
        for k, one in enumerate(scope):
            for other in scope[k + 1 :]:
                joined[one, other] = max(joined.get((one, other), 0.0), interaction.probability)
    for (one, other), probability in joined.items():
        (x0, y0), (x1, y1) = at[one], at[other]
        axis.plot(
            [x0, x1],
            [y0, y1],
            color=ACCENT,
            linewidth=0.8 + 3.5 * probability,
            alpha=0.25 + 0.6 * probability,
            solid_capstyle="round",
            zorder=2,
        )
    active = {name for pair in joined for name in pair}
    for name, (x, y) in at.items():
        axis.scatter(
            [x],
            [y],
            s=110,
            color=ACCENT if name in active else "white",
            edgecolor=ACCENT if name in active else FAINT,
            linewidth=1.5,
            zorder=3,
        )
        side = "center" if abs(x) < 0.25 else ("left" if x > 0 else "right")
        level = "center" if abs(x) >= 0.25 else ("bottom" if y > 0 else "top")
        axis.annotate(
            _short(name),
            (x, y),
            xytext=(9 * x, 9 * y),
            textcoords="offset points",
            ha=side,
            va=level,
            weight="bold" if name in active else "normal",
            color=INK,
        )
    if whole >= words.FAINT:
        axis.text(0, 0, f"all together\n{whole:.0%}", ha="center", va="center", color=WARM, weight="bold")
    elif not joined:
        axis.text(0, 0, "nothing found:\neach acts on its own", ha="center", va="center", color=FAINT)
    axis.set(xlim=(-1.75, 1.75), ylim=(-1.3, 1.3), aspect="equal")


def _curves(figure: Any, curves: Sequence[Curve], direction: str) -> None:
    figure.suptitle(
        "effect of each parameter, all others as in the best trial (the model's view)",
        x=0.012,
        ha="left",
        fontsize=11,
        weight="bold",
        color=INK,
    )
    rows = math.ceil(len(curves) / 4)
    axes = figure.subplots(rows, min(4, max(len(curves), 1)) if rows == 1 else 4, sharey=True, squeeze=False)
    for axis, curve in zip(axes.flat, curves, strict=False):
        _curve(axis, curve)
    for axis in list(axes.flat)[len(curves) :]:
        axis.set_axis_off()
    for row in axes:
        row[0].set_ylabel("value")


def _curve(axis: Axes, curve: Curve) -> None:
    categorical = not all(isinstance(s, (int, float)) and not isinstance(s, bool) for s in curve.settings)
    low, high = curve.means - curve.deviations, curve.means + curve.deviations
    if categorical:
        places = np.arange(len(curve.settings))
        chosen = [s == curve.best and type(s) is type(curve.best) for s in curve.settings]
        axis.errorbar(
            places, curve.means, curve.deviations, fmt="none", ecolor=FAINT, elinewidth=5, alpha=0.6, zorder=2
        )
        axis.scatter(places, curve.means, s=46, color=[WARM if c else ACCENT for c in chosen], zorder=3)
        axis.set_xticks(places, [_short(words.setting(s), 10) for s in curve.settings])
        axis.set_xlim(-0.6, len(places) - 0.4)
    else:
        axis.fill_between(curve.settings, low, high, color=ACCENT, alpha=0.15, linewidth=0)
        axis.plot(curve.settings, curve.means, color=ACCENT, linewidth=1.8)
        axis.axvline(curve.best, color=WARM, linewidth=1.2)
        if curve.log:
            _log_scale(axis, min(curve.settings), max(curve.settings))
    axis.set_title(_short(curve.name, 24), fontsize=9.5)


def _log_scale(axis: Axes, low: float, high: float) -> None:
    """A log axis with few, plain labels, also where it spans hardly a power of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_xscale("log")
    decades = math.log10(high / low)
    within = (1.0,) if decades > 2 else (1.0, 3.0) if decades > 1.2 else (1.0, 2.0, 5.0)
    axis.xaxis.set_major_locator(LogLocator(subs=within, numticks=5))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.xaxis.set_minor_locator(NullLocator())


def _short(text: str, most: int = 22) -> str:
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return cut.replace("$", r"\$")  # no formulas
