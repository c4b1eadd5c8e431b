"""Waits for a state, and assertions about a topic.

A wait ends as soon as the state is reached, or with status 408, whose text has the state that was found; a failed
assertion ends with 417. Nothing polls: the broker looks after each of its turns.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Literal, TypeVar

from pykafka_broker.cluster.topic_names import TRANSACTION_STATE
from pykafka_broker.control.answers import CommittedPartition, GroupDetails, TransactionDetails
from pykafka_broker.control.api.groups import (
    Lag,
    are_loading,
    check_lag_known,
    committed,
    each_committed,
    find_group,
    summary,
    total_lag,
    unknown_group,
    with_members,
)
from pykafka_broker.control.api.records import MOST_AT_ONCE, RecordAnswer, Records, records, shown
from pykafka_broker.control.comparing import (
    SHOWN,
    ExpectedMatcher,
    ExpectedRecord,
    difference,
    hint_of_bytes,
    listing,
    missing,
    readable_by,
)
from pykafka_broker.control.control import Control, in_pauses
from pykafka_broker.control.problems import DOES_NOT_HOLD, NOT_IN_TIME, Problem
from pykafka_broker.control.reading import FoundRecord, IsolationLevel, TopicWatch, no_topic
from pykafka_broker.control.schema import Index, TimeoutMs, ValueLimits, write
from pykafka_broker.errors import ApiError, counted

_TIMEOUT_MS = 10_000
_MOST_EXPECTED = 100_000
_AT_ONCE = 1_000  # records read before other requests are served

GroupState = Literal[
    "Stable", "Empty", "Dead", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady"
]
TransactionStateName = Literal[
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence"
]
R = TypeVar("R")


async def wait_for_group(
    control: Control,
    group: str,
    state: GroupState | None = None,
    members: Index | None = None,
    timeout_ms: TimeoutMs = _TIMEOUT_MS,
) -> GroupDetails:
    """Wait until a group exists, in a state, with exactly `members` members."""
    wanted = [state or "", "" if members is None else f"with {counted(members, 'member')}"]
    expected = f", expected {' '.join(filter(None, wanted))}" if any(wanted) else ""

    def holds() -> GroupDetails | None:
        found = find_group(control.services, group)
        if found is None:
            return None
        told = summary(found)  # the members' partitions, which may be many, are looked at once
        fits = state in (None, told["state"]) and members in (None, told["members"])
        return with_members(control.services, found) if fits else None

    async def instead() -> str:
        there = find_group(control.services, group)
        if there is None:
            return unknown_group(control, group)
        found = with_members(control.services, there)
        clients = ", ".join(each["client_id"] for each in found["members"])
        told = f"group {group} is {found['state']} with {counted(len(found['members']), 'member')}{expected}"
        return f"{told}; its members are: {clients}" if clients else told

    reached = await _wait(control, holds, instead, timeout_ms)
    reached["offsets"] = await committed(control, group)
    return reached


async def wait_for_records(
    control: Control,
    topic: str,
    n: Index,
    isolation_level: IsolationLevel = "read_committed",
    timeout_ms: TimeoutMs = _TIMEOUT_MS,
) -> Records:
    """Wait until a topic has at least `n` records. Returns the first records, as a page of at most 5,000."""
    watch = TopicWatch(control, topic, isolation_level)

    async def instead() -> str:
        return await _described(control, watch, f"topic {topic} has {counted(watch.look(), 'record')}, expected {n}")

    await _wait(control, lambda: True if watch.exists and watch.look() >= n else None, instead, timeout_ms)
    return records(control, topic, isolation_level=isolation_level, limit=max(1, min(n, MOST_AT_ONCE)))


async def wait_for_record(
    control: Control,
    topic: str,
    record: ExpectedRecord,
    isolation_level: IsolationLevel = "read_committed",
    timeout_ms: TimeoutMs = _TIMEOUT_MS,
) -> RecordAnswer:
    """Wait until a topic has a record as expected, and return the first match. Only the named fields of the expected
    record are compared.
    """
    watch, wanted = TopicWatch(control, topic, isolation_level), ExpectedMatcher(record)

    def look() -> RecordAnswer | None:
        seen = (shown(topic, index, found) for index, found in watch.fresh())
        return next(filter(wanted.fits, seen), None)

    async for index, found in in_pauses(watch.fresh(), _AT_ONCE):  # there may be many already
        if wanted.fits(seen := shown(topic, index, found)):
            return seen

    async def instead() -> str:
        told = ExpectedMatcher(record, await readable_by(control.decode, [record]))
        return await _described(
            control, watch, f"topic {topic} has {counted(watch.look(), 'record')}, and none is {told}"
        )

    return await _wait(control, look, instead, timeout_ms)


async def wait_for_lag(control: Control, group: str, lag: Index = 0, timeout_ms: TimeoutMs = _TIMEOUT_MS) -> Lag:
    """Wait until a group has committed offsets and has at most `lag` records still to read."""

    def holds() -> Lag | None:
        if are_loading(control.services):
            return None
        left, partitions = 0, list[CommittedPartition]()
        for each in each_committed(control.services, group):
            if each["lag"] is None:  # a partition without a leader tells no end
                check_lag_known(control, [each])
                return None
            left += each["lag"]
            if left > lag:
                return None
            partitions.append(each)
        return Lag(left, partitions) if partitions else None

    if not are_loading(control.services):
        check_lag_known(control, await committed(control, group))

    async def instead() -> str:
        if are_loading(control.services):
            return f"the offsets of group {group} are still being read"
        partitions = await committed(control, group)
        if not partitions:
            is_known = find_group(control.services, group) is not None
            return f"group {group} has committed nothing" if is_known else unknown_group(control, group)
        behind = ", ".join(
            f"{each['topic']}-{each['partition']}: {'not known' if each['lag'] is None else each['lag']}"
            for each in partitions
            if each["lag"] != 0
        )
        return (
            f"group {group} has {counted(total_lag(partitions), 'record')} to read, expected at most {lag} ({behind})"
        )

    return await _wait(control, holds, instead, timeout_ms)


async def wait_for_transaction(
    control: Control, transactional_id: str, state: TransactionStateName, timeout_ms: TimeoutMs = _TIMEOUT_MS
) -> TransactionDetails:
    """Wait until the transaction of a transactional id is in a state."""

    def holds() -> TransactionDetails | None:
        found = _transaction(control, transactional_id)
        return found if found is not None and found["state"] == state else None

    async def instead() -> str:
        found = _transaction(control, transactional_id)
        if found is None:
            return f"there is no transactional id {transactional_id}"
        return f"the transaction of {transactional_id} is {found['state']}, expected {state}"

    return await _wait(control, holds, instead, timeout_ms)


async def assert_records(
    control: Control,
    topic: str,
    records: Annotated[list[ExpectedRecord], ValueLimits(max_length=_MOST_EXPECTED)],
    isolation_level: IsolationLevel = "read_committed",
    timeout_ms: TimeoutMs = 0,
) -> Records:
    """Assert the exact records of a topic: within a partition in order, between partitions in any
    order. Only the named fields of an expected record are compared. With a time-out the records have time to come.
    Returns the records that were found, as a page of at most 5,000.
    """
    watch = await _awaited(control, topic, isolation_level, len(records), timeout_ms)
    found = await _all(watch)
    watch.require_all()
    says = await asyncio.to_thread(difference, found, records)
    if says:
        if readable := await readable_by(control.decode, [*records, *found]):
            says = await asyncio.to_thread(difference, found, records, readable) + hint_of_bytes(records, readable)
        says += await _unseen(control, watch)
        raise Problem(DOES_NOT_HOLD, f"topic {topic}: {says}", more={"records": write(found[:MOST_AT_ONCE])})
    return _page(found)


async def assert_contains(
    control: Control,
    topic: str,
    records: Annotated[list[ExpectedRecord], ValueLimits(min_length=1, max_length=_MOST_EXPECTED)],
    isolation_level: IsolationLevel = "read_committed",
    timeout_ms: TimeoutMs = 0,
) -> Records:
    """Assert given records of a topic, in any order and among others; each is matched separately. Only
    the named fields of an expected record are compared. With a time-out the records have time to come. Returns the
    matching records, as a page of at most 5,000.
    """
    watch = TopicWatch(control, topic, isolation_level)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    while True:
        ends = watch.ends()
        found = await _all(watch)
        there, lines = await asyncio.to_thread(missing, found, records)
        if watch.exists and not lines:
            return _page(there)
        if await control.until(partial(_moved, watch, ends), max(0.0, deadline - loop.time())) is None:
            break
    if not watch.exists:
        raise no_topic(control, topic)
    watch.require_all()
    if readable := await readable_by(control.decode, records):
        lines = (await asyncio.to_thread(missing, found, records, readable))[1]
    head = f"topic {topic}: {len(records) - len(there)} of {len(records)} expected records are missing"
    described = await _described(control, watch, f"the topic has {counted(len(found), 'record')}")
    says = "\n".join([head, *lines, described])
    raise Problem(DOES_NOT_HOLD, says, more={"records": write(found[:MOST_AT_ONCE])})


async def assert_no_more(
    control: Control,
    topic: str,
    within_ms: Annotated[int, ValueLimits(minimum=1, maximum=3_600_000, says="milliseconds of real time")] = 1_000,
    isolation_level: IsolationLevel = "read_committed",
) -> None:
    """Assert the end of a topic: no record is added from now on for a time."""
    before = TopicWatch(control, topic, isolation_level)
    if not before.exists:
        raise no_topic(control, topic)
    ends = before.ends()
    before.require_all()  # of a partition that is not known now all records would be new once it is
    watch = TopicWatch(control, topic, isolation_level, ends)
    came = await control.until(lambda: watch.look() or None, within_ms / 1000)
    if came is None:
        if not watch.exists:
            raise no_topic(control, topic)
        watch.require_all()
    else:
        found = await _all(watch)
        says = f"topic {topic} got {counted(watch.count, 'more record')} within {within_ms} ms"
        says += await _listing(control, found[-SHOWN:], len(found))
        raise Problem(DOES_NOT_HOLD, says, more={"records": write(found[:MOST_AT_ONCE])})


async def _wait(
    control: Control, holds: Callable[[], R | None], instead: Callable[[], Awaitable[str]], timeout_ms: int
) -> R:
    found = await control.until(holds, timeout_ms / 1000)
    if found is None:
        state = await instead()
        raise Problem(NOT_IN_TIME, f"after {timeout_ms} ms {state}", more={"state": state})
    return found


async def _awaited(
    control: Control, topic: str, isolation_level: IsolationLevel, n: int, timeout_ms: int
) -> TopicWatch:
    """Return the topic's watch, once the topic has `n` records or the time is over.

    Raises `Problem` 404 if the topic is missing then.
    """
    watch = TopicWatch(control, topic, isolation_level)
    await control.until(lambda: True if watch.exists and watch.look() >= n else None, timeout_ms / 1000)
    if not watch.exists:
        raise no_topic(control, topic)
    return watch


def _moved(watch: TopicWatch, ends: dict[int, int]) -> bool | None:
    return watch.ends() != ends or None


async def _all(watch: TopicWatch) -> list[RecordAnswer]:
    """Return all records."""
    return [shown(watch.topic, index, each) async for index, each in in_pauses(watch.records(), _AT_ONCE)]


def _page(found: list[RecordAnswer]) -> Records:
    page = found[:MOST_AT_ONCE]
    return Records(page, {str(each.partition): each.offset + 1 for each in page}, len(found) > len(page))


async def _described(control: Control, watch: TopicWatch, head: str) -> str:
    """Return a text about the topic's records, the last records included."""
    if not watch.exists:
        return no_topic(control, watch.topic).detail
    last: deque[tuple[int, FoundRecord]] = deque(maxlen=SHOWN)
    count = 0
    async for each in in_pauses(watch.records(), _AT_ONCE):
        last.append(each)
        count += 1
    listed = await _listing(control, [shown(watch.topic, *each) for each in last], count)
    return f"{head}{listed}{await _unseen(control, watch)}"


async def _listing(control: Control, last: Sequence[RecordAnswer], count: int) -> str:
    """Return the last of `count` records, a line each."""
    return listing(last, count, await readable_by(control.decode, last))


async def _unseen(control: Control, watch: TopicWatch) -> str:
    """Return a text about records a reader of committed records does not see."""
    if watch.isolation_level == "read_uncommitted":
        return ""
    ends = watch.ends()
    counts: Counter[str] = Counter()
    everything = TopicWatch(control, watch.topic, "read_uncommitted")
    async for index, found in in_pauses(everything.records(), _AT_ONCE):
        if found.transaction in ("aborted", "open"):
            counts[found.transaction] += 1
        elif found.record.offset >= ends.get(index, 0):
            counts["behind"] += 1
    words = {"aborted": "aborted", "open": "of open transactions", "behind": "behind an open transaction"}
    told = ", ".join(f"{counts[name]} {word}" for name, word in words.items() if counts[name])
    return f"\n(not seen with read_committed: {told})" if told else ""


def _transaction(control: Control, transactional_id: str) -> TransactionDetails | None:
    services = control.services
    if TRANSACTION_STATE not in services.image.topics:
        return None
    try:
        found = services.transactions.transaction(transactional_id)
    except ApiError:
        return None  # the coordinator's log is still being read
    if found is None:
        return None
    return TransactionDetails(
        transactional_id=transactional_id,
        state=found.state.title,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.timeout_ms,
        partitions=[f"{topic}-{index}" for topic, index in sorted(found.partitions)],
    )
