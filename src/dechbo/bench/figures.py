"""Regret and time of runs as lines with bands, the paper's Figures 1 and 2, and ranks against time, as PNG.

The colours are Okabe and Ito's, which colour-blind readers can distinguish; after seven lines, dashes vary too. Every
line is labelled at its end.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dechbo.bench import methods, paper, table2
from dechbo.bench.records import RunRecord
from dechbo.bench.statistics import LEVEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dechbo.bench.ranking import Ranking

Array = NDArray[np.float64]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
DASHES = ("solid", (0, (5, 1.5)), (0, (1.2, 1.2)))
MAIN = "dechbo"  # drawn in black, with a thick line
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
def png_figure(
    width: float, height: float, rows: int = 1, columns: int = 1
) -> Iterator[tuple[Figure, Any, io.BytesIO]]:
    """A figure, its axes and the buffer that holds its PNG afterwards; no window opens."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False)
        png = io.BytesIO()
        yield figure, axes, png
        figure.savefig(png, format="png", metadata={"Software": None})


# ------------------------------------------------------------------ traces


def traces(records: Sequence[RunRecord], quantity: str) -> dict[str, Array]:
    """An array (runs, evaluations) per method: "regret", "ask" (CPU seconds of each ask) or "time" (their sum)."""
    grouped: dict[str, list[Array]] = {}
    for record in records:
        grouped.setdefault(record.run.method, []).append(_trace(record, quantity))
    return {method: np.array(group) for method, group in grouped.items()}


def _trace(record: RunRecord, quantity: str) -> Array:
    if quantity == "regret":
        return record.regret
    asks = np.full(record.run.evaluations, np.nan)
    asks[: len(record.ask_cpu)] = record.ask_cpu
    return np.cumsum(asks) if quantity == "time" else asks


def band(runs: Array) -> tuple[Array, Array, Array]:
    """Mean over runs at each evaluation with its 95 % interval by Student's t; NaN unless all runs are finite."""
    finite = np.isfinite(runs).all(axis=0)
    mean = np.where(finite, runs.mean(axis=0), np.nan)
    low, high = mean.copy(), mean.copy()
    if len(runs) > 1 and finite.any():
        half = stats.t.ppf((1 + LEVEL) / 2, len(runs) - 1) * stats.sem(runs[:, finite], axis=0)
        low[finite] -= half
        high[finite] += half
    return mean, low, high


# ----------------------------------------------------------------- drawing


def line_style(method: str, drawn: Sequence[str]) -> dict[str, Any]:
    """Colour, dashes and width of a method's line among the methods ``drawn``."""
    if method == MAIN:
        return {"color": "black", "linewidth": 2.2, "zorder": 5}
    index = [name for name in drawn if name != MAIN].index(method)
    dashes = DASHES[index // len(COLOURS) % len(DASHES)]
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": dashes, "linewidth": 1.4}


def draw_bands(
    axis: Axes, runs: dict[str, Array], drawn: Sequence[str], x: Array, *, log: bool, shaded: bool = True
) -> dict[str, float]:
    """Draw the mean and, if ``shaded``, the band of each method; return the last value of each line."""
    bands = {name: band(runs[name]) for name in drawn}
    floor = min((float(np.nanmin(mean[mean > 0])) for mean, *_ in bands.values() if (mean > 0).any()), default=1e-6)
    ends = {}
    for name, (mean, low, high) in bands.items():
        if log:  # a mean of 0 is on the lower edge
            mean, low, high = (np.maximum(part, floor / 2) for part in (mean, low, high))
        line = line_style(name, drawn)
        if shaded:
            axis.fill_between(x, low, high, color=line["color"], alpha=0.12, linewidth=0)
        axis.plot(x, mean, **line)
        if np.isfinite(mean).any():
            ends[name] = last_finite(mean)
    if log:
        axis.set_yscale("log")
        axis.set_ylim(bottom=floor / 2)
    axis.set_xlim(x[0], x[-1])
    return ends


def last_finite(trace: Array) -> float:
    """The last finite value of a trace."""
    return float(trace[np.isfinite(trace)][-1])


def label_ends(axis: Axes, ends: dict[str, float]) -> None:
    """Write each method's label to the right of its line's end, without overlaps."""
    axis.apply_aspect()
    scale = axis.transData + axis.transAxes.inverted()
    right = axis.get_xlim()[1]
    heights = sorted((float(scale.transform((right, value))[1]), name) for name, value in ends.items())
    placed = spread([min(max(height, 0.0), 1.0) for height, _ in heights], gap=0.058)
    for (end, name), height in zip(heights, placed, strict=True):
        line = line_style(name, list(ends))
        axis.annotate(
            methods.label(name),
            xy=(1.0, min(max(end, 0.0), 1.0)),
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
    """Sorted heights in [0, 1], moved as little as possible to be ``gap`` apart (less if there are too many)."""
    last = len(heights) - 1
    gap = min(gap, 1 / max(last, 1))
    blocks: list[list[float]] = []  # [sum of heights, count] of labels that touch
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


# ------------------------------------------------------- ranks against time


def ranks_against_time(ranking: Ranking) -> bytes:
    """Average rank of every ranked method against the CPU seconds of a run; hollow if it lacks some problems."""
    average, seconds, counts = ranking.average, ranking.cpu_seconds, ranking.counts
    drawn = [k for k in np.argsort(average, kind="stable").tolist() if counts[k]]
    names = [ranking.methods[k] for k in drawn]
    with png_figure(7.6, 4.6) as (_, axes, png):
        axis: Axes = axes[0, 0]
        most = int(counts.max(initial=0))
        axis.set(title=f"{most} problems", xlabel="CPU seconds of all asks of a run", ylabel="average rank, 1 is best")
        axis.set_ylim(len(ranking.methods) + 0.3, 0.7)
        if not drawn:
            axis.annotate("no runs yet", (0.5, 0.5), xycoords="axes fraction", ha="center", color="#777777")
        else:
            axis.set_xscale("log")
            axis.set_xlim(min(seconds[drawn]) / 2, max(seconds[drawn]) * 12)  # with room for the labels
        placed = spread([float(-average[k] / (len(ranking.methods) + 1)) + 1 for k in reversed(drawn)], gap=0.045)
        for k, name, height in zip(drawn, names, reversed(placed), strict=True):
            color = line_style(name, [n for n in ranking.methods if n in names])["color"]
            whole = counts[k] == most
            size, inside = 8 if name == MAIN else 6, color if whole else "white"
            axis.plot(seconds[k], average[k], "o", color=color, markersize=size, markerfacecolor=inside)
            axis.annotate(
                methods.label(name) + ("" if whole else f" ({counts[k]} of {most} problems)"),
                xy=(seconds[k], average[k]),
                xytext=(seconds[k] * 1.35, (1 - height) * (len(ranking.methods) + 1)),
                color=color,
                fontsize=8,
                fontweight="bold" if name == MAIN else "normal",
                va="center",
            )
    return png.getvalue()


# ---------------------------------------------------------- Figures 1 and 2


def fig1(table: paper.Table1) -> bytes:
    """Figures 1a to 1d: time on Shekel-4, then regret on Shekel-4, Hartmann-6 and Michalewicz-10."""
    with png_figure(12.4, 8.2, 2, 2) as (_, axes, png):
        panels = list(axes.flat)
        timed = [record for record in table.records if record.run.problem == "shekel-4"]
        _panel(panels[0], timed, paper.TIMED, "time", "(a) Shekel-4", "CPU seconds so far")
        for axis, letter, problem in zip(panels[1:], "bcd", ("shekel-4", "hartmann-6", "michalewicz-10"), strict=True):
            own = [record for record in table.records if record.run.problem == problem]
            _panel(axis, own, paper.DRAWN, "regret", f"({letter}) {problem.capitalize()}", "regret")
    return png.getvalue()


def fig2(panels: Sequence[table2.ExperimentRecords]) -> bytes:
    """Figures 2a and 2b: the best value so far on the CNN and on the sparse GP, initial points included.

    Without bands: those of seven methods with three seeds each would hide the lines.
    """
    with png_figure(12.4, 4.3, 1, 2) as (_, axes, png):
        for axis, letter, rows in zip(axes.flat, "ab", panels, strict=True):
            title = f"({letter}) {rows.experiment.problem.upper()}"
            axis.set(title=title, xlabel="evaluations", ylabel=f"best {rows.experiment.quantity}")
            runs = traces(rows.all_records, "regret")
            drawn = [name for name in rows.experiment.methods if name in runs]
            if not drawn:
                axis.annotate("no runs yet", (0.5, 0.5), xycoords="axes fraction", ha="center", color="#777777")
                continue
            x = np.arange(1.0, rows.evaluations + 1)
            label_ends(axis, draw_bands(axis, runs, drawn, x, log=False, shaded=False))
    return png.getvalue()


def _panel(
    axis: Axes, records: Sequence[RunRecord], names: Sequence[str], quantity: str, title: str, unit: str
) -> None:
    axis.set(title=title, xlabel="iteration t", ylabel=unit)
    runs = traces([record for record in records if record.run.method in names], quantity)
    drawn = [name for name in names if name in runs]
    if not drawn:
        axis.annotate("no runs yet", (0.5, 0.5), xycoords="axes fraction", ha="center", color="#777777")
        return
    own = records[0].run.evaluations
    runs = {name: each[:, -own:] for name, each in runs.items()}  # the paper does not count initial points
    label_ends(axis, draw_bands(axis, runs, drawn, np.arange(1.0, own + 1), log=quantity == "time"))
