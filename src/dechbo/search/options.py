"""SearchOptions: how an ask finds its point."""

from __future__ import annotations

from dataclasses import dataclass, field

from dechbo.checks import one_of, some_of
from dechbo.errors import OptionError
from dechbo.search.grids import Granularity

PROPOSALS = ("max-sum", "sample", "incumbent", "spread")
ACQUISITIONS = ("improvement", "bound")


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How an ask finds its point; the defaults are meant to be left alone.

    Parameters
    ----------
    score
        "joint": a committee of models decides by a score of the whole function. "factors": the maximiser of the sum of
        the factors' bounds, as in the paper, with its certificate; where constraints are told, the committee decides.
    proposals
        Where the committee's points come from: "max-sum" (the maximiser of the factors' bounds, with its certificate),
        "sample" (that of a function drawn from the posterior of small factors), "incumbent" (around the best points),
        "spread" (all over the space).
    acquisitions
        The committee's scores, which take turns: "improvement" and "bound". A beta of your own leaves only the bound.
    granularity
        How much work goes into the grids of ``score="factors"``.

    ``TheoryOptions(beta="theory")`` and ``"theory-factor"`` switch ``score="joint"`` off: their guarantee holds for the
    maximiser of the factors' bounds and for no other point.
    """

    score: str = "joint"
    proposals: tuple[str, ...] = PROPOSALS
    acquisitions: tuple[str, ...] = ACQUISITIONS
    granularity: Granularity = field(default_factory=Granularity)

    def __post_init__(self) -> None:
        one_of("score", self.score, ("factors", "joint"))
        object.__setattr__(self, "proposals", some_of("proposals", self.proposals, PROPOSALS))
        object.__setattr__(self, "acquisitions", some_of("acquisitions", self.acquisitions, ACQUISITIONS))
        if not isinstance(self.granularity, Granularity):
            raise OptionError(
                f"granularity must be a Granularity(work=…, zoom=…, polish_steps=…), got {self.granularity!r}"
            )
