"""A broker in the process of its test, in a thread with a loop or on a loop that runs.

Rule: to `KafkaBroker` the broker is a process like any other, with the same options, log and life. Nothing of the
process changes for the test: signals, garbage collector and standard streams stay as they are, and the records of the
package's logger go to the log of their broker, not to the test. All brokers of a process are independent of each other.

Data in a temporary directory are never synced: they end with the process. `kill` ends a broker without a last write to
its files, and without a word to its clients.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from argparse import Namespace
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import cache
from typing import TYPE_CHECKING, Any

from pykafka_broker.cli import serve as command
from pykafka_broker.cli.commands import BAD_USAGE
from pykafka_broker.cli.log_lines import OneLine
from pykafka_broker.config import ConfigError, UnusableError
from pykafka_broker.log.filesystem import DisposableFiles
from pykafka_broker.log.log_directory import LogDirectoryError
from pykafka_broker.platform import KILL, STOP
from pykafka_broker.server.event_loop import new_event_loop
from pykafka_broker.server.serving import ProcessExtension, Running, serve
from pykafka_broker.testing.data import BrokerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pykafka_broker.testing.process import Options

LOGGER = logging.getLogger("pykafka_broker")
_JOB_S = 0.001
_broker: ContextVar[BrokerInProcess | None] = ContextVar("broker", default=None)  # the one whose turn it is


@cache
def _unset_options() -> dict[str, Any]:
    return vars(command.parser().parse_args([]))


class BrokerInProcess:
    """A run of a broker in this process, with the methods of `subprocess.Popen` that `KafkaBroker` uses.

    Args:
        options: of the command `pykafka-broker`, as its parser would return them.
    """

    stdin = stdout = None

    def __init__(self, options: Options, log_path: str, log_level: str) -> None:
        self.returncode: int | None = None
        self.running: Running | None = None
        self._options = options
        self._log_path, self._log_level = log_path, log_level
        self._lines: dict[str, str] = {}  # what a process prints, by the words that come first
        self._settled = threading.Event()  # ready, or ended
        self._awaited: asyncio.Future[None] | None = None  # done as `_settled` is set
        self._ended = threading.Event()
        self._guard = threading.Lock()
        self._stop: Callable[[], object] | None = None
        self._asked = False
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread | None = None  # None on the loop of the test
        self._task: asyncio.Task[int]

    # -- life

    def start(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Begin to serve: on this loop, which runs in another thread, or without one in a thread of its own."""
        if loop is not None:
            self._loop = loop
            loop.call_soon_threadsafe(self._begin)
            return
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="pykafka-broker", daemon=True)
        self._thread.start()

    def _run_loop(self) -> None:
        try:
            self._begin()
            self._loop.run_until_complete(self._task)
        finally:
            self._loop.close()

    def _begin(self) -> None:
        context = copy_context()
        context.run(_broker.set, self)
        self._task = self._loop.create_task(self._serve(), context=context)
        self._task.add_done_callback(self._on_end)

    def _on_end(self, task: asyncio.Task[int]) -> None:
        error = None if task.cancelled() else task.exception()
        self.returncode = command.CANNOT_START if task.cancelled() or error is not None else task.result()
        self._stop = self.running = None  # a restarted broker's object keeps this one until its own end
        self._ended.set()
        self._settle()

    async def _serve(self) -> int:
        with _logging_to(self._log_path, self._log_level, self):
            try:
                options = Namespace(**_unset_options() | self._options)
                plan = command.planned(options, options.data_dir, {}, self._say)
                command.warn(plan.config)
                assert plan.beside is not None  # of a broker with the control API
                beside = _Observed(plan.beside, self)
                return int(await serve(plan.config, self._loop, self._announce, self, plan.setup, beside, None))
            except (command.Mistakes, ConfigError) as mistakes:
                LOGGER.error("%s", mistakes)
                return BAD_USAGE
            except (UnusableError, LogDirectoryError, OSError) as error:
                LOGGER.error("cannot start: %s", command.reason_of(error))
                return command.CANNOT_START
            except Exception:
                LOGGER.exception("a defect ends the broker")
                raise

    def _announce(self, bound: Sequence[tuple[str, int]]) -> None:
        self._say(f"listening on {','.join(command.addresses_of(bound))}")
        self._settle()

    def _settle(self) -> None:
        self._settled.set()
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)

    def _say(self, line: str) -> None:
        begin, on, rest = line.partition(" on ")
        self._lines[begin + on] = rest

    def await_ready(self, timeout_s: float) -> dict[str, str] | None:
        """Return what a process would have printed, by the words that come first; None after the time.

        A broker that can't start has ended by then.
        """
        return self._lines if self._settled.wait(timeout_s) else None

    async def ready(self, timeout_s: float) -> dict[str, str] | None:
        """Return the same as `await_ready`, awaited on the loop that serves: no thread is begun to wait."""
        if not self._settled.is_set():
            self._awaited = self._loop.create_future()
            await asyncio.wait([self._awaited], timeout=timeout_s)
        return self.await_ready(0)

    async def end(self) -> None:
        """Kill the broker, and await its end on the loop that serves."""
        self.kill()
        await asyncio.wait([self._task])

    def hand_to(self, stop: Callable[[], object]) -> None:
        """Take the function that ends the broker; it may have been asked for by now."""
        with self._guard:
            self._stop = stop
            asked = self._asked
        if asked:
            stop()

    # -- as a process

    @property
    def pid(self) -> int:
        raise BrokerError("this broker runs in the process of the test (in_process=True): it has no process id")

    def poll(self) -> int | None:
        """Return the exit code that a process would have, None while the broker runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises TimeoutError."""
        if self._thread is None and _running_loop() is self._loop and self.returncode is None:
            raise BrokerError("this broker runs on the loop of the test: await its end (async with KafkaBroker(...))")
        if not self._ended.wait(timeout):
            raise TimeoutError
        if self._thread is not None:
            self._thread.join(timeout)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """End in an orderly way for SIGTERM, at once for SIGKILL; pauses are for processes."""
        if number == KILL:
            self.kill()
        elif number == STOP:
            self._ask()

    def kill(self) -> None:
        """End as kill -9 does; from any thread."""
        self._on_loop(self._kill)

    def _kill(self) -> None:
        if self.running is not None and self.returncode is None:
            files = self.running.server.broker.fs
            assert isinstance(files, DisposableFiles)
            files.revoke()
            self.running.server.kill()
            if (peers := self.running.peers) is not None:
                peers.admits = lambda address: False
                peers.cut()
        self._ask()

    @contextmanager
    def standing_still(self, timeout_s: float) -> Iterator[None]:
        """Let the broker stand still between two turns, with no job under way. Raises BrokerError."""
        still, go_on = threading.Event(), threading.Event()

        def stand() -> None:
            if self.running is not None and not self.running.jobs.is_idle:
                self._loop.call_later(_JOB_S, stand)
                return
            still.set()
            go_on.wait()

        if self._thread is None:
            raise BrokerError("a broker on the loop of the test can't stand still: make it with `with`")
        self._on_loop(stand)
        try:
            if not still.wait(timeout_s):
                raise BrokerError(f"the broker does not stand still within {timeout_s} s")
            yield
        finally:
            go_on.set()

    def _ask(self) -> None:
        with self._guard:
            self._asked, stop = True, self._stop
        if stop is not None:
            self._on_loop(stop)

    def _on_loop(self, step: Callable[[], object]) -> None:
        if self.returncode is None:
            with suppress(RuntimeError):  # the loop has just closed
                self._loop.call_soon_threadsafe(step)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _Observed(ProcessExtension):
    """An extension whose broker a `BrokerInProcess` has in hand as soon as it serves."""

    def __init__(self, other: ProcessExtension, process: BrokerInProcess) -> None:
        super().__init__(other)
        self._process = process

    def attend(self, running: Running) -> None:
        self._process.running = running
        super().attend(running)


# -- the log


class BrokerLogHandler(logging.FileHandler):
    """The log of one broker of several: what it logs, and what can be told of none."""

    def __init__(self, path: str, level: str, process: BrokerInProcess) -> None:
        super().__init__(path, encoding="utf-8")
        self.setLevel(level.upper())
        self.setFormatter(OneLine())
        self._process = process

    def filter(self, record: logging.LogRecord) -> Any:
        return _broker.get() in (None, self._process) and super().filter(record)


_handlers: set[BrokerLogHandler] = set()
_guard = threading.Lock()
_before = LOGGER.level, LOGGER.propagate  # while no broker runs in the process


@contextmanager
def _logging_to(path: str, level: str, process: BrokerInProcess) -> Iterator[None]:
    """Have the package log to a broker's file, and not to the handlers of the test."""
    handler = BrokerLogHandler(path, level, process)
    _keep(handler)
    try:
        yield
    finally:
        _drop(handler)


def _keep(handler: BrokerLogHandler) -> None:
    global _before  # one logger of the package, with one level
    with _guard:
        if not _handlers:
            _before = LOGGER.level, LOGGER.propagate
        _handlers.add(handler)
        LOGGER.addHandler(handler)
        LOGGER.propagate = False
        _set_level(min(each.level for each in _handlers))


def _set_level(level: int) -> None:
    """Set the level of the package's logger; each change makes all loggers of the process forget theirs."""
    if LOGGER.level != level:
        LOGGER.setLevel(level)


def _drop(handler: BrokerLogHandler) -> None:
    with _guard:
        _handlers.discard(handler)
        LOGGER.removeHandler(handler)
        if _handlers:
            _set_level(min(each.level for each in _handlers))
        else:
            level, LOGGER.propagate = _before
            _set_level(level)
    handler.close()
