"""Figures of a run: its history, the interactions of its parameters, the effect of each parameter.

The functions take plain data, so a run of ``Optimizer``, a study or any other table of results can be drawn::

    plot.history(values)
    plot.interactions(optimizer.interactions(), optimizer.space.names)
    plot.effects(plot.effects_of(optimizer, optimizer.best.params))

They need matplotlib (``pip install dechbo[plot]``), which is imported when the first figure is drawn.
"""

from __future__ import annotations

import io
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dechbo.interactions import MIN_PROBABILITY, Interaction, strongest
from dechbo.optimizer import Optimizer
from dechbo.space import Categorical, Space

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

EFFECT_POINTS = 25  # along a numeric parameter
MAX_EFFECTS = 8
MAX_PREDICTED_PARAMETERS = 40  # beyond it, only those that correlate most with the value are predicted
MAX_EDGES = 8
MAX_QUIET_NODES = 16  # with more parameters, those without an interaction are left out
COLUMNS = 4  # of effects
MIN_SPAN = 0.02  # of the values of an effect, as a part of the largest one's: noise is not blown up
FORMATS: dict[str, Any] = {  # by the ending of a file, with metadata that make equal pictures equal files
    "png": {"Software": None},
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
    "jpg": None,
}
FALLBACK_FONTS = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "IPAGothic",
    "Hiragino Sans",
    "PingFang SC",
    "Apple SD Gothic Neo",
    "Yu Gothic",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Arial Unicode MS",
)

TEXT, BLUE, ORANGE, GREY, LIGHT_GREY = "#22313f", "#0072B2", "#D55E00", "#a9b4bd", "#e8ecef"
STYLE: Any = {
    "font.size": 9.0,
    "text.color": TEXT,
    "axes.labelcolor": TEXT,
    "axes.edgecolor": GREY,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
    "axes.titlesize": 11.0,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlecolor": TEXT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": LIGHT_GREY,
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
}


@dataclass(frozen=True)
class Effect:
    """The model's prediction along one parameter, all others fixed."""

    name: str
    settings: list[Any]
    means: Array
    deviations: Array
    fixed_at: Any  # the parameter's own value in the fixed point
    log: bool = False

    @property
    def size(self) -> float:
        """How much this parameter alone changes the mean."""
        return float(self.means.max() - self.means.min())


def effects_of(optimizer: Optimizer, params: Mapping[str, Any]) -> list[Effect]:
    """The largest effects of single parameters around the point ``params``, the largest first."""
    space = optimizer.space
    names = _correlated(optimizer, space) if space.dim > MAX_PREDICTED_PARAMETERS else space.names
    names = [name for name in names if name in params]  # those that are there
    effects = []
    for name in names:
        settings = _settings(space, name)
        means, deviations = np.array([optimizer.predict(_with(space, params, name, setting)) for setting in settings]).T
        log = bool(getattr(space[name], "log", False))
        effects.append(Effect(name, settings, means, deviations, params[name], log))
    return sorted(effects, key=lambda effect: -effect.size)[:MAX_EFFECTS]


def summary(
    values: Sequence[float | None],
    found: Sequence[Interaction],
    names: Sequence[str],
    shown_effects: Sequence[Effect],
    *,
    direction: str = "minimize",
    title: str = "",
    numbers: Sequence[int] | None = None,
) -> Figure:
    """History, interactions and effects in one figure; ``numbers`` are those of the trials."""
    import matplotlib
    from matplotlib.figure import Figure

    rows = math.ceil(len(shown_effects) / COLUMNS)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11, 4.2 + 2.2 * rows), layout="constrained")
        heights = [4.2, 2.2 * rows] if rows else None
        top, *bottom = figure.subfigures(1 + bool(rows), 1, height_ratios=heights, squeeze=False)[:, 0]
        left, right = top.subplots(1, 2, width_ratios=[1.35, 1])
        history(values, direction=direction, title=title, numbers=numbers, ax=left)
        interactions(found, names, ax=right)
        if bottom:
            effects(shown_effects, figure=bottom[0], of=len(names))
    return figure


def to_png(figure: Figure) -> bytes:
    """The figure as a PNG file."""
    return to_bytes(figure, "png")


def to_bytes(figure: Figure, kind: str) -> bytes:
    """The figure as a file, in the style of this module: matplotlib reads parts of a style only when it draws."""
    import matplotlib

    page = io.BytesIO()
    metadata: Any = FORMATS[kind]
    with matplotlib.rc_context({**STYLE, "font.family": _fonts()}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)  # shown as a box
        figure.savefig(page, format=kind, dpi=150, metadata=metadata)
    return page.getvalue()


def _fonts() -> list[str]:
    """matplotlib's own font, then those of this machine that have the characters it lacks."""
    from matplotlib import font_manager

    known = {font.name for font in font_manager.fontManager.ttflist}
    return ["DejaVu Sans", *(name for name in FALLBACK_FONTS if name in known)]


def history(
    values: Sequence[float | None],
    *,
    direction: str = "minimize",
    title: str = "",
    numbers: Sequence[int] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The value of each trial and the best so far; None stands for a trial that failed or is infeasible.

    Trials have the numbers that the text has too: given ones, or 0, 1, 2, …
    """
    ax = _new_axes() if ax is None else ax
    places = np.arange(len(values)) if numbers is None else np.array(numbers, dtype=int)
    given = np.array([math.nan if value is None else value for value in values], dtype=float)
    minimizing = direction == "minimize"
    best = (np.fmin if minimizing else np.fmax).accumulate(given) if len(given) else given
    ax.scatter(places, given, s=16, color=GREY, zorder=2, label="one trial")
    ax.step(places, best, where="post", color=BLUE, linewidth=2.2, zorder=3, label="best so far")
    low, high = _value_range(given, best, minimizing)
    ax.set_ylim(low, high)
    outside = given > high if minimizing else given < low
    if outside.any():  # marked at the edge, so that very bad trials do not flatten the rest
        edge, marker = (high, "^") if minimizing else (low, "v")
        ax.scatter(places[outside], np.full(outside.sum(), edge), s=16, color=GREY, marker=marker, clip_on=False)
    failed = np.isnan(given)
    if failed.any():
        bottom = np.full(failed.sum(), low)
        label = "failed or infeasible"
        ax.scatter(places[failed], bottom, s=22, color=ORANGE, marker="x", clip_on=False, label=label)
    if np.isfinite(best).any():
        place = int(np.nanargmin(given) if minimizing else np.nanargmax(given))
        point = (places[place], given[place])
        ax.scatter([point[0]], [point[1]], s=70, facecolor="none", edgecolor=BLUE, linewidth=1.8, zorder=4)
        offset = (0, -13 if minimizing else 9)
        text = f"{given[place]:.6g}"
        ax.annotate(text, point, xytext=offset, textcoords="offset points", ha="center", color=BLUE, weight="bold")
    ax.set(title=_short(title, 30), xlabel="trial", ylabel="value")
    ax.margins(x=0.02)
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False, fontsize=8, borderpad=0)
    return ax


def interactions(found: Sequence[Interaction], names: Sequence[str], *, ax: Axes | None = None) -> Axes:
    """Parameters on a circle; a line joins two that interact, wider where that is more likely.

    Interactions with less than 1 % of the variance are left out. A note says if the chains behind them do not agree.
    """
    ax = _new_axes() if ax is None else ax
    ax.set_axis_off()
    ax.set_title("Interactions")
    dim = len(names)
    edges: dict[tuple[str, str], float] = {}
    for interaction in strongest([i for i in found if len(i.scope) < dim or dim == 2], MAX_EDGES):
        scope = sorted(interaction.scope, key=list(names).index)
        for k, one in enumerate(scope):
            for other in scope[k + 1 :]:
                edges[one, other] = max(edges.get((one, other), 0.0), interaction.probability)
    active = {name for edge in edges for name in edge}
    shown = [name for name in names if dim <= MAX_QUIET_NODES or name in active]
    angles = {name: math.pi / 2 - 2 * math.pi * k / max(len(shown), 1) for k, name in enumerate(shown)}
    at = {name: (math.cos(angle), math.sin(angle)) for name, angle in angles.items()}
    for (one, other), probability in edges.items():
        xs, ys = zip(at[one], at[other], strict=True)
        width, alpha = 0.8 + 3.5 * probability, 0.25 + 0.6 * probability
        ax.plot(xs, ys, color=BLUE, linewidth=width, alpha=alpha, solid_capstyle="round", zorder=2)
    for name, place in at.items():
        _draw_node(ax, name, place, active=name in active)
    whole = max((i.probability for i in found if len(i.scope) == dim > 2), default=0.0)
    if whole >= MIN_PROBABILITY:
        ax.text(0, 0, f"all parameters\n{whole:.0%}", ha="center", va="center", color=ORANGE, weight="bold")
    elif not edges:
        ax.text(0, 0, "none found", ha="center", va="center", color=GREY)
    if not getattr(found, "converged", True):
        ax.text(0, -1.29, "rough: the chains do not agree yet", ha="center", va="bottom", color=ORANGE, fontsize=9)
    ax.set(xlim=(-1.75, 1.75), ylim=(-1.3, 1.3), aspect="equal")
    return ax


def effects(shown: Sequence[Effect], *, figure: Any = None, of: int | None = None) -> Any:
    """The effect of each parameter as a curve with one standard deviation; returns the figure.

    Each has its own scale, and its size beside its name: on one scale, the largest would flatten the others.
    ``of`` is the number of parameters; the title says if some are not shown.
    """
    if figure is None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(11, 2.2 * max(1, math.ceil(len(shown) / COLUMNS))), layout="constrained")
    which = "each parameter" if of is None or of <= len(shown) else f"the {len(shown)} strongest of {of} parameters"
    title = f"Effect of {which} (Δ: its size, each on its own scale), predicted with all others as in the best trial"
    figure.suptitle(title, x=0.012, ha="left", fontsize=11, weight="bold", color=TEXT)
    rows = max(1, math.ceil(len(shown) / COLUMNS))
    axes = figure.subplots(rows, COLUMNS if rows > 1 else max(len(shown), 1), squeeze=False)
    span = MIN_SPAN * max((effect.size for effect in shown), default=0.0)
    for ax, effect in zip(axes.flat, shown, strict=False):
        _draw_effect(ax, effect)
        low, high = ax.get_ylim()
        if high - low < span:
            ax.set_ylim((low + high - span) / 2, (low + high + span) / 2)
    for ax in list(axes.flat)[len(shown) :]:
        ax.set_axis_off()
    for row in axes:
        row[0].set_ylabel("value")
    return figure


# ----------------------------------------------------------------------------- parts


def _new_axes() -> Axes:
    from matplotlib.figure import Figure

    return Figure(layout="constrained").subplots()


def _value_range(given: Array, best: Array, minimizing: bool) -> tuple[float, float]:
    """The range to show: all good values, and bad ones up to a few times the distance of the median."""
    finite = given[np.isfinite(given)]
    if not len(finite):
        return 0.0, 1.0
    sign = 1.0 if minimizing else -1.0
    ordered = np.sort(sign * finite)
    first = float(np.nanmax(sign * best))  # the first best value is always shown
    good, median = float(ordered[0]), float(np.median(ordered))
    bad = min(float(ordered[-1]), max(good + 4 * (median - good), first))
    room = (bad - good) or abs(good) or 1.0
    low, high = good - 0.12 * room, bad + 0.06 * room
    return (low, high) if minimizing else (-high, -low)


def _draw_node(ax: Axes, name: str, place: tuple[float, float], *, active: bool) -> None:
    x, y = place
    face, edge = (BLUE, BLUE) if active else ("white", GREY)
    ax.scatter([x], [y], s=110, color=face, edgecolor=edge, linewidth=1.5, zorder=3)
    beside = abs(x) >= 0.25  # the label stands beside the node, else above or below it
    ax.annotate(
        _short(name),
        place,
        xytext=(9 * x, 9 * y),
        textcoords="offset points",
        ha=("left" if x > 0 else "right") if beside else "center",
        va="center" if beside else ("bottom" if y > 0 else "top"),
        weight="bold" if active else "normal",
        color=TEXT,
    )


def _draw_effect(ax: Axes, effect: Effect) -> None:
    means, deviations, settings = effect.means, effect.deviations, effect.settings
    if all(isinstance(s, (int, float)) and not isinstance(s, bool) for s in settings):
        ax.fill_between(settings, means - deviations, means + deviations, color=BLUE, alpha=0.15, linewidth=0)
        ax.plot(settings, means, color=BLUE, linewidth=1.8)
        ax.axvline(effect.fixed_at, color=ORANGE, linewidth=1.2)
        if effect.log:
            _set_log_scale(ax, min(settings), max(settings))
    else:
        places = np.arange(len(settings))
        colors = [ORANGE if s == effect.fixed_at and type(s) is type(effect.fixed_at) else BLUE for s in settings]
        ax.errorbar(places, means, deviations, fmt="none", ecolor=GREY, elinewidth=5, alpha=0.6, zorder=2)
        ax.scatter(places, means, s=46, color=colors, zorder=3)
        ax.set_xticks(places, [_short(s if isinstance(s, str) else json.dumps(s), 10) for s in settings])
        ax.set_xlim(-0.6, len(places) - 0.4)
    ax.set_title(_short(effect.name, 20), loc="left", fontsize=9.5)
    ax.set_title(f"Δ {effect.size:.3g}", loc="right", fontsize=8.5, weight="normal")


def _set_log_scale(ax: Axes, low: float, high: float) -> None:
    """A log axis with a few plain labels, even where it spans less than a power of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    ax.set_xscale("log")
    decades = math.log10(high / low)
    within = (1.0,) if decades > 2 else (1.0, 3.0) if decades > 1.2 else (1.0, 2.0, 5.0)
    ax.xaxis.set_major_locator(LogLocator(subs=within, numticks=5))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_locator(NullLocator())


def _short(text: str, most: int = 22) -> str:
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return cut.replace("$", r"\$")  # not a formula


def _with(space: Space, params: Mapping[str, Any], name: str, value: Any) -> Mapping[str, Any]:
    return space.replaced(params, name, value) if space.conditions else {**params, name: value}


def _settings(space: Space, name: str) -> list[Any]:
    parameter = space[name]
    if isinstance(parameter, Categorical):
        return list(parameter.choices)
    return list(dict.fromkeys(parameter.decode(u) for u in np.linspace(0, 1, EFFECT_POINTS)))


def _correlated(optimizer: Optimizer, space: Space) -> list[str]:
    """The parameters whose values correlate most with the objective."""
    results = [evaluation for evaluation in optimizer.evaluations if not evaluation.failed]
    X = np.array([space.encode(evaluation.params) for evaluation in results])
    y = np.array([evaluation.number_value for evaluation in results])
    X, y = X - X.mean(axis=0), y - y.mean()
    strength = np.abs(y @ X) / np.sqrt((X**2).sum(axis=0) * (y**2).sum() + 1e-300)
    return [space.names[i] for i in np.argsort(-strength, kind="stable")[:MAX_PREDICTED_PARAMETERS]]
