"""The control API from an event loop; polling, parallel calls and blocking work of the asynchronous form.

Rule: a call has a connection of its own, which is closed when the call ends, is cancelled or fails. So the broker drops
an operation when its caller has gone, no thread is used, and nothing is left on a loop that ends. The event loop is
never blocked, and the default thread pool, which belongs to the test, is never used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

import h11

from pykafka_broker.control.http import Request, ask
from pykafka_broker.testing.control_client import (
    DEFAULT_TIMEOUT_S,
    ControlClient,
    ControlError,
    address_of,
    read_answer,
    written_call,
)
from pykafka_broker.testing.data import (
    POLL_S,
    BrokerError,
    NotReached,
    WaitTimeout,
    problem_that_may_pass,
    time_limit,
)

# -- calls


class AsyncControlClient:
    """`ControlClient`, awaited. of: the client of a broker's process, which is told when another one has begun."""

    def __init__(self, url: str, token: str | None = None, of: ControlClient | None = None) -> None:
        self._host, self._port = address_of(url)
        self.url = url.rstrip("/")
        self._token = token
        self._of = of

    @property
    def is_of_the_past(self) -> bool:
        """Whether another process serves there by now, as far as is known here."""
        return self._of is not None and self._of.is_of_the_past

    def at(self, process: ControlClient) -> AsyncControlClient:
        """Return the client of the same kind for another process."""
        return AsyncControlClient(process.url, of=process)

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | str | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Any:
        """Call an operation, as `ControlClient.call`."""
        target, headers, data = written_call(path, body, query, self._token)
        try:
            async with asyncio.timeout(timeout_s):
                request = Request(method, target, headers, data or b"")
                status, content_type, answer = await ask((self._host, self._port), request)
        except h11.RemoteProtocolError as error:  # half an answer, or none
            raise ConnectionError(f"{self.url}: {error}") from error
        except TimeoutError as error:
            raise TimeoutError(f"{self.url}: no answer within {timeout_s:g} s") from error
        except OSError as error:
            error.filename = self.url  # so the error names the address
            raise
        return read_answer(status, content_type.partition(";")[0].strip(), answer)


# -- waits and threads


P = ParamSpec("P")
T = TypeVar("T")
N = TypeVar("N")
Step = Callable[[N], Coroutine[Any, Any, T]]
F = TypeVar("F", bound="Closed")
Context = TypeVar("Context", bound=AbstractAsyncContextManager[Any])


class Closed(Protocol):
    """A broker or a cluster, which ends with `close`."""

    def close(self) -> None: ...


async def poll(look: Callable[[], Awaitable[T]], unknown: str, timeout: float) -> T:
    """Return the answer of `look`, as `data.poll`, awaited."""
    __tracebackhide__ = True
    loop = asyncio.get_running_loop()
    problem, state = "", NotReached(unknown)
    with time_limit(timeout, loop.time()) as (deadline, limit_s):
        while True:
            try:
                return await look()
            except NotReached as error:
                state, problem = error if any(error.args) else state, ""
            except (ControlError, BrokerError, OSError) as error:
                problem = problem_that_may_pass(error)
            if loop.time() > deadline:
                raise WaitTimeout(f"after {limit_s} s {state}{problem}")
            await asyncio.sleep(POLL_S)


async def all_at_once(nodes: Iterable[N], step: Step[N, T]) -> list[T]:
    """Do a step with all nodes at the same time, as `data.all_at_once`, awaited."""
    results = await asyncio.gather(*map(step, nodes), return_exceptions=True)
    if failures := [each for each in results if isinstance(each, BaseException)]:
        raise failures[0]
    return cast("list[T]", results)


async def in_thread(
    work: Callable[[], T], stop: Callable[[], object] | None = None, undo: Callable[[], object] | None = None
) -> T:
    """Do blocking work in a separate thread.

    A thread can't be cancelled. If the caller is cancelled, it waits for the end of the work; if it is cancelled again,
    work and `undo` are done all the same.

    Args:
        work: the work, whose result is returned.
        stop: called after a cancellation, to end the work.
        undo: called after a cancelled work, to reverse its effects.
    """
    threads = ThreadPoolExecutor(1)
    loop = asyncio.get_running_loop()
    working = loop.run_in_executor(threads, work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        if stop is not None:
            stop()
        steps = [working] if undo is None else [working, loop.run_in_executor(threads, undo)]  # one after the other
        await asyncio.shield(asyncio.gather(*steps, return_exceptions=True))
        raise
    finally:
        threads.shutdown(wait=False)


async def forked(fork: Callable[[], F]) -> F:
    """Make a fork in a thread. A fork whose caller is cancelled meanwhile is closed."""
    made = list[F]()
    await in_thread(lambda: made.append(fork()), undo=lambda: [each.close() for each in made])
    return made[0]


def threaded(
    method: Callable[Concatenate[Any, P], T], of: str
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return the asynchronous form of a method, which is done in a thread.

    of: the attribute of the form that has the object whose method it is.
    """

    @wraps(method)
    async def awaited(form: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(lambda: getattr(getattr(form, of), method.__name__)(*args, **kwargs))

    return awaited


class Entered(Generic[Context]):
    """An object from the broker: awaited, or entered at once.

    copy = await broker.fork()
    async with broker.fork() as copy: ...
    """

    def __init__(self, coming: Coroutine[Any, Any, Context]) -> None:
        self._coming = coming
        self._entered: Context

    if not TYPE_CHECKING:  # type checkers find it by themselves

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"{name} is of the result, which is awaited, or entered with `async with`", name=name)

    def __await__(self) -> Generator[Any, Any, Context]:
        return self._coming.__await__()

    async def __aenter__(self) -> Context:
        self._entered = await self._coming
        await self._entered.__aenter__()
        return self._entered

    async def __aexit__(self, *failure: Any) -> None:
        await self._entered.__aexit__(*failure)


def entered(function: Callable[P, Coroutine[Any, Any, Context]]) -> Callable[P, Entered[Context]]:
    """Let the result of an asynchronous method be entered without `await`."""

    @wraps(function)
    def coming(*args: P.args, **kwargs: P.kwargs) -> Entered[Context]:
        return Entered(function(*args, **kwargs))

    return coming
