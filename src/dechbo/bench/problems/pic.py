"""PIC-1811: all 1,811 hyperparameters of a sparse Gaussian process on 45,730 proteins (paper, Section 5.2).

Signal and noise variance, nine lengthscales and 200 inducing inputs of nine coordinates. The value is the validation
error: the root mean squared error of a held-out fold, averaged over five folds of the 95 % of the rows that train. The
other 5 % are the test rows, which no method ever sees (``PIC.report``). The split and the folds depend on the seed; the
blocks of the model, at most 300 near points each, do not. Tests: test_pic.py.
"""

from __future__ import annotations

import csv
import io
import lzma
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dechbo.bench.problems.download import downloaded
from dechbo.bench.problems.problem import Array, Problem, ProblemUnavailable, data_path, instance_rng
from dechbo.bench.problems.sparse_gp import TRAINING, BlockedData, PICHyperparameters, bisected, left_out_errors, rmse
from dechbo.space import Float, Space

NAME = "PIC-1811"
TABLE = "CASP.csv"
URL = "https://archive.ics.uci.edu/static/public/265/physicochemical+properties+of+protein+tertiary+structure.zip"
SHA256 = "4277cfcb4e91a181746cbc654f001b57951c9e6a80f4f795fdb5c807e0848f40"  # of the table
INPUTS, INDUCING = 9, 200
FOLDS = 5
TEST = FOLDS  # the fold of the test rows
TEST_SHARE = 0.05
MAX_BLOCK = 300
SIGNAL, NOISE = (0.01, 10.0), (0.01, 1.0)  # in variances of the target
LENGTHSCALES = (0.05, 20.0)  # in standard deviations of the inputs, as all coordinates
REACH = 2.0  # of the inducing inputs

SPACE = Space(
    {
        "signal": Float(*SIGNAL, log=True),
        "noise": Float(*NOISE, log=True),
        **{f"l{j + 1}": Float(*LENGTHSCALES, log=True) for j in range(INPUTS)},
        **{f"u{k + 1}_{j + 1}": Float(-REACH, REACH) for k in range(INDUCING) for j in range(INPUTS)},
    }
)


@dataclass(frozen=True, eq=False)
class Rows:
    """The data: inputs (n, 9), target (n,), the block of every row, and whether an equal row stands before it."""

    X: Array
    y: Array
    block: NDArray[np.int64]
    repeated: NDArray[np.bool_]

    @classmethod
    def of(cls, table: Array) -> Rows:
        """From a table whose first column is the target; inputs are standardised."""
        X = table[:, 1:]
        spread = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        repeated = np.ones(len(table), dtype=bool)
        repeated[np.unique(table, axis=0, return_index=True)[1]] = False
        return cls(X, table[:, 0], bisected(X, MAX_BLOCK), repeated)

    def folds(self, seed: int) -> NDArray[np.int64]:
        """The fold of every row, ``TEST`` for 5 % of them."""
        n = len(self.y)
        order = instance_rng(NAME, seed).permutation(n)
        fold = np.full(n, TEST, dtype=np.int64)
        training = order[round(TEST_SHARE * n) :]
        fold[training] = np.arange(len(training)) % FOLDS
        return fold


@dataclass(frozen=True, eq=False)
class PIC:
    """The validation error as a function of the hyperparameters."""

    rows: Rows
    fold: NDArray[np.int64]  # of every row
    kept: NDArray[np.bool_]  # the rows that count

    @classmethod
    def of(cls, rows: Rows, seed: int) -> PIC:
        """All rows, with the folds of ``seed``."""
        return cls(rows, rows.folds(seed), np.ones(len(rows.y), dtype=bool))

    def __call__(self, params: Mapping[str, Any]) -> float:
        """The validation error: the root mean squared error of a fold, averaged over the folds."""
        training = self.fold[self._is_training]
        errors = left_out_errors(self._training, self._hyperparameters(params))
        return float(np.mean([rmse(errors[training == k]) for k in range(FOLDS)]))

    def test_error(self, params: Mapping[str, Any]) -> float:
        """The root mean squared error on the test rows, from all others."""
        errors = left_out_errors(self._all, self._hyperparameters(params))
        return rmse(errors[np.isfinite(errors)])

    def report(self, params: Mapping[str, Any]) -> dict[str, float]:
        """What the validation error leaves open: the test error, and both with every row only once.

        1,711 rows repeat another one, most of them from another fold.
        """
        once = PIC(self.rows, self.fold, ~self.rows.repeated)
        return {
            "test": self.test_error(params),
            "validation, rows once": once(params),
            "test, rows once": once.test_error(params),
        }

    @cached_property
    def _is_training(self) -> NDArray[np.bool_]:
        part: NDArray[np.bool_] = self.kept & (self.fold != TEST)
        return part

    @cached_property
    def _training(self) -> BlockedData:
        return self._blocked(self._is_training, self.fold)

    @cached_property
    def _all(self) -> BlockedData:
        return self._blocked(self.kept, np.where(self.fold == TEST, 0, TRAINING))

    def _blocked(self, part: NDArray[np.bool_], fold: NDArray[np.int64]) -> BlockedData:
        """The rows ``part``, their targets centred by the mean of those that train."""
        rows = self.rows
        centred = rows.y[part] - rows.y[self._is_training].mean()
        return BlockedData.of(rows.X[part], centred, rows.block[part], fold[part])

    def _hyperparameters(self, params: Mapping[str, Any]) -> PICHyperparameters:
        values = np.array([params[name] for name in SPACE], dtype=np.float64)
        variance = float(self.rows.y.var())
        lengthscales, inducing = values[2 : 2 + INPUTS], values[2 + INPUTS :].reshape(INDUCING, INPUTS)
        return PICHyperparameters(values[0] * variance, values[1] * variance, lengthscales, inducing)


def download(folder: str | Path, *, url: str = URL, sha256: str = SHA256) -> Path:
    """Get the published table, 3 MB, into ``folder`` unless it is there already; returns its path."""
    return downloaded(url, Path(folder) / TABLE, "sha256", sha256, unpack=_table_of_archive)


def _table_of_archive(path: Path) -> bytes:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(TABLE)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ProblemUnavailable(f"{URL} is no archive with {TABLE}: {error}") from error


def _table_file() -> Path:
    """The table in the folder ``protein`` of the data, plain or compressed."""
    folder = data_path(NAME, "protein")
    for name in (f"{TABLE}.xz", TABLE):
        if (folder / name).is_file():
            return folder / name
    raise ProblemUnavailable(
        f"{NAME} needs the file {TABLE} in {folder}: unpack {URL} there, or run dechbo bench data {folder.parent}"
    )


def read_table(path: Path) -> Array:
    """The numbers of a CSV file with a header, plain or compressed by xz."""
    raw = path.read_bytes()
    text = (lzma.decompress(raw) if path.suffix == ".xz" else raw).decode("ascii")
    return np.array([[float(cell) for cell in row] for row in list(csv.reader(io.StringIO(text)))[1:]])


@cache
def _rows(path: Path) -> Rows:
    return Rows.of(read_table(path))


def pic(seed: int) -> Problem:
    """The problem; the split and the folds depend on the seed."""
    objective = PIC.of(_rows(_table_file()), seed)
    return Problem(NAME, SPACE, None, None, objective, report=objective.report)
