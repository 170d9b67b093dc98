"""What is left to decide once a bound and a good choice are known: values and cells that could still beat the choice.

With phi = sum_I psi_I + sum_i b_i, a bound U = sum_I max psi_I + sum_i max b_i and a choice of score v, no choice
through a cell x_I beats v if max psi_I - psi_I(x_I) + sum_{i in I} (max b_i - b_i(x_i)) > U - v. Such cells are
*dead*, and a value is dead if one of its factors has no other cells for it. Where the cells that are alive make one
variable a function of another, it is replaced by that function.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dechbo.graph import FactorGraph, Scope
from dechbo.maxsum.messages import Array, Flags, Indices, Packed, beliefs
from dechbo.maxsum.reduction import aligned
from dechbo.tables import FactorTables

DEPTH = 4.0  # dead cells are set so many times U - v below the largest: they stay dead


@dataclass
class Subproblem:
    """A sum of tables over some variables of a packed problem; the others are fixed or functions of these.

    Variables are numbered by their first appearance, so that relabelling changes nothing.
    """

    factors: dict[Scope, Array]  # scopes sorted, of at least two variables
    unary: dict[int, Array]  # of every variable that is left
    constant: float
    # of every variable: the one it follows (itself, or -1 if it is fixed), and its value for each value of that one
    origins: list[tuple[int, Indices]]

    @property
    def bound(self) -> float:
        """sum_I max psi_I + sum_i max b_i."""
        parts = [table.max() for table in (*self.factors.values(), *self.unary.values())]
        return math.fsum([self.constant, *parts])

    @property
    def cells(self) -> int:
        """Of all its tables."""
        return sum(table.size for table in self.factors.values())

    def prune(self, slack: float) -> None:
        """Remove what cannot come within ``slack`` of the bound, and variables that are functions of others."""
        shrinking = True
        while shrinking:
            keep = {i: values >= values.max() - slack for i, values in self.unary.items()}
            for scope, table in self.factors.items():
                alive = self._alive(scope, table, slack)
                table[~alive] = table.max() - DEPTH * slack
                for axis, i in enumerate(scope):
                    keep[i] &= alive.any(axis=tuple(a for a in range(alive.ndim) if a != axis))
            shrinking = self.restrict(keep) | self._substitute(slack)

    def restrict(self, keep: Mapping[int, Flags]) -> bool:
        """Remove the values that ``keep`` does not name; returns whether there were any."""
        lost = {i: np.flatnonzero(flags) for i, flags in keep.items() if not flags.all() and flags.any()}
        if not lost:
            return False
        factors, self.factors = self.factors, {}
        for i, left in lost.items():
            self.unary[i] = self.unary[i][left]
        for scope, table in factors.items():
            for axis, i in enumerate(scope):
                if i in lost:
                    table = table.take(lost[i], axis=axis)
            self._add(scope, table)
        self.origins = [(j, at[lost[j]]) if j in lost else (j, at) for j, at in self.origins]
        for i in [i for i in lost if len(self.unary[i]) == 1]:
            self.constant += float(self.unary.pop(i)[0])
            self.origins = [(-1 if j == i else j, at) for j, at in self.origins]
        return True

    def tables(self) -> tuple[FactorTables, list[int]]:
        """The same as tables over consecutive variables, and their numbers here."""
        variables = sorted(self.unary)
        new = {i: n for n, i in enumerate(variables)}
        scopes = tuple(tuple(new[i] for i in scope) for scope in [*((i,) for i in variables), *self.factors])
        values = (*(self.unary[i] for i in variables), *self.factors.values())
        return FactorTables(FactorGraph(len(variables), scopes), values), variables

    def choice(self, chosen: Mapping[int, int]) -> Indices:
        """The values of all variables, given those of the variables that are left."""
        return np.array([at[chosen.get(j, 0)] for j, at in self.origins], dtype=np.int64)

    def _alive(self, scope: Scope, table: Array, slack: float) -> Flags:
        deficit = table - table.max()
        for axis, i in enumerate(scope):
            deficit = deficit + along(self.unary[i] - self.unary[i].max(), axis, table.ndim)
        return np.asarray(deficit >= -slack)

    def _substitute(self, slack: float) -> bool:
        """Replace one variable that a pair makes a function of the other; returns whether there was one."""
        for (i, j), table in [pair for pair in self.factors.items() if len(pair[0]) == 2]:
            alive = self._alive((i, j), table, slack)
            for axis, (source, target) in ((1, (i, j)), (0, (j, i))):
                if alive.sum(axis=axis).max() <= 1:
                    self._follow(source, target, alive.argmax(axis=axis))
                    return True
        return False

    def _follow(self, source: int, target: int, function: Indices) -> None:
        """x_target = function[x_source] from now on."""
        factors, self.factors = self.factors, {}
        self.unary[source] = self.unary[source] + self.unary.pop(target)[function]
        self.origins = [(source, at[function]) if j == target else (j, at) for j, at in self.origins]
        for scope, table in factors.items():
            if target in scope:
                at = scope.index(target)
                table = table.take(function, axis=at)
                if source in scope:  # the diagonal becomes the last axis
                    table = np.diagonal(table, axis1=at, axis2=scope.index(source))
                    scope = (*(i for i in scope if i not in (source, target)), source)
                else:
                    scope = (*scope[:at], source, *scope[at + 1 :])
            self._add(scope, table)

    def _add(self, scope: Scope, table: Array) -> None:
        """Add a table; axes of length 1 go."""
        order = tuple(sorted(i for axis, i in enumerate(scope) if table.shape[axis] > 1))
        wide = aligned(table, scope, tuple(sorted(scope)))
        total = wide.reshape([length for length in wide.shape if length > 1])
        if not order:
            self.constant += float(total)
        elif len(order) == 1:
            self.unary[order[0]] = self.unary[order[0]] + total
        elif order in self.factors:
            self.factors[order] = self.factors[order] + total
        else:
            self.factors[order] = np.array(total)


def subproblem(packed: Packed, dual: Array) -> Subproblem:
    """All of ``packed``, with phi written as sum_I (phi_I - sum_i m_{I->i}) + sum_i b_i."""
    number = {int(i): n for n, i in enumerate(packed.variables)}
    belief = beliefs(packed, dual)
    unary = {n: belief[packed.unary_starts[i] : packed.unary_starts[i + 1]] for i, n in number.items()}
    whole = Subproblem({}, unary, 0.0, [(n, np.arange(len(values))) for n, values in unary.items()])
    for k, start in enumerate(packed.tables):
        edges = range(packed.scopes[k], packed.scopes[k + 1])
        shape = packed.lengths[edges.start : edges.stop]
        table = packed.flat[start : start + shape.prod()].reshape(shape)
        for axis, e in enumerate(edges):
            message = dual[packed.message_starts[e] : packed.message_starts[e + 1]]
            table = table - along(message, axis, len(shape))
        whole._add(tuple(number[int(packed.members[e])] for e in edges), table)
    for i in [i for i, values in unary.items() if len(values) == 1]:
        whole.constant += float(whole.unary.pop(i)[0])
        whole.origins[i] = (-1, whole.origins[i][1])
    return whole


def along(values: Array, axis: int, order: int) -> Array:
    """A vector as a table of ``order`` axes of which only ``axis`` is longer than 1."""
    return values.reshape([-1 if a == axis else 1 for a in range(order)])
