from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dechbo import Float, Optimizer, Space
from dechbo.distributed.synchronous import SynchronousMaxSum
from dechbo.errors import OptionError
from strategies import loopy_tables


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_the_number_of_parts_does_not_matter(parts: int) -> None:
    tables = loopy_tables(np.random.default_rng(parts), dim=40, factors=60)
    one, several = SynchronousMaxSum().maximize(tables), SynchronousMaxSum(parts=parts).maximize(tables)
    assert (one.choice == several.choice).all()
    assert one.value == several.value


def test_it_is_a_maximizer_of_an_optimizer() -> None:
    optimizer = Optimizer.paper(Space({"a": Float(0, 1), "b": Float(0, 1)}), maximizer=SynchronousMaxSum(), n_initial=3)
    for _ in range(4):
        point = optimizer.ask()
        optimizer.tell(point, point["a"] + point["b"])
    assert optimizer.info is not None
    assert optimizer.info.certified


@pytest.mark.parametrize(
    "options", [{"rounds": 0}, {"damping": 1.0}, {"tolerance": -1}, {"parts": 0}, {"damping": True}]
)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        SynchronousMaxSum(**options)
