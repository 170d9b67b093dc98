"""SearchOptions: how an ask finds its point."""

from __future__ import annotations

from dataclasses import dataclass, field

from dechbo.checks import flag, one_of
from dechbo.errors import OptionError
from dechbo.search.grids import Granularity


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How an ask finds its point; the defaults are meant to be left alone.

    Parameters
    ----------
    score
        "factors": the maximiser of the sum of the factors' bounds, with its certificate. "joint": the best point by the
        bound of the whole function, which is better informed and certifies nothing.
    restarts
        Whether to leave an optimum once the model knows that nothing is left to gain there, or once no progress has
        come for a while.
    granularity
        How much work goes into the grids.

    ``TheoryOptions(beta="theory")`` and ``"theory-factor"`` switch ``score="joint"`` and ``restarts`` off: their
    guarantee holds for the maximiser of the factors' bounds and for no other point.
    """

    score: str = "factors"
    restarts: bool = True
    granularity: Granularity = field(default_factory=Granularity)

    def __post_init__(self) -> None:
        one_of("score", self.score, ("factors", "joint"))
        flag("restarts", self.restarts)
        if not isinstance(self.granularity, Granularity):
            raise OptionError(
                f"granularity must be a Granularity(work=…, zoom=…, polish_steps=…), got {self.granularity!r}"
            )
