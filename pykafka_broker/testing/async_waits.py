"""Parts that the asynchronous form does in its own way: polling, several calls at once, blocking work.

Rule: the event loop is never blocked, and the default thread pool, which belongs to the test, is never used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from functools import wraps
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

from pykafka_broker.testing.control_client import ControlError
from pykafka_broker.testing.handle import BrokerError
from pykafka_broker.testing.waits import POLL_S, WaitTimeout, check_timeout

P = ParamSpec("P")
T = TypeVar("T")
N = TypeVar("N")
Step = Callable[[N], Coroutine[Any, Any, T]]
Context = TypeVar("Context", bound=AbstractAsyncContextManager[Any])


async def wait_until(holds: Callable[[], Awaitable[bool]], instead: Callable[[], str], timeout: float) -> None:
    """`waits.wait_until`, awaited."""
    __tracebackhide__ = True
    check_timeout(timeout)
    loop = asyncio.get_running_loop()
    deadline, problem = loop.time() + timeout, ""
    while True:
        try:
            if await holds():
                return
            problem = ""
        except (ControlError, BrokerError, OSError) as error:
            problem = f": {error}"
        if loop.time() > deadline:
            raise WaitTimeout(f"after {timeout} s {instead()}{problem}")
        await asyncio.sleep(POLL_S)


async def all_at_once(nodes: Iterable[N], step: Step[N, T]) -> list[T]:
    """`waits.all_at_once`, awaited."""
    results = await asyncio.gather(*map(step, nodes), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


async def in_thread(
    work: Callable[[], T], stop: Callable[[], object] | None = None, undo: Callable[[], object] | None = None
) -> T:
    """Do blocking work in a thread of its own. A thread can't be cancelled: a caller that is cancelled waits for the
    end of the work, which `stop` brings about, and then for `undo`, which takes back what the work has done.
    """
    threads = ThreadPoolExecutor(1)
    loop = asyncio.get_running_loop()
    working = loop.run_in_executor(threads, work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        if stop is not None:
            stop()
        await asyncio.gather(working, return_exceptions=True)
        if undo is not None:
            await loop.run_in_executor(threads, undo)
        raise
    finally:
        threads.shutdown(wait=False)


class Entered(Generic[Context]):
    """Something that comes from the broker: awaited, or entered at once.

    copy = await broker.fork()
    async with broker.fork() as copy: ...
    """

    def __init__(self, coming: Coroutine[Any, Any, Context]) -> None:
        self._coming = coming
        self._entered: Context

    def __await__(self) -> Generator[Any, Any, Context]:
        return self._coming.__await__()

    async def __aenter__(self) -> Context:
        self._entered = await self._coming
        await self._entered.__aenter__()
        return self._entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._entered.__aexit__(kind, error, trace)


def entered(function: Callable[P, Coroutine[Any, Any, Context]]) -> Callable[P, Entered[Context]]:
    """Let what an asynchronous method returns be entered without `await`."""

    @wraps(function)
    def coming(*args: P.args, **kwargs: P.kwargs) -> Entered[Context]:
        return Entered(function(*args, **kwargs))

    return coming
