"""minimize: the whole loop in one call, like scipy.optimize.minimize."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import Bounds, OptimizeResult

from dechbo.checks import whole
from dechbo.errors import OptionError, SpaceError, SpaceExhausted, WorkerDied
from dechbo.execution import Executor, Function, InlineExecutor, Outcome, ProcessExecutor
from dechbo.execution.process import usable_cores
from dechbo.optimizer import Optimizer
from dechbo.space import Float, Space

Array = NDArray[np.float64]
Params = dict[str, Any]
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
Evaluated = Iterator[tuple[Params, Outcome]]  # in the order of the points

DEFAULT_BATCH_SIZE = 4
WAIT_SECONDS = 10.0  # per call of wait, which returns as soon as an evaluation finishes


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
        How many evaluations run at a time, in child processes (-1: one per core); or, as in SciPy, a map-like callable
        such as ``multiprocessing.Pool(8).map``, or ``ThreadPoolExecutor(4).map`` for threads. Processes need ``fun`` at
        the top of a module; if that is the script itself, call minimize under ``if __name__ == "__main__":``. A number
        above 1 needs Linux or macOS; on Windows pass a map-like callable. With K workers a point is chosen once the
        values of all points but the last K - 1 are known, so the run depends on seed and K alone, whichever evaluation
        is faster.
    batch_size
        How many points a map-like ``workers`` gets at a time (4).
    options
        Passed to ``Optimizer``: graph, noise, n_initial, max_factor_size, model, search, theory.

    Returns
    -------
    scipy.optimize.OptimizeResult
        ``x``, ``fun``, ``nfev``, ``x_iters``, ``func_vals`` (NaN where failed), ``graph`` (of the last ask),
        ``success``, ``message``, and the ``optimizer``, to continue with.
    """
    n_calls = whole("n_calls", n_calls, 1)
    for name, instead in (("direction", "minimise -fun(x) to maximise"), ("seed", "pass it as rng")):
        if name in options:
            raise OptionError(f"minimize takes no {name}: {instead}")
    mixed = isinstance(bounds, Space)
    space = bounds if isinstance(bounds, Space) else _box(bounds)
    seed = int(rng.integers(2**31)) if isinstance(rng, np.random.Generator) else rng
    optimizer = Optimizer(space, seed=seed, direction="minimize", **options)
    starts = _starts(x0, space, mixed)[:n_calls]
    message = "all evaluations made"

    def asked() -> Iterator[Params]:
        for _ in range(n_calls - len(starts)):
            try:
                yield optimizer.ask()
            except SpaceExhausted:
                nonlocal message
                message = "ended: every point of the space has been evaluated"
                return

    function = Function(fun, args, None if mixed else space.names)
    with _evaluation(function, workers, batch_size, n_calls) as evaluate:
        for params, outcome in chain(evaluate(starts), evaluate(asked())):
            optimizer.tell(params, _value(outcome))
            if callback is not None:
                try:
                    ended = callback(_result(optimizer, "in progress", function)) is True
                except StopIteration:
                    ended = True
                if ended:
                    message = "ended by the callback"
                    break
    for params in optimizer.pending:
        optimizer.forget(params)
    return _result(optimizer, message, function)


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
            raise SpaceError(f"bounds[{i}] must be a pair (low, high), got {pair!r}") from None
        try:
            parameters[f"x{i}"] = Float(low, high)
        except SpaceError as error:
            raise SpaceError(f"bounds[{i}]: {error}") from None
    return Space(parameters)


def _starts(x0: Any, space: Space, mixed: bool) -> list[Params]:
    """The user's points as parameters, checked before anything is evaluated."""
    if x0 is None:
        return []
    if mixed:
        starts = [dict(params) for params in ([x0] if isinstance(x0, Mapping) else x0)]
    else:
        try:
            points = np.atleast_2d(np.asarray(x0, dtype=np.float64))
        except (TypeError, ValueError):
            raise OptionError(f"x0 must be one point or a list of points, got {x0!r:.80}") from None
        if points.shape[1] != space.dim:
            raise OptionError(f"x0 must have {space.dim} coordinates per point, got {points.shape[1]}")
        starts = [dict(zip(space.names, point.tolist(), strict=True)) for point in points]
    for start in starts:
        space.encode(start)
    return starts


def _result(optimizer: Optimizer, message: str, function: Function) -> OptimizeResult:
    evaluations = optimizer.evaluations
    best = optimizer.best
    return OptimizeResult(
        x=None if best is None else function.x(best.params),
        fun=np.nan if best is None else best.value,
        nfev=len(evaluations),
        nit=len(evaluations),
        x_iters=[function.x(evaluation.params) for evaluation in evaluations],
        func_vals=np.array([evaluation.number_value for evaluation in evaluations]),
        graph=optimizer.last_graph,
        success=best is not None,
        message=message if best is not None else f"{message}, but no evaluation gave a number",
        optimizer=optimizer,
    )


@contextmanager
def _evaluation(
    function: Function, workers: object, batch_size: int | None, n_calls: int
) -> Iterator[Callable[[Iterable[Params]], Evaluated]]:
    """How to evaluate points, by what ``workers`` asks for; nothing runs on after the block."""
    if callable(workers):
        size = DEFAULT_BATCH_SIZE if batch_size is None else whole("batch_size", batch_size, 1)
        yield partial(_in_batches, function, workers, size)
        return
    if batch_size is not None:
        raise OptionError("batch_size must be left out unless workers is a map-like callable")
    if isinstance(workers, bool) or not isinstance(workers, (int, np.integer)) or (workers < 1 and workers != -1):
        raise OptionError(
            f"workers must be a whole number of at least 1, -1 for all cores, or a map-like callable, got {workers!r}"
        )
    count = min(usable_cores() if workers == -1 else int(workers), n_calls)
    with InlineExecutor(function) if count == 1 else ProcessExecutor(function, count) as executor:
        yield partial(_in_order, executor)


def _in_batches(function: Function, user_map: Map, size: int, points: Iterable[Params]) -> Evaluated:
    remaining = iter(points)
    while batch := list(islice(remaining, size)):
        values = list(user_map(function.value, batch))
        if len(values) != len(batch):
            raise OptionError(f"a map-like workers must give one value per point, got {len(values)} for {len(batch)}")
        yield from zip(batch, map(Outcome, values), strict=True)


def _in_order(executor: Executor, points: Iterable[Params]) -> Evaluated:
    """Each point with its outcome, once ``capacity`` points are running; the next point is taken only then."""
    running: deque[tuple[int, Params]] = deque()
    finished: dict[int, Outcome] = {}

    def first() -> tuple[Params, Outcome]:
        number, params = running.popleft()
        while number not in finished:
            finished.update(executor.wait(WAIT_SECONDS))
            for outcome in finished.values():
                if outcome.exception is not None:  # ends the run now, even if earlier points still run
                    return params, outcome
        return params, finished.pop(number)

    for number, params in enumerate(points):
        executor.submit(number, params)
        running.append((number, params))
        if len(running) == executor.capacity:
            yield first()
    while running:
        yield first()


def _value(outcome: Outcome) -> Any:
    """The value, or the exception that the evaluation raised."""
    error = outcome.exception
    if error is None:
        return outcome.value
    if isinstance(error, WorkerDied):
        text = f"a worker died ({outcome.error}): fun crashed it, or the memory ran out; its output may say more"
        raise WorkerDied(text) from error
    if error.__traceback__ is None:  # raised in another process
        raise error from RuntimeError(outcome.error)
    raise error
