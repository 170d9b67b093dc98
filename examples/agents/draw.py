"""The robots' field, paths and progress: a picture, and an animation."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from worlds import Hotspots

from dechbo.distributed.agents import AgentReport

TRAIL = 4  # steps that a path shows


def draw_team(world: Hotspots, reports: list[AgentReport], gif: Path | None, picture: Path | None) -> None:
    values = reports[0].values
    places = np.array([[world.place(k, own) for own in report.points] for k, report in enumerate(reports)])
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), width_ratios=(1, 1), dpi=80, layout="constrained")
    x, y = np.meshgrid(np.linspace(0, world.columns, 120), np.linspace(0, world.rows, 120))
    field = world.field(np.column_stack([x.ravel(), y.ravel()])).reshape(x.shape)
    left.imshow(field, origin="lower", extent=(0, world.columns, 0, world.rows), cmap="YlOrRd")
    left.set_xticks(range(world.columns + 1), [])
    left.set_yticks(range(world.rows + 1), [])
    left.grid(color="0.6", linewidth=0.5)
    colours = plt.get_cmap("tab10")(np.arange(len(reports)) % 10)
    dots = left.scatter(*places[:, 0].T, c=colours, edgecolors="black", s=60, zorder=3)
    trails = [left.plot([], [], color=colour, linewidth=1, alpha=0.8)[0] for colour in colours]
    title = left.set_title("")
    right.plot(values, color="0.75", linewidth=1)
    best = right.plot([], [], color="tab:red")[0]
    right.set(xlabel="step", title="value of each step, and the best so far")

    def show(step: int) -> None:
        dots.set_offsets(places[:, step])
        for k, trail in enumerate(trails):
            trail.set_data(*places[k, max(0, step - TRAIL) : step + 1].T)
        best.set_data(range(step + 1), np.maximum.accumulate(values[: step + 1]))
        title.set_text(f"step {step + 1}: {values[step]:.2f}")

    if gif is not None:
        FuncAnimation(figure, show, frames=len(values)).save(gif, writer=PillowWriter(fps=4))
    if picture is not None:
        show(int(values.argmax()))
        figure.savefig(picture)
    plt.close(figure)
