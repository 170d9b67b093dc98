"""Where evaluations run: in this process, in child processes, or on a Ray cluster.

What the room owns
    ``Executor``, an abstract class; ``InlineExecutor``, ``ProcessExecutor`` and ``RayExecutor``, its subclasses;
    ``Outcome``, what one evaluation gives. Later packages run all evaluations through them, except ``DecHBOSearchCV``,
    which uses scikit-learn's joblib. For another executor, write a subclass with ``_start``, ``_poll``, ``_end`` and
    ``_release``.

What comes in
    An objective: a function of a dict of parameters that returns a number, a dict with "value" and "constraints", or
    an ``Outcome``. It may carry ``timeout`` (seconds per try), ``retries``, ``folder``, ``log`` and ``load()``.
    Then *tasks*: a number, chosen by the caller, and the parameters to evaluate.

What goes out
    Pairs (number, ``Outcome``), in the order in which tasks finish. Nothing here asks, tells or stores: the caller
    decides in which order it uses the outcomes, and so whether a run depends on which evaluation is faster. A long task
    in a child process may also send progress (``report_progress``), which ``ProcessExecutor.progress`` returns.

How to use an executor::

    with ProcessExecutor(objective, workers=4) as executor:      # leaving the block kills what runs
        executor.submit(0, {"x": 0.3})                           # at most executor.capacity tasks at a time
        for number, outcome in executor.wait(timeout=10.0):      # returns as soon as some task has finished
            print(number, outcome.value, outcome.error)
        executor.cancel(1)                                       # ends a task if it is running
        executor.close(kill=False)                               # lets running tasks finish first

    Closing with ``kill`` kills the workers of running tasks. Idle workers stop: a child process ends as any Python
    program, with its ``atexit`` handlers, but is killed after two seconds. What a child has started ends with it.

How failures are reported
    Every task gives exactly one outcome. If there is no value, ``outcome.error`` is a text for people and
    ``outcome.exception`` tells the cases apart:

    ==================================  ========================================================================
    the objective raised                its exception (a RuntimeError if that cannot be pickled), with traceback
    the value cannot be pickled         ``TypeError`` (in other processes only)
    the worker died                     ``WorkerDied``; another worker takes its place. A worker that dies while
                                        idle costs nothing: its task goes to another one
    the task took longer than timeout   ``TimeoutError``; its worker is killed, with all that it started
    the task was cancelled              ``CancelledError``; likewise
    ==================================  ========================================================================

    A failed task is tried again up to ``retries`` times before it is reported; a cancelled one is not. If the objective
    cannot be loaded at all, every task would fail: ``wait`` raises.

    On Ray some of this differs:

    ==================================  ========================================================================
    the objective cannot be loaded      each task fails; ``wait`` does not raise
    the worker died                     also if its machine is gone, or if Ray was shut down (then without retries)
    the task took longer than timeout   its worker ends itself, with its children and theirs; those whose parent has
                                        ended before run on
    the task was cancelled              Ray ends the worker; what it started may run on
    ==================================  ========================================================================

What is written by hand, and why
    ``child.py`` starts, watches and kills child processes, and says why each step is needed. The process pools of
    concurrent.futures, loky and pebble were tried: in the first two any dead worker breaks the pool, in pebble one that
    dies while idle does, and a timeout leaves running what the evaluation has started. None of them gives a child its
    own output and environment, or imports the user's script only if the objective is defined in it.
    ``psutil`` finds the processes to kill, ``multiprocessing`` carries the messages and imports the user's script.

A child process imports this package, so nothing here imports NumPy or Ray until it is needed.
"""

from dechbo.execution.child import report_progress
from dechbo.execution.executor import Executor, InlineExecutor
from dechbo.execution.function import Function
from dechbo.execution.outcome import Outcome
from dechbo.execution.process import ProcessExecutor
from dechbo.execution.ray import RayExecutor

__all__ = [
    "Executor",
    "Function",
    "InlineExecutor",
    "Outcome",
    "ProcessExecutor",
    "RayExecutor",
    "report_progress",
]
