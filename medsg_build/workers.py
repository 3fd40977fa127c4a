"""One function over many items: results in the order of the items, a bounded queue, any executor.

Choice: a generator over `concurrent.futures`, so that dask's executor fits later.
Rejected: `Executor.map` (submits everything at once: memory grows with the work) and `as_completed`
(an order that depends on luck).
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, TypeVar

from .errors import MedsgError, RecipeError

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True, slots=True)
class Failure:
    """An item that could not be done, and why; recorded, never printed and forgotten.

    `kind` is the error's class; `expected` is False where it is not one of ours (a fault of the
    tool rather than of the data).
    """

    item: str
    kind: str
    message: str
    expected: bool = True


@dataclass(frozen=True, slots=True)
class Pool:
    """Where work runs; `None` runs it here, one item after the other."""

    executor: Executor | None
    width: int


def calm() -> None:
    """Hold OpenCV to one thread: parallelism is over cases, and nested threads only fight."""
    import cv2

    cv2.setNumThreads(1)


@contextmanager
def executor(spec: str) -> Iterator[Pool]:
    """The pool that `spec` names: `serial`, `threads:N`, `processes:N`, or a bare N (processes).

    Processes are spawned, not forked: the same on every system, and safe beside threads.
    Raises `RecipeError` for anything else.
    """
    kind, _, count = spec.partition(":")
    if kind.isdigit() and not count:
        kind, count = ("serial", "") if int(kind) == 1 else ("processes", kind)
    if kind == "serial" and not count:
        calm()
        yield Pool(None, 1)
        return
    limit = 4 * (os.cpu_count() or 1)
    if kind not in ("threads", "processes") or not count.isdigit() or not 1 <= int(count) <= 1024:
        raise RecipeError(
            f"--workers {spec!r}: expected serial, a number, threads:N or processes:N "
            f"(N from 1 to 1024; more than {limit} is seldom of use here)"
        )
    width = int(count)
    pool: Executor
    if kind == "threads":
        pool = ThreadPoolExecutor(width, initializer=calm)
    else:
        pool = ProcessPoolExecutor(width, mp_context=get_context("spawn"), initializer=calm)
    with pool:
        try:
            yield Pool(pool, width)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def each(
    function: Callable[[In], Out], items: Iterable[In], pool: Pool, name: Callable[[In], str]
) -> Iterator[Out | Failure]:
    """`function(item)` for every item, in order; an error becomes a `Failure` named `name(item)`.

    At most two items a worker wait or run at once, so memory does not grow with the work.
    """
    if pool.executor is None:
        for item in items:
            yield _attempt(function, item, name(item))
        return
    waiting: deque[tuple[str, Future[Out | Failure]]] = deque()
    for item in items:
        word = name(item)
        try:
            waiting.append((word, pool.executor.submit(_attempt, function, item, word)))
        except BrokenExecutor as error:
            while waiting:
                yield _settled(*waiting.popleft())
            yield failure(word, error)
            continue
        if len(waiting) > 2 * pool.width:
            yield _settled(*waiting.popleft())
    while waiting:
        yield _settled(*waiting.popleft())


def _attempt(function: Callable[[In], Out], item: In, word: str) -> Out | Failure:
    """Runs in the worker, so that a failure tells where it was raised."""
    try:
        return function(item)
    except Exception as error:  # noqa: BLE001  a row, not a crash: the run goes on
        return failure(word, error)


def _settled(word: str, future: Future[Any]) -> Any:
    try:
        return future.result()
    except BrokenExecutor as error:
        return failure(word, error)


def failure(item: str, error: Exception) -> Failure:
    """The row that records `error`; one that is not ours tells where it was raised."""
    if isinstance(error, MedsgError):
        return Failure(item, type(error).__name__, str(error))
    if isinstance(error, BrokenExecutor):
        told = "a worker process was killed, perhaps for lack of memory; use fewer --workers"
        return Failure(item, "WorkerDied", told)
    last, trace = "", error.__traceback__
    while trace:
        code = trace.tb_frame.f_code
        last, trace = f" (in {code.co_name}, line {trace.tb_lineno})", trace.tb_next
    return Failure(item, type(error).__name__, f"{error}{last}", expected=False)
