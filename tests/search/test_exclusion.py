"""An exclusion with one more rule."""

from __future__ import annotations

import numpy as np

from dechbo import Float, Space
from dechbo.data.excluded import Excluded
from dechbo.search.exclusion import AlsoExcluded


def test_it_is_the_union_of_an_exclusion_and_a_rule() -> None:
    excluded = Excluded(Space({"x": Float(0, 1)}), np.array([[0.2]]))
    both = AlsoExcluded(excluded, lambda point: bool(point[0] > 0.5))
    again = AlsoExcluded(both, lambda point: bool(point[0] < 0.1))
    for x in np.linspace(0, 1, 21):
        point = np.array([x])
        assert (point in both) == (point in excluded or x > 0.5)
        assert (point in again) == (point in both or x < 0.1)


def test_the_empty_tuple_excludes_nothing() -> None:
    assert np.array([0.5]) not in AlsoExcluded((), lambda point: False)
    assert np.array([0.5]) in AlsoExcluded((), lambda point: True)
