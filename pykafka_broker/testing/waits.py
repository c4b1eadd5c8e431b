"""Waiting for something to be so, and saying that it is, without polling.

Rule: what does not come to be so, or is not so, is an AssertionError that says how it was instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pykafka_broker.testing.control_client import ControlClient, ControlError
from pykafka_broker.testing.handle import BrokerError, Handle
from pykafka_broker.testing.record import Record, from_answer, to_request

_NOT_IN_TIME = 408
_DOES_NOT_HOLD = 417
POLL_S = 0.01
_SPARE_S = 30.0  # for the answer itself, on a busy machine
N = TypeVar("N")
T = TypeVar("T")


class NotSo(AssertionError):
    """What was waited for or said is not so."""


class NotInTime(NotSo, TimeoutError):
    """What was waited for did not come in time."""


class Waits(Handle):
    """Waits of a test. A `timeout` is in seconds."""

    def wait_for_group(
        self, group: str, state: str | None = None, members: int | None = None, timeout: float = 10
    ) -> dict[str, Any]:
        """Wait until the group is there, in that state ("Stable", "Empty", ...), with so many members."""
        found: dict[str, Any] = self._ask("waits/group", timeout, {"group": group, "state": state, "members": members})
        return found

    def wait_for_records(
        self, topic: str, n: int, timeout: float = 10, isolation_level: str = "read_uncommitted"
    ) -> list[Record]:
        """Wait until the topic has at least `n` records, and return the first of them."""
        body = {"topic": topic, "n": n, "isolation_level": isolation_level}
        return [from_answer(each) for each in self._ask("waits/records", timeout, body)]

    def wait_for_lag(self, group: str, lag: int = 0, timeout: float = 10) -> int:
        """Wait until the group has committed offsets and has at most so many records still to read."""
        return int(self._ask("waits/lag", timeout, {"group": group, "lag": lag})["lag"])

    def wait_for_transaction(self, transactional_id: str, state: str, timeout: float = 10) -> dict[str, Any]:
        """Wait until the transaction of that id is in that state ("Ongoing", "CompleteCommit", ...)."""
        body = {"transactional_id": transactional_id, "state": state}
        found: dict[str, Any] = self._ask("waits/transaction", timeout, body)
        return found

    def wait_for_connections(
        self, client_id: str | None = None, n: int = 1, timeout: float = 10
    ) -> list[dict[str, Any]]:
        """Wait until at least `n` connections of that client id are there; with `n` 0, until there is none. A `*`
        stands for anything.
        """
        body = {"client_id": client_id, "n": n}
        found: list[dict[str, Any]] = wait(self.control, "waits/connections", timeout, body)
        return found

    def assert_records(
        self, topic: str, records: Iterable[Any], timeout: float = 0, isolation_level: str = "read_uncommitted"
    ) -> list[Record]:
        """Say that the topic has exactly these records, as `produce` takes them, and return them. What an expected one
        does not name is not compared. With a `timeout` there is time for them to come.
        """
        __tracebackhide__ = True
        body = {
            "topic": topic,
            "records": [to_request(each) for each in records],
            "isolation_level": isolation_level,
        }
        return [from_answer(each) for each in self._ask("assertions/records", timeout, body)]

    def assert_no_more(self, topic: str, within_ms: int = 1_000, isolation_level: str = "read_uncommitted") -> None:
        """Say that nothing is added to the topic from now on for that time."""
        __tracebackhide__ = True
        body = {"topic": topic, "within_ms": within_ms, "isolation_level": isolation_level}
        _call(self.control, "assertions/no-more", body, within_ms / 1000)

    def _ask(self, path: str, timeout: float, body: Mapping[str, Any]) -> Any:
        __tracebackhide__ = True
        return wait(self.control, path, timeout, body)


def wait(control: ControlClient, path: str, timeout: float, body: Mapping[str, Any]) -> Any:
    """Ask for something that may take so many seconds to be so."""
    __tracebackhide__ = True
    return _call(control, path, {**body, "timeout_ms": round(timeout * 1000)}, timeout)


def _call(control: ControlClient, path: str, body: Mapping[str, Any], timeout: float) -> Any:
    __tracebackhide__ = True
    try:
        return control.call("POST", f"/{path}", body, timeout_s=timeout + _SPARE_S)
    except ControlError as error:
        if error.status == _NOT_IN_TIME:
            raise NotInTime(str(error)) from None
        if error.status == _DOES_NOT_HOLD:
            raise NotSo(str(error)) from None
        raise


def wait_until(holds: Callable[[], bool], instead: Callable[[], str], timeout: float) -> None:
    """Look again and again, where several brokers are asked. Raises NotInTime, with how it is instead, and the last
    refusal if there was one.
    """
    __tracebackhide__ = True
    deadline, problem = time.monotonic() + timeout, ""
    while True:
        try:
            if holds():
                return
            problem = ""
        except (ControlError, BrokerError, OSError) as error:
            problem = f": {error}"
        if time.monotonic() > deadline:
            raise NotInTime(f"after {timeout} s {instead()}{problem}")
        time.sleep(POLL_S)


def each(nodes: Iterable[N], step: Callable[[N], T]) -> list[T]:
    """Do it with all of them at the same time. Returns the results in their order; raises the first error, once all
    have ended.
    """
    listed = list(nodes)
    with ThreadPoolExecutor(max(1, len(listed))) as pool:
        return list(pool.map(step, listed))
