"""Nevergrad's NGOpt, which chooses an algorithm by dimension, types and budget.

Numbers are bounded scalars (``Log`` for log scales), integers with Nevergrad's integer casting; steps are rounded after
the ask; categories are unordered choices. An initial point is suggested to it, asked for and told.

Covered by ``tests/bench/test_peers.py``.
"""

from __future__ import annotations

from typing import Any

import nevergrad as ng
import peer_protocol


def parameter(entry: dict[str, Any]) -> Any:
    """Nevergrad's description of a parameter."""
    if entry["type"] == "categorical":
        return ng.p.Choice(range(len(entry["choices"])))
    kind = ng.p.Log if entry["log"] else ng.p.Scalar
    scalar = kind(lower=entry["low"], upper=entry["high"])
    return scalar.set_integer_casting() if entry["type"] == "int" and entry["step"] == 1 else scalar


class Nevergrad(peer_protocol.PeerMethod):
    """NGOpt, one evaluation at a time."""

    def __init__(self, setup: peer_protocol.Setup) -> None:
        self.space = setup.space
        parameters = ng.p.Dict(**{entry["name"]: parameter(entry) for entry in setup.space})
        parameters.random_state.seed(setup.seed)
        self.optimizer = ng.optimizers.registry["NGOpt"](parameters, budget=setup.budget, num_workers=1)
        self.asked: Any = None
        self.options = {"optimizer": "NGOpt", "budget": setup.budget}

    def tell(self, params: peer_protocol.Params, value: float | None) -> None:
        if self.asked is None or self._native(self.asked) != params:
            self.optimizer.suggest({entry["name"]: _coded(entry, params[entry["name"]]) for entry in self.space})
            self.asked = self.optimizer.ask()
        self.optimizer.tell(self.asked, float("inf") if value is None else value)
        self.asked = None

    def ask(self) -> peer_protocol.Params:
        self.asked = self.optimizer.ask()
        return self._native(self.asked)

    def _native(self, candidate: Any) -> peer_protocol.Params:
        return {entry["name"]: _value(entry, candidate.value[entry["name"]]) for entry in self.space}


def _coded(entry: dict[str, Any], value: Any) -> Any:
    if entry["type"] == "categorical":
        return next(k for k, choice in enumerate(entry["choices"]) if peer_protocol.same_choice(choice, value))
    return value


def _value(entry: dict[str, Any], value: Any) -> Any:
    return entry["choices"][value] if entry["type"] == "categorical" else peer_protocol.nearest_legal(entry, value)


if __name__ == "__main__":
    peer_protocol.serve(Nevergrad, ["nevergrad", "cma", "numpy"])
