"""The bench's page: every figure and table in one HTML file that needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from dechbo.bench import figures, methods, paper, problems, statistics
from dechbo.bench.methods import chosen
from dechbo.bench.records import BenchError, Record, absent
from dechbo.bench.records import records as all_records
from dechbo.bench.statistics import Interval, Summary

__all__ = ["chosen", "problem_names", "write"]

CONTROL = "dechbo"
CSS = """
body{font:15px/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff;max-width:1100px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.2rem;border-bottom:1px solid #ddd;padding-bottom:.2rem}
img{max-width:100%;height:auto;display:block;margin:.6rem 0}
table{border-collapse:collapse;font-size:13px;margin:.6rem 0}
td,th{padding:.22rem .7rem;text-align:right;border-bottom:1px solid #eee;white-space:nowrap}
th{border-bottom:1px solid #999}td:first-child,th:first-child{text-align:left}
tr.main td{font-weight:600;background:#f2f6fa}.note{color:#555;font-size:13px}.warn{color:#9a3b00}
nav a{margin-right:1rem}.scroll{overflow-x:auto}
"""


def problem_names(text: str) -> tuple[str, ...]:
    """The problems of a comma list of suites and problems, by the names that records use; nothing is built."""
    found: dict[str, None] = {}
    for part in (part.strip() for part in text.split(",") if part.strip()):
        found.update(dict.fromkeys(name.lower() for name in problems.SUITES.get(part, (part,))))
    return tuple(found)


def write(
    results: Path,
    out: Path,
    *,
    problems: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    initial: int = 10,
    evaluations: int = 150,
) -> Path:
    """Draw everything into ``out``: PNG files, and index.html with all of them inside."""
    known = [
        record
        for record in all_records(results)
        if (record.run.initial, record.run.evaluations) == (initial, evaluations)
        and (problems is None or record.run.problem in problems)
        and (methods is None or record.run.method in methods)
    ]
    if not known:
        raise BenchError(
            f"there are no records of {initial} + {evaluations} evaluations under {results}: "
            "dechbo bench run … makes some"
        )
    out.mkdir(parents=True, exist_ok=True)
    page = _Page(known, absent(results), out)
    path = out / "index.html"
    path.write_text(page.html(f"dechbo bench report --evaluations {evaluations}"), encoding="utf-8")
    return path


class _Page:
    """The page while it is put together."""

    def __init__(self, records: list[Record], reasons: dict[str, str], out: Path) -> None:
        order = {name: k for k, name in enumerate(methods.names())}
        self.records = sorted(records, key=lambda r: (r.run.problem, order.get(r.run.method, len(order)), r.run.seed))
        self.reasons, self.out = reasons, out
        self.summaries = statistics.summarise(self.records)
        self.finals = statistics.finals_of(self.records)
        self.problems = list(self.finals)

    def html(self, command: str) -> str:
        parts = [
            "<h1>dechbo bench</h1>",
            "<nav>" + "".join(f'<a href="#{name}">{_title(name)}</a>' for name in self.problems) + "</nav>",
            self._overall(),
            *(self._problem(name) for name in self.problems),
            self._not_finished(),
            "<h2>Where it comes from</h2>",
            *(f'<p class="note">{_code(line)}</p>' for line in paper.provenance(self.records, command) if line),
        ]
        head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>dechbo bench</title>'
        body = "".join(parts)
        return f"<!doctype html><html lang=en><head>{head}<style>{CSS}</style></head><body>{body}</body></html>\n"

    def _overall(self) -> str:
        block = statistics.complete_block(self.finals)
        if len(block.methods) < 2 or not block.problems:
            return '<h2>Average ranks</h2><p class="note">Fewer than two methods share a problem and a seed.</p>'
        ranks = statistics.mean_ranks(self.finals, block)
        by_mean = statistics.ranks_of_means(self.finals, block).mean(axis=0)
        pairs = statistics.compare(ranks, block.methods)
        chart = self._image("ranks", figures.average_ranks(ranks, block.methods, pairs), "Average ranks")
        control = CONTROL if CONTROL in block.methods else None
        against = {c.second: c for c in statistics.compare(ranks, block.methods, control=control)} if control else {}
        rows = []
        for k in np.argsort(ranks.mean(axis=0), kind="stable"):
            name = block.methods[k]
            test = against.get(name)
            cells = [_label(name), f"{ranks[:, k].mean():.2f}", f"{by_mean[k]:.2f}"]
            cells += ["", ""] if test is None else [f"{test.p:.3g}", f"{test.adjusted:.3g}"]
            rows.append(_row(cells, main=name == CONTROL))
        head = ["method", "mean rank", "rank by mean regret", f"Wilcoxon p against {_label(CONTROL)}", "Holm"]
        left = "".join(
            f"<li>{escape(_label(name))}: not run on all of these problems and seeds</li>" for name in block.left_out
        )
        friedman = statistics.friedman(ranks)
        shown = "not defined for so few" if np.isnan(friedman) else f"p = {friedman:.3g}"
        note = (
            f"Ranks among {len(block.methods)} methods within each seed (ties averaged), mean over the common seeds, "
            f"then over {len(block.problems)} problems: {', '.join(map(_title, block.problems))}. "
            f"Friedman: {shown}. Bars join methods that Wilcoxon's signed-rank test over problems does not tell "
            "apart at 5 % after Holm's correction over all pairs; with fewer than six problems it can never tell "
            "any apart."
        )
        listed = f'<p class="note">Left out of the ranks:</p><ul class="note">{left}</ul>' if left else ""
        return f'<h2>Average ranks</h2>{chart}<p class="note">{escape(note)}</p>{_table(head, rows)}{listed}'

    def _problem(self, name: str) -> str:
        own = [record for record in self.records if record.run.problem == name]
        known = any(record.optimum is not None for record in own)
        summaries = sorted((s for (p, _), s in self.summaries.items() if p == name), key=lambda s: s.mean.value)
        what = "final regret" if known else "final value"
        head = ["method", f"mean {what} [95 %]", "median [95 %]", "runs", "not finished", "CPU s an ask"]
        rows = [_row(_cells(summary), main=summary.method == CONTROL) for summary in summaries]
        curves = self._image(f"regret-{name}", figures.regret(_title(name), own), f"Regret on {name}")
        times = self._image(f"time-{name}", figures.time_per_ask(_title(name), own), f"Time per ask on {name}")
        initial = f"The first {own[0].run.initial} evaluations are the same for all methods of a seed."
        facts = f'<p class="note">{own[0].dim} parameters. {initial}</p>'
        return f'<h2 id="{name}">{_title(name)}</h2>{facts}{curves}{_table(head, rows)}{times}'

    def _not_finished(self) -> str:
        lines = [f"{_label(name)}: absent, {reason}" for name, reason in self.reasons.items()]
        lines += [f"{r.run.key}: {r.status}, after {len(r.values)} evaluations" for r in self.records if not r.finished]
        listed = "".join(f'<li class="warn">{escape(line)}</li>' for line in lines)
        body = f"<ul>{listed}</ul>" if lines else '<p class="note">Every run finished, and no method is absent.</p>'
        return f"<h2>Absent, crashed, out of time</h2>{body}"

    def _image(self, name: str, png: bytes, alt: str) -> str:
        (self.out / f"{name}.png").write_bytes(png)
        return f'<img alt="{escape(alt)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def _cells(summary: Summary) -> list[str]:
    troubles = [f"{summary.crashed} crashed"] if summary.crashed else []
    troubles += [f"{summary.out_of_time} out of time"] if summary.out_of_time else []
    ask = f"{summary.ask_seconds:.3g}" if np.isfinite(summary.ask_seconds) else "–"
    figures_ = [_interval(summary.mean), _interval(summary.median)]
    return [_label(summary.method), *figures_, str(summary.runs), ", ".join(troubles), ask]


def _interval(interval: Interval) -> str:
    return f"{interval.value:.4g} [{interval.low:.3g}, {interval.high:.3g}]"


def _row(cells: Sequence[str], *, main: bool) -> str:
    return f"<tr{' class=main' if main else ''}>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _table(head: Sequence[str], rows: Sequence[str]) -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    return f'<div class="scroll"><table><tr>{titles}</tr>{"".join(rows)}</table></div>'


def _label(name: str) -> str:
    return methods.label(name)


def _title(name: str) -> str:
    return next((known for known in problems.names() if known.lower() == name), name)


def _code(line: str) -> str:
    """Markdown's `code` as HTML's."""
    parts = escape(line).split("`")
    return "".join(f"<code>{part}</code>" if k % 2 else part for k, part in enumerate(parts))
