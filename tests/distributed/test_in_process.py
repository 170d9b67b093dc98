from __future__ import annotations

import numpy as np
import pytest

from dechbo.distributed.exchange import Exchange, Program
from dechbo.distributed.in_process import Traffic, run_in_process
from dechbo.errors import ExecutionError


def counting(me: int, steps: int) -> Program[list[int]]:
    """Two parts that send each other numbers."""
    heard, buffer = [], np.zeros(1, dtype=np.int64)
    for step in range(steps):
        buffer[0] = 10 * me + step
        inbox = yield Exchange({1 - me: buffer}, (1 - me,), "numbers")
        heard.append(int(inbox[1 - me][0]))
    return heard


def test_messages_arrive_in_order_and_are_not_shared_memory() -> None:
    traffic = Traffic()
    assert run_in_process([counting(0, 3), counting(1, 3)], traffic) == [[10, 11, 12], [0, 1, 2]]
    assert (traffic.count(), traffic.bytes("numbers"), traffic.bytes("others")) == (6, 48, 0)


def test_a_message_that_nobody_sends_is_an_error() -> None:
    def deaf() -> Program[None]:
        yield Exchange({}, (1,), "nothing")

    def silent() -> Program[None]:
        yield Exchange({}, (), "nothing")

    with pytest.raises(ExecutionError, match=r"parts \[0\] wait"):
        run_in_process([deaf(), silent()])
