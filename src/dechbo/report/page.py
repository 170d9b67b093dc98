"""One HTML page with all figures and tables of a benchmark; it loads no other file."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from dechbo.bench import methods, paper, problems, statistics
from dechbo.bench.records import BenchError, RunRecord, load_records, read_unavailable
from dechbo.bench.statistics import Summary
from dechbo.report import figures

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


def write(
    results: Path,
    out: Path,
    *,
    problems: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    initial: int = 10,
    evaluations: int = 150,
) -> Path:
    """Write PNG files and index.html, which embeds them, into ``out``; return the path of the page."""
    known = [
        record
        for record in load_records(results)
        if (record.run.initial, record.run.evaluations) == (initial, evaluations)
        and (problems is None or record.run.problem in problems)
        and (methods is None or record.run.method in methods)
    ]
    if not known:
        raise BenchError(
            f"there are no records of {initial} + {evaluations} evaluations under {results}: "
            "create some with dechbo bench run …"
        )
    out.mkdir(parents=True, exist_ok=True)
    page = _Page(known, read_unavailable(results), out)
    path = out / "index.html"
    path.write_text(page.html(f"dechbo bench report --evaluations {evaluations}"), encoding="utf-8")
    return path


class _Page:
    """The parts of the page."""

    def __init__(self, records: list[RunRecord], unavailable: dict[str, str], out: Path) -> None:
        order = {name: k for k, name in enumerate(methods.names())}
        self.records = sorted(records, key=lambda r: (r.run.problem, order.get(r.run.method, len(order)), r.run.seed))
        self.unavailable, self.out = unavailable, out
        self.summaries = statistics.summarise(self.records)
        self.finals = statistics.final_regrets(self.records)
        self.problems = list(self.finals)

    def html(self, command: str) -> str:
        parts = [
            "<h1>dechbo bench</h1>",
            "<nav>" + "".join(f'<a href="#{name}">{_title(name)}</a>' for name in self.problems) + "</nav>",
            self._overall(),
            *(self._problem(name) for name in self.problems),
            self._not_finished(),
            "<h2>How to reproduce it</h2>",
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
        shown = "not defined for so few methods or problems" if np.isnan(friedman) else f"p = {friedman:.3g}"
        note = (
            f"Ranks among {len(block.methods)} methods within each seed (ties averaged), mean over the common seeds, "
            f"then over {len(block.problems)} problems: {', '.join(map(_title, block.problems))}. "
            f"Friedman: {shown}. Bars join methods that do not differ at 5 % in Wilcoxon's signed-rank test over "
            "problems after Holm's correction over all pairs; with fewer than six problems no difference can be "
            "significant."
        )
        listed = f'<p class="note">Not ranked:</p><ul class="note">{left}</ul>' if left else ""
        return f'<h2>Average ranks</h2>{chart}<p class="note">{escape(note)}</p>{_table(head, rows)}{listed}'

    def _problem(self, name: str) -> str:
        own = [record for record in self.records if record.run.problem == name]
        known = any(record.optimum is not None for record in own)
        summaries = sorted((s for (p, _), s in self.summaries.items() if p == name), key=lambda s: s.mean.value)
        what = "final regret" if known else "final value"
        head = ["method", f"mean {what} [95 %]", "median", "runs", "not finished", "CPU s an ask"]
        rows = [_row(_cells(summary), main=summary.method == CONTROL) for summary in summaries]
        curves = self._image(f"regret-{name}", figures.regret(_title(name), own), f"Regret on {name}")
        times = self._image(f"time-{name}", figures.time_per_ask(_title(name), own), f"Time per ask on {name}")
        initial = f"The first {own[0].run.initial} evaluations are the same for all methods of a seed."
        facts = f'<p class="note">{own[0].dim} parameters. {initial}</p>'
        return f'<h2 id="{name}">{_title(name)}</h2>{facts}{curves}{_table(head, rows)}{times}'

    def _not_finished(self) -> str:
        lines = [f"{_label(name)}: unavailable, {reason}" for name, reason in self.unavailable.items()]
        lines += [f"{r.run.key}: {r.status}, after {len(r.values)} evaluations" for r in self.records if not r.finished]
        listed = "".join(f'<li class="warn">{escape(line)}</li>' for line in lines)
        body = f"<ul>{listed}</ul>" if lines else '<p class="note">Every run finished; every method was available.</p>'
        return f"<h2>Unavailable, crashed, out of time</h2>{body}"

    def _image(self, name: str, png: bytes, alt: str) -> str:
        (self.out / f"{name}.png").write_bytes(png)
        return f'<img alt="{escape(alt)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def _cells(summary: Summary) -> list[str]:
    unfinished = [f"{summary.crashed} crashed"] if summary.crashed else []
    unfinished += [f"{summary.out_of_time} out of time"] if summary.out_of_time else []
    ask = f"{summary.ask_seconds:.3g}" if np.isfinite(summary.ask_seconds) else "–"
    figures = [summary.mean.text(), f"{summary.median:.4g}"]
    return [_label(summary.method), *figures, str(summary.runs), ", ".join(unfinished), ask]


def _row(cells: Sequence[str], *, main: bool) -> str:
    return f"<tr{' class=main' if main else ''}>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _table(head: Sequence[str], rows: Sequence[str]) -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    return f'<div class="scroll"><table><tr>{titles}</tr>{"".join(rows)}</table></div>'


def _label(name: str) -> str:
    return methods.label(name)


def _title(name: str) -> str:
    return problems.title(name)


def _code(line: str) -> str:
    """Markdown's `code` as HTML."""
    parts = escape(line).split("`")
    return "".join(f"<code>{part}</code>" if k % 2 else part for k, part in enumerate(parts))
