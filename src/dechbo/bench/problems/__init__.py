"""Problems to be minimised, that know their optimum, their domain and (where they exist) their true scopes.

``problem(name, seed)`` is the instance of a seed: a function of (name, seed) only, so the same for every method.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dechbo.bench.problems import classic, lander, landscape, lasso, overlapping, rover, tabular, voltages
from dechbo.bench.problems.paper import HARTMANN_6, MICHALEWICZ_10, PROBLEMS, SHEKEL_4, michalewicz_value
from dechbo.bench.problems.problem import Problem, ProblemUnavailable
from dechbo.checks import whole
from dechbo.errors import OptionError

__all__ = [
    "HARTMANN_6",
    "MICHALEWICZ_10",
    "PROBLEMS",
    "SHEKEL_4",
    "SUITES",
    "Problem",
    "ProblemUnavailable",
    "michalewicz_value",
    "names",
    "problem",
]


def _always(known: Problem, seed: int) -> Problem:
    return known


_INSTANCES: dict[str, Callable[[int], Problem]] = {
    "Hartmann-6": partial(_always, HARTMANN_6),
    "Shekel-4": partial(_always, SHEKEL_4),
    "Michalewicz-10": partial(_always, MICHALEWICZ_10),
    "Powell-24": partial(classic.POWELL.instance, 24),
    "Rosenbrock-20": partial(classic.ROSENBROCK.instance, 20),
    "Rastrigin-100": partial(classic.RASTRIGIN.instance, 100),
    "Ackley-20": partial(classic.ACKLEY.instance, 20),
    "Levy-10": partial(classic.LEVY.instance, 10),
    "Styblinski-Tang-50": partial(classic.STYBLINSKI_TANG.instance, 50),
    "Hartmann-6-in-100": partial(classic.embedded_hartmann, 100),
    "Overlapping-20": partial(overlapping.overlapping, 20),
    "Overlapping-50": partial(overlapping.overlapping, 50),
    "NK-30": partial(landscape.landscape, 30),
    "Rover-60": rover.rover,
    "Lasso-DNA-180": lasso.lasso_dna,
    "Voltages-54": voltages.voltages,
    "Protein-Structure-9": tabular.protein_structure,
    "NAS-Bench-201": tabular.nas_bench_201,
    "LunarLander-12": lander.lunar_lander,
    "Rosenbrock-4": partial(classic.ROSENBROCK.instance, 4),
    "NK-8": partial(landscape.landscape, 8, choices=("a", "b")),
}

_TABLE1 = ("Hartmann-6", "Shekel-4", "Michalewicz-10")
_SYNTHETIC = (
    "Powell-24",
    "Rosenbrock-20",
    "Rastrigin-100",
    "Ackley-20",
    "Levy-10",
    "Styblinski-Tang-50",
    "Hartmann-6-in-100",
    "Overlapping-20",
    "Overlapping-50",
    "NK-30",
)
_REAL = (
    "Rover-60",
    "Lasso-DNA-180",
    "Voltages-54",
    "Protein-Structure-9",
    "NAS-Bench-201",
    "LunarLander-12",
)

SUITES: dict[str, tuple[str, ...]] = {
    "table1": _TABLE1,
    "synthetic": _SYNTHETIC,
    "real": _REAL,
    "choice": (
        "Levy-10",
        "Styblinski-Tang-50",
        "Ackley-20",
        "Rosenbrock-20",
        "Powell-24",
        "Overlapping-20",
        "Overlapping-50",
    ),
    "smoke": ("Rosenbrock-4", "NK-8"),
    "all": _TABLE1 + _SYNTHETIC + _REAL,
}
"""Names of problems by the name of a suite; settings may be chosen on "choice" only, which holds none of "table1"."""


def names() -> tuple[str, ...]:
    """The names of all problems, whether or not what they need is there."""
    return tuple(_INSTANCES)


def problem(name: str, seed: int = 0) -> Problem:
    """The instance ``seed`` of the problem ``name`` (in any case of letters)."""
    seed = whole("seed", seed, 0)
    known = {each.lower(): each for each in _INSTANCES}
    if not isinstance(name, str) or name.lower() not in known:
        raise OptionError(f"a problem is one of {', '.join(names())}, got {name!r}")
    return _INSTANCES[known[name.lower()]](seed)
