"""Test problems, to be minimised: space, objective, optimum and, where they exist, true scopes.

``problem(name, seed)`` is a function of (name, seed) only: every method gets the same instance.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dechbo.bench.problems import (
    classic,
    cnn,
    families,
    lander,
    landscape,
    lasso,
    overlapping,
    pic,
    rover,
    study,
    tabular,
    voltages,
)
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
    "parse_names",
    "problem",
    "title",
]


def _constant(instance: Problem, seed: int) -> Problem:
    """The same instance for every seed."""
    return instance


_INSTANCES: dict[str, Callable[[int], Problem]] = {
    "Hartmann-6": partial(_constant, HARTMANN_6),
    "Shekel-4": partial(_constant, SHEKEL_4),
    "Michalewicz-10": partial(_constant, MICHALEWICZ_10),
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
    "PIC-1811": pic.pic,
    "CNN-6": cnn.cnn,
    "CNN-6-full": cnn.cnn_full,
    "Wine-12": study.WINE.instance,
    "Boosting-21": study.BOOSTING.instance,
    "Compressor-10": study.COMPRESSOR.instance,
    "Rosenbrock-4": partial(classic.ROSENBROCK.instance, 4),
    "NK-8": partial(landscape.landscape, 8, choices=("a", "b")),
    **families.FAMILIES,
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
_README = ("Wine-12",)  # the example of the README

SUITES: dict[str, tuple[str, ...]] = {
    "table1": _TABLE1,
    "table2": ("PIC-1811", "CNN-6"),
    "synthetic": _SYNTHETIC,
    "real": _REAL,
    "example": (*_README, "Boosting-21", "Compressor-10"),
    "choice": (
        "Levy-10",
        "Styblinski-Tang-50",
        "Ackley-20",
        "Rosenbrock-20",
        "Powell-24",
        "Overlapping-20",
        "Overlapping-50",
    ),
    "families": tuple(families.FAMILIES),
    "smoke": ("Rosenbrock-4", "NK-8"),
    "all": _TABLE1 + _SYNTHETIC + _REAL + _README,
}
"""Problem names of each suite.

Choose settings on "families", and on "choice" with seeds of 100 and more only: its seeds below 100 are for judgement.
"""


def names() -> tuple[str, ...]:
    """The names of all problems, also of those whose package or data is missing."""
    return tuple(_INSTANCES)


def title(name: str) -> str:
    """The name of a problem as it is written in tables, from any spelling; an unknown name as it is."""
    return next((known for known in _INSTANCES if known.lower() == name.lower()), name)


def problem(name: str, seed: int = 0) -> Problem:
    """The instance ``seed`` of the problem ``name``, in upper or lower case."""
    seed = whole("seed", seed, 0)
    known = {each.lower(): each for each in _INSTANCES}
    if not isinstance(name, str) or name.lower() not in known:
        raise OptionError(f"problem must be one of {', '.join(names())}, got {name!r}")
    return _INSTANCES[known[name.lower()]](seed)


def parse_names(text: str) -> tuple[str, ...]:
    """The problems of a comma-separated list of suites and problems, in lower case as in records; none is built."""
    found: dict[str, None] = {}
    for part in (part.strip() for part in text.split(",") if part.strip()):
        if part not in SUITES and part.lower() not in {name.lower() for name in _INSTANCES}:
            raise OptionError(
                f"unknown suite or problem {part!r}; suites are {', '.join(SUITES)}; problems are {', '.join(names())}"
            )
        found.update(dict.fromkeys(name.lower() for name in SUITES.get(part, (part,))))
    return tuple(found)
