"""Which parameters act together in a table of experiments that somebody already has."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dechbo.errors import DataError, ParameterError, shortened
from dechbo.interaction import Interaction
from dechbo.optimizer import Optimizer
from dechbo.space import Categorical, Float, Int, Parameter, Space
from dechbo.structure.learner import Effort

THOROUGH = Effort(chains=4, steps=2000, sweep=10)


class Interactions:
    """``interactions(X, y, space)`` and ``interactions.from_csv(path, target=…)``, the largest share first."""

    def __call__(
        self,
        X: ArrayLike | Sequence[Mapping[str, Any]],
        y: ArrayLike | Sequence[float | None],
        space: Space,
        *,
        max_factor_size: int = 3,
        seed: int = 0,
        effort: Effort = THOROUGH,
    ) -> list[Interaction]:
        """The interactions in a table: rows of values in the order of the space, or dicts, and one result for each.

        Results that are None, NaN or infinite are left out.
        """
        rows = [dict(row) if isinstance(row, Mapping) else _named(row, space) for row in X]  # type: ignore[union-attr]
        results = list(np.asarray(y, dtype=object).ravel())
        if len(rows) != len(results):
            raise DataError(f"expected one result for each of {len(rows)} rows, got {len(results)}")
        optimizer = Optimizer(space, graph="learned", seed=seed, max_factor_size=max_factor_size, effort=effort)
        for k, (row, result) in enumerate(zip(rows, results, strict=True)):
            try:
                optimizer.tell(row, result)
            except ParameterError as error:
                raise DataError(f"row {k + 1}: {error}") from None
        return optimizer.interactions()

    def from_csv(
        self, path: str | PathLike[str], *, target: str | None = None, space: Space | None = None, **options: Any
    ) -> list[Interaction]:
        """The same for a file with a header: ``target`` (the last column if not given) against all the others.

        Without a ``space`` it is read off the columns: whole numbers, numbers or texts, between the least and the
        largest value found; columns with a single value are left out. Rows whose target is empty count as failed.
        """
        with open(path, newline="", encoding="utf-8-sig") as file:
            table = list(csv.DictReader(file))
        if not table:
            raise DataError(f"{path} has no rows under its header")
        names = list(table[0])
        target = names[-1] if target is None else target
        if target not in names:
            raise DataError(f"{path} has no column {target!r}; it has {shortened(names)}")
        ragged = [k for k, row in enumerate(table) if None in row or None in row.values()]
        if ragged:
            raise DataError(f"{path}, row {ragged[0] + 1}: the number of fields differs from the header")
        columns = {name: _column(path, name, [row[name] for row in table]) for name in names if name != target}
        if space is None:
            found = {name: _parameter(values) for name, values in columns.items()}
            space = Space({name: parameter for name, parameter in found.items() if parameter is not None})
        missing = [name for name in space if name not in columns]
        if missing:
            raise DataError(f"{path} has no columns {shortened(missing)} of the space; it has {shortened(names)}")
        rows = [{name: columns[name][k] for name in space} for k in range(len(table))]
        results = [_result(row[target], k, target) for k, row in enumerate(table)]
        return self(rows, results, space, **options)


interactions = Interactions()


def _named(row: Any, space: Space) -> dict[str, Any]:
    values = list(row)
    if len(values) != space.dim:
        raise DataError(f"a row needs {space.dim} values ({shortened(list(space.names))}), got {len(values)}")
    return dict(zip(space.names, values, strict=True))


def _column(path: object, name: str, texts: list[str]) -> list[Any]:
    """Whole numbers if all are, numbers if all are, otherwise the texts; numbers with gaps are an error."""
    for kind in (int, float):
        try:
            return [kind(text) for text in texts]
        except ValueError:
            continue
    if empty := [k + 1 for k, text in enumerate(texts) if not text.strip()]:
        try:
            given = [float(text) for text in texts if text.strip()]
        except ValueError:
            return list(texts)
        if given:
            raise DataError(
                f"{path}: column {name!r} has numbers, but nothing in rows {shortened(empty)}: fill or drop them"
            )
    return list(texts)


def _parameter(values: list[Any]) -> Parameter | None:
    distinct = sorted(set(values))
    if len(distinct) == 1:
        return None
    if isinstance(distinct[0], str):
        return Categorical(distinct)
    return Int(distinct[0], distinct[-1]) if isinstance(distinct[0], int) else Float(distinct[0], distinct[-1])


def _result(text: str, row: int, target: str) -> float | None:
    try:
        return float(text) if text.strip() else None
    except ValueError:
        raise DataError(f"row {row + 1}: the target {target!r} needs a number or nothing, got {text!r}") from None
