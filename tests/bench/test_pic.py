"""PIC-1811: folds, repeated rows and reports on a small table; a slice of the real data under ``system``."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench_cases import data_folder
from dechbo.bench.problems import problem
from dechbo.bench.problems.pic import FOLDS, INDUCING, INPUTS, MAX_BLOCK, PIC, SPACE, TEST, Rows, read_table
from dechbo.bench.problems.problem import ProblemUnavailable

Array = NDArray[np.float64]


def table(n: int, repeats: int = 0) -> Array:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, INPUTS))
    once = np.column_stack([np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=n), 3 + 2 * X])
    return np.vstack([once, once[:repeats]])


def params(**changed: float) -> dict[str, Any]:
    found: dict[str, Any] = SPACE.decode(np.random.default_rng(1).random(SPACE.dim))
    plain = {"signal": 1.0, "noise": 0.05, **{f"l{j + 1}": 1.5 for j in range(INPUTS)}}
    return found | plain | changed


def test_the_space_has_the_papers_1811_hyperparameters() -> None:
    assert SPACE.dim == 2 + INPUTS + INDUCING * INPUTS == 1811


def test_five_folds_and_a_twentieth_for_the_test() -> None:
    rows = Rows.of(table(1000))
    counts = np.bincount(rows.folds(0))
    assert counts.tolist() == [190] * FOLDS + [50]
    assert not np.array_equal(rows.folds(0), rows.folds(1))
    assert np.array_equal(rows.folds(1), rows.folds(1))


def test_inputs_are_standardised_and_blocks_are_small() -> None:
    rows = Rows.of(table(700))
    np.testing.assert_allclose(rows.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(rows.X.std(axis=0), 1)
    assert np.bincount(rows.block).max() <= MAX_BLOCK


def test_rows_that_repeat_another_are_found() -> None:
    rows = Rows.of(table(300, repeats=40))
    assert rows.repeated.sum() == 40
    assert not rows.repeated[:300].any()


def test_a_small_table_is_one_block_and_so_an_exact_process() -> None:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    rows = Rows.of(table(200))
    objective, setting = PIC.of(rows, 3), params()
    variance, training = rows.y.var(), objective.fold != TEST
    centre = rows.y[training].mean()
    kernel = ConstantKernel(variance) * RBF([setting[f"l{j + 1}"] for j in range(INPUTS)])
    model = GaussianProcessRegressor(kernel, alpha=setting["noise"] * variance, optimizer=None)
    errors = []
    for k in range(FOLDS):
        held, kept = objective.fold == k, training & (objective.fold != k)
        model.fit(rows.X[kept], rows.y[kept] - centre)
        errors.append(np.sqrt(np.mean((rows.y[held] - centre - model.predict(rows.X[held])) ** 2)))
    assert objective(setting) == pytest.approx(np.mean(errors), rel=1e-9)
    model.fit(rows.X[training], rows.y[training] - centre)
    residuals = rows.y[~training] - centre - model.predict(rows.X[~training])
    assert objective.test_error(setting) == pytest.approx(np.sqrt(np.mean(residuals**2)), rel=1e-9)


def test_repeated_rows_leak_and_the_report_says_how_much() -> None:
    rows = Rows.of(table(300, repeats=300))  # every row twice
    objective, setting = PIC.of(rows, 0), params(noise=0.01)
    report = objective.report(setting)
    assert report["test"] == pytest.approx(objective.test_error(setting))
    assert objective(setting) < 0.7 * report["validation, rows once"]


def test_without_repeats_both_reports_are_the_same() -> None:
    objective, setting = PIC.of(Rows.of(table(250)), 0), params()
    report = objective.report(setting)
    assert report["validation, rows once"] == pytest.approx(objective(setting), rel=1e-12)
    assert report["test, rows once"] == report["test"]


def test_a_table_is_read_plain_or_compressed(tmp_path: Path) -> None:
    text = "RMSD,F1,F2\n1.5,2,-3\n4,5e-1,6\n"
    (tmp_path / "a.csv").write_text(text, encoding="ascii")
    (tmp_path / "a.csv.xz").write_bytes(lzma.compress(text.encode()))
    for name in ("a.csv", "a.csv.xz"):
        assert read_table(tmp_path / name).tolist() == [[1.5, 2, -3], [4, 0.5, 6]]


def test_missing_data_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DECHBO_DATA", str(tmp_path))
    with pytest.raises(ProblemUnavailable, match=r"PIC-1811 needs the file CASP\.csv in .*dechbo bench data"):
        problem("PIC-1811")


@pytest.mark.system
def test_the_real_data() -> None:
    """A known setting: every lengthscale 0.5 in a random box of inducing inputs."""
    assert data_folder()
    instance = problem("PIC-1811", 0)
    setting = params(noise=0.15, **{f"l{j + 1}": 0.5 for j in range(INPUTS)})
    assert 3.7 < instance(setting) < 4.1
    assert instance.report is not None
    report = instance.report(setting)
    assert instance(setting) < report["validation, rows once"] < 4.3  # 1,711 repeated rows leak
