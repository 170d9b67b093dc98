"""Function: what ``minimize`` evaluates. Child processes import it, so it imports nothing heavy.

Covered by tests/test_minimize.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dechbo.execution.outcome import Outcome


@dataclass(frozen=True)
class Function:
    """``fun(x, *args)`` as an objective; ``x`` is an array in the order of ``names``, or a dict if that is None."""

    fun: Callable[..., Any]
    args: tuple[Any, ...]
    names: tuple[str, ...] | None

    def __call__(self, params: dict[str, Any]) -> Outcome:
        """The outcome with the value as it is: the optimizer checks it."""
        return Outcome(self.value(params))

    def value(self, params: dict[str, Any]) -> Any:
        """What ``fun`` returns."""
        return self.fun(self.x(params), *self.args)

    def x(self, params: dict[str, Any]) -> Any:
        """The parameters as the user has them."""
        if self.names is None:
            return dict(params)
        import numpy as np

        return np.array([params[name] for name in self.names])
