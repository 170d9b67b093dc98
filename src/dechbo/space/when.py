"""The condition of a parameter, as users write it: ``when={"clf": "svm"}`` or ``when={"clf": ["svm", "forest"]}``.

Tested by tests/space/test_conditions.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dechbo.errors import SpaceError

When = Mapping[str, Any]


def checked_when(kind: str, when: object) -> dict[str, tuple[Any, ...]] | None:
    """For each parent the choices that make the parameter active; None without a condition."""
    if when is None:
        return None
    if not isinstance(when, Mapping) or not when or not all(isinstance(name, str) for name in when):
        raise SpaceError(f"{kind} takes when={{name: choice}}, or a list of choices, got when={when!r:.80}")
    answer = {name: tuple(choices) if _is_list(choices) else (choices,) for name, choices in when.items()}
    for name, choices in answer.items():
        if not choices:
            raise SpaceError(f"{kind}: when={{{name!r}: []}} makes it never active: leave the parameter out")
    return answer


def when_json(when: When | None) -> dict[str, Any]:
    """The part of a parameter's JSON that holds its condition; nothing without one."""
    return {} if when is None else {"when": {name: list(choices) for name, choices in when.items()}}


def _is_list(choices: object) -> bool:
    return isinstance(choices, (list, tuple, set, frozenset))
