"""Waiting for something to be so, and saying that it is.

A wait ends as soon as it is so, or with status 408 that says how it was instead; an assertion that does not hold ends
with 417. Nobody polls: the broker looks after each of its turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from pykafka_broker.cluster.topic_names import TRANSACTION_STATE
from pykafka_broker.control.api.groups import Lag
from pykafka_broker.control.api.records import MOST_AT_ONCE, NewRecord, Record, shown
from pykafka_broker.control.comparing import difference
from pykafka_broker.control.control import Control
from pykafka_broker.control.groups_view import GroupDetails, committed, details, find_group, total_lag
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.reading import IsolationLevel
from pykafka_broker.control.schema import Limits, write
from pykafka_broker.control.topic_watch import TopicWatch
from pykafka_broker.errors import ApiError

TimeoutMs = Annotated[int, Limits(minimum=0, maximum=3_600_000, says="milliseconds of real time")]
Count = Annotated[int, Limits(minimum=0, maximum=2**31 - 1)]
DEFAULT_TIMEOUT_MS = 10_000
NOT_IN_TIME = 408
DOES_NOT_HOLD = 417
_SHOWN = 20  # records in the text of a failure

GroupState = Literal[
    "Stable", "Empty", "Dead", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady"
]
TransactionStateName = Literal[
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence"
]
R = TypeVar("R")


@dataclass
class TransactionDetails:
    """A transactional id: who has it, how far its transaction is, and which partitions take part."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    partitions: list[str]


async def wait_for_group(
    control: Control,
    group: str,
    state: GroupState | None = None,
    members: Count | None = None,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
) -> GroupDetails:
    """Wait until a group is there, in that state, with so many members."""

    def holds() -> GroupDetails | None:
        if find_group(control.services, group) is None:
            return None
        found = details(control.services, group)
        fits = (state is None or found.state == state) and (members is None or len(found.members) == members)
        return found if fits else None

    def instead() -> str:
        if find_group(control.services, group) is None:
            return f"there is no group {group}"
        found = details(control.services, group)
        return f"group {group} is {found.state} with {len(found.members)} members"

    return await _wait(control, holds, instead, timeout_ms)


async def wait_for_records(
    control: Control,
    topic: str,
    n: Count,
    isolation_level: IsolationLevel = "read_uncommitted",
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
) -> list[Record]:
    """Wait until a topic has at least so many records. Returns the first of them."""
    watch = TopicWatch(control, topic, isolation_level)

    def holds() -> list[Record] | None:
        return _records(watch, min(n, MOST_AT_ONCE)) if watch.look() >= n else None

    def instead() -> str:
        return f"topic {topic} has {watch.look()} records, not {n}{_listing(_records(watch, _SHOWN))}"

    return await _wait(control, holds, instead, timeout_ms)


async def wait_for_lag(control: Control, group: str, lag: Count = 0, timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS) -> Lag:
    """Wait until a group has committed offsets and has at most so many records still to read."""

    def holds() -> Lag | None:
        partitions = committed(control.services, group)
        left = total_lag(partitions)
        return Lag(left, partitions) if partitions and left <= lag else None

    def instead() -> str:
        partitions = committed(control.services, group)
        if not partitions:
            return f"group {group} has committed nothing"
        behind = ", ".join(f"{each.topic}-{each.partition}: {each.lag}" for each in partitions if each.lag)
        return f"group {group} has {total_lag(partitions)} records to read ({behind})"

    return await _wait(control, holds, instead, timeout_ms)


async def wait_for_transaction(
    control: Control, transactional_id: str, state: TransactionStateName, timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS
) -> TransactionDetails:
    """Wait until the transaction of a transactional id is in that state."""

    def holds() -> TransactionDetails | None:
        found = _transaction(control, transactional_id)
        return found if found is not None and found.state == state else None

    def instead() -> str:
        found = _transaction(control, transactional_id)
        if found is None:
            return f"there is no transactional id {transactional_id}"
        return f"the transaction of {transactional_id} is {found.state}"

    return await _wait(control, holds, instead, timeout_ms)


async def assert_records(
    control: Control,
    topic: str,
    records: Annotated[list[NewRecord], Limits(max_length=MOST_AT_ONCE)],
    isolation_level: IsolationLevel = "read_uncommitted",
    timeout_ms: TimeoutMs = 0,
) -> list[Record]:
    """Say that a topic has exactly these records, in this order within each partition. What is null of an expected
    record is not compared. With a time-out there is time for them to come."""
    watch = TopicWatch(control, topic, isolation_level)
    await control.until(lambda: True if watch.look() >= len(records) else None, timeout_ms / 1000)
    found = _records(watch, MOST_AT_ONCE)
    says = difference(found, records)
    if says:
        raise Problem(DOES_NOT_HOLD, f"topic {topic}: {says}", more={"records": write(found)})
    return found


async def assert_no_more(
    control: Control,
    topic: str,
    within_ms: TimeoutMs = 1_000,
    isolation_level: IsolationLevel = "read_uncommitted",
) -> None:
    """Say that nothing is added to a topic from now on for that time."""
    ends = TopicWatch(control, topic, isolation_level).ends()
    watch = TopicWatch(control, topic, isolation_level, ends)
    came = await control.until(lambda: watch.look() or None, within_ms / 1000)
    if came is not None:
        found = _records(watch, _SHOWN)
        says = f"topic {topic} got {watch.count} more records within {within_ms} ms{_listing(found)}"
        raise Problem(DOES_NOT_HOLD, says, more={"records": write(found)})


async def _wait(control: Control, holds: Callable[[], R | None], instead: Callable[[], str], timeout_ms: int) -> R:
    found = await control.until(holds, timeout_ms / 1000)
    if found is None:
        raise Problem(NOT_IN_TIME, f"after {timeout_ms} ms {instead()}")
    return found


def _records(watch: TopicWatch, limit: int) -> list[Record]:
    return [shown(watch.topic, number, found) for number, found in watch.records(limit)]


def _listing(records: list[Record]) -> str:
    return "".join(f"\n  {each.partition}@{each.offset} {each.key!r}: {each.value!r}" for each in records)


def _transaction(control: Control, transactional_id: str) -> TransactionDetails | None:
    services = control.services
    if TRANSACTION_STATE not in services.image.topics:
        return None
    try:
        found = services.transactions.transaction(transactional_id)
    except ApiError:
        return None  # its log is still being read
    if found is None:
        return None
    partitions = [f"{topic}-{number}" for topic, number in sorted(found.partitions)]
    state = found.state.title
    return TransactionDetails(
        transactional_id, state, found.producer_id, found.producer_epoch, found.timeout_ms, partitions
    )
