"""CIFAR-10 files of every layout give the same images; bad files run no code."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench_cases import data_folder
from cifar10_cases import BATCHES, made_up, python2_pickle, write_pickles
from dechbo.bench.problems import ProblemUnavailable, cifar10
from dechbo.bench.problems.cifar10 import ARCHIVE, ArrayUnpickler, Images, Labels, load, read_batch, tiles
from dechbo.errors import DataError

Batches = list[tuple[Images, Labels]]
Write = Callable[[Path, Batches], None]


@pytest.fixture
def batches() -> Batches:
    rng = np.random.default_rng(1)
    return [made_up(6, rng) for _ in BATCHES]


# ---------------------------------------------------------------- layouts


def write_archive(folder: Path, batches: Batches) -> None:
    write_pickles(folder / "unpacked", batches)
    with tarfile.open(folder / ARCHIVE, "w:gz") as archive:
        archive.add(folder / "unpacked" / "cifar-10-batches-py", "cifar-10-batches-py")


def write_mosaics(folder: Path, batches: Batches) -> None:
    image_file = pytest.importorskip("PIL.Image")
    for name, (images, _) in zip(BATCHES, batches, strict=True):
        rows = [np.concatenate(list(images[start : start + 3]), axis=1) for start in (0, 3)]
        mosaic = image_file.fromarray(np.concatenate(rows))
        mosaic.save(folder / f"cifar10_{name}.webp", lossless=True, exact=True)
    np.save(folder / "cifar10_labels_uint8.npy", np.concatenate([labels for _, labels in batches]))


@pytest.mark.parametrize("write", [write_pickles, write_archive, write_mosaics])
def test_every_layout_gives_the_images(write: Write, tmp_path: Path, batches: Batches) -> None:
    write(tmp_path, batches)
    cifar10.check(tmp_path)
    training, training_labels, test, test_labels = load(tmp_path)
    assert training.dtype == test.dtype == training_labels.dtype == test_labels.dtype == np.uint8
    assert np.array_equal(training, np.concatenate([images for images, _ in batches[:-1]]))
    assert np.array_equal(training_labels, np.concatenate([labels for _, labels in batches[:-1]]))
    assert np.array_equal(test, batches[-1][0])
    assert np.array_equal(test_labels, batches[-1][1])
    assert load(tmp_path)[0] is training  # read once


def test_tiles_go_row_by_row() -> None:
    mosaic = np.repeat(np.repeat(np.arange(6, dtype=np.uint8).reshape(2, 3, 1), 32, axis=0), 32, axis=1)
    images = tiles(np.repeat(mosaic, 3, axis=2))
    assert images.shape == (6, 32, 32, 3)
    assert [np.unique(image).tolist() for image in images] == [[k] for k in range(6)]
    with pytest.raises(DataError, match="multiples of 32"):
        tiles(np.zeros((64, 65, 3), dtype=np.uint8))
    with pytest.raises(DataError, match="three colours"):
        tiles(np.zeros((64, 64), dtype=np.uint8))


def test_a_missing_or_incomplete_folder_says_what_to_do(tmp_path: Path, batches: Batches) -> None:
    with pytest.raises(ProblemUnavailable, match=r"cifar-10-python\.tar\.gz.*dechbo bench data"):
        load(tmp_path / "nowhere")
    write_pickles(tmp_path, batches)
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").unlink()
    with pytest.raises(ProblemUnavailable, match="no CIFAR-10 in"):
        cifar10.check(tmp_path)


def test_labels_have_to_fit_the_images(tmp_path: Path, batches: Batches) -> None:
    images, labels = batches[0]
    write_pickles(tmp_path / "few", [(images, labels[:-1]), *batches[1:]])
    with pytest.raises(DataError, match="30 images need as many"):
        load(tmp_path / "few")
    write_pickles(tmp_path / "wrong", [(images, labels + np.uint8(200)), *batches[1:]])
    with pytest.raises(DataError, match="below 10"):
        load(tmp_path / "wrong")


def test_a_damaged_archive_is_an_error_that_names_it(tmp_path: Path, batches: Batches) -> None:
    write_archive(tmp_path, batches)
    content = (tmp_path / ARCHIVE).read_bytes()
    (tmp_path / ARCHIVE).write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz cannot be read"):
        load(tmp_path)
    with tarfile.open(tmp_path / ARCHIVE, "w:gz"):
        pass
    with pytest.raises(DataError, match="lacks cifar-10-batches-py/data_batch_1"):
        load(tmp_path)


# ---------------------------------------------------------------- pickles


def test_a_batch_of_a_newer_numpy_is_read_too(batches: Batches) -> None:
    images, labels = batches[0]
    rows = images.transpose(0, 3, 1, 2).reshape(6, -1)
    read = read_batch(pickle.dumps({b"data": rows, b"labels": labels.tolist()}, protocol=4))
    assert np.array_equal(read[0], images)
    assert read[1].tolist() == labels.tolist()


class Harmful:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_cannot_run_code(protocol: int, tmp_path: Path) -> None:
    content = pickle.dumps([Harmful(tmp_path / "made")], protocol=protocol)
    with pytest.raises(DataError, match=r"mkdir is not allowed"):
        read_batch(content)
    assert not (tmp_path / "made").exists()
    pickle.loads(content)  # as the usual reader would have done
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["builtins.eval", "os.system", "numpy.load", "numpy.core.multiarray.scalar"])
def test_only_arrays_are_allowed(name: str) -> None:
    module, _, function = name.rpartition(".")
    with pytest.raises(pickle.UnpicklingError, match="is not allowed"):
        ArrayUnpickler(io.BytesIO(f"c{module}\n{function}\n.".encode())).load()


def test_a_damaged_batch_is_an_error_that_says_so(batches: Batches) -> None:
    content = python2_pickle(*batches[0])
    for damaged in (b"", content[:-100], b"not a pickle", pickle.dumps([1, 2]), pickle.dumps({b"data": 3})):
        with pytest.raises(DataError, match="not a CIFAR-10 batch"):
            read_batch(damaged)


# ---------------------------------------------------------------- the real images


@pytest.mark.system
def test_the_real_images_have_their_published_mean() -> None:
    training, training_labels, test, test_labels = load(data_folder() / "cifar10")
    assert training.shape == (50_000, 32, 32, 3)
    assert test.shape == (10_000, 32, 32, 3)
    assert np.bincount(training_labels).tolist() == [5_000] * 10
    assert np.bincount(test_labels).tolist() == [1_000] * 10
    sums = training.reshape(50_000, -1, 3).sum(axis=1, dtype=np.uint32)
    assert sums.mean(axis=0) / 1024 / 255 == pytest.approx([0.49140, 0.48216, 0.44653], abs=1e-5)
