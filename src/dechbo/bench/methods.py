"""Registry of methods: dechbo's own and the paper's, the baselines, and the peers of ``peers``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol

from dechbo.bench import peers
from dechbo.errors import OptionError
from dechbo.space import Space


class Method(Protocol):
    """What the runner needs; Optimizer, every baseline and every peer provide it."""

    def ask(self) -> dict[str, Any]:
        """Return the next point to evaluate."""
        ...

    def tell(self, params: Mapping[str, Any], value: float | None) -> None:
        """Add the value of a point, asked for or not."""
        ...


@dataclass(frozen=True)
class MethodSpec:
    """A method: its name, its label in tables, its factory and its options."""

    name: str
    label: str
    factory: Callable[..., Method]
    options: Mapping[str, Any] = field(default_factory=dict)  # plain data: records hold them

    def create(self, space: Space, seed: int, n_initial: int) -> Method:
        """A new instance, before the initial points are told."""
        return self.factory(space, seed=seed, n_initial=n_initial, **self.options)


def _optimizer(
    space: Space, *, model: Mapping[str, Any] | None = None, search: Mapping[str, Any] | None = None, **options: Any
) -> Method:
    from dechbo.models.options import ModelOptions
    from dechbo.optimizer import Optimizer
    from dechbo.search.options import SearchOptions

    return Optimizer(space, model=ModelOptions(**model or {}), search=SearchOptions(**search or {}), **options)


def _additive(space: Space, **options: Any) -> Method:
    from dechbo.graph import FactorGraph

    return _optimizer(space, graph=FactorGraph.singletons(space.dim), **options)


def _paper(space: Space, **options: Any) -> Method:
    from dechbo.optimizer import Optimizer

    return Optimizer.paper(space, **options)


def _baseline(name: str) -> Callable[..., Method]:
    def build(space: Space, **options: Any) -> Method:
        import dechbo.baselines

        method: Method = getattr(dechbo.baselines, name)(space, **options)
        return method

    return build


OURS = (
    MethodSpec("dechbo", "DEC-HBO (default)", _optimizer),
    MethodSpec("dechbo-factors", "DEC-HBO, by the factors' bounds", _optimizer, {"search": {"score": "factors"}}),
    MethodSpec("dechbo-small", "DEC-HBO, small factors only", _optimizer, {"model": {"members": ["smooth", "rough"]}}),
    MethodSpec("dechbo-whole", "DEC-HBO, one factor over all", _optimizer, {"model": {"members": ["whole"]}}),
    MethodSpec("dechbo-random", "DEC-HBO, random tree", _optimizer, {"graph": "random"}),
    MethodSpec("dechbo-additive", "DEC-HBO, singletons", _additive),
    MethodSpec("paper-mf1", "paper's algorithm, MF1", _paper, {"max_factor_size": 1}),
    MethodSpec("paper-mf2", "paper's algorithm, MF2", _paper, {"max_factor_size": 2}),
    MethodSpec("paper-mf3", "paper's algorithm, MF3", _paper, {"max_factor_size": 3}),
)
BASELINES = (
    MethodSpec("add-gp-ucb", "Add-GP-UCB", _baseline("AddGPUCB")),
    MethodSpec("add-mes-g", "Add-MES-G", _baseline("AddMES"), {"samples": "gumbel"}),
    MethodSpec("add-mes-r", "Add-MES-R", _baseline("AddMES"), {"samples": "functions"}),
    MethodSpec("rembo", "REMBO", _baseline("REMBO")),
    MethodSpec("gp-ucb", "GP-UCB", _baseline("GPUCB")),
    MethodSpec("random", "random search", _baseline("RandomSearch")),
    MethodSpec("sobol", "Sobol points", _baseline("SobolSearch")),
)
METHODS = {spec.name: spec for spec in (*OURS, *BASELINES)}
GROUPS = {
    "ours": tuple(spec.name for spec in OURS),
    "baselines": tuple(spec.name for spec in BASELINES),
    "peers": tuple(peers.PEERS),
}
GROUPS["all"] = tuple(name for names in GROUPS.values() for name in names)


def names() -> tuple[str, ...]:
    """The names of all methods, peers included."""
    return GROUPS["all"]


def label(name: str) -> str:
    """The label of a method in tables and figures."""
    if name in METHODS:
        return METHODS[name].label
    return peers.PEERS[name].label if name in peers.PEERS else name


def parse_methods(text: str) -> tuple[str, ...]:
    """The methods of a comma-separated list; a group (ours, baselines, peers, all) stands for its members."""
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    found: dict[str, None] = {}
    for name in wanted:
        if name not in GROUPS and name not in names():
            close = get_close_matches(name, names(), n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise OptionError(
                f"unknown method {name!r}; {hint}methods are {', '.join(names())}; groups are {', '.join(GROUPS)}"
            )
        found.update(dict.fromkeys(GROUPS.get(name, (name,))))
    if not found:
        raise OptionError(f"--methods needs at least one of {', '.join(names())}")
    return tuple(found)


def unavailable_reason(name: str) -> str | None:
    """Why the method cannot run on this machine; None if it can."""
    return peers.PEERS[name].unavailable_reason() if is_peer(name) else None


def is_peer(name: str) -> bool:
    """Whether the method is another package, which runs in a process of its own."""
    return name in peers.PEERS
