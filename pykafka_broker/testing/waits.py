"""Waiting for something to be so, and saying that it is, without polling.

Rule: what does not come to be so, or is not so, is an AssertionError that says how it was instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pykafka_broker.testing.answers import Connection, Group, Transaction
from pykafka_broker.testing.control_client import ControlClient, ControlError, told_to_the_test
from pykafka_broker.testing.data import Data
from pykafka_broker.testing.handle import BrokerError
from pykafka_broker.testing.record import (
    ANY,
    Headers,
    NewContent,
    NewRecord,
    Record,
    RecordLike,
    from_answer,
    several,
    to_expectation,
)

__tracebackhide__ = told_to_the_test

_NOT_IN_TIME = 408
_DOES_NOT_HOLD = 417
POLL_S = 0.01
_SPARE_S = 30.0  # for the answer itself, on a busy machine
N = TypeVar("N")
T = TypeVar("T")
Step = Callable[[N], T]  # something that is done with a node


class RecordsDiffer(AssertionError):
    """A topic has not the records that it should have. `expected` are the records as the test named them, `found` the
    `Record`s that the topic has, at most the first 5,000.
    """

    def __init__(self, says: str, expected: Sequence[RecordLike] = (), found: Sequence[Record] = ()) -> None:
        super().__init__(says)
        self.expected = list(expected)
        self.found = list(found)


class WaitTimeout(AssertionError, TimeoutError):
    """A wait that ended without what was waited for; the text says how things stood."""


class Waits(Data):
    """Waits of a test. A `timeout` is in seconds."""

    def wait_for_group(
        self, group: str, state: str | None = None, members: int | None = None, timeout: float = 10
    ) -> Group:
        """Wait until the group is there, in that state ("Stable", "Empty", ...), with exactly so many members."""
        found: Group = self._ask("waits/group", timeout, {"group": group, "state": state, "members": members})
        return found

    def wait_for_records(
        self, topic: str, n: int, timeout: float = 10, isolation_level: str = "read_committed"
    ) -> list[Record]:
        """Wait until the topic has at least `n` records, and return the first `n` of them."""
        __tracebackhide__ = True
        body = {"topic": topic, "n": n, "isolation_level": isolation_level}
        page = self._ask("waits/records", timeout, body)
        return self._whole(page, topic, n, isolation_level)[:n]

    def wait_for_record(
        self,
        topic: str,
        *,
        key: NewContent = ANY,
        value: NewContent = ANY,
        headers: Headers | None = None,
        partition: int | None = None,
        timeout: float = 10,
        isolation_level: str = "read_committed",
    ) -> Record:
        """Wait until the topic has a record with this key, value and headers, whatever is named of them, and return the
        first one. They are as `produce` takes them; a dict is compared with the record's JSON.
        """
        __tracebackhide__ = True
        record = to_expectation(NewRecord(value, key, headers, partition=partition))
        body = {"topic": topic, "record": record, "isolation_level": isolation_level}
        return from_answer(self._ask("waits/record", timeout, body))

    def wait_for_lag(self, group: str, lag: int = 0, timeout: float = 10) -> int:
        """Wait until the group has committed offsets and has at most so many records still to read."""
        return int(self._ask("waits/lag", timeout, {"group": group, "lag": lag})["lag"])

    def wait_for_transaction(self, transactional_id: str, state: str, timeout: float = 10) -> Transaction:
        """Wait until the transaction of that id is in that state ("Ongoing", "CompleteCommit", ...)."""
        body = {"transactional_id": transactional_id, "state": state}
        found: Transaction = self._ask("waits/transaction", timeout, body)
        return found

    def wait_for_connections(self, client_id: str | None = None, n: int = 1, timeout: float = 10) -> list[Connection]:
        """Wait until at least `n` connections of that client id are there; with `n` 0, until there is none. A `*`
        stands for anything.
        """
        body = {"client_id": client_id, "n": n}
        found: list[Connection] = wait(self.control, "waits/connections", timeout, body)
        return found

    def assert_records(
        self, topic: str, records: Iterable[RecordLike], timeout: float = 0, isolation_level: str = "read_committed"
    ) -> list[Record]:
        """Say that the topic has exactly these records, as `produce` takes them, and return them. None is a tombstone,
        or no key; a dict is compared with the record's JSON; fields that are left out, and `ANY`, are not compared.
        Records of one partition are compared in their order. With a `timeout` there is time for them to come. Raises
        RecordsDiffer.
        """
        __tracebackhide__ = True
        expected = several(f"assert_records({topic!r}", records)
        page = self._assert("assertions/records", topic, expected, timeout, isolation_level)
        return self._whole(page, topic, len(expected), isolation_level)

    def assert_contains(
        self, topic: str, records: Iterable[RecordLike], timeout: float = 0, isolation_level: str = "read_committed"
    ) -> None:
        """Say that the topic has these records, in any order and among others. They are as `assert_records` takes them.
        With a `timeout` there is time for them to come. Raises RecordsDiffer.
        """
        __tracebackhide__ = True
        expected = several(f"assert_contains({topic!r}", records)
        self._assert("assertions/contains", topic, expected, timeout, isolation_level)

    def _assert(self, path: str, topic: str, expected: list[RecordLike], timeout: float, isolation_level: str) -> Any:
        __tracebackhide__ = True
        records = list(map(to_expectation, expected))
        try:
            return self._ask(path, timeout, {"topic": topic, "records": records, "isolation_level": isolation_level})
        except RecordsDiffer as differ:
            differ.expected = expected
            raise

    def _whole(self, page: Mapping[str, Any], topic: str, n: int, isolation_level: str) -> list[Record]:
        """The records of a page, and those after it up to `n`."""
        if page["more"] and len(page["records"]) < n:
            return self.records(topic, isolation_level=isolation_level, limit=n)
        return list(map(from_answer, page["records"]))

    def assert_no_more(self, topic: str, within_ms: int = 1_000, isolation_level: str = "read_committed") -> None:
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
    check_timeout(timeout)
    return _call(control, path, {**body, "timeout_ms": round(timeout * 1000)}, timeout)


def _call(control: ControlClient, path: str, body: Mapping[str, Any], timeout: float) -> Any:
    __tracebackhide__ = True
    try:
        return control.call("POST", f"/{path}", body, timeout_s=timeout + _SPARE_S)
    except ControlError as error:
        if error.status == _NOT_IN_TIME:
            raise WaitTimeout(str(error)) from None
        if error.status == _DOES_NOT_HOLD:
            raise RecordsDiffer(str(error), found=list(map(from_answer, error.more.get("records", ())))) from None
        raise


def check_timeout(timeout: float) -> None:
    """Raise TypeError where a timeout is no number."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout must be a number of seconds, not {timeout!r}")


def wait_until(holds: Callable[[], bool], instead: Callable[[], str], timeout: float) -> None:
    """Look again and again, where several brokers are asked. Raises WaitTimeout, with how it is instead, and the last
    refusal if there was one.
    """
    __tracebackhide__ = True
    check_timeout(timeout)
    deadline, problem = time.monotonic() + timeout, ""
    while True:
        try:
            if holds():
                return
            problem = ""
        except (ControlError, BrokerError, OSError) as error:
            problem = f": {error}"
        if time.monotonic() > deadline:
            raise WaitTimeout(f"after {timeout} s {instead()}{problem}")
        time.sleep(POLL_S)


def all_at_once(nodes: Iterable[N], step: Step[N, T]) -> list[T]:
    """Do it with all of them at the same time. Returns the results in their order; raises the first error, once all
    have ended.
    """
    listed = list(nodes)
    with ThreadPoolExecutor(max(1, len(listed))) as pool:
        return list(pool.map(step, listed))
