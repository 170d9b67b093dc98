"""ModelOptions: what the objective may look like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dechbo.checks import flag, one_of, whole
from dechbo.errors import OptionError
from dechbo.gp.kernels import NUMERIC_KERNELS
from dechbo.structure import StructureOptions

MEMBERS = ("smooth", "rough", "whole", "scaled")
ALL_MEMBERS = (*MEMBERS, "sparse")


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """What the objective may look like; the defaults are meant to be left alone.

    Parameters
    ----------
    kernel
        "matern52" or "se" (squared exponential) for numeric parameters; categories have a kernel of their own.
    centred
        With True each factor is the pure effect of its parameters, beyond any subset of them, and a given graph is
        closed under subsets, unless a factor has more than 4 parameters. With False, or with such a factor, each factor
        is a free function of its parameters and the graph stays as it is.
    members
        The models of the committee, of "smooth", "rough" (small factors), "whole", "scaled", "sparse" (one factor over
        all parameters); see ``docs/how-it-decides.md``. With ``SearchOptions(score="factors")`` there is no committee.
    warp
        Whether a monotone transform may compress the worst values, where the evidence asks for it.
    doubt
        Whether to doubt an exhausted optimum: while 2 d + 1 evaluations (and at least ten) have gained nothing, three
        of four asks go to a model that stays unsure where nothing was tried. It did not help where it was measured.
    graph_samples
        For a learned graph: how many sampled graphs the acquisition averages (Eq. 5).
    structure
        For a learned graph: how much work structure learning may cost.
    """

    kernel: str = "matern52"
    centred: bool = True
    members: tuple[str, ...] = MEMBERS
    warp: bool = True
    doubt: bool = False
    graph_samples: int = 3
    structure: StructureOptions = field(default_factory=StructureOptions)

    def __post_init__(self) -> None:
        one_of("kernel", self.kernel, NUMERIC_KERNELS)
        flag("centred", self.centred)
        flag("warp", self.warp)
        flag("doubt", self.doubt)
        object.__setattr__(self, "members", _members(self.members))
        object.__setattr__(self, "graph_samples", whole("graph_samples", self.graph_samples, 1))


def _members(names: object) -> tuple[str, ...]:
    listed = tuple(names) if isinstance(names, Sequence) and not isinstance(names, str) else ()
    if not listed or len(set(listed)) < len(listed) or any(name not in ALL_MEMBERS for name in listed):
        raise OptionError(f"members must be some of {', '.join(ALL_MEMBERS)}, each once, got {names!r}")
    return listed
