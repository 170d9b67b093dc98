"""FactorTables, one dense table per factor: what the Gaussian processes produce and the maximisers consume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import TableError
from dechbo.graph import FactorGraph, Scope

Array = NDArray[np.float64]

MAX_CELLS = 2**40  # of all tables together
MAX_VALUE = 1e305  # of a cell: sums of larger ones may overflow


@dataclass(frozen=True, eq=False)
class FactorTables:
    """phi(x) = sum_k values[k][x_i for i in scopes[k]], over finite domains that may differ per variable.

    ``-inf`` forbids a cell. All tables are stored in one buffer, ``flat``; ``values[k]`` are views of it (C order).
    """

    graph: FactorGraph
    values: tuple[Array, ...]
    sizes: NDArray[np.int64] = field(init=False, repr=False)  # the number of candidates of each variable
    starts: NDArray[np.int64] = field(init=False, repr=False)  # table k is flat[starts[k]:starts[k + 1]]
    flat: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        scopes = self.graph.scopes
        if len(self.values) != len(scopes):
            raise TableError(f"expected one table per factor ({len(scopes)}), got {len(self.values)}")
        arrays = [_as_array(scope, value) for scope, value in zip(scopes, self.values, strict=True)]
        for scope, array in zip(scopes, arrays, strict=True):
            if array.ndim != len(scope):
                raise TableError(f"the table of scope {scope} needs {len(scope)} axes, got shape {array.shape}")
        sizes = _domain_sizes(self.graph, arrays)
        flat = np.concatenate([array.ravel() for array in arrays])
        self._set_buffer(sizes, flat)

    @classmethod
    def from_flat(cls, graph: FactorGraph, sizes: NDArray[np.int64], flat: Array) -> FactorTables:
        """Tables already stored one after another in ``flat``; nothing is copied."""
        tables = object.__new__(cls)
        object.__setattr__(tables, "graph", graph)
        tables._set_buffer(np.ascontiguousarray(sizes, dtype=np.int64), flat)
        return tables

    def _set_buffer(self, sizes: NDArray[np.int64], flat: Array) -> None:
        starts = table_starts(self.graph, sizes)
        if flat.shape != (starts[-1],) or flat.dtype != np.float64 or not flat.flags.c_contiguous:
            raise TableError(
                f"expected one contiguous float64 buffer of {starts[-1]} cells, got shape {flat.shape}, "
                f"dtype {flat.dtype}, strides {flat.strides}"
            )
        if not flat.max() < np.inf:
            raise TableError("table entries need to be finite or -inf (a forbidden cell), got NaN or +inf")
        if (largest := _largest(flat)) > MAX_VALUE:
            raise TableError(f"table entries of up to {largest:.3g} overflow when added: scale the tables down")
        scopes = self.graph.scopes
        views = tuple(
            flat[starts[k] : starts[k + 1]].reshape([sizes[i] for i in scope]) for k, scope in enumerate(scopes)
        )
        for name, value in (("values", views), ("sizes", sizes), ("starts", starts), ("flat", flat)):
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[object, ...]:
        return FactorTables.from_flat, (self.graph, self.sizes, self.flat)  # keeps values views of flat

    def plus(self, extra: Sequence[tuple[Scope, Array]]) -> FactorTables:
        """Add ``extra`` (scope, table) pairs, to the table of the same scope if there is one, else as new factors."""
        values = [table.copy() for table in self.values]
        at = {frozenset(scope): k for k, scope in enumerate(self.graph.scopes)}
        scopes = list(self.graph.scopes)
        for scope, cells in extra:
            k = at.setdefault(frozenset(scope), len(scopes))
            if k == len(scopes):
                scopes.append(scope)
                values.append(cells.copy())
            else:
                values[k] += cells.transpose([scope.index(i) for i in scopes[k]])
        return FactorTables(FactorGraph(self.graph.dim, tuple(scopes)), tuple(values))

    @cached_property
    def mean(self) -> float:
        """sum_I mean(table_I) over the allowed cells: the expected value of a random choice."""
        if np.isfinite(self.flat.min()):
            cells = np.diff(self.starts)
            return float((np.add.reduceat(self.flat, self.starts[:-1]) / cells).sum())
        allowed = [value[value > -np.inf] for value in self.values]
        return float(sum(cells.mean() if cells.size else -np.inf for cells in allowed))

    def value(self, choice: Sequence[int] | NDArray[np.int64]) -> float:
        """phi at ``choice``, one candidate index per variable."""
        chosen = np.asarray(choice)
        if chosen.shape != (self.graph.dim,) or not np.issubdtype(chosen.dtype, np.integer):
            raise TableError(
                f"a choice needs {self.graph.dim} whole numbers, got shape {chosen.shape}, dtype {chosen.dtype}"
            )
        if (wrong := (chosen < 0) | (chosen >= self.sizes)).any():
            i = int(wrong.argmax())
            raise TableError(f"variable {i} has the candidates 0 to {self.sizes[i] - 1}, got the choice {chosen[i]}")
        scopes = self.graph.scopes
        return float(sum(table[tuple(chosen[list(scope)])] for scope, table in zip(scopes, self.values, strict=True)))


def table_starts(graph: FactorGraph, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The offset of each table in a common buffer; cells are counted in floating point to avoid overflow."""
    if sizes.shape != (graph.dim,) or not (sizes >= 1).all():
        raise TableError(f"each of {graph.dim} variables needs at least one candidate, got the sizes {sizes}")
    with np.errstate(over="ignore"):
        cells = np.multiply.reduceat(sizes[graph.members].astype(np.float64), graph.starts[:-1])
    if cells.sum() > MAX_CELLS:
        worst = graph.scopes[int(cells.argmax())]
        raise TableError(
            f"these tables would hold {cells.sum():.3g} cells; the largest is that of scope {worst}: "
            "use smaller scopes or fewer candidates"
        )
    return np.concatenate([[0], np.cumsum(cells)]).astype(np.int64)


def _as_array(scope: Scope, value: object) -> Array:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TableError(f"the table of scope {scope} needs an array of numbers, got {value!r}") from None


def _largest(flat: Array) -> float:
    """The largest magnitude of a finite cell."""
    lowest = flat.min()
    if lowest == -np.inf:
        lowest = flat[flat > -np.inf].min(initial=0.0)
    return float(max(flat.max(), -lowest))


def _domain_sizes(graph: FactorGraph, arrays: Sequence[Array]) -> NDArray[np.int64]:
    sizes = np.zeros(graph.dim, dtype=np.int64)
    for scope, array in zip(graph.scopes, arrays, strict=True):
        for i, size in zip(scope, array.shape, strict=True):
            if size == 0:
                raise TableError(f"variable {i} has no candidates in the table of scope {scope}")
            if sizes[i] not in (0, size):
                raise TableError(f"variable {i} has {sizes[i]} candidates in one table and {size} in that of {scope}")
            sizes[i] = size
    return sizes
