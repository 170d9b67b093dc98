"""CNN-6: splits and messages anywhere; what needs Keras is a system test, most of it on made-up images."""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench_cases import missing
from cifar10_cases import BATCHES, made_up, write_pickles
from dechbo.bench.problems import ProblemUnavailable, cnn, problem
from dechbo.bench.problems.cifar10 import load
from dechbo.bench.problems.cnn import CHANCE, FULL, SMALL, ClassificationError, Scale, stratified
from dechbo.bench.problems.problem import data_path, instance_rng
from dechbo.errors import DataError, OptionError
from dechbo.space import Float, Int

TINY = Scale(200, 100, 100, batch_size=(5, 50), epochs=(1, 5))
USUAL = {"learning_rate": 0.05, "dropout1": 0.1, "dropout2": 0.1, "dropout3": 0.2, "batch_size": 10, "epochs": 2}


def with_params(**changed: float) -> dict[str, Any]:
    return {**USUAL, **changed}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 training and 100 test images that a network learns in seconds."""
    path = tmp_path_factory.mktemp("made-up")
    rng = np.random.default_rng(7)
    write_pickles(path, [made_up(100 if name == "test_batch" else 60, rng) for name in BATCHES])
    return path


# ---------------------------------------------------------------- without Keras


def test_the_scales_and_their_space() -> None:
    assert (FULL.training, FULL.validation, FULL.test) == (45_000, 5_000, 10_000)
    assert FULL.space()["batch_size"] == FULL.space()["epochs"] == Int(100, 1000)
    space = SMALL.space()
    assert space.names == ("learning_rate", "dropout1", "dropout2", "dropout3", "batch_size", "epochs")
    assert space["learning_rate"] == Float(1e-5, 1.0, log=True)
    assert {space[f"dropout{k}"] for k in (1, 2, 3)} == {Float(0.0, 1.0)}
    low, high = SMALL.batch_size
    assert (SMALL.training // high, SMALL.training // low) == (10, 100)  # steps of an epoch
    with pytest.raises(OptionError, match="validation must be a multiple of the 10 classes, got 55"):
        Scale(100, 55, 100, batch_size=(1, 2), epochs=(1, 2))


def test_sets_are_disjoint_balanced_and_drawn_by_the_seed(folder: Path) -> None:
    labels = load(folder)[1]
    training, validation = ClassificationError(folder, TINY, 0).split(labels)
    assert (len(training), len(validation)) == (200, 100)
    assert len({*training.tolist(), *validation.tolist()}) == 300
    assert np.bincount(labels[training]).tolist() == [20] * 10
    assert np.bincount(labels[validation]).tolist() == [10] * 10
    again, _ = ClassificationError(folder, TINY, 0).split(labels)
    other, _ = ClassificationError(folder, TINY, 1).split(labels)
    assert again.tolist() == training.tolist()
    assert set(other.tolist()) != set(training.tolist())
    with pytest.raises(DataError, match="400 images need 40 of each class, got 30 of class 0"):
        stratified(labels, (300, 100), np.random.default_rng(0))


def test_pixels_are_scaled_and_colours_come_first() -> None:
    images = np.zeros((2, 32, 32, 3), dtype=np.uint8)
    images[1, 3, 4, 2] = 255
    given = cnn.as_input(images)
    assert given.dtype == np.float32
    assert given.shape == (2, 3, 32, 32)
    assert given.sum() == given[1, 2, 3, 4] == 1


def test_what_is_missing_is_named(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DECHBO_DATA", raising=False)
    with pytest.raises(ProblemUnavailable, match="CNN-6 needs cifar10: set DECHBO_DATA"):
        problem("CNN-6")
    monkeypatch.setenv("DECHBO_DATA", str(tmp_path))
    with pytest.raises(ProblemUnavailable, match=r"no CIFAR-10 in .*cifar10"):
        problem("cnn-6-full")
    for module in ("torch", "keras"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    (tmp_path / "cifar10").symlink_to(folder)
    cnn._keras.cache_clear()
    with pytest.raises(ProblemUnavailable, match=r"'torch'.* pip install \"dechbo\[cnn\]\""):
        problem("CNN-6")


def test_another_backend_of_keras_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "keras", raising=False)
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    with pytest.raises(ProblemUnavailable, match="set KERAS_BACKEND to torch, it is 'jax'"):
        cnn._keras.__wrapped__()
    loaded = SimpleNamespace(backend=SimpleNamespace(backend=lambda: "tensorflow"))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "keras", loaded)
    with pytest.raises(ProblemUnavailable, match="this process imported it with 'tensorflow'"):
        cnn._keras.__wrapped__()


# ---------------------------------------------------------------- with Keras


def available(folder: Path, seed: int = 0) -> ClassificationError:
    """The objective on the images of ``folder``, where the extra "cnn" is there, as it is in .ci/run."""
    try:
        cnn._keras()
    except ProblemUnavailable as error:
        missing(str(error))
    return ClassificationError(folder, TINY, seed)


def weights(network: Any) -> list[np.ndarray]:
    return [variable.value.detach().cpu().numpy().copy() for variable in network.weights]


def trained(objective: ClassificationError, params: Mapping[str, Any]) -> Any:
    network = objective.network(params)
    assert network is not None
    return network


def global_random_states(torch: Any) -> tuple[Any, ...]:
    of_numpy: Any = np.random.get_state()  # noqa: NPY002
    return random.getstate(), of_numpy[1].tolist(), torch.get_rng_state().tolist()


@pytest.mark.system
def test_the_network_is_that_of_the_example(folder: Path) -> None:
    available(folder)
    network = cnn.build(with_params(), np.random.default_rng(0))
    kinds = [type(layer).__name__ for layer in network.layers]
    block = ["Conv2D", "Conv2D", "MaxPooling2D", "Dropout"]
    assert kinds == [*block, *block, "Flatten", "Dense", "Dropout", "Dense"]
    assert network.count_params() == 1_250_858  # as the example prints
    assert [layer.rate for layer in network.layers if hasattr(layer, "rate")] == [0.1, 0.1, 0.2]
    assert float(network.optimizer.learning_rate) == pytest.approx(0.05)
    assert network.optimizer.momentum == 0


@pytest.mark.system
def test_it_learns_and_tells_the_test_error(folder: Path) -> None:
    objective = available(folder)
    good = with_params(learning_rate=0.01, batch_size=5, epochs=5, dropout1=0.0, dropout2=0.0, dropout3=0.0)
    assert objective(good) < 0.5
    assert objective.report(good)["test"] < 0.5
    assert 0.5 < objective(with_params(learning_rate=1e-5)) <= 1.0
    assert objective.report(good).keys() == {"test"}


@pytest.mark.system
def test_the_value_depends_on_parameters_and_seed_only(folder: Path) -> None:
    objective = available(folder)
    import torch

    first = weights(trained(objective, with_params()))
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    torch.set_num_threads(2)
    before = global_random_states(torch)
    second = weights(trained(pickle.loads(pickle.dumps(objective)), with_params()))
    assert global_random_states(torch) == before
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert objective(with_params()) == objective(with_params())
    other = weights(trained(available(folder, 1), with_params()))
    assert not np.array_equal(first[0], other[0])


@pytest.mark.system
def test_a_diverged_network_knows_nothing(folder: Path) -> None:
    objective = available(folder)
    assert objective(with_params(learning_rate=1e6)) == pytest.approx(CHANCE)
    hopeless = with_params(learning_rate=1e30)
    assert objective.network(hopeless) is None
    assert objective(hopeless) == objective.report(hopeless)["test"] == CHANCE
    one_step = with_params(learning_rate=1e30, batch_size=200, epochs=1)  # the loss was finite before the only step
    assert objective.network(one_step) is not None
    assert objective(one_step) == pytest.approx(CHANCE)


@pytest.mark.system
@pytest.mark.parametrize(("which", "learning"), [("dropout1", 8), ("dropout2", 4), ("dropout3", 2)])
def test_layers_before_a_dropout_of_one_keep_their_weights(which: str, learning: int, folder: Path) -> None:
    objective = available(folder)
    params = with_params(epochs=1, **{which: 1.0})
    initial = weights(cnn.build(params, instance_rng("CNN-6 training", 0)))
    network = trained(objective, params)
    assert len(network.trainable_weights) == learning
    kept = [np.array_equal(a, b) for a, b in zip(initial, weights(network), strict=True)]
    frozen = len(kept) - learning
    assert kept[:frozen] == [True] * frozen
    assert not kept[-1]  # the biases of the classes
    assert 0 <= objective(params) <= 1


@pytest.mark.system
def test_a_slice_of_the_real_problem() -> None:
    try:
        stated = problem("CNN-6", 3)
    except ProblemUnavailable as error:
        missing(str(error))
    assert stated.space == SMALL.space()
    assert stated.evaluate == ClassificationError(data_path("CNN-6", "cifar10"), SMALL, 3)
    objective = ClassificationError(data_path("CNN-6", "cifar10"), Scale(100, 100, 200, (10, 50), (1, 2)), 3)
    rng = np.random.default_rng(0)
    for u in rng.random((3, 6)):
        params = objective.scale.space().decode(objective.scale.space().from_uniform(u))
        value = objective(params)
        assert 0 <= value <= 1
        assert value == objective(params)
    assert 0 <= objective.report(params)["test"] <= 1
