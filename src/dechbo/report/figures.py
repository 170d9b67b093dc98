"""Figures of the report, as PNG: regret and time per ask of a problem, average ranks over problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dechbo.bench import methods
from dechbo.bench.figures import MAIN, draw_bands, label_ends, last_finite, line_style, png_figure, traces
from dechbo.bench.records import RunRecord
from dechbo.bench.statistics import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]


def panels(present: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Title and methods of each panel: dechbo and the baselines, then the peers; the default is in both."""
    own = [name for name in methods.names() if name in present and not methods.is_peer(name)]
    peers = [name for name in methods.names() if name in present and methods.is_peer(name)]
    found = [("dechbo and the paper's baselines", own)] if own else []
    if peers:
        found.append(("peers", [*(name for name in [MAIN] if name in present), *peers]))
    return found


def regret(problem: str, records: Sequence[RunRecord]) -> bytes:
    """Mean regret with its band, from the last initial point on."""
    known = any(record.optimum is not None for record in records)
    run = records[0].run
    runs = {name: each[:, run.initial - 1 :] for name, each in traces(records, "regret").items()}
    titled = panels(list(runs))
    x = np.arange(float(run.initial), run.total + 1)
    with png_figure(6.2 * len(titled), 4.2, 1, len(titled)) as (_, axes, png):
        log = known and _needs_log_scale(runs)
        ends = []
        for axis, (title, drawn) in zip(axes[0], titled, strict=True):
            ends.append(draw_bands(axis, runs, drawn, x, log=log))
            axis.set(title=f"{problem} — {title}", xlabel="evaluations", ylabel="regret" if known else "best value")
        _label_panels(axes[0], ends)
    return png.getvalue()


def time_per_ask(problem: str, records: Sequence[RunRecord]) -> bytes:
    """CPU seconds of an ask (the tell before it included), median over runs, running median over 5 asks."""
    medians = {name: _running_median(_median(each)) for name, each in traces(records, "ask").items()}
    medians = {name: np.maximum(trace, 1e-5) for name, trace in medians.items() if np.isfinite(trace).any()}
    titled = panels(list(medians))
    with png_figure(6.2 * max(len(titled), 1), 3.8, 1, max(len(titled), 1)) as (_, axes, png):
        ends = []
        for axis, (title, drawn) in zip(axes[0], titled, strict=False):
            for name in drawn:
                axis.plot(np.arange(1, len(medians[name]) + 1), medians[name], **line_style(name, drawn))
            axis.set_yscale("log")
            axis.set_xlim(1, records[0].run.evaluations)
            axis.set(title=f"{problem} — {title}", xlabel="ask", ylabel="CPU seconds of an ask")
            ends.append({name: last_finite(medians[name]) for name in drawn})
        _label_panels(axes[0], ends)
    return png.getvalue()


def _median(runs: Array) -> Array:
    """The median at each ask over the runs that reached it; NaN where none did."""
    reached = np.isfinite(runs).any(axis=0)
    medians = np.full(runs.shape[1], np.nan)
    medians[reached] = np.nanmedian(runs[:, reached], axis=0)
    return medians


def _running_median(trace: Array, window: int = 5) -> Array:
    padded = np.pad(trace, window // 2, mode="edge")
    medians: Array = np.median(np.lib.stride_tricks.sliding_window_view(padded, window), axis=1)
    return medians


def _needs_log_scale(runs: dict[str, Array]) -> bool:
    """Whether the median regret at the start is more than ten times the smallest at the end."""
    finals = np.concatenate([each[:, -1] for each in runs.values()])
    starts = np.concatenate([each[:, 0] for each in runs.values()])
    finals, starts = finals[np.isfinite(finals)], starts[np.isfinite(starts)]
    return bool(len(finals) and len(starts) and np.median(starts) > 10 * max(finals.min(), 0.0))


def _label_panels(axes: Sequence[Axes], ends: Sequence[dict[str, float]]) -> None:
    """Give all panels the same limits, then label the lines of each."""
    low = min(axis.get_ylim()[0] for axis in axes)
    high = max(axis.get_ylim()[1] for axis in axes)
    for axis in axes:
        axis.set_ylim(low, high)
    for axis, labelled in zip(axes, ends, strict=False):
        label_ends(axis, labelled)


# ------------------------------------------------------------------- ranks


def average_ranks(ranks: Array, names: Sequence[str], comparisons: Sequence[Comparison], level: float = 0.05) -> bytes:
    """Average ranks over problems, best on the left; bars join methods that do not differ significantly.

    This is the critical difference diagram of Demšar (2006), with bars from pairwise tests.
    """
    means = ranks.mean(axis=0)
    order = [int(k) for k in np.argsort(means, kind="stable")]
    joined = insignificant_groups([names[k] for k in order], comparisons, level)
    rows = (len(names) + 1) // 2
    first, last = np.floor(means.min()), np.ceil(means.max() + 1e-9)
    margin = 0.02 * (last - first)
    depth_of_bars = 0.6 * len(joined)
    with png_figure(8.6, 0.9 + 0.24 * (rows + depth_of_bars)) as (figure, axes, png):
        axis = axes[0, 0]
        _rank_axis(axis, first, last, margin, bottom=-(rows + depth_of_bars + 0.6))
        for k, group in enumerate(joined):
            span = [means[names.index(name)] for name in group]
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
    return png.getvalue()


def _rank_axis(axis: Axes, first: float, last: float, margin: float, *, bottom: float) -> None:
    """A scale of ranks at the top and nothing else."""
    axis.grid(visible=False)
    axis.set_xlim(first - margin, last + margin)
    axis.set_ylim(bottom, 0.2)
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)
    axis.set_yticks([])
    axis.xaxis.tick_top()
    axis.set_xticks(np.arange(first, last + 1, 1 if last - first < 16 else 2))
    axis.axhline(0, color="black", linewidth=1)


def insignificant_groups(ordered: Sequence[str], comparisons: Sequence[Comparison], level: float) -> list[list[str]]:
    """The largest groups of neighbours in rank among which no pair differs at ``level``."""
    differs = {frozenset((c.first, c.second)) for c in comparisons if c.adjusted < level}
    found: list[list[str]] = []
    for start in range(len(ordered)):
        end = start + 1
        while end < len(ordered) and not any(frozenset((ordered[end], one)) in differs for one in ordered[start:end]):
            end += 1
        group = list(ordered[start:end])
        if len(group) > 1 and not any(set(group) <= set(other) for other in found):
            found.append(group)
    return found
