"""minimize: the whole loop in one call, with SciPy's manners."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import Bounds, OptimizeResult

from dechbo.checks import whole
from dechbo.errors import OptionError, SpaceError, SpaceExhausted
from dechbo.execution.pool import Batches, Crew, Here, Map, Objective, Processes, as_given
from dechbo.optimizer import Optimizer
from dechbo.space import Float, Space

Array = NDArray[np.float64]

BATCH_SIZE = 4


def minimize(
    fun: Callable[..., float],
    bounds: Sequence[tuple[float, float]] | Bounds | Space,
    *,
    n_calls: int,
    rng: int | np.random.Generator | None = None,
    callback: Callable[[OptimizeResult], object] | None = None,
    x0: ArrayLike | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    args: tuple[Any, ...] = (),
    workers: int | Map = 1,
    batch_size: int | None = None,
    **options: Any,
) -> OptimizeResult:
    """Minimise ``fun(x, *args)`` over a box in ``n_calls`` evaluations.

    Parameters
    ----------
    fun
        Called with an array of coordinates; with a ``Space`` in place of bounds, with a dict of parameters. A NaN or
        infinite value counts as a failed evaluation; an exception ends the run and reaches the caller.
    bounds
        ``[(low, high), ...]``, a ``scipy.optimize.Bounds``, or a ``Space`` for mixed parameters.
    n_calls
        How many evaluations to make, those of ``x0`` included.
    rng
        A seed or a generator; same seed, same run.
    callback
        Called after each evaluation with the result so far; ends the run by returning True or raising StopIteration.
    x0
        One point, or several, to evaluate first (dicts with a ``Space``).
    workers
        How many evaluations run side by side, in processes (-1: one per core); or, as in SciPy, a map-like callable
        such as ``multiprocessing.Pool(8).map``. Processes need ``fun`` at the top of a module, and in a script the call
        under ``if __name__ == "__main__":``. With K workers a point is chosen once the values of all points but the
        last K - 1 are known, so the run depends on seed and K alone, whichever evaluation ends first.
    batch_size
        How many points a map-like ``workers`` gets at a time (4).
    options
        Passed to ``Optimizer``: graph, beta, noise, n_initial, ….

    Returns
    -------
    scipy.optimize.OptimizeResult
        ``x``, ``fun``, ``nfev``, ``x_iters``, ``func_vals`` (NaN where failed), ``graph`` (of the last ask),
        ``success``, ``message``, ``optimizer`` to go on with.
    """
    if isinstance(n_calls, bool) or not isinstance(n_calls, (int, np.integer)) or n_calls < 1:
        raise OptionError(f"n_calls is a whole number at least 1, got {n_calls!r}")
    for name, instead in (("direction", "minimise -fun(x) to maximise"), ("seed", "pass it as rng")):
        if name in options:
            raise OptionError(f"minimize takes no {name}: {instead}")
    mixed = isinstance(bounds, Space)
    space = bounds if isinstance(bounds, Space) else _box(bounds)
    seed = int(rng.integers(2**31)) if isinstance(rng, np.random.Generator) else rng
    optimizer = Optimizer(space, seed=seed, direction="minimize", **options)
    starts = _starts(x0, space, mixed)[:n_calls]
    message = "all evaluations made"

    def asked() -> Iterator[dict[str, Any]]:
        for _ in range(n_calls - len(starts)):
            try:
                yield optimizer.ask()
            except SpaceExhausted:
                nonlocal message
                message = "ended: every point of the space has been evaluated"
                return

    objective = Objective(fun, args, None if mixed else space.names)
    with closing(_crew(objective, workers, batch_size, n_calls)) as crew:
        for params, value in chain(crew.evaluate(starts), crew.evaluate(asked())):
            optimizer.tell(params, value())
            if callback is not None:
                try:
                    ended = callback(_result(optimizer, "in progress", mixed)) is True
                except StopIteration:
                    ended = True
                if ended:
                    message = "ended by the callback"
                    break
    for params in optimizer.pending:
        optimizer.forget(params)
    return _result(optimizer, message, mixed)


def _box(bounds: Sequence[tuple[float, float]] | Bounds) -> Space:
    try:
        pairs = list(zip(bounds.lb, bounds.ub, strict=True)) if isinstance(bounds, Bounds) else list(bounds)
    except TypeError:
        raise SpaceError(f"expected bounds [(low, high), ...], a scipy Bounds or a Space, got {bounds!r:.80}") from None
    if not pairs:
        raise SpaceError("bounds are empty: expected [(low, high), ...], one pair per coordinate")
    parameters = {}
    for i, pair in enumerate(pairs):
        try:
            low, high = pair
        except (TypeError, ValueError):
            raise SpaceError(f"bounds[{i}] needs to be a pair (low, high), got {pair!r}") from None
        try:
            parameters[f"x{i}"] = Float(low, high)
        except SpaceError as error:
            raise SpaceError(f"bounds[{i}]: {error}") from None
    return Space(parameters)


def _starts(x0: Any, space: Space, mixed: bool) -> list[dict[str, Any]]:
    """The user's own points as parameters, checked before anything is evaluated."""
    if x0 is None:
        return []
    if mixed:
        starts = [dict(params) for params in ([x0] if isinstance(x0, Mapping) else x0)]
    else:
        try:
            points = np.atleast_2d(np.asarray(x0, dtype=np.float64))
        except (TypeError, ValueError):
            raise OptionError(f"x0 is one point or a list of points, got {x0!r:.80}") from None
        if points.shape[1] != space.dim:
            raise OptionError(f"x0 needs {space.dim} coordinates per point, got {points.shape[1]}")
        starts = [dict(zip(space.names, point.tolist(), strict=True)) for point in points]
    for start in starts:
        space.encode(start)
    return starts


def _result(optimizer: Optimizer, message: str, mixed: bool) -> OptimizeResult:
    names = None if mixed else optimizer.space.names
    told = optimizer.evaluations
    best = optimizer.best
    return OptimizeResult(
        x=None if best is None else as_given(best.params, names),
        fun=np.nan if best is None else best.value,
        nfev=len(told),
        nit=len(told),
        x_iters=[as_given(evaluation.params, names) for evaluation in told],
        func_vals=np.array([evaluation.number_value for evaluation in told]),
        graph=optimizer.last_graph,
        success=best is not None,
        message=message if best is not None else f"{message}, but no evaluation gave a number",
        optimizer=optimizer,
    )


def _crew(objective: Objective, workers: object, batch_size: int | None, n_calls: int) -> Crew:
    if callable(workers):
        return Batches(objective, workers, BATCH_SIZE if batch_size is None else whole("batch_size", batch_size, 1))
    if batch_size is not None:
        raise OptionError("batch_size goes with a map-like workers; a number of workers needs none")
    if isinstance(workers, bool) or not isinstance(workers, (int, np.integer)) or (workers < 1 and workers != -1):
        raise OptionError(f"workers is a whole number at least 1, -1 for all cores, or a map-like, got {workers!r}")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = min(cores if workers == -1 else int(workers), n_calls)
    return Here(objective) if count == 1 else Processes(objective, count)
