"""The methods of the bench by name: ours, the paper's and its rivals here, today's peers in ``peers``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol

from dechbo.bench import peers
from dechbo.errors import OptionError
from dechbo.space import Space


class Method(Protocol):
    """What the runner drives: the face of ``Optimizer``, of every rival and of every peer."""

    def ask(self) -> dict[str, Any]:
        """The next point to evaluate."""
        ...

    def tell(self, params: Mapping[str, Any], value: float | None) -> None:
        """Record the value of a point, asked for or not."""
        ...


@dataclass(frozen=True)
class Entry:
    """A method by name: how tables call it, how it is built, and with which options."""

    name: str
    label: str
    build: Callable[..., Method]
    options: Mapping[str, Any] = field(default_factory=dict)

    def made(self, space: Space, seed: int, n_initial: int) -> Method:
        """The method, ready to be told the given points."""
        return self.build(space, seed=seed, n_initial=n_initial, **self.options)


def _optimizer(space: Space, **options: Any) -> Method:
    from dechbo.optimizer import Optimizer

    return Optimizer(space, **options)


def _additive(space: Space, **options: Any) -> Method:
    from dechbo.graph import FactorGraph

    return _optimizer(space, graph=FactorGraph(space.dim, tuple((i,) for i in range(space.dim))), **options)


def _paper(space: Space, **options: Any) -> Method:
    from dechbo.optimizer import Optimizer

    return Optimizer.paper(space, **options)


def _rival(name: str) -> Callable[..., Method]:
    def build(space: Space, **options: Any) -> Method:
        import dechbo.baselines

        method: Method = getattr(dechbo.baselines, name)(space, **options)
        return method

    return build


OURS = (
    Entry("dechbo", "DEC-HBO (default)", _optimizer),
    Entry("dechbo-joint", "DEC-HBO, by the joint bound", _optimizer, {"choose": "joint"}),
    Entry("dechbo-plain", "DEC-HBO, plain kernels", _optimizer, {"centred": False}),
    Entry("dechbo-small", "DEC-HBO, small factors only", _optimizer, {"coupled": False}),
    Entry("dechbo-random", "DEC-HBO, random tree", _optimizer, {"graph": "random"}),
    Entry("dechbo-additive", "DEC-HBO, singletons", _additive),
    Entry("paper-mf1", "paper's algorithm, MF1", _paper, {"max_factor_size": 1}),
    Entry("paper-mf2", "paper's algorithm, MF2", _paper, {"max_factor_size": 2}),
    Entry("paper-mf3", "paper's algorithm, MF3", _paper, {"max_factor_size": 3}),
)
RIVALS = (
    Entry("add-gp-ucb", "Add-GP-UCB", _rival("AddGPUCB")),
    Entry("add-mes-g", "Add-MES-G", _rival("AddMES"), {"samples": "gumbel"}),
    Entry("add-mes-r", "Add-MES-R", _rival("AddMES"), {"samples": "functions"}),
    Entry("rembo", "REMBO", _rival("REMBO")),
    Entry("gp-ucb", "GP-UCB", _rival("GPUCB")),
    Entry("random", "random search", _rival("RandomSearch")),
    Entry("sobol", "Sobol points", _rival("SobolSearch")),
)
ENTRIES = {entry.name: entry for entry in (*OURS, *RIVALS)}
GROUPS = {
    "ours": tuple(entry.name for entry in OURS),
    "rivals": tuple(entry.name for entry in RIVALS),
    "peers": tuple(peers.PEERS),
}
GROUPS["all"] = tuple(name for names in GROUPS.values() for name in names)


def names() -> tuple[str, ...]:
    """Every method, peers included."""
    return GROUPS["all"]


def label(name: str) -> str:
    """What tables and figures call the method."""
    if name in ENTRIES:
        return ENTRIES[name].label
    return peers.PEERS[name].label if name in peers.PEERS else name


def chosen(text: str) -> tuple[str, ...]:
    """The methods of a comma list; a group (ours, rivals, peers, all) stands for its members."""
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    found: dict[str, None] = {}
    for name in wanted:
        if name not in GROUPS and name not in names():
            close = get_close_matches(name, names(), n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise OptionError(
                f"no method is called {name!r}; {hint}known are {', '.join(names())}, and the groups "
                f"{', '.join(GROUPS)}"
            )
        found.update(dict.fromkeys(GROUPS.get(name, (name,))))
    if not found:
        raise OptionError(f"--methods needs at least one of {', '.join(names())}")
    return tuple(found)


def absent(name: str) -> str | None:
    """Why the method cannot run here, or None if it can."""
    return peers.PEERS[name].absent() if is_peer(name) else None


def is_peer(name: str) -> bool:
    """Whether the method is another package, in a process of its own."""
    return name in peers.PEERS
