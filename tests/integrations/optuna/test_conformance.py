"""Optuna's own conformance suite for samplers: basic, relative, and one objective only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from optuna.samplers import BaseSampler
from optuna.testing.pytest_samplers import BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase

from dechbo.integrations.optuna import DecHBOSampler
from dechbo.models.options import ModelOptions
from dechbo.search.grids import Granularity
from dechbo.search.options import SearchOptions
from dechbo.structure import StructureOptions

QUICK: dict[str, Any] = {
    "model": ModelOptions(structure=StructureOptions(chains=1, sweeps=1), graph_samples=1),
    "search": SearchOptions(granularity=Granularity(work=1e4, polish_steps=0)),
}


class TestBasic(BasicSamplerTestCase, SingleOnlySamplerTestCase):
    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: DecHBOSampler(seed=0, n_startup_trials=4, **QUICK)


class TestRelative(RelativeSamplerTestCase):
    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: DecHBOSampler(seed=0, n_startup_trials=1, **QUICK)


@pytest.mark.system
class TestRandomForest(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: DecHBOSampler(graph="random", n_startup_trials=1, **QUICK)
