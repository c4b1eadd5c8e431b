"""The group coordinator's host: its logs, and what handlers ask.

Rule: what the coordinator decides is appended to the group's partition of `__consumer_offsets` as one batch, replayed
into it, and answered when it is committed. At a start the logs are read a slice at a time beside the requests; a group
whose log is still being read answers COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.coordinator_log import (
    append_records,
    commit_of,
    coordinator_log,
    partition_for,
    read_batches,
    read_slice,
    when_all,
)
from pykafka_broker.broker.purgatory import Commit, Parked
from pykafka_broker.cluster.records import ResourceType
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS
from pykafka_broker.coordinators.effects import Effects
from pykafka_broker.coordinators.groups.coordinator import GroupCoordinator
from pykafka_broker.coordinators.groups.group import Caller
from pykafka_broker.errors import ApiError
from pykafka_broker.log.partition_log import AppendInfo
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from pykafka_broker.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from pykafka_broker.records.control import read_end_transaction_marker
from pykafka_broker.records.header import NO_PRODUCER_ID
from pykafka_broker.records.record import iter_records

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker
    from pykafka_broker.cluster.image import MetadataDelta
    from pykafka_broker.log.partition_log import PartitionLog

log = logging.getLogger(__name__)

# How much of the logs is read before the first request may come, and between requests after that.
FIRST_SLICE_BYTES = 1 << 18
SLICE_BYTES = 1 << 17

Completions = list[tuple[Any, Any]]


class GroupHost:
    """All partitions of `__consumer_offsets` that this node leads, behind one coordinator."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.coordinator = GroupCoordinator(broker.config, broker.image, self._new_id, self._group_config)
        self._ready: set[int] = set()  # partitions whose log has been read
        self._loading: dict[int, Iterator[int]] = {}
        self._unsynced: dict[int, PartitionLog] = {}  # those that may hold decisions which are not committed
        self.coordinator.on_topics_changed((), True, broker.metadata.applied_offset)
        broker.metadata.subscribe(self._on_metadata)

    def _new_id(self) -> str:
        """A random UUID as text."""
        text = self._broker.new_uuid().hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def _group_config(self, group_id: str) -> Mapping[str, str]:
        return self._broker.image.config(ResourceType.GROUP, group_id)

    # -- which log

    @property
    def _partitions(self) -> int:
        topic = self._broker.image.topics.get(CONSUMER_OFFSETS)
        return 0 if topic is None else len(topic.partitions)

    def _partition(self, group_id: str) -> int:
        return partition_for(group_id, self._partitions)

    def refusal(self, group_id: str, now: int) -> ErrorCode:
        """Why this node can't speak for the group; NONE if it can."""
        if self._unsynced:
            self._broker.purgatory.commits.extend(self._commits(group_id, now))
        if group_id in self.coordinator.groups:
            return ErrorCode.NONE if not self._loading else self._refusal(group_id, now)
        return self._refusal(group_id, now)

    def _refusal(self, group_id: str, now: int) -> ErrorCode:
        if not self._partitions:
            return ErrorCode.NOT_COORDINATOR
        partition = self._partition(group_id)
        if partition in self._ready:
            return ErrorCode.NONE
        if partition not in self._loading:
            try:
                self._begin_load(partition, now)
            except ApiError as error:
                return error.code
        return ErrorCode.NONE if partition in self._ready else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def require(self, group_id: str, now: int) -> None:
        """Raises the refusal."""
        error = self.refusal(group_id, now)
        if error is not ErrorCode.NONE:
            raise ApiError(error)

    # -- load

    def start(self, now: int) -> None:
        """Begin to read what is there."""
        for partition in range(self._partitions):
            with contextlib.suppress(ApiError):  # its directory is offline; asked for it will be tried again
                self._begin_load(partition, now)
        read_slice(self._loading, FIRST_SLICE_BYTES)

    def _begin_load(self, partition: int, now: int) -> None:
        offsets_log = coordinator_log(self._broker, CONSUMER_OFFSETS, partition)
        if offsets_log.log_start_offset == offsets_log.log_end_offset:
            self._loaded(partition, now)
        else:
            self._loading[partition] = self._load(offsets_log, partition, now)

    def _load(self, offsets_log: PartitionLog, partition: int, now: int) -> Iterator[int]:
        """Replay batch after batch; yields the size of each."""
        for header, batch in read_batches(offsets_log):
            if header.is_control:
                marker = read_end_transaction_marker(batch)
                if marker is not None:
                    self._replay_marker(partition, marker.producer_id, marker.commit)
            else:
                producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
                for record in iter_records(batch, header):
                    if record.key is not None:
                        self.coordinator.replay(record.key, record.value, now, record.offset, producer_id)
            yield header.size
        self._loaded(partition, now)

    def _loaded(self, partition: int, now: int) -> None:
        self._ready.add(partition)
        self._note(partition)
        groups = [group_id for group_id in self.coordinator.groups if self._partition(group_id) == partition]
        self._apply_unasked(self.coordinator.on_loaded(groups, now), now)

    def _replay_marker(self, partition: int, producer_id: int, committed: bool) -> None:
        self.coordinator.replay_end_txn(producer_id, committed, lambda group: self._partition(group) == partition)

    # -- what handlers ask

    def caller(self, context: RequestContext) -> Caller:
        """Who asks, as groups keep it."""
        return Caller(context.api_version, context.client_id or "", f"/{context.connection.client_host}")

    def answer(self, effects: Effects, now: int, parked: Parked | None = None) -> Any:
        """The reply, or `parked` if the request has to wait for one."""
        self.apply(effects, now)
        return parked if effects.reply is None else effects.reply

    def apply(self, effects: Effects, now: int) -> None:
        """Append, replay, and answer those who waited. If the log refuses, they are told so and nothing has changed."""
        if effects.records:
            try:
                self._append(effects, now)
            except ApiError as error:
                _refuse(effects.completions, error.code)
                raise
        if effects.completions:
            when_all(self._commits(effects.key, now), partial(_complete, effects.completions))

    def _append(
        self, effects: Effects, now: int, producer_id: int = NO_PRODUCER_ID, producer_epoch: int = -1
    ) -> AppendInfo:
        appended = append_records(
            self._broker,
            CONSUMER_OFFSETS,
            self._partition(effects.key),
            effects.records,
            now,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        for offset, record in enumerate(effects.records, appended.base_offset):
            self.coordinator.replay(record.key, record.value, now, offset, producer_id)
        self._note(self._partition(effects.key))
        return appended

    def _note(self, partition: int) -> None:
        offsets_log = self._broker.partition_log(CONSUMER_OFFSETS, partition)
        if offsets_log.high_watermark < offsets_log.log_end_offset:
            self._unsynced[partition] = offsets_log

    def _commits(self, group_id: str, now: int) -> list[Commit]:
        """What must be committed before anybody is told of this group; of all groups, if none is named."""
        if not self._unsynced:
            return []
        asked = [self._partition(group_id)] if group_id else list(self._unsynced)
        commits = []
        for partition in asked:
            if partition in self._unsynced:
                commit = commit_of(self._broker, self._unsynced[partition], now)
                if commit is None:
                    del self._unsynced[partition]
                else:
                    commits.append(commit)
        return commits

    def listed(self, now: int) -> GroupCoordinator:
        """The coordinator, once all of its logs have been read."""
        if self._loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self._broker.purgatory.commits.extend(self._commits("", now))
        return self.coordinator

    # -- transactions

    def txn_commit_offsets(self, request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
        """Offsets that count once the producer's commit marker is there; ApiError if this node can't take them."""
        self.require(request.group_id, context.now)
        effects = self.coordinator.txn_commit_offsets(request, self.caller(context), context.now)
        if effects.records:
            self._append(effects, context.now, request.producer_id, request.producer_epoch)
        reply: TxnOffsetCommitResponse = effects.reply
        return reply

    def end_transaction(self, partition: int, producer_id: int, committed: bool, now: int) -> None:
        """A marker has been written to this partition of `__consumer_offsets`."""
        self._note(partition)
        if partition in self._ready:  # if not, the marker is still to be read
            self._replay_marker(partition, producer_id, committed)

    # -- metadata

    def _on_metadata(self, delta: MetadataDelta, now: int) -> None:
        self.coordinator.table.config = self._broker.config
        deleted = {topic.name for topic in delta.deleted}
        if CONSUMER_OFFSETS in deleted:
            self._ready.clear()
            self._loading.clear()
            self._unsynced.clear()
            self._apply_unasked(self.coordinator.unload(list(self.coordinator.groups)), now)
            return
        created = {topic.name for topic in delta.created}
        changed = created | deleted | {topic.name for topic, _ in delta.new_partitions}
        if changed:
            self.coordinator.on_topics_changed(changed, bool(created), self._broker.metadata.applied_offset)
        if deleted:
            self._apply_unasked(self.coordinator.on_topics_deleted(deleted), now)

    def _apply_unasked(self, several: Iterable[Effects], now: int) -> None:
        """What no request waits for: if the log refuses it, there is nobody to tell."""
        for effects in several:
            try:
                self.apply(effects, now)
            except ApiError as error:
                log.warning("group %s: %s", effects.key, error)

    # -- time

    def next_deadline(self) -> int | None:
        """When a group has something to do; at once while logs are being read."""
        return 0 if self._loading else self.coordinator.next_deadline()

    def on_deadline(self, now: int) -> None:
        read_slice(self._loading, SLICE_BYTES)
        while (due := self.coordinator.next_deadline()) is not None and due <= now:
            self._apply_unasked([self.coordinator.on_deadline(now)], now)


def _complete(completions: Completions, error: OSError | None) -> None:
    if error is not None:
        _refuse(completions, ErrorCode.NOT_COORDINATOR)
        return
    for parked, reply in completions:
        parked.complete(reply)


def _refuse(completions: Completions, code: ErrorCode) -> None:
    for parked, reply in completions:
        parked.complete(type(reply)(error_code=code))
