from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dechbo import FactorGraph, Float, Int, MaxSum, Optimizer, Space
from dechbo.distributed.engine import InProcessTransport, PartsEngine
from dechbo.distributed.synchronous import SynchronousMaxSum
from dechbo.errors import OptionError
from dechbo.search.engine import LocalEngine
from distributed_cases import random_data, random_gp


def test_any_number_of_parts_makes_the_same_suggestion() -> None:
    rng = np.random.default_rng(0)
    gp, data, candidates = random_gp(rng, 20, centred=True), random_data(rng, 20, 40), [np.linspace(0, 1, 4)] * 20
    pending = rng.random((2, 20))
    answers = [PartsEngine(parts=parts).suggest(gp, data, 1.0, candidates, pending=pending) for parts in (1, 2, 3, 5)]
    central = LocalEngine(SynchronousMaxSum()).suggest(gp, data, 1.0, candidates, pending=pending)
    for answer in answers:
        assert (answer.choice == central.choice).all()
        assert answer.value == answers[0].value == pytest.approx(central.value, rel=1e-12)
        assert answer.upper_bound == pytest.approx(central.upper_bound, rel=1e-12)


def test_reports_say_what_every_part_did_and_held() -> None:
    rng = np.random.default_rng(1)
    engine = PartsEngine(parts=3)
    engine.suggest(random_gp(rng, 20), random_data(rng, 20, 30), 1.0, [np.linspace(0, 1, 4)] * 20)
    assert len(engine.reports) == 3
    for report in engine.reports:
        assert report.table_bytes > 0 < report.message_bytes
        assert set(report.seconds) == set(report.cpu_seconds) == {"tables", "messages"}
    assert isinstance(engine.transport, InProcessTransport)
    assert engine.transport.traffic.bytes("gram") > 0


def test_a_machine_that_joins_or_leaves_changes_the_partition_and_nothing_else() -> None:
    rng = np.random.default_rng(2)
    case = random_gp(rng, 20), random_data(rng, 20, 30), 1.0, [np.linspace(0, 1, 4)] * 20
    transport = InProcessTransport()
    engine, answers = PartsEngine(transport), []
    for machines in (2, 4, 3):
        transport.capacity = machines
        answers.append(engine.suggest(*case))
        assert len(engine.reports) == machines
    assert all((answer.choice == answers[0].choice).all() for answer in answers)


SPACE = Space({**{f"x{i}": Float(0, 1) for i in range(5)}, "n": Int(1, 4)}, constraints=["x0 + x1 <= 1.2"])


def run(optimizer: Optimizer, asks: int) -> list[dict[str, Any]]:
    points = []
    for _ in range(asks):
        point = optimizer.ask()
        optimizer.tell(point, sum((float(v) - 0.4) ** 2 for v in point.values()) + point["x0"] * point["x2"])
        points.append(point)
    return points


@pytest.mark.parametrize("paper", [True, False])
def test_an_optimizer_on_parts_suggests_what_it_suggests_in_one_process(paper: bool) -> None:
    make = Optimizer.paper if paper else Optimizer
    graph = FactorGraph.covering(6, [(0, 2), (2, 3, 4), (4, 5)])
    options: dict[str, Any] = {"graph": graph, "seed": 3, "n_initial": 6}
    several = run(make(SPACE, engine=PartsEngine(parts=3), **options), 9)
    assert several == run(make(SPACE, engine=PartsEngine(parts=1), **options), 9)
    assert all(point["x0"] + point["x1"] <= 1.2 + 1e-12 for point in several)


def test_bad_options_are_refused() -> None:
    with pytest.raises(OptionError, match="SynchronousMaxSum"):
        PartsEngine(maximizer=MaxSum())  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="parts"):
        PartsEngine(parts=0)
