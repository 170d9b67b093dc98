"""The figures of the report."""

from __future__ import annotations

from dechbo.bench import methods
from dechbo.bench.figures import line_style
from dechbo.bench.statistics import Comparison
from dechbo.report import figures


def test_bars_join_stretches_without_a_difference() -> None:
    pairs = [Comparison("a", "c", 0, 0, 0.01), Comparison("a", "d", 0, 0, 0.01), Comparison("a", "b", 0, 0, 0.2)]
    assert figures.insignificant_groups(["a", "b", "c", "d"], pairs, 0.05) == [["a", "b"], ["b", "c", "d"]]


def test_every_method_of_a_figure_looks_different() -> None:
    for _, drawn in figures.panels(methods.names()):
        styles = {
            (style["color"], str(style.get("linestyle"))) for style in (line_style(name, drawn) for name in drawn)
        }
        assert len(styles) == len(drawn)
