"""Lasso-DNA: a penalty for each of 180 features, scored by cross-validation (LassoBench, Šehić et al. 2022).

beta(x) = argmin |y - X beta|^2 / (2 n) + sum_j lambda_j |beta_j| without an intercept, where x_j in [-1, 1] maps
linearly to log lambda_j between log(lambda_max / 1e5) and log(lambda_max), lambda_max = max_j |X_j^T y| / n. The value
is the mean over five folds of the held-out mean squared error, on the 85 % of the data that LassoBench trains on. The
splits are those of scikit-learn with random_state=42. Tests: test_problems_real.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dechbo.bench.problems.problem import Array, Problem, box_problem, data_file
from dechbo.compiled import compiled

NAME = "Lasso-DNA-180"
FEATURES = 180
FOLDS = 5
RANGE = 1e5
SPLIT_SEED = 42
HELD_OUT = 0.15
TOLERANCE = 1e-8
MAX_SWEEPS = 100_000


@compiled
def weighted_lasso(gram: Array, moment: Array, penalties: Array, tolerance: float, max_sweeps: int) -> Array:
    """argmin 1/2 b^T G b - m^T b + sum_j p_j |b_j| by coordinate descent; G = X^T X / n, m = X^T y / n.

    Stops when no coordinate of a full sweep moves by more than ``tolerance``. Between full sweeps only the nonzero
    coordinates are visited.
    """
    dim = len(moment)
    b = np.zeros(dim)
    slope = moment.copy()  # m - G b
    full_sweep = True
    for _ in range(max_sweeps):
        largest = 0.0
        for j in range(dim):
            if gram[j, j] == 0.0 or not (full_sweep or b[j] != 0.0):
                continue
            pull = slope[j] + gram[j, j] * b[j]
            new = max(abs(pull) - penalties[j], 0.0) / gram[j, j]
            if pull < 0:
                new = -new
            step = new - b[j]
            if step != 0.0:
                b[j] = new
                for k in range(dim):
                    slope[k] -= gram[j, k] * step
                largest = max(largest, abs(step))
        if largest <= tolerance:
            if full_sweep:
                break
            full_sweep = True
        else:
            full_sweep = False
    return b


@dataclass(frozen=True, eq=False)
class Fold:
    """Moments of the training part of one fold, and its validation part."""

    gram: Array
    moment: Array
    X: Array
    y: Array

    def error(self, penalties: Array) -> float:
        """The mean squared error on the validation part."""
        b = weighted_lasso(self.gram, self.moment, penalties, TOLERANCE, MAX_SWEEPS)
        return float(((self.X @ b - self.y) ** 2).mean())


@dataclass(frozen=True, eq=False)
class CrossValidatedLasso:
    """The mean held-out error of the weighted Lasso, as a function of x in [-1, 1]^d."""

    folds: tuple[Fold, ...]
    log_highest: float

    @classmethod
    def of_data(cls, X: Array, y: Array) -> CrossValidatedLasso:
        """Split the data as LassoBench does."""
        X, y = _training_part(X, y)
        folds = []
        for held in _validation_parts(len(y)):
            rest = np.setdiff1d(np.arange(len(y)), held)
            n = len(rest)
            folds.append(Fold(X[rest].T @ X[rest] / n, X[rest].T @ y[rest] / n, X[held], y[held]))
        return cls(tuple(folds), float(np.log(np.abs(X.T @ y).max() / len(y))))

    def penalties(self, x: Array) -> Array:
        """lambda_j = lambda_max RANGE^((x_j - 1) / 2)."""
        return np.asarray(np.exp(self.log_highest + (x - 1) / 2 * np.log(RANGE)))

    def __call__(self, x: Array) -> float:
        """The value at x (d,)."""
        penalties = self.penalties(x)
        return float(np.mean([fold.error(penalties) for fold in self.folds]))


def _training_part(X: Array, y: Array) -> tuple[Array, Array]:
    order = np.random.RandomState(SPLIT_SEED).permutation(len(y))  # as in scikit-learn
    kept = order[int(np.ceil(HELD_OUT * len(y))) :]
    return X[kept], y[kept]


def _validation_parts(n: int) -> list[NDArray[np.int64]]:
    order = np.random.RandomState(SPLIT_SEED).permutation(n)  # as in scikit-learn
    return [np.sort(part) for part in np.array_split(order, FOLDS)]


def read_libsvm(path: Path, features: int) -> tuple[Array, Array]:
    """Read rows "label index:value index:value …" with indices from 1."""
    rows = [line.split() for line in path.read_text(encoding="ascii").splitlines() if line.strip()]
    X, y = np.zeros((len(rows), features)), np.zeros(len(rows))
    for n, (label, *entries) in enumerate(rows):
        y[n] = float(label)
        for entry in entries:
            index, value = entry.split(":")
            X[n, int(index) - 1] = float(value)
    return X, y


@cache
def _of_file(path: Path) -> CrossValidatedLasso:
    return CrossValidatedLasso.of_data(*read_libsvm(path, FEATURES))


def lasso_dna(seed: int) -> Problem:
    """The problem; the seed has no effect."""
    objective = _of_file(data_file(NAME, "lasso", "dna.scale"))
    return box_problem(NAME, objective, dim=FEATURES, low=-1.0, high=1.0)
