"""CIFAR-10 (Krizhevsky 2009): 50,000 training and 10,000 test images of 32 x 32 pixels, in ten classes.

``load`` reads a folder with one of three layouts: mosaics, which are lossless WebP files of images side by side with
all labels in one .npy file, the published pickles in ``cifar-10-batches-py``, or the published archive of them, which
``download`` gets. Tests: test_cifar10.py.
"""

from __future__ import annotations

import io
import pickle
import tarfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy._core.multiarray import _reconstruct
from numpy.typing import NDArray

from dechbo.bench.problems.download import downloaded
from dechbo.bench.problems.problem import ProblemUnavailable, require_module
from dechbo.errors import DataError

Images = NDArray[np.uint8]  # (n, SIDE, SIDE, 3)
Labels = NDArray[np.uint8]  # (n,)
Examples = tuple[Images, Labels, Images, Labels]  # training, then test

SIDE = 32
CLASSES = 10
ARCHIVE = "cifar-10-python.tar.gz"
URL = f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}"
MD5 = "c58f30108f718f92721af3b95e74349a"  # of the archive, as its page states it

_TRAINING_BATCHES = tuple(f"data_batch_{k}" for k in range(1, 6))
_PICKLES = tuple(f"cifar-10-batches-py/{batch}" for batch in (*_TRAINING_BATCHES, "test_batch"))
_MOSAICS = tuple(f"cifar10_{batch}.webp" for batch in (*_TRAINING_BATCHES, "test_batch"))
_MOSAIC_LABELS = "cifar10_labels_uint8.npy"


@cache
def load(folder: Path) -> Examples:
    """Training images and labels, test images and labels; read once per process."""
    return _reader(folder)(folder)


def check(folder: Path) -> None:
    """Raise ProblemUnavailable unless the folder has the files of a layout; none is read."""
    _reader(folder)


def _reader(folder: Path) -> Callable[[Path], Examples]:
    layouts: Mapping[Callable[[Path], Examples], tuple[str, ...]] = {
        _load_mosaics: (*_MOSAICS, _MOSAIC_LABELS),
        _load_pickles: _PICKLES,
        _load_archive: (ARCHIVE,),
    }
    for reader, files in layouts.items():
        if all((folder / file).is_file() for file in files):
            return reader
    raise ProblemUnavailable(
        f"no CIFAR-10 in {folder}: it needs {ARCHIVE}, or all of its folder cifar-10-batches-py; put {URL} there, or "
        f"run dechbo bench data {folder.parent}"
    )


# ---------------------------------------------------------------- mosaics


def tiles(mosaic: Images) -> Images:
    """The images of a mosaic, row by row."""
    if mosaic.dtype != np.uint8 or mosaic.ndim != 3 or mosaic.shape[2] != 3 or mosaic.size == 0:
        raise DataError(f"a mosaic needs 8-bit pixels of three colours, got {mosaic.dtype} of shape {mosaic.shape}")
    rows, columns = mosaic.shape[0] // SIDE, mosaic.shape[1] // SIDE
    if mosaic.shape[:2] != (SIDE * rows, SIDE * columns):
        raise DataError(f"a mosaic needs sides that are multiples of {SIDE}, got {mosaic.shape[:2]}")
    return mosaic.reshape(rows, SIDE, columns, SIDE, 3).swapaxes(1, 2).reshape(-1, SIDE, SIDE, 3)


def _load_mosaics(folder: Path) -> Examples:
    image_file = require_module("CIFAR-10", "PIL.Image", extra="cnn")
    images = []
    for file in _MOSAICS:
        with image_file.open(folder / file) as mosaic:
            images.append(tiles(np.asarray(mosaic)))
    labels = np.load(folder / _MOSAIC_LABELS, allow_pickle=False)
    training, test = np.concatenate(images[:-1]), images[-1]
    return _checked(training, labels[: len(training)], test, labels[len(training) :])


# ---------------------------------------------------------------- pickles


class ArrayUnpickler(pickle.Unpickler):
    """Reads lists, dictionaries, bytes, numbers and NumPy arrays; refuses everything else, so no code can run."""

    def find_class(self, module: str, name: str) -> Any:
        """The function or class that a pickle asks for."""
        allowed = {
            ("numpy.core.multiarray", "_reconstruct"): _reconstruct,  # the module's name until NumPy 1
            ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a CIFAR-10 file")
        return allowed[module, name]


def read_batch(content: bytes) -> tuple[Images, Labels]:
    """Images and labels of one published pickle, whose rows are red, then green, then blue pixels."""
    try:
        batch = ArrayUnpickler(io.BytesIO(content), encoding="bytes").load()
        rows, labels = batch[b"data"], np.array(batch[b"labels"], dtype=np.uint8)
        images = np.asarray(rows, dtype=np.uint8).reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
    except Exception as error:  # a damaged pickle can raise anything
        raise DataError(f"not a CIFAR-10 batch: {error}; get the file anew from {URL}") from error
    return images, labels


def _of_batches(batches: list[tuple[Images, Labels]]) -> Examples:
    images, labels = zip(*batches, strict=True)
    return _checked(np.concatenate(images[:-1]), np.concatenate(labels[:-1]), images[-1], labels[-1])


def _load_pickles(folder: Path) -> Examples:
    return _of_batches([read_batch((folder / file).read_bytes()) for file in _PICKLES])


def _load_archive(folder: Path) -> Examples:
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(folder / ARCHIVE) as archive:
            for member in archive:
                file = archive.extractfile(member) if member.name in _PICKLES else None
                if file is not None:
                    contents[member.name] = file.read()
    except (OSError, EOFError, tarfile.TarError) as error:
        raise DataError(f"{folder / ARCHIVE} cannot be read: {error}; get it anew from {URL}") from error
    missing = [name for name in _PICKLES if name not in contents]
    if missing:
        raise DataError(f"{folder / ARCHIVE} lacks {', '.join(missing)}; get it anew from {URL}")
    return _of_batches([read_batch(contents[name]) for name in _PICKLES])


def _checked(training: Images, training_labels: Labels, test: Images, test_labels: Labels) -> Examples:
    for images, labels in ((training, training_labels), (test, test_labels)):
        if labels.shape != (len(images),) or labels.dtype != np.uint8:
            raise DataError(f"{len(images)} images need as many 8-bit labels, got {labels.dtype} {labels.shape}")
        if labels.size and labels.max() >= CLASSES:
            raise DataError(f"labels must be below {CLASSES}, got {labels.max()}")
    return np.ascontiguousarray(training), training_labels, np.ascontiguousarray(test), test_labels


# ---------------------------------------------------------------- download


def download(folder: str | Path, *, url: str = URL, md5: str = MD5) -> Path:
    """Get the published archive, 170 MB, into ``folder`` unless it is there already; returns its path."""
    return downloaded(url, Path(folder) / ARCHIVE, "md5", md5)
