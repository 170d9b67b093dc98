"""CNN-6: six hyperparameters of a convolutional network for CIFAR-10, the paper's experiment.

The network is that of the classic Keras example for CIFAR-10: twice two convolutions, pooling and dropout, then a dense
layer, dropout and softmax. It is trained by stochastic gradient descent, with Keras on torch. The value is the
validation error: the share of validation images whose class it gets wrong.

Seed and parameters decide everything: the seed draws the training and validation images, equally many of each class,
the initial weights, the order of the batches and what is dropped. No global random state is read or changed. Training
on the CPU takes one thread, so that the value does not depend on the number of cores.

A network whose loss is not finite counts as one that knows nothing: its error is CHANCE. A dropout of 1 drops all
inputs of the next layer, so layers before it cannot learn and keep their initial weights. Tests: test_cnn.py.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dechbo.bench.problems import cifar10
from dechbo.bench.problems.cifar10 import CLASSES, Images, Labels
from dechbo.bench.problems.problem import Problem, ProblemUnavailable, data_path, instance_rng, require_module
from dechbo.errors import DataError, OptionError
from dechbo.space import Float, Int, Space

NAME = "CNN-6"
CHANCE = 1 - 1 / CLASSES
_CHUNK = 100  # images that are classified at a time: more take longer per image on a CPU

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Scale:
    """Numbers of images, equally many of each class, and the bounds of batch size and epochs."""

    training: int
    validation: int
    test: int
    batch_size: tuple[int, int]
    epochs: tuple[int, int]

    def __post_init__(self) -> None:
        for name in ("training", "validation", "test"):
            count = getattr(self, name)
            if count < CLASSES or count % CLASSES:
                raise OptionError(f"{name} must be a multiple of the {CLASSES} classes, got {count}")

    def space(self) -> Space:
        """The search space."""
        return Space(
            {
                "learning_rate": Float(1e-5, 1.0, log=True),
                "dropout1": Float(0.0, 1.0),
                "dropout2": Float(0.0, 1.0),
                "dropout3": Float(0.0, 1.0),
                "batch_size": Int(*self.batch_size),
                "epochs": Int(*self.epochs),
            }
        )


FULL = Scale(45_000, 5_000, 10_000, batch_size=(100, 1000), epochs=(100, 1000))
"""The paper's, for a GPU."""

SMALL = Scale(1_000, 1_000, 10_000, batch_size=(10, 100), epochs=(1, 3))
"""For one core; batches are smaller so that an epoch still has 10 to 100 steps."""


@dataclass(frozen=True)
class ClassificationError:
    """The error of a network trained with given hyperparameters, on the CIFAR-10 images in ``folder``."""

    folder: Path
    scale: Scale
    seed: int

    def __call__(self, params: Mapping[str, Any]) -> float:
        """The error on the validation images."""
        images, labels, _, _ = cifar10.load(self.folder)
        _, validation = self.split(labels)
        return error(self.network(params), images, labels, validation)

    def report(self, params: Mapping[str, Any]) -> dict[str, float]:
        """The error on the test images, which a search never sees, of the network trained in the same way."""
        _, _, images, labels = cifar10.load(self.folder)
        (test,) = stratified(labels, (self.scale.test,), instance_rng(f"{NAME} test", self.seed))
        return {"test": error(self.network(params), images, labels, test)}

    def network(self, params: Mapping[str, Any]) -> Any | None:
        """The trained network; None if it diverged."""
        images, labels, _, _ = cifar10.load(self.folder)
        training, _ = self.split(labels)
        return train(images, labels, training, params, instance_rng(f"{NAME} training", self.seed))

    def split(self, labels: Labels) -> tuple[Indices, ...]:
        """Indices of the training and of the validation images."""
        return stratified(labels, (self.scale.training, self.scale.validation), instance_rng(NAME, self.seed))


def stratified(labels: Labels, counts: tuple[int, ...], rng: np.random.Generator) -> tuple[Indices, ...]:
    """Disjoint random sets of indices, of the given sizes, each with equally many of every class."""
    ends = np.cumsum([count // CLASSES for count in counts])
    parts: list[list[Indices]] = []
    for label in range(CLASSES):
        members = rng.permutation(np.flatnonzero(labels == label))
        if len(members) < ends[-1]:
            raise DataError(f"{sum(counts)} images need {ends[-1]} of each class, got {len(members)} of class {label}")
        parts.append(np.split(members[: ends[-1]], ends[:-1]))
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


# ---------------------------------------------------------------- the network


def train(
    images: Images, labels: Labels, training: Indices, params: Mapping[str, Any], rng: np.random.Generator
) -> Any | None:
    """The network after the given number of epochs over the images ``training``; None if its loss is not finite."""
    network = build(params, rng)
    with _one_thread():
        for _ in range(params["epochs"]):
            for batch in _pieces(rng.permutation(training), params["batch_size"]):
                if not math.isfinite(network.train_on_batch(as_input(images[batch]), labels[batch])):
                    return None
    return network


def build(params: Mapping[str, Any], rng: np.random.Generator) -> Any:
    """The network with initial weights."""
    layers = _keras().layers
    rates = [params[f"dropout{k}"] for k in (1, 2, 3)]
    network = _keras().Sequential(
        [
            _keras().Input((3, cifar10.SIDE, cifar10.SIDE)),
            *_block(32, rates[0], rng),
            *_block(64, rates[1], rng),
            layers.Flatten(data_format="channels_first"),
            layers.Dense(512, activation="relu", kernel_initializer=_initial_weights(rng)),
            layers.Dropout(rates[2], seed=_seed(rng)),
            layers.Dense(CLASSES, activation="softmax", kernel_initializer=_initial_weights(rng)),
        ]
    )
    _freeze_before_full_dropout(network)
    optimizer = _keras().optimizers.SGD(params["learning_rate"])
    network.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", jit_compile=False)
    return network


def _block(filters: int, dropout: float, rng: np.random.Generator) -> list[Any]:
    layers = _keras().layers
    return [
        *(
            layers.Conv2D(
                filters,
                3,
                padding=padding,
                activation="relu",
                data_format="channels_first",  # with torch on a CPU, half as fast again as channels last
                kernel_initializer=_initial_weights(rng),
            )
            for padding in ("same", "valid")
        ),
        layers.MaxPooling2D(2, data_format="channels_first"),
        layers.Dropout(dropout, seed=_seed(rng)),
    ]


def _initial_weights(rng: np.random.Generator) -> Any:
    return _keras().initializers.GlorotUniform(seed=_seed(rng))


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def _freeze_before_full_dropout(network: Any) -> None:
    # their gradients would not exist or be 0 / 0, depending on the version of Keras
    dropped = [k for k, layer in enumerate(network.layers) if getattr(layer, "rate", 0.0) == 1.0]
    for layer in network.layers[: max(dropped, default=0)]:
        layer.trainable = False


def error(network: Any | None, images: Images, labels: Labels, indices: Indices) -> float:
    """The share of the images at ``indices`` that get a wrong class; CHANCE without a network."""
    if network is None:
        return CHANCE
    wrong = 0
    with _one_thread() as torch, torch.no_grad():
        for chunk in _pieces(indices, _CHUNK):
            probabilities = network(as_input(images[chunk]), training=False).cpu().numpy()
            if not np.isfinite(probabilities).all():  # the last step of the training can diverge, too
                return CHANCE
            wrong += int((probabilities.argmax(axis=1) != labels[chunk]).sum())
    return wrong / len(indices)


def as_input(images: Images) -> NDArray[np.float32]:
    """The images in [0, 1], colours first."""
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.float32) / np.float32(255)


def _pieces(indices: Indices, size: int) -> Iterator[Indices]:
    return (indices[start : start + size] for start in range(0, len(indices), size))


@contextmanager
def _one_thread() -> Iterator[ModuleType]:
    """Torch, with one thread."""
    torch = require_module(NAME, "torch", extra="cnn")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield torch
    finally:
        torch.set_num_threads(before)


@cache
def _keras() -> ModuleType:
    """Keras with the backend torch, which has to be chosen before Keras is first imported."""
    if "keras" not in sys.modules:
        backend = os.environ.setdefault("KERAS_BACKEND", "torch")
        if backend != "torch":
            raise ProblemUnavailable(f"{NAME} needs Keras with torch: set KERAS_BACKEND to torch, it is {backend!r}")
    require_module(NAME, "torch", extra="cnn")
    keras = require_module(NAME, "keras", extra="cnn")
    loaded = keras.backend.backend()
    if loaded != "torch":
        raise ProblemUnavailable(
            f"{NAME} needs Keras with torch, but this process imported it with {loaded!r}: "
            f"set KERAS_BACKEND=torch before Keras is imported"
        )
    return keras


# ---------------------------------------------------------------- the problems


def _problem(name: str, scale: Scale, seed: int) -> Problem:
    folder = data_path(name, "cifar10")
    cifar10.check(folder)
    _keras()
    objective = ClassificationError(folder, scale, seed)
    return Problem(name, scale.space(), None, None, objective, report=objective.report)


def cnn(seed: int) -> Problem:
    """The problem at the scale SMALL."""
    return _problem(NAME, SMALL, seed)


def cnn_full(seed: int) -> Problem:
    """The problem at the scale FULL."""
    return _problem(f"{NAME}-full", FULL, seed)
