"""Write telemetry.bin, what compressor.sh compresses: a table of measurements, the same bytes on every machine.

Each of its rows has 16 bytes: a time, three slow and noisy channels, a counter, a state and a check sum.
"""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

TARGET = Path(__file__).with_name("telemetry.bin")
ROWS = 20_000


def rows():
    """Only random(), whose numbers are the same in every version of Python, and plain arithmetic."""
    draw = random.Random(0).random
    time, counter, state, channels = 1_700_000_000, 0, 0, [2000.0, 900.0, -300.0]
    for _ in range(ROWS):
        time += 100 + int(3 * draw())
        counter += int(1.2 * draw() + 0.4)
        state = int(6 * draw()) if draw() < 0.02 else state
        pull = (0.0, 40.0, -40.0, 10.0, -10.0, 90.0)[state]
        for k in range(3):
            channels[k] += 0.02 * (pull * (k + 1) - 0.1 * channels[k]) + 2 * (draw() - 0.5)
        values = [int(c) & 0xFFFF for c in channels]
        row = struct.pack("<I3HHBx", time & 0xFFFFFFFF, *values, counter & 0xFFFF, state)
        yield row + struct.pack("<H", sum(row) & 0xFFFF)


if __name__ == "__main__":
    unfinished = TARGET.with_suffix(f".{os.getpid()}")  # several workers may start at once
    unfinished.write_bytes(b"".join(rows()))
    unfinished.replace(TARGET)
