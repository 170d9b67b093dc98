"""ModelOptions: what the objective may look like."""

from __future__ import annotations

from dataclasses import dataclass, field

from dechbo.checks import flag, one_of, some_of, whole
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
    graph_samples
        For a learned graph: how many sampled graphs the acquisition averages (Eq. 5).
    structure
        For a learned graph: how much work structure learning may cost.
    """

    kernel: str = "matern52"
    centred: bool = True
    members: tuple[str, ...] = MEMBERS
    warp: bool = True
    graph_samples: int = 3
    structure: StructureOptions = field(default_factory=StructureOptions)

    def __post_init__(self) -> None:
        one_of("kernel", self.kernel, NUMERIC_KERNELS)
        flag("centred", self.centred)
        flag("warp", self.warp)
        object.__setattr__(self, "members", some_of("members", self.members, ALL_MEMBERS))
        object.__setattr__(self, "graph_samples", whole("graph_samples", self.graph_samples, 1))
