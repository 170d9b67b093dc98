"""Which prefixes of the evaluations are fitted; ``test_members.py`` has the fits and forecasts themselves."""

from __future__ import annotations

from dechbo.models.fits import COLD_EVERY, FORECAST_BLOCKS, GRAPH_OFFSET, cold_size, graph_size, previous_size


def test_the_lengths_of_prefixes_depend_on_the_number_of_evaluations_alone() -> None:
    assert [cold_size(n) for n in (1, 9, 10, 19, 20, 137)] == [1, 9, 10, 10, 20, 130]
    assert [graph_size(n) for n in (1, 10, 14, 15, 24, 25, 44, 45, 85, 1000)] == [0, 0, 0, 15, 15, 25, 25, 45, 85, 645]
    assert [cold_size(n) for n in (199, 200, 219, 220, 399, 400, 439, 1000)] == [190, 200, 200, 220, 380, 400, 400, 960]
    for n in range(1, 3000):
        assert cold_size(n) <= n < cold_size(n) + max(COLD_EVERY, 1 + n // 10)
        assert cold_size(cold_size(n)) == cold_size(n)
        assert graph_size(n) == 0 or cold_size(graph_size(n)) < graph_size(n)  # never beside a cold fit
        assert graph_size(n) == 0 if n < COLD_EVERY + GRAPH_OFFSET else graph_size(n) <= n < 2 * graph_size(n)


def test_the_cold_fits_before_one_are_those_that_the_run_made() -> None:
    made = sorted({cold_size(n) for n in range(COLD_EVERY, 2000)})
    assert [previous_size(size) for size in made] == [0, *made[:-1]]
    assert len(made) > FORECAST_BLOCKS
