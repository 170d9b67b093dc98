"""Which functions of dechbo an ask runs, and which rooms call which; as a script it prints the counts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType

import dechbo

PACKAGE = Path(dechbo.__file__).parent


@dataclass
class Trace:
    """Functions that ran, and calls between rooms: (caller, callee) by file and function."""

    functions: set[CodeType] = field(default_factory=set)
    calls: set[tuple[CodeType, CodeType]] = field(default_factory=set)

    @property
    def files(self) -> set[str]:
        return {code.co_filename for code in self.functions}

    def between_rooms(self) -> set[tuple[str, str]]:
        return {(described(caller), described(callee)) for caller, callee in self.calls if room(caller) != room(callee)}


def traced(action: Callable[[], object]) -> Trace:
    """Run ``action`` and note every Python function of dechbo that it enters; compiled loops are not seen."""
    trace = Trace()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not _is_ours(frame.f_code):
            return
        trace.functions.add(frame.f_code)
        caller = frame.f_back
        while caller is not None and not _is_ours(caller.f_code):
            caller = caller.f_back
        if caller is not None:
            trace.calls.add((caller.f_code, frame.f_code))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return trace


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(str(PACKAGE))


def room(code: CodeType) -> str:
    """The file or folder directly under the package."""
    return Path(code.co_filename).relative_to(PACKAGE).with_suffix("").parts[0]


def described(code: CodeType) -> str:
    """``room/file.function``."""
    return f"{Path(code.co_filename).relative_to(PACKAGE).with_suffix('').as_posix()}.{code.co_qualname}"


def six_dimensional_run(evaluations: int) -> dechbo.Optimizer:
    """A run whose next ask is ask number ``evaluations``: cold at multiples of ten, warm between."""
    space = dechbo.Space({f"x{i}": dechbo.Float(0, 1) for i in range(6)})
    optimizer = dechbo.Optimizer(space, seed=0)
    for _ in range(evaluations):
        params = optimizer.ask()
        optimizer.tell(params, sum((x - 0.3) ** 2 for x in params.values()) + params["x0"] * params["x1"])
    return optimizer


if __name__ == "__main__":
    for name, evaluations in (("warm", 24), ("cold", 30)):
        trace = traced(six_dimensional_run(evaluations).ask)
        print(f"{name} 6-d ask: {len(trace.functions)} functions in {len(trace.files)} files")
