"""Topics, records and groups of a broker, without a client; waits and assertions about them.

Rule: waits do not poll: the broker answers when the condition holds. A condition that does not come true, or does not
hold, is an AssertionError that tells the state instead.
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from pykafka_broker.testing.answers import (
    CommittedPartition,
    ConfigValue,
    Connection,
    Group,
    GroupSummary,
    Topic,
    Transaction,
)
from pykafka_broker.testing.arguments import check_count, check_timeout, check_topic_config, epoch_ms
from pykafka_broker.testing.control_client import ControlClient, ControlError, in_path, told_to_the_test
from pykafka_broker.testing.record import (
    ANY,
    Headers,
    NewContent,
    NewRecord,
    Record,
    RecordLike,
    from_answer,
    said,
    several,
    to_each,
    to_expectation,
    to_request,
)

# -- the base of all parts


T = TypeVar("T")
P = ParamSpec("P")


def made_as(
    maker: Callable[Concatenate[Any, P], object],
) -> Callable[[Callable[..., T]], Callable[Concatenate[Any, P], T]]:
    """Give a method the parameters of another, for type checkers, editors and `help`."""

    def dressed(function: Callable[..., T]) -> Callable[Concatenate[Any, P], T]:
        function.__wrapped__ = maker  # type: ignore[attr-defined]  # where inspect.signature looks
        return function

    return dressed


class BrokerError(RuntimeError):
    """The broker did not start or did not end, or is not running; the text has the end of the log."""


class Handle:
    """A broker, or a part of a broker, behind a control API."""

    @property
    def control(self) -> ControlClient:
        """The control API."""
        raise NotImplementedError

    def _answer(self, kind: type[T], method: str, path: str, body: Any = None, **options: Any) -> T:
        """Call an operation, and return the answer of a known type."""
        answer: T = self.control.call(method, path, body, **options)
        return answer


class BrokerPart(Handle):
    """A part of a broker, with the broker's control API."""

    def __init__(self, control: ControlClient) -> None:
        self._control = control

    @property
    def control(self) -> ControlClient:
        return self._control


# -- topics, records and groups


__tracebackhide__ = told_to_the_test

AT_ONCE = 1_000  # records in a call
_PART_CHARACTERS = 4 << 20
_LONG_S = 600.0
_deadline: ContextVar[float] = ContextVar("_deadline", default=inf)  # of the wait that the caller is in
N = TypeVar("N")
Step = Callable[[N], T]  # an operation on a node


class Data(Handle):
    """Topics, records and groups, for a test.

    What concerns a partition, a group or a transaction is a step done with the broker that has it: a broker alone has
    all of them, a cluster finds the leader or the coordinator.
    """

    def _at_leader(self, topic: str, partition: int, step: Step[Any, T]) -> T:
        return step(self)

    def _at_coordinator(self, step: Step[Any, T], group: str | None = None, transactional_id: str | None = None) -> T:
        return step(self)

    # -- topics

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        config: Mapping[str, ConfigValue] | None = None,
        *,
        replication_factor: int | None = None,
        exist_ok: bool = False,
    ) -> Topic:
        """Create a topic and return name, topic_id, partitions and config.

        Args:
            partitions: by default one.
            config: Kafka's topic configs.
            replication_factor: by default one.
            exist_ok: the topic may exist already, with the given partitions and configs.

        Raises:
            ControlError: Kafka would refuse the topic.
        """
        check_topic_config(config, f"; replicas are replication_factor={config!r}")
        body = {
            "name": name,
            "partitions": partitions,
            "config": None if config is None else dict(config),
            "replication_factor": replication_factor,
            "exist_ok": exist_ok,
        }
        return self._answer(Topic, "POST", "/topics", body)

    def alter_config(self, topic: str, config: Mapping[str, ConfigValue | None]) -> Topic:
        """Set configs of a topic and return the topic.

        Args:
            config: the new values; None restores a default.
        """
        check_topic_config(config)
        path = f"/topics/{in_path(topic)}/config"
        return self._answer(Topic, "POST", path, {"config": dict(config)})

    def add_partitions(self, topic: str, *, total: int) -> Topic:
        """Add partitions to a topic and return the topic.

        Args:
            total: the number of partitions afterwards.
        """
        return self._answer(Topic, "POST", f"/topics/{in_path(topic)}/partitions", {"total": total})

    def delete_topic(self, topic: str) -> None:
        """Delete a topic with all records."""
        self.control.call("DELETE", f"/topics/{in_path(topic)}")

    def topics(self, internal: bool = False) -> list[Topic]:
        """Return all topics; with `internal` also Kafka's own topics."""
        return self._answer(list[Topic], "GET", "/topics", query={"internal": internal})

    def topic(self, topic: str) -> Topic:
        """Return a topic."""
        return self._answer(Topic, "GET", f"/topics/{in_path(topic)}")

    # -- records

    def produce(self, topic: str, records: Iterable[RecordLike]) -> list[tuple[int, int]]:
        """Write records and return partition and offset of each, after the commit.

        Args:
            records: each is a value, or a pair of key and value, or a dict with `value` or `key`, and perhaps
                `headers`, `timestamp` (epoch milliseconds, or a datetime with a time zone) and `partition`, or a
                `NewRecord` with these fields. Keys and values are text, bytes or JSON values, None for none.

        Returns:
            Partition and offset of each record.
        """
        return self._write(topic, to_each(to_request, several("produce", topic, records)))

    def _write(self, topic: str, requests: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
        """Write records in the form of the control API (`NewRecord` in `/openapi.json`)."""
        written: list[tuple[int, int]] = []
        for start in range(0, len(requests), AT_ONCE):
            written += self._write_part(topic, requests[start : start + AT_ONCE])
        return written

    def _write_part(
        self, topic: str, requests: Sequence[Mapping[str, Any]], producer: Mapping[str, Any] | None = None
    ) -> list[tuple[int, int]]:
        """Write records in a single call, which may be repeated with a producer."""
        body = {"records": requests, "producer": producer}
        answer = self.control.call("POST", f"/topics/{in_path(topic)}/records", body)
        return [(each["partition"], each["offset"]) for each in answer]

    def records(
        self,
        topic: str,
        partition: int | None = None,
        from_offset: int = 0,
        isolation_level: str = "read_committed",
        limit: int | None = None,
        key: str | bytes | None = None,
    ) -> list[Record]:
        """Return the records of a topic; no group and no offset is touched.

        Args:
            partition: None for all partitions.
            from_offset: the first offset in each partition.
            isolation_level: with "read_uncommitted", records of open and aborted transactions are returned too and say
                so (`record.transaction`).
            limit: the most records to return.
            key: return only the records of this key.
        """
        if limit is not None:
            check_count("limit", limit, least=0)
        if key is not None and not isinstance(key, (str, bytes)):
            raise TypeError(f"key must be text or bytes, not {key!r}")
        query = {"isolation_level": isolation_level, **({} if key is None else said("key", key))}
        found: list[Record] = []
        for index in self._indexes(topic, partition):
            left = None if limit is None else limit - len(found)
            if left != 0:
                step = partial(_read, topic=topic, partition=index, offset=from_offset, limit=left, query=query)
                found += self._at_leader(topic, index, step)
        return found

    def _indexes(self, topic: str, partition: int | None) -> Iterable[int]:
        return range(self.topic(topic)["partitions"]) if partition is None else (partition,)

    def delete_records(
        self, topic: str, before_offset: int | None = None, partition: int | None = None
    ) -> dict[int, int]:
        """Delete the records before an offset; returns the new first offsets by partition.

        Args:
            before_offset: None for all records.
            partition: None for all partitions.
        """
        query = {"before_offset": before_offset, "partition": partition}
        left = self.control.call("DELETE", f"/topics/{in_path(topic)}/records", query=query)
        return {int(index): offset for index, offset in left.items()}

    # -- seed, dump and reset

    def seed(self, source: str | os.PathLike[str] | Iterable[str]) -> dict[str, int]:
        """Create the topics, records and offsets of a JSON Lines file, or of lines.

        The control API's `seed` describes the lines.

        Returns:
            The number of topics, records and offsets.

        Raises:
            ControlError: a line is invalid.
        """
        if isinstance(source, (str, os.PathLike)):
            with open(source, encoding="utf-8") as file:
                return self._seed(file)
        return self._seed(map(_text_line, source))

    def _seed(self, lines: Iterable[str]) -> dict[str, int]:
        seeded = {"topics": 0, "records": 0, "offsets": 0}
        for part in _parts(lines):
            for name, count in self.control.call("POST", "/seed", part).items():
                seeded[name] += count
        return seeded

    def dump(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return all topics, records and offsets of groups as JSON Lines for `seed`; also written to `path`."""
        text: str = self.control.call("GET", "/dump", timeout_s=_LONG_S)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    # -- groups

    def groups(self) -> list[GroupSummary]:
        """Return all groups: group_id, type, state, protocol_type and the number of members."""
        return self._answer(list[GroupSummary], "GET", "/groups")

    def group(self, group: str) -> Group:
        """Return a group with members and offsets."""
        path = f"/groups/{in_path(group)}"
        found: Group = self._at_coordinator(lambda node: node.control.call("GET", path), group)
        return found

    def lag(self, group: str) -> int:
        """Return the number of records still to read in the partitions with committed offsets.

        Offsets are counted, as Kafka's tools do, but nothing is left where only ends of transactions follow.
        `group(...)["offsets"]` has the number for each partition.
        """
        return int(self.control.call("GET", f"/groups/{in_path(group)}/lag")["lag"])

    def delete_group(self, group: str) -> None:
        """Delete a group with committed offsets. Raises ControlError while the group has members."""
        path = f"/groups/{in_path(group)}"
        self._at_coordinator(lambda node: node.control.call("DELETE", path), group)

    def commit(self, group: str, topic: str, offset: int, partition: int = 0, metadata: str = "") -> None:
        """Commit an offset for a group; a missing group is created.

        Args:
            offset: the offset of the next record to read.
            metadata: a text kept with the offset.

        Raises:
            ControlError: the group has members.
        """
        body = {"topic": topic, "offset": offset, "partition": partition, "metadata": metadata}
        path = f"/groups/{in_path(group)}/offsets"
        self._at_coordinator(lambda node: node.control.call("POST", path, body), group)

    def reset_offsets(
        self,
        group: str,
        topic: str | None = None,
        to: str | int | datetime.datetime = "earliest",
        partition: int | None = None,
    ) -> list[CommittedPartition]:
        """Commit new offsets for a group and return all committed offsets, as `group(...)["offsets"]`.

        Args:
            topic: None for all topics with committed offsets.
            to: "earliest", "latest", an offset, or a datetime with a time zone.
            partition: None for all partitions.

        Raises:
            ControlError: the group has members.
        """
        body: dict[str, Any] = {"topic": topic, "partition": partition}
        if isinstance(to, datetime.datetime):
            body["to_time"] = epoch_ms("to", to)
        else:
            body["to"] = to
        return self._answer(list[CommittedPartition], "POST", f"/groups/{in_path(group)}/offsets/reset", body)


def _read(
    node: Handle, topic: str, partition: int, offset: int, limit: int | None, query: Mapping[str, Any]
) -> list[Record]:
    """Return the records of a partition from an offset on, page by page."""
    found: list[Record] = []
    more = True
    while more and (limit is None or len(found) < limit):
        most = AT_ONCE if limit is None else min(limit - len(found), AT_ONCE)
        asked = {"partition": partition, "from_offset": offset, "limit": most, **query}
        page = node.control.call("GET", f"/topics/{in_path(topic)}/records", query=asked)
        found += map(from_answer, page["records"])
        offset, more = page["next_offsets"][str(partition)], page["more"]
    return found


def _text_line(line: object) -> str:
    if not isinstance(line, str):
        raise TypeError(f"a line to seed must be text, json.dumps(...) of an object, not {line!r:.80}")
    return line


def _parts(lines: Iterable[str]) -> Iterator[str]:
    """Yield whole lines, a few megabytes at once."""
    gathered: list[str] = []
    size = 0
    for line in lines:
        gathered.append(line.rstrip("\n"))
        size += len(line)
        if size >= _PART_CHARACTERS:
            yield "\n".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield "\n".join(gathered)


# -- waits


_WRONG_ARGUMENT = 400
_NOT_IN_TIME = 408
_DOES_NOT_HOLD = 417
POLL_S = 0.01
_LOOKED_ONCE = "(looked once: timeout=10 waits for records that are still to come)"
_SPARE_S = 30.0  # for the answer itself, on a busy machine


class RecordsDiffer(AssertionError):
    """A difference between the records of a topic and the expected records.

    `expected` are the records as the test named them, `found` the `Record`s of the topic, at most the first 5,000.
    """

    def __init__(self, says: str, expected: Sequence[RecordLike] = (), found: Sequence[Record] = ()) -> None:
        super().__init__(says)
        self.expected = list(expected)
        self.found = list(found)


class WaitTimeout(AssertionError, TimeoutError):
    """The end of a wait in vain; the text tells the state, and so does `state` alone, if a broker has told it."""

    def __init__(self, text: str, state: str = "") -> None:
        super().__init__(text)
        self.state = state


class Waits(Data):
    """Waits of a test. A `timeout` is in seconds."""

    def wait_for_group(
        self, group: str, state: str | None = None, members: int | None = None, timeout: float = 10
    ) -> Group:
        """Wait until the group exists with the given state and members, and return the group.

        Args:
            state: the state ("Stable", "Empty", ...), None for any.
            members: the exact number of members, None for any.
            timeout: in seconds.

        Raises:
            WaitTimeout: the group was not so in time.
        """
        if members is not None:
            check_count("members", members, least=0)
        body = {"group": group, "state": state, "members": members}
        return self._wait_at_coordinator(Group, "waits/group", timeout, body)

    def _wait_at_coordinator(self, kind: type[T], path: str, timeout: float, body: Mapping[str, Any]) -> T:
        """Wait at the coordinator of the group or the transactional id in the body."""
        return wait(self.control, kind, path, timeout, body)

    def wait_for_records(
        self, topic: str, n: int, timeout: float = 10, isolation_level: str = "read_committed"
    ) -> list[Record]:
        """Wait until the topic has enough records, and return the first `n` records.

        Args:
            n: the least number of records.
            timeout: in seconds.
            isolation_level: "read_uncommitted" counts records of open and aborted transactions too.

        Raises:
            WaitTimeout: the topic had fewer records in time.
        """
        __tracebackhide__ = True
        check_count("n", n, least=0)
        body = {"topic": topic, "n": n, "isolation_level": isolation_level}
        page = wait(self.control, dict, "waits/records", timeout, body)
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
        """Wait for a record with the key, value and headers, and return the first match.

        Args:
            key, value, headers, partition: as in `produce`; a field that is not given is not compared, and a dict is
                compared with the record's JSON.
            timeout: in seconds.
            isolation_level: "read_uncommitted" finds records of open and aborted transactions too.

        Raises:
            WaitTimeout: there was no such record in time.
        """
        __tracebackhide__ = True
        wanted = NewRecord(value, key, headers, partition=partition)
        return self._wait_for_record(topic, wanted, timeout, isolation_level)

    def _wait_for_record(self, topic: str, wanted: NewRecord, timeout: float, isolation_level: str) -> Record:
        __tracebackhide__ = True
        body = {"topic": topic, "record": to_expectation(wanted), "isolation_level": isolation_level}
        return from_answer(wait(self.control, dict, "waits/record", timeout, body))

    def wait_for_lag(self, group: str, lag: int = 0, timeout: float = 10) -> int:
        """Wait until the group has committed offsets and few records still to read; return the lag.

        Args:
            lag: the most records still to read.
            timeout: in seconds.

        Raises:
            WaitTimeout: the lag was larger in time, or nothing was committed.
        """
        check_count("lag", lag, least=0)
        return int(wait(self.control, dict, "waits/lag", timeout, {"group": group, "lag": lag})["lag"])

    def wait_for_transaction(self, transactional_id: str, state: str, timeout: float = 10) -> Transaction:
        """Wait for a state of a transaction, and return the transaction.

        Args:
            state: the state ("Ongoing", "CompleteCommit", ...).
            timeout: in seconds.

        Raises:
            WaitTimeout: the transaction was in another state in time.
        """
        body = {"transactional_id": transactional_id, "state": state}
        return self._wait_at_coordinator(Transaction, "waits/transaction", timeout, body)

    def wait_for_connections(self, client_id: str | None = None, n: int = 1, timeout: float = 10) -> list[Connection]:
        """Wait until enough clients are connected, and return the connections.

        Args:
            client_id: the client id, in which `*` stands for anything; None for any.
            n: the least number of connections; 0 waits until there is none.
            timeout: in seconds.

        Raises:
            WaitTimeout: there were too few connections in time, or too many.
        """
        check_count("n", n, least=0)
        return wait(self.control, list[Connection], "waits/connections", timeout, {"client_id": client_id, "n": n})

    def assert_records(
        self, topic: str, records: Iterable[RecordLike], timeout: float = 0, isolation_level: str = "read_committed"
    ) -> list[Record]:
        """Assert the exact records of a topic, and return the records.

        Records of one partition are compared in their order.

        Args:
            records: records as for `produce`. None is a tombstone, or no key; a dict is compared with the record's
                JSON; fields that are left out, and `ANY`, are not compared.
            timeout: seconds to wait for the records.

        Raises:
            RecordsDiffer: the topic has other records.
        """
        __tracebackhide__ = True
        expected = several("assert_records", topic, records)
        try:
            return self._assert_records(topic, expected, timeout, isolation_level)
        except RecordsDiffer as differ:
            if not timeout and not differ.found:
                differ.add_note(_LOOKED_ONCE)
            raise

    def _assert_records(
        self, topic: str, expected: list[RecordLike], timeout: float, isolation_level: str
    ) -> list[Record]:
        __tracebackhide__ = True
        page = self._assert("assertions/records", topic, expected, timeout, isolation_level)
        return self._whole(page, topic, len(expected), isolation_level)

    def assert_contains(
        self, topic: str, records: Iterable[RecordLike], timeout: float = 0, isolation_level: str = "read_committed"
    ) -> None:
        """Assert given records of a topic, in any order and among others.

        Args:
            records: as for `assert_records`, one at least.
            timeout: seconds to wait for the records.

        Raises:
            RecordsDiffer: a record is missing.
            ValueError: no record is given, so that the assertion could not fail.
        """
        __tracebackhide__ = True
        expected = several("assert_contains", topic, records)
        if not expected:
            raise ValueError(
                f"assert_contains({topic!r}, []) names no record, so it could not fail; "
                f"assert_records({topic!r}, []) asserts that the topic is empty"
            )
        try:
            self._assert_contains(topic, expected, timeout, isolation_level)
        except RecordsDiffer as differ:
            if not timeout and not differ.found:
                differ.add_note(_LOOKED_ONCE)
            raise

    def _assert_contains(self, topic: str, expected: list[RecordLike], timeout: float, isolation_level: str) -> None:
        __tracebackhide__ = True
        self._assert("assertions/contains", topic, expected, timeout, isolation_level)

    def _assert(self, path: str, topic: str, expected: list[RecordLike], timeout: float, isolation_level: str) -> Any:
        __tracebackhide__ = True
        records = to_each(to_expectation, expected)
        body = {"topic": topic, "records": records, "isolation_level": isolation_level}
        try:
            return wait(self.control, dict, path, timeout, body)
        except RecordsDiffer as differ:
            differ.expected = expected
            raise

    def _whole(self, page: Mapping[str, Any], topic: str, n: int, isolation_level: str) -> list[Record]:
        """Return the records of a page, and the records behind up to `n`."""
        if page["more"] and len(page["records"]) < n:
            return self.records(topic, isolation_level=isolation_level, limit=n)
        return list(map(from_answer, page["records"]))

    def assert_no_more(self, topic: str, within_ms: int = 1_000, isolation_level: str = "read_committed") -> None:
        """Assert the end of a topic: no record is added for some time.

        Args:
            within_ms: how long to wait, in milliseconds, at least 1.
            isolation_level: "read_uncommitted" counts records of open and aborted transactions too.

        Raises:
            RecordsDiffer: a record was added.
            ValueError: no time is given, so that the assertion could not fail.
        """
        __tracebackhide__ = True
        check_count("within_ms", within_ms)
        body = {"topic": topic, "within_ms": within_ms, "isolation_level": isolation_level}
        _call(self.control, "assertions/no-more", body, within_ms / 1000)


def wait(control: ControlClient, kind: type[T], path: str, timeout: float, body: Mapping[str, Any]) -> T:
    """Call an operation with a wait of up to `timeout` seconds, and return the answer of a known type."""
    __tracebackhide__ = True
    check_timeout(timeout)
    answer: T = _call(control, path, {**body, "timeout_ms": round(timeout * 1000)}, timeout)
    return answer


def _call(control: ControlClient, path: str, body: Mapping[str, Any], timeout: float) -> Any:
    __tracebackhide__ = True
    try:
        return control.call("POST", f"/{path}", body, timeout_s=timeout + _SPARE_S)
    except ControlError as error:
        if error.status == _NOT_IN_TIME:
            raise WaitTimeout(str(error), error.more.get("state", "")) from None
        if error.status == _DOES_NOT_HOLD:
            raise RecordsDiffer(str(error), found=list(map(from_answer, error.more.get("records", ())))) from None
        raise


def problem_that_may_pass(error: ControlError | BrokerError | OSError) -> str:
    """Return the end of a sentence about an error while a state is awaited; raise the error for a wrong argument."""
    if isinstance(error, ControlError) and error.status == _WRONG_ARGUMENT and error.code is None:
        raise error
    return f": {error}"


class NotReached(Exception):
    """An awaited state is not reached yet.

    The argument tells the present state; a text that costs something is a function, called at the end of the wait.
    """

    def __str__(self) -> str:
        (told,) = self.args
        return str(told() if callable(told) else told)


def poll(look: Callable[[], T], unknown: str, timeout: float) -> T:
    """Return the answer of `look`, which is asked until there is one.

    Args:
        look: asks several brokers, and raises NotReached until the awaited state is there.
        unknown: the state for the error until `look` has told the state.
        timeout: in seconds; less within a `look` whose own wait ends before.

    Raises:
        ControlError: a wrong argument, for which waiting is no help.
        WaitTimeout: the state was not there in time; the text has the present state and the last refusal.
    """
    __tracebackhide__ = True
    problem, state = "", NotReached(unknown)
    with time_limit(timeout, time.monotonic()) as (deadline, limit_s):
        while True:
            try:
                return look()
            except NotReached as error:
                state, problem = error if any(error.args) else state, ""
            except (ControlError, BrokerError, OSError) as error:
                problem = problem_that_may_pass(error)
            if time.monotonic() > deadline:
                raise WaitTimeout(f"after {limit_s} s {state}{problem}")
            time.sleep(POLL_S)


@contextmanager
def time_limit(timeout: float, now: float) -> Iterator[tuple[float, float]]:
    """Give the end and the length of a wait that begins now: it does not outlast a wait around it."""
    check_timeout(timeout)
    deadline, around = now + timeout, _deadline.get()
    if around < deadline:
        deadline, timeout = around, max(0.0, round(around - now, 1))
    token = _deadline.set(deadline)
    try:
        yield deadline, timeout
    finally:
        _deadline.reset(token)


def all_at_once(nodes: Iterable[N], step: Step[N, T]) -> list[T]:
    """Do a step with all nodes at the same time and return the results in order.

    The first error is raised, once all steps have ended.
    """
    listed = list(nodes)
    with ThreadPoolExecutor(max(1, len(listed))) as pool:
        return list(pool.map(step, listed))
