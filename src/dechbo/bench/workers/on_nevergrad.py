"""Nevergrad's NGOpt, which picks an algorithm by dimension, types and budget (the budget is told to it).

Numbers are bounded scalars (log where the scale is), whole ones with Nevergrad's integer casting; steps are rounded
after the ask; categories are unordered choices. A given point is suggested, asked for and told.
"""

from __future__ import annotations

from typing import Any

import nevergrad as ng
import wire


def parameter(entry: dict[str, Any]) -> Any:
    """Nevergrad's own form of a parameter."""
    if entry["type"] == "categorical":
        return ng.p.Choice(range(len(entry["choices"])))
    kind = ng.p.Log if entry["log"] else ng.p.Scalar
    made = kind(lower=entry["low"], upper=entry["high"])
    return made.set_integer_casting() if entry["type"] == "int" and entry["step"] == 1 else made


class Nevergrad(wire.Worker):
    """NGOpt, one evaluation at a time."""

    def __init__(self, start: wire.Start) -> None:
        self.space = start.space
        parameters = ng.p.Dict(**{entry["name"]: parameter(entry) for entry in start.space})
        parameters.random_state.seed(start.seed)
        self.optimizer = ng.optimizers.registry["NGOpt"](parameters, budget=start.budget, num_workers=1)
        self.asked: Any = None
        self.options = {"optimizer": "NGOpt", "budget": start.budget}

    def tell(self, params: wire.Params, value: float | None) -> None:
        if self.asked is None or self._native(self.asked) != params:
            self.optimizer.suggest({entry["name"]: _coded(entry, params[entry["name"]]) for entry in self.space})
            self.asked = self.optimizer.ask()
        self.optimizer.tell(self.asked, float("inf") if value is None else value)
        self.asked = None

    def ask(self) -> wire.Params:
        self.asked = self.optimizer.ask()
        return self._native(self.asked)

    def _native(self, candidate: Any) -> wire.Params:
        return {entry["name"]: _value(entry, candidate.value[entry["name"]]) for entry in self.space}


def _coded(entry: dict[str, Any], value: Any) -> Any:
    if entry["type"] == "categorical":
        return next(k for k, choice in enumerate(entry["choices"]) if wire.same(choice, value))
    return value


def _value(entry: dict[str, Any], value: Any) -> Any:
    return entry["choices"][value] if entry["type"] == "categorical" else wire.legal(entry, value)


if __name__ == "__main__":
    wire.serve(Nevergrad, ["nevergrad", "cma", "numpy"])
