"""Made-up images in the files of CIFAR-10: every class has a colour of its own."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from dechbo.bench.problems.cifar10 import Images, Labels

BATCHES = (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")


def made_up(count: int, rng: np.random.Generator) -> tuple[Images, Labels]:
    """Noisy images of ten colours, equally many of each, in random order."""
    colours = np.random.default_rng(0).permutation(np.stack(np.meshgrid([30, 120, 210], [40, 200], [60, 190]), -1))
    labels = rng.permutation(np.arange(count) % 10).astype(np.uint8)
    noise = rng.integers(-30, 30, (count, 32, 32, 3))
    return (colours.reshape(-1, 3)[labels][:, None, None, :] + noise).astype(np.uint8), labels


def write_pickles(folder: Path, batches: list[tuple[Images, Labels]]) -> None:
    """The folder cifar-10-batches-py."""
    (folder / "cifar-10-batches-py").mkdir(parents=True)
    for name, (images, labels) in zip(BATCHES, batches, strict=True):
        (folder / "cifar-10-batches-py" / name).write_bytes(python2_pickle(images, labels))


def python2_pickle(images: Images, labels: Labels) -> bytes:
    """A batch as Python 2 and its NumPy wrote the published files: protocol 2, strings of bytes."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    rows = np.ascontiguousarray(images.transpose(0, 3, 1, 2)).reshape(len(images), 3072)
    dtype = b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|") + b"NNN" + 2 * b"J\xff\xff\xff\xff"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R(K\x01"
    array += b"J" + struct.pack("<i", len(rows)) + b"J" + struct.pack("<i", 3072) + b"\x86" + dtype + b"K\x00tb\x89"
    array += b"T" + struct.pack("<i", rows.size) + rows.tobytes() + b"tb"
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    title = text(b"batch_label") + text(b"training batch 1 of 5")
    return b"\x80\x02}(" + title + text(b"labels") + listed + text(b"data") + array + b"u."
