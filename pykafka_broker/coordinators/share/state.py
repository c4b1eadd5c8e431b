"""The share coordinator: how far each share partition is, for the leader of the partition (KIP-932).

Rule: only `replay` changes state. A request with a state epoch or a leader epoch older than the known one is fenced. A
snapshot in `__share_group_state` holds the whole state of a share partition, an update the changes since; after a
number of updates a snapshot is written, and the tombstone of a snapshot removes the share partition. Where two runs of
offsets overlap, the run with more deliveries counts, and at the same count the run with the later state. So the order
in which repeated writes arrive does not matter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from heapq import heappop, heappush, merge
from typing import NamedTuple

from pykafka_broker.coordinators.record import CoordinatorRecord, CoordinatorResult
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import DecodeError, uuid_text
from pykafka_broker.protocol.stored.share_snapshot_key import ShareSnapshotKey
from pykafka_broker.protocol.stored.share_snapshot_value import ShareSnapshotValue
from pykafka_broker.protocol.stored.share_snapshot_value import StateBatch as SnapshotBatch
from pykafka_broker.protocol.stored.share_update_key import ShareUpdateKey
from pykafka_broker.protocol.stored.share_update_value import ShareUpdateValue
from pykafka_broker.protocol.stored.share_update_value import StateBatch as UpdateBatch


class RecordState(IntEnum):
    """The states of a record, by number as in `__share_group_state`; ACQUIRED is never stored.

    ARCHIVING: given up, and not yet in the dead-letter topic of the group (KIP-1191).
    """

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


TERMINAL = frozenset((RecordState.ACKNOWLEDGED, RecordState.ARCHIVED))


class StateRun(NamedTuple):
    """Offsets `first` to `last`, both included, in the same state and with the same delivery count."""

    first: int
    last: int
    state: int
    deliveries: int


def overlaid(runs: Sequence[StateRun], newer: Iterable[StateRun], start_offset: int) -> list[StateRun]:
    """Return `newer` laid over the ordered `runs`, from `start_offset` on, without runs that end before they begin."""
    old, new = _cut_from(runs, start_offset), _cut_from(newer, start_offset)
    if not new:
        return old
    # The runs next to the new ones are laid over too, so that equal neighbours become one run.
    first, last = min(run.first for run in new) - 1, max(run.last for run in new) + 1
    begin = bisect_left(old, first, key=lambda run: run.last)
    end = bisect_right(old, last, key=lambda run: run.first)
    return [*old[:begin], *_strongest(merge(old[begin:end], sorted(new))), *old[end:]]


def _cut_from(runs: Iterable[StateRun], start_offset: int) -> list[StateRun]:
    return [
        run if run.first >= start_offset else run._replace(first=start_offset)
        for run in runs
        if run.first <= run.last and run.last >= start_offset
    ]


def _strongest(runs: Iterator[StateRun]) -> list[StateRun]:
    """Return the run that counts at each offset, where several overlap, from the lowest offset up.

    Args:
        runs: In order of their first offsets.
    """
    found: list[StateRun] = []
    open_runs: list[tuple[int, int, int]] = []  # a heap: (-deliveries, -state, last), the strongest run first
    coming, at = next(runs, None), -1 << 63
    while coming is not None or open_runs:
        while coming is not None and (coming.first <= at or not open_runs):
            at = max(at, coming.first)
            heappush(open_runs, (-coming.deliveries, -coming.state, coming.last))
            coming = next(runs, None)
        deliveries, state, last = open_runs[0]
        if last < at:
            heappop(open_runs)
            continue
        end = last if coming is None else min(last, coming.first - 1)
        _append_run(found, StateRun(at, end, -state, -deliveries))
        at = end + 1
    return found


def coalesced(runs: Iterable[StateRun]) -> list[StateRun]:
    """Return the runs; neighbours with the same state and count become one run."""
    found: list[StateRun] = []
    for run in runs:
        _append_run(found, run)
    return found


def _append_run(runs: list[StateRun], run: StateRun) -> None:
    """Append a run, or extend the last run if the new run continues it."""
    if runs:
        first, last, state, deliveries = runs[-1]
        if last + 1 == run.first and state == run.state and deliveries == run.deliveries:
            runs[-1] = StateRun(first, run.last, state, deliveries)
            return
    runs.append(run)


# Records, in the versions that Kafka 4.4 writes


class ShareKey(NamedTuple):
    """A share partition: a partition as read by a share group."""

    group_id: str
    topic_id: bytes
    partition: int

    def coordinator_key(self) -> str:
        """Return the key for FindCoordinator; the hash of the key also names the partition of the log."""
        return f"{self.group_id}:{uuid_text(self.topic_id)}:{self.partition}"


def update_record(
    key: ShareKey,
    snapshot_epoch: int,
    leader_epoch: int,
    start_offset: int,
    complete_count: int,
    runs: Iterable[StateRun],
) -> CoordinatorRecord:
    """Return the record of the changes since the snapshot."""
    value = ShareUpdateValue(
        snapshot_epoch, leader_epoch, start_offset, complete_count, [UpdateBatch(*run) for run in runs]
    )
    return CoordinatorRecord(ShareUpdateKey(*key), value)


def runs_of(value: ShareSnapshotValue | ShareUpdateValue) -> list[StateRun]:
    return [
        StateRun(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in value.state_batches
    ]


# The coordinator


UNINITIALIZED = -1  # the start offset is still to be found by share.auto.offset.reset
UNKNOWN_COUNT = -1
ANY_LEADER_EPOCH = -1
ANY_STATE_EPOCH = -1

Exists = Callable[[bytes, int], bool]  # whether a topic id has a partition


class ShareState:
    __slots__ = (
        "complete_count",
        "created",
        "leader_epoch",
        "runs",
        "snapshot_epoch",
        "snapshot_log_offset",
        "start_offset",
        "state_epoch",
        "updates",
        "written",
    )

    def __init__(self, snapshot: ShareSnapshotValue, log_offset: int) -> None:
        self.snapshot_epoch = snapshot.snapshot_epoch
        self.state_epoch = snapshot.state_epoch
        self.leader_epoch = snapshot.leader_epoch
        self.start_offset = snapshot.start_offset
        self.complete_count = snapshot.delivery_complete_count
        self.created = snapshot.create_timestamp
        self.written = snapshot.write_timestamp
        self.runs: Sequence[StateRun] = list(runs_of(snapshot))
        self.updates = 0  # since the snapshot
        self.snapshot_log_offset = log_offset  # earlier records of the log are not needed for this share partition

    def apply_update(self, update: ShareUpdateValue) -> None:
        self.leader_epoch = update.leader_epoch
        self.start_offset = self.start_after(update.start_offset)
        self.complete_count = update.delivery_complete_count
        self.runs = overlaid(self.runs, runs_of(update), self.start_offset)
        self.updates += 1

    def start_after(self, said: int) -> int:
        """Return the start offset after a write with the start offset `said`."""
        return self.start_offset if said == UNINITIALIZED else said

    def progress(self, start_offset: int, complete_count: int) -> tuple[int, int]:
        """Return the farther start offset of the state's and a write's, with the number of completed deliveries."""
        if start_offset == self.start_offset:
            return start_offset, max(complete_count, self.complete_count)
        return max((start_offset, complete_count), (self.start_offset, self.complete_count))


def _snapshot(
    known: ShareState, start_offset: int, complete_count: int, runs: Iterable[StateRun], now: int
) -> ShareSnapshotValue:
    """Return the next snapshot of a state."""
    return ShareSnapshotValue(
        known.snapshot_epoch + 1,
        known.state_epoch,
        known.leader_epoch,
        start_offset,
        complete_count,
        known.created,
        now,
        [SnapshotBatch(*run) for run in runs],
    )


class ShareCoordinator:
    """All share partitions of the node's logs. (Kafka: ShareCoordinatorShard)"""

    def __init__(self, exists: Exists, updates_per_snapshot: int, is_of_4_4: bool) -> None:
        self.states: dict[ShareKey, ShareState] = {}
        self.updates_per_snapshot = updates_per_snapshot
        self._exists = exists
        self._is_of_4_4 = is_of_4_4

    # Requests: each is about one share partition, and most have no reply

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int, now: int) -> CoordinatorResult[None]:
        """Decide an InitializeShareGroupState: begin a new state, under an epoch that is not older."""
        self._check_exists(key)
        known = self.states.get(key)
        if known is not None and state_epoch != ANY_STATE_EPOCH and known.state_epoch > state_epoch:
            raise ApiError(ErrorCode.FENCED_STATE_EPOCH)
        snapshot_epoch = 0 if known is None else known.snapshot_epoch + 1
        count = UNKNOWN_COUNT if start_offset == UNINITIALIZED else 0
        value = ShareSnapshotValue(snapshot_epoch, state_epoch, 0, start_offset, count, now, now, [])
        return self._result(key, value)

    def _check_epochs(self, leader_epoch: int, state_epoch: int = 0) -> None:
        """Refuse negative epochs, as since 4.4."""
        for name, epoch in (("leader", leader_epoch), ("state", state_epoch)):
            if epoch < 0 and self._is_of_4_4:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"The {name} epoch cannot be a negative number.")

    def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        complete_count: int,
        runs: Iterable[StateRun],
        now: int,
    ) -> CoordinatorResult[None]:
        """Decide a WriteShareGroupState; since 4.4 neither the start offset nor its count go back."""
        self._check_epochs(leader_epoch, state_epoch)
        known = self._initialized(key, "Write")
        if leader_epoch != ANY_LEADER_EPOCH and known.leader_epoch > leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        if state_epoch != ANY_STATE_EPOCH and known.state_epoch > state_epoch:
            raise ApiError(ErrorCode.FENCED_STATE_EPOCH)
        if self._is_of_4_4:
            start_offset, complete_count = known.progress(start_offset, complete_count)
        if known.updates < self.updates_per_snapshot:
            record = update_record(key, known.snapshot_epoch, known.leader_epoch, start_offset, complete_count, runs)
            return CoordinatorResult(records=[record], key=key.coordinator_key())
        start = known.start_after(start_offset)
        return self._result(key, _snapshot(known, start, complete_count, overlaid(known.runs, runs, start), now))

    def read(self, key: ShareKey, leader_epoch: int, *, anew: bool = False) -> CoordinatorResult[ShareState]:
        """Decide a ReadShareGroupState; the reply is the state.

        A newer leader epoch is recorded, so that an older leader is fenced from then on.

        Args:
            anew: Record the leader epoch even if it is known, so that only a node that can append to the log answers.
        """
        self._check_epochs(leader_epoch)
        known = self._initialized(key, "Read")
        if leader_epoch != ANY_LEADER_EPOCH and known.leader_epoch > leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        result = CoordinatorResult(known, key=key.coordinator_key())
        if anew or leader_epoch > known.leader_epoch:
            newest = max(leader_epoch, known.leader_epoch)
            record = update_record(key, known.snapshot_epoch, newest, known.start_offset, known.complete_count, ())
            result.records.append(record)
        return result

    def summary(self, key: ShareKey) -> ShareState | None:
        """Decide a ReadShareGroupStateSummary. Returns None without a state, which is no error."""
        self._check_exists(key)
        return self.states.get(key)

    def delete(self, key: ShareKey) -> CoordinatorResult[None]:
        """Decide a DeleteShareGroupState; an unknown state counts as deleted."""
        self._check_exists(key)
        return self.forget(key)

    def forget(self, key: ShareKey) -> CoordinatorResult[None]:
        """Delete the state for a deleted topic."""
        if key not in self.states:
            return CoordinatorResult(key=key.coordinator_key())
        return self._result(key, None)

    def cold_snapshots(self, older_than: int, now: int) -> Iterator[CoordinatorResult[None]]:
        """Yield snapshots of the share partitions with updates since their snapshot, all written before `older_than`.

        The log must be kept from the oldest needed snapshot on: a new snapshot lets earlier records go. Each snapshot
        is made when its turn comes, since states may change while the caller serves others in between.
        """
        for key in list(self.states):
            state = self.states.get(key)
            if state is not None and state.updates and state.written <= older_than:
                yield self._result(key, _snapshot(state, state.start_offset, state.complete_count, state.runs, now))

    def _result(self, key: ShareKey, snapshot: ShareSnapshotValue | None) -> CoordinatorResult[None]:
        record = CoordinatorRecord(ShareSnapshotKey(*key), snapshot)
        return CoordinatorResult(records=[record], key=key.coordinator_key())

    def _check_exists(self, key: ShareKey) -> None:
        if not self._exists(key.topic_id, key.partition):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _initialized(self, key: ShareKey, what: str) -> ShareState:
        state = self.states.get(key)
        if state is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{what} operation on uninitialized share partition not allowed.")
        return state

    # Hard state

    def replay(self, record: CoordinatorRecord, log_offset: int, now: int) -> ShareKey:
        """Apply a record of `__share_group_state`, right after the append and at a load alike.

        Returns:
            The share partition of the record.

        Raises:
            DecodeError: The record is the tombstone of an update, which no broker writes.
        """
        key = ShareKey(record.key.group_id, bytes(record.key.topic_id), record.key.partition)
        value = record.value
        if value is None:
            if isinstance(record.key, ShareUpdateKey):
                raise DecodeError("a tombstone of an update, which is never written")
            self.states.pop(key, None)
        elif isinstance(value, ShareSnapshotValue):
            self.states[key] = ShareState(value, log_offset)
        elif (state := self.states.get(key)) is not None:
            state.apply_update(value)
            state.written = now
        return key
