"""The bench's figures, as PNG bytes: regret with bands, average ranks, time per ask, and the paper's Figure 1.

Colours are Okabe and Ito's, which colour-blind people can tell apart; beyond seven, dashes tell lines apart too. Every
line is named at its end.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dechbo.bench import methods, paper
from dechbo.bench.records import Record
from dechbo.bench.statistics import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
DASHES = ("solid", (0, (5, 1.5)), (0, (1.2, 1.2)))
MAIN = "dechbo"  # drawn black and thick
STYLE: Any = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.dpi": 130,
    "savefig.dpi": 130,
}


@contextmanager
def _figure(width: float, height: float, rows: int = 1, columns: int = 1) -> Iterator[tuple[Figure, Any, io.BytesIO]]:
    """A figure without any window, and where its PNG goes."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False)
        page = io.BytesIO()
        yield figure, axes, page
        figure.savefig(page, format="png", metadata={"Software": None})


# ------------------------------------------------------------------ curves


def curves(records: Sequence[Record], quantity: str) -> dict[str, Array]:
    """Per method an array (runs, total): "regret", or "ask" (CPU seconds of each ask) or "time" (their running sum)."""
    grouped: dict[str, list[Array]] = {}
    for record in records:
        grouped.setdefault(record.run.method, []).append(_course(record, quantity))
    return {method: np.array(group) for method, group in grouped.items()}


def _course(record: Record, quantity: str) -> Array:
    if quantity == "regret":
        return record.regret
    asks = np.full(record.run.evaluations, np.nan)
    asks[: len(record.ask_cpu)] = record.ask_cpu
    return np.cumsum(asks) if quantity == "time" else asks


def band(courses: Array, *, resamples: int = 1000, seed: int = 0) -> tuple[Array, Array, Array]:
    """Mean over runs at each evaluation, and the 95 % percentile bootstrap of it."""
    drawn = np.random.default_rng(seed).integers(len(courses), size=(resamples, len(courses)))
    counts = np.stack([np.bincount(row, minlength=len(courses)) for row in drawn]) / len(courses)
    shown = np.where(np.isfinite(courses), courses, np.nan)
    low, high = np.quantile(counts @ shown, [0.025, 0.975], axis=0)
    return shown.mean(axis=0), low, high


def groups(present: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The panels of a crowded figure: ours and the paper's, then the peers, the default in both."""
    own = [name for name in methods.names() if name in present and not methods.is_peer(name)]
    peers = [name for name in methods.names() if name in present and methods.is_peer(name)]
    panels = [("ours and the paper's rivals", own)] if own else []
    if peers:
        panels.append(("today's peers", [*(name for name in [MAIN] if name in present), *peers]))
    return panels


def look(method: str, shown: Sequence[str]) -> dict[str, Any]:
    """Colour, dashes and width of a method's line among those shown."""
    if method == MAIN:
        return {"color": "black", "linewidth": 2.2, "zorder": 5}
    index = [name for name in shown if name != MAIN].index(method)
    dashes = DASHES[index // len(COLOURS) % len(DASHES)]
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": dashes, "linewidth": 1.4}


def regret(problem: str, records: Sequence[Record]) -> bytes:
    """Mean regret against evaluations, with its band, from the last initial point on."""
    known = any(record.optimum is not None for record in records)
    run = records[0].run
    courses = {name: course[:, run.initial - 1 :] for name, course in curves(records, "regret").items()}
    panels = groups(list(courses))
    x = np.arange(float(run.initial), run.total + 1)
    with _figure(6.2 * len(panels), 4.2, 1, len(panels)) as (_, axes, page):
        log = known and _is_wide(courses)
        ends = []
        for axis, (title, shown) in zip(axes[0], panels, strict=True):
            ends.append(_draw(axis, courses, shown, x, log=log))
            axis.set(title=f"{problem} — {title}", xlabel="evaluations", ylabel="regret" if known else "best value")
        _label_panels(axes[0], ends)
    return page.getvalue()


def time_per_ask(problem: str, records: Sequence[Record]) -> bytes:
    """CPU seconds of an ask (the tell before it included), median over runs, running median over 5 asks."""
    courses = {name: _smooth(_median(course)) for name, course in curves(records, "ask").items()}
    courses = {name: np.maximum(course, 1e-5) for name, course in courses.items() if np.isfinite(course).any()}
    panels = groups(list(courses))
    with _figure(6.2 * max(len(panels), 1), 3.8, 1, max(len(panels), 1)) as (_, axes, page):
        ends = []
        for axis, (title, shown) in zip(axes[0], panels, strict=False):
            for name in shown:
                axis.plot(np.arange(1, len(courses[name]) + 1), courses[name], **look(name, shown))
            axis.set_yscale("log")
            axis.set_xlim(1, records[0].run.evaluations)
            axis.set(title=f"{problem} — {title}", xlabel="ask", ylabel="CPU seconds of an ask")
            ends.append({name: _last(courses[name]) for name in shown})
        _label_panels(axes[0], ends)
    return page.getvalue()


def _median(courses: Array) -> Array:
    """The median over the runs that got so far; NaN where none did."""
    reached = np.isfinite(courses).any(axis=0)
    medians = np.full(courses.shape[1], np.nan)
    medians[reached] = np.nanmedian(courses[:, reached], axis=0)
    return medians


def _last(course: Array) -> float:
    return float(course[np.isfinite(course)][-1])


def _smooth(course: Array, window: int = 5) -> Array:
    padded = np.pad(course, window // 2, mode="edge")
    finite = np.lib.stride_tricks.sliding_window_view(padded, window)
    result: Array = np.median(finite, axis=1)
    return result


def _is_wide(courses: dict[str, Array]) -> bool:
    """Whether regrets span so much that a log scale shows more."""
    finals = np.concatenate([c[:, -1] for c in courses.values()])
    starts = np.concatenate([c[:, 0] for c in courses.values()])
    finals, starts = finals[np.isfinite(finals)], starts[np.isfinite(starts)]
    return bool(len(finals) and len(starts) and np.median(starts) > 10 * max(finals.min(), 0.0))


def _draw(axis: Axes, courses: dict[str, Array], shown: Sequence[str], x: Array, *, log: bool) -> dict[str, float]:
    """The mean of each method and its band; where each line ends."""
    means = {name: band(courses[name]) for name in shown}
    floor = min((float(np.nanmin(mean[mean > 0])) for mean, *_ in means.values() if (mean > 0).any()), default=1e-6)
    ends = {}
    for name, (mean, low, high) in means.items():
        if log:  # a mean of 0 sits on the lower edge, a band may leave it
            mean, low, high = (np.maximum(part, floor / 2) for part in (mean, low, high))
        line = look(name, shown)
        axis.fill_between(x, low, high, color=line["color"], alpha=0.12, linewidth=0)
        axis.plot(x, mean, **line)
        if np.isfinite(mean).any():
            ends[name] = _last(mean)
    if log:
        axis.set_yscale("log")
        axis.set_ylim(bottom=floor / 2)
    axis.set_xlim(x[0], x[-1])
    return ends


def _label_panels(axes: Sequence[Axes], ends: Sequence[dict[str, float]]) -> None:
    """Give all panels the same limits, then name the lines of each."""
    low = min(axis.get_ylim()[0] for axis in axes)
    high = max(axis.get_ylim()[1] for axis in axes)
    for axis in axes:
        axis.set_ylim(low, high)
    for axis, named in zip(axes, ends, strict=False):
        _label_ends(axis, named)


def _label_ends(axis: Axes, ends: dict[str, float]) -> None:
    """Names at the right edge, beside the ends of their lines, moved apart where they would touch."""
    axis.apply_aspect()
    scale = axis.transData + axis.transAxes.inverted()
    right = axis.get_xlim()[1]
    places = sorted((float(scale.transform((right, value))[1]), name) for name, value in ends.items())
    heights = spread([min(max(place, 0.0), 1.0) for place, _ in places], gap=0.058)
    for (place, name), height in zip(places, heights, strict=True):
        line = look(name, list(ends))
        axis.annotate(
            methods.label(name),
            xy=(1.0, min(max(place, 0.0), 1.0)),
            xytext=(1.05, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=line["color"],
            fontsize=7.6,
            fontweight="bold" if name == MAIN else "normal",
            va="center",
            arrowprops={
                "arrowstyle": "-",
                "color": line["color"],
                "linestyle": line.get("linestyle", "solid"),
                "linewidth": 0.9,
                "relpos": (0.0, 0.5),
                "shrinkA": 1,
                "shrinkB": 0,
            },
        )


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Sorted heights in [0, 1], moved as little as need be to be ``gap`` apart (less where there are too many)."""
    last = len(heights) - 1
    gap = min(gap, 1 / max(last, 1))
    blocks: list[list[float]] = []  # [sum of (height - offset), count]: a block is labels that touch
    for height in heights:
        blocks.append([height, 1])
        while len(blocks) > 1 and _bottom(blocks[-1], gap) < _top(blocks[-2], gap) + gap:
            total, count = blocks.pop()
            blocks[-1] = [blocks[-1][0] + total, blocks[-1][1] + count]
    placed = [_bottom(block, gap) + gap * k for block in blocks for k in range(int(block[1]))]
    return [min(max(height, gap * k), 1 - gap * (last - k)) for k, height in enumerate(placed)]


def _bottom(block: list[float], gap: float) -> float:
    return block[0] / block[1] - gap * (block[1] - 1) / 2


def _top(block: list[float], gap: float) -> float:
    return block[0] / block[1] + gap * (block[1] - 1) / 2


# ------------------------------------------------------------------- ranks


def average_ranks(ranks: Array, names: Sequence[str], comparisons: Sequence[Comparison], level: float = 0.05) -> bytes:
    """Average ranks over problems, best at the left; a bar joins methods that the tests cannot tell apart."""
    means = ranks.mean(axis=0)
    order = [int(k) for k in np.argsort(means, kind="stable")]
    joined = cliques([names[k] for k in order], comparisons, level)
    rows = (len(names) + 1) // 2
    first, last = np.floor(means.min()), np.ceil(means.max() + 1e-9)
    margin = 0.02 * (last - first)
    depth_of_bars = 0.6 * len(joined)
    with _figure(8.6, 0.9 + 0.24 * (rows + depth_of_bars)) as (figure, axes, page):
        axis = axes[0, 0]
        _rank_axis(axis, first, last, margin, bottom=-(rows + depth_of_bars + 0.6))
        for k, stretch in enumerate(joined):
            span = [means[names.index(name)] for name in stretch]
            y = -0.6 * (k + 0.8)
            axis.plot([min(span) - margin / 2, max(span) + margin / 2], [y, y], color="#444444", linewidth=3)
        for place, index in enumerate(order):
            left = place < rows
            depth = -(depth_of_bars + 0.9 + (place if left else len(names) - 1 - place))
            edge = first - margin if left else last + margin
            bold = names[index] == MAIN
            rank, label = f"{means[index]:.2f}", methods.label(names[index])
            width, colour = (1.8, "black") if bold else (0.8, "#9a9a9a")
            axis.plot([means[index], means[index], edge], [0, depth, depth], color=colour, linewidth=width)
            axis.annotate(
                f"{label}  {rank}" if left else f"{rank}  {label}",
                xy=(edge, depth),
                xytext=(-4 if left else 4, 0),
                textcoords="offset points",
                ha="right" if left else "left",
                va="center",
                color="black" if bold else "#333333",
                fontweight="bold" if bold else "normal",
                annotation_clip=False,
            )
        problems = f"{len(ranks)} problem" + ("s" if len(ranks) != 1 else "")
        figure.suptitle(f"Average rank over {problems} (1 is best)", x=0.01, ha="left", fontsize=10, fontweight="bold")
    return page.getvalue()


def _rank_axis(axis: Axes, first: float, last: float, margin: float, *, bottom: float) -> None:
    """One line of ranks on top, nothing else."""
    axis.grid(visible=False)
    axis.set_xlim(first - margin, last + margin)
    axis.set_ylim(bottom, 0.2)
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)
    axis.set_yticks([])
    axis.xaxis.tick_top()
    axis.set_xticks(np.arange(first, last + 1, 1 if last - first < 16 else 2))
    axis.axhline(0, color="black", linewidth=1)


def cliques(ordered: Sequence[str], comparisons: Sequence[Comparison], level: float) -> list[list[str]]:
    """Largest stretches of methods, in order of rank, among whom no pair differs at ``level``."""
    differs = {frozenset((c.first, c.second)) for c in comparisons if c.adjusted < level}
    found: list[list[str]] = []
    for start in range(len(ordered)):
        end = start + 1
        while end < len(ordered) and not any(frozenset((ordered[end], one)) in differs for one in ordered[start:end]):
            end += 1
        stretch = list(ordered[start:end])
        if len(stretch) > 1 and not any(set(stretch) <= set(other) for other in found):
            found.append(stretch)
    return found


# ---------------------------------------------------------- the paper's own


def fig1(table: paper.Table1) -> bytes:
    """Figures 1a to 1d: time on Shekel-4, then regret on Shekel-4, Hartmann-6 and Michalewicz-10."""
    with _figure(12.4, 8.2, 2, 2) as (_, axes, page):
        panels = list(axes.flat)
        timed = [record for record in table.records if record.run.problem == "shekel-4"]
        _panel(panels[0], timed, paper.TIMED, "time", "(a) Shekel-4", "CPU seconds so far")
        for axis, letter, problem in zip(panels[1:], "bcd", ("shekel-4", "hartmann-6", "michalewicz-10"), strict=True):
            own = [record for record in table.records if record.run.problem == problem]
            _panel(axis, own, paper.DRAWN, "regret", f"({letter}) {problem.capitalize()}", "regret")
    return page.getvalue()


def _panel(axis: Axes, records: Sequence[Record], names: Sequence[str], quantity: str, title: str, unit: str) -> None:
    axis.set(title=title, xlabel="iteration t", ylabel=unit)
    courses = curves([record for record in records if record.run.method in names], quantity)
    shown = [name for name in names if name in courses]
    if not shown:
        axis.annotate("no runs yet", (0.5, 0.5), xycoords="axes fraction", ha="center", color="#777777")
        return
    own = records[0].run.evaluations
    courses = {name: course[:, -own:] for name, course in courses.items()}  # the paper counts iterations
    _label_ends(axis, _draw(axis, courses, shown, np.arange(1.0, own + 1), log=quantity == "time"))
