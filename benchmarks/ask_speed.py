"""Sections ``ask`` and ``scaling`` of core_speed.py: whole asks against peers, and their growth with d."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dechbo import FactorGraph, Float, Optimizer, SearchOptions, Space
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, fit
from dechbo.models import builder
from dechbo.search.grids import Granularity, base_candidates
from speed_cases import Array, chain, ring, rosenbrock, run_points, styblinski_tang, uniform_points
from timing import Row, clock, clock_name, compare, progress


@dataclass(frozen=True)
class Data:
    """A function on the unit cube and the points where it is known."""

    function: Callable[[Array], Array]
    X: Array

    @property
    def y(self) -> Array:
        return self.function(self.X)

    @property
    def names(self) -> list[str]:
        return [f"x{i}" for i in range(self.X.shape[1])]

    def value(self, params: dict[str, Any]) -> float:
        return float(self.function(np.array([[params[name] for name in self.names]]))[0])

    def params(self, x: Array) -> dict[str, float]:
        return dict(zip(self.names, map(float, x), strict=True))


def dechbo_asks(problem: Data, graph: FactorGraph | str, seed: int, count: int, **options: Any) -> list[float]:
    """Seconds of ``count`` consecutive asks; the first one makes up for all that came before it, as after a resume."""
    space = Space({name: Float(0.0, 1.0) for name in problem.names})
    optimizer = Optimizer(space, graph=graph, seed=seed, n_initial=1, **options)
    for x, value in zip(problem.X, problem.y, strict=True):
        optimizer.tell(problem.params(x), float(value))
    taken = []
    for _ in range(count):
        start = clock()
        params = optimizer.ask()
        taken.append(clock() - start)
        assert optimizer.info is not None
        assert optimizer.info.source != "initial design"
        optimizer.tell(params, problem.value(params))
    return taken


def botorch_ask(problem: Data, seed: int) -> float:
    import torch
    from botorch.acquisition import UpperConfidenceBound
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    t, d = problem.X.shape
    X, Y = torch.tensor(problem.X), -torch.tensor(problem.y)[:, None]
    bounds = torch.stack([torch.zeros(d), torch.ones(d)]).double()
    start = clock()
    gp = SingleTaskGP(X, Y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(gp.likelihood, gp))
    acquisition = UpperConfidenceBound(gp, beta=0.4 * float(np.log(2 * t)))
    optimize_acqf(acquisition, bounds, q=1, num_restarts=8, raw_samples=256)
    return float(clock() - start)


def optuna_asks(problem: Data, seed: int, count: int) -> list[float]:
    """Seconds of ``count`` consecutive asks with GPSampler, all suggestions included."""
    import optuna
    import torch

    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions: dict[str, Any] = {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in problem.names}
    study = optuna.create_study(sampler=optuna.samplers.GPSampler(seed=seed, n_startup_trials=1))
    for x, value in zip(problem.X, problem.y, strict=True):
        study.add_trial(
            optuna.trial.create_trial(params=problem.params(x), distributions=distributions, value=float(value))
        )
    taken = []
    for _ in range(count):
        start = clock()
        trial = study.ask(distributions)
        taken.append(clock() - start)
        study.tell(trial, problem.value(trial.params))
    return taken


def peers_installed() -> bool:
    try:
        import botorch  # noqa: F401
        import optuna  # noqa: F401
    except ImportError:
        return False
    return True


def ask(repeats: int) -> Iterator[Row]:
    """A whole ask, fits included, against BoTorch and GPSampler on the same data (new data in each repetition).

    The first ask of a process makes three cold fits, and learns the graph if none is given. Of the next ten one makes a
    cold fit at t = 150, none at t = 300, where one ask in twenty does. BoTorch and GPSampler fit for every ask.
    """
    warnings.simplefilter("ignore")
    peers = peers_installed()
    if not peers:
        progress("BoTorch is not installed (pip install 'dechbo[peers]'): dechbo is measured alone")
    small = Data(rosenbrock, uniform_points(rosenbrock, 4, 24, 0))
    for graph in ("learned", "random", chain(4)):
        dechbo_asks(small, graph, 0, 11)
    if peers:
        botorch_ask(small, 0)
        optuna_asks(small, 0, 2)
    draws = (
        ("Rosenbrock, points of a run", rosenbrock, run_points),
        ("Rosenbrock, uniform points", rosenbrock, uniform_points),
        ("Styblinski–Tang, uniform points", styblinski_tang, uniform_points),
    )
    for d, t, optuna_count in ((10, 150, 10), (100, 300, 4)):
        graphs: dict[str, FactorGraph | str] = {
            "default": "learned",
            "random tree": "random",
            "chain of pairs": chain(d),
        }
        for graph in graphs.values():  # the first ask of a size allocates its memory
            dechbo_asks(Data(rosenbrock, uniform_points(rosenbrock, d, t, repeats)), graph, 0, 1)
        for title, function, draw in draws:
            times: dict[str, list[float]] = {}
            for seed in range(repeats):
                problem = Data(function, draw(function, d, t, seed))
                for name, graph in graphs.items():
                    first, *taken = dechbo_asks(problem, graph, seed, 11)
                    times.setdefault(f"{name}, mean of the next 10 asks", []).append(statistics.fmean(taken))
                    times.setdefault(f"{name}, first ask", []).append(first)
                if peers:
                    times.setdefault("BoTorch", []).append(botorch_ask(problem, seed))
                    taken = optuna_asks(problem, seed, optuna_count)
                    times.setdefault("GPSampler, first", []).append(taken[0])
                    times.setdefault("GPSampler, mean", []).append(statistics.fmean(taken))
                progress(f"d={d}, t={t}, {title}: repetition {seed + 1} of {repeats}")
            yield from _ask_rows(f"d={d}, t={t}, {title}", times, optuna_count, peers)


def _ask_rows(where: str, times: dict[str, list[float]], optuna_count: int, peers: bool) -> Iterator[Row]:
    for name in [name for name in times if name.startswith(("default", "random", "chain"))]:
        what = f"ask, {where}; {name}"
        if not peers:
            yield Row("ask", what, statistics.median(times[name]))
        elif name.endswith("first ask"):
            yield compare("ask", what, times[name], "BoTorch", times["BoTorch"])
            yield compare("ask", what, times[name], "GPSampler, its first ask", times["GPSampler, first"])
        else:
            yield compare("ask", what, times[name], "BoTorch", times["BoTorch"], 0.2)
            against = f"GPSampler, mean of {optuna_count} asks"
            yield compare("ask", what, times[name], against, times["GPSampler, mean"], 1.0)


# ----------------------------------------------------------------- scaling


def memory(key: str) -> float:
    """Memory of this process in MB: VmRSS now, VmHWM at its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return float(line.split()[1]) / 1024
    raise KeyError(key)


def probe(d: int, t: int, work: float, seed: int) -> dict[str, float]:
    """One cold ask at d in this process: its seconds, those of its fit, the fit's evaluations, and the memory."""
    count, fitting = 0, 0.0
    gradient = AdditiveGP.log_evidence_gradient

    def counted(gp: AdditiveGP, data: Observations) -> tuple[float, Array]:
        nonlocal count
        count += 1
        return gradient(gp, data)

    def timed(*args: Any, **options: Any) -> AdditiveGP:
        nonlocal fitting
        start = clock()
        gp = fit(*args, **options)
        fitting += clock() - start
        return gp

    small = Data(rosenbrock, uniform_points(rosenbrock, 6, 20, 0))
    search = SearchOptions(score="factors", granularity=Granularity(work=work))
    dechbo_asks(small, ring(6), 0, 1, search=search)
    setattr(AdditiveGP, "log_evidence_gradient", counted)  # noqa: B010
    setattr(builder, "fit", timed)  # noqa: B010
    problem = Data(rosenbrock, uniform_points(rosenbrock, d, t, seed))
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = memory("VmRSS")
    taken = dechbo_asks(problem, ring(d), seed, 1, search=search)[0]
    megabytes = memory("VmHWM") - before
    space = Space({name: Float(0.0, 1.0) for name in problem.names})
    grid = base_candidates(space, ring(d), t, {}, search.granularity)
    return {
        "seconds": taken,
        "fit": fitting,
        "evaluations": count,
        "megabytes": megabytes,
        "candidates": len(grid[0]),
    }


FIT_EVALUATIONS = 50  # to compare asks whose fits took different numbers of steps


def scaling(repeats: int) -> Iterator[Row]:
    """An ask with ``score="factors"`` at d = 250 … 2000 on a ring of d ternary factors: time and memory when d doubles.

    The default grids become coarser with d, which keeps the work for the tables within a budget. The second series has
    the coarsest grid throughout, so that only d changes. Fits stop after different numbers of evaluations, so there is
    also the time with 50 of them. Memory is the peak during the ask minus the memory before it.
    """
    t, dims = 100, (250, 500, 1000, 2000)
    for title, work in (("default grids", Granularity().work), ("the coarsest grids", 1.0)):
        runs: dict[int, list[dict[str, float]]] = {d: [] for d in dims}
        for seed in range(repeats):
            for d in dims:
                request = json.dumps({"d": d, "t": t, "work": work, "seed": seed})
                script = str(Path(__file__).resolve().with_name("core_speed.py"))
                command = [sys.executable, script, "--clock", clock_name(), "--probe", request]
                runs[d].append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            progress(f"{title}: repetition {seed + 1} of {repeats}")
        counts = "/".join(f"{runs[d][0]['candidates']:.0f}" for d in dims)
        yield from _scaling_rows(f"t={t}, {title} ({counts} candidates)", runs)


def _scaling_rows(where: str, runs: dict[int, list[dict[str, float]]]) -> Iterator[Row]:
    def with_equal_fit(run: dict[str, float]) -> float:
        return run["seconds"] - run["fit"] + FIT_EVALUATIONS * run["fit"] / run["evaluations"]

    kinds: dict[str, tuple[str, float | None, Callable[[dict[str, float]], float]]] = {
        "a cold ask": ("s", 2.4, lambda run: run["seconds"]),
        f"the same with {FIT_EVALUATIONS} evaluations of the fit": ("s", 2.4, with_equal_fit),
        "peak memory of an ask": ("MB", 2.4, lambda run: run["megabytes"]),
        "one evaluation of the fit": ("s", None, lambda run: run["fit"] / run["evaluations"]),
        "evaluations of the fit": ("", None, lambda run: run["evaluations"]),
    }
    dims = list(runs)
    for name, (unit, bar, measure) in kinds.items():
        values = {d: [measure(run) for run in runs[d]] for d in dims}
        middle = {d: statistics.median(values[d]) for d in dims}
        for small, large in itertools.pairwise(dims):
            ratios = [b / a for a, b in zip(values[small], values[large], strict=True)]
            yield Row(
                "scaling",
                f"{name}, d={large}, {where}",
                middle[large],
                unit,
                f"d={small}",
                middle[small],
                statistics.median(ratios),
                min(ratios),
                max(ratios),
                bar,
            )
