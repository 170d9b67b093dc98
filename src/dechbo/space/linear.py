"""Known linear constraints on parameters, in their own units: ``a + 2*b <= 1``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dechbo.errors import SpaceError
from dechbo.space.numeric import real

MAX_PARAMETERS = 4  # of one constraint
TOLERANCE = 1e-9  # relative to the size of the sum: 0.1 + 0.2 <= 0.3 holds

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])|(?P<name>[^\W\d][\w.]*)"
    r"|(?P<relation><=|>=|<|>)|(?P<sign>[+-])|(?P<times>\*(?!\*)))"
)


@dataclass(frozen=True, eq=False)
class Linear:
    """sum_i coefficients[i] * parameter_i <= upper; a parameter on a log scale enters with its value, not its log.

    ``Linear.parse("a + 2*b <= 1")`` parses one; ``>=`` is the same with all signs changed.
    """

    coefficients: Mapping[str, float]
    upper: float

    def __post_init__(self) -> None:
        if not isinstance(self.coefficients, Mapping) or not all(isinstance(k, str) for k in self.coefficients):
            raise SpaceError(f"Linear needs a dict of names to numbers, got {self.coefficients!r:.80}")
        numbers = {name: _finite(f"the coefficient of {name!r}", c) for name, c in self.coefficients.items()}
        object.__setattr__(self, "coefficients", {name: c for name, c in numbers.items() if c != 0})
        object.__setattr__(self, "upper", _finite("upper", self.upper))
        if not 1 <= len(self.coefficients) <= MAX_PARAMETERS:
            raise SpaceError(
                f"a linear constraint needs 1 to {MAX_PARAMETERS} parameters with coefficients other than 0, "
                f"got {numbers}"
            )

    @classmethod
    def parse(cls, text: str) -> Linear:
        """Parse a text like ``2*lr - wd >= 0``: numbers, names, ``+ - *`` and one relation.

        Names consist of letters, digits, ``_`` and ``.``; for others write ``Linear({"my-name": 1}, upper=1)``. ``<``
        means ``<=``.
        """
        if not isinstance(text, str):
            raise SpaceError(f"a constraint is a string like 'a + 2*b <= 1' or a Linear, got {text!r:.80}")
        tokens = list(_tokens(text))
        relations = [k for k, (kind, _) in enumerate(tokens) if kind == "relation"]
        if len(relations) != 1:
            raise SpaceError(f"constraint {text!r} needs exactly one of <= and >=, e.g. 'a + 2*b <= 1'")
        at = relations[0]
        coefficients: dict[str, float] = {}
        constant = 0.0
        for side, sign in ((tokens[:at], 1.0), (tokens[at + 1 :], -1.0)):
            for name, factor in _terms(side, text):
                if name is None:
                    constant += sign * factor
                else:
                    coefficients[name] = coefficients.get(name, 0.0) + sign * factor
        flip = 1.0 if tokens[at][1].startswith("<") else -1.0
        try:
            return cls({name: flip * c for name, c in coefficients.items()}, -flip * constant + 0.0)
        except SpaceError as error:
            raise SpaceError(f"constraint {text!r}: {error}") from None

    def __str__(self) -> str:
        """The text that ``parse`` reads, with a positive coefficient first."""
        flip = 1.0 if next(iter(self.coefficients.values())) > 0 else -1.0
        text = ""
        for name, coefficient in self.coefficients.items():
            c = flip * coefficient
            sign = ("" if c > 0 else "-") if not text else (" + " if c > 0 else " - ")
            text += sign + (name if abs(c) == 1 else f"{_shown(abs(c))}*{name}")
        return f"{text} {'<=' if flip > 0 else '>='} {_shown(flip * self.upper + 0.0)}"

    def __repr__(self) -> str:
        return f"Linear({dict(self.coefficients)!r}, upper={self.upper!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Linear):
            return NotImplemented
        return dict(self.coefficients) == dict(other.coefficients) and self.upper == other.upper

    def __hash__(self) -> int:
        return hash((frozenset(self.coefficients.items()), self.upper))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; ``Linear.from_json`` reads it."""
        return {"coefficients": dict(self.coefficients), "upper": self.upper}

    @classmethod
    def from_json(cls, data: object) -> Linear:
        """The constraint that ``to_json`` wrote."""
        if not isinstance(data, Mapping) or set(data) != {"coefficients", "upper"}:
            raise SpaceError(f"expected the JSON of a constraint, {{'coefficients': …, 'upper': …}}, got {data!r:.80}")
        return cls(data["coefficients"], data["upper"])


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise SpaceError(
                f"constraint {text!r}: cannot read {text[at:].strip()[:20]!r}; expected a sum like 'a + 2*b <= 1' of "
                "numbers and parameter names (letters, digits, _ and .), without brackets"
            )
        yield found.lastgroup, found[found.lastgroup]
        at = found.end()


def _terms(tokens: list[tuple[str, str]], text: str) -> Iterator[tuple[str | None, float]]:
    """(name or None, factor) of each term of a sum: signs, then numbers and at most one name joined by ``*``."""
    if not tokens:
        raise SpaceError(f"constraint {text!r} has nothing on one side: write 0")
    k = 0
    while k < len(tokens):
        factor, name = 1.0, None
        signs = 0
        while k < len(tokens) and tokens[k][0] == "sign":
            factor, k, signs = (-factor if tokens[k][1] == "-" else factor), k + 1, signs + 1
        if k and not signs:
            raise SpaceError(f"constraint {text!r}: expected +, - or * before {tokens[k][1]!r}")
        while True:
            kind, what = tokens[k] if k < len(tokens) else ("end", "the end")
            if kind == "number":
                factor *= float(what)
            elif kind == "name" and name is None:
                name = what
            elif kind == "name":
                raise SpaceError(f"constraint {text!r} is not linear: it multiplies {name!r} by {what!r}")
            else:
                raise SpaceError(f"constraint {text!r}: expected a number or a parameter's name, got {what!r}")
            k += 1
            if k == len(tokens) or tokens[k][0] != "times":
                break
            k += 1
        yield name, factor


def _shown(number: float) -> str:
    return repr(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _finite(what: str, value: object) -> float:
    number = real(value)
    if number is None or not math.isfinite(number):
        raise SpaceError(f"a linear constraint needs finite numbers, got {value!r} as {what}")
    return number
