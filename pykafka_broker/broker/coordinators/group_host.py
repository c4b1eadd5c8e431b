"""The group coordinator's host: its logs, and the requests of handlers.

Rule: a decision of the coordinator is appended to the group's partition of `__consumer_offsets` as one batch, replayed
into the coordinator, and answered when it is committed. A node that was away may not know yet that another node is the
coordinator, so it must neither end a member nor tell committed offsets: where there are other replicas, such an answer
rests on a record that is committed anew, which such a node can't do.

Imported by `Services` with the first request for a group, so that a broker without groups does not wait for the import.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, overload

from pykafka_broker.broker.coordinators.coordinator_log import read_batches, replay_batch
from pykafka_broker.broker.coordinators.shards import CoordinatorShards
from pykafka_broker.broker.node import ServerNode
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.requests.context import ConnectionContext, RequestContext
from pykafka_broker.broker.requests.encoded_reply import UnwrittenReply
from pykafka_broker.broker.waiting.future import Answer, Future, Steps, TooLate, when_committed
from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS
from pykafka_broker.config.group import GroupConfig
from pykafka_broker.coordinators.groups.coordinator import GroupCoordinator
from pykafka_broker.coordinators.groups.group import Caller
from pykafka_broker.coordinators.groups.offsets import no_change_record
from pykafka_broker.coordinators.record import CoordinatorRecord, CoordinatorResult, R, decode
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.offset_commit_request import OffsetCommitRequest
from pykafka_broker.protocol.messages.offset_commit_response import OffsetCommitResponse
from pykafka_broker.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from pykafka_broker.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from pykafka_broker.protocol.runtime import Pieces
from pykafka_broker.protocol.stored_keys import GROUP_RECORDS
from pykafka_broker.records.control import read_end_transaction_marker
from pykafka_broker.records.header import NO_PRODUCER_ID
from pykafka_broker.records.record import BatchRecord
from pykafka_broker.steps import Pace

log = logging.getLogger(__name__)

_ITEMS_OF_A_GROUP = 10  # with offsets of a deleted topic, as items of `Pace`
DEADLINES_A_TURN = 200  # a tenth of a millisecond each, and more for a member that goes
Completions = list[tuple[Any, Any]]
# By these errors members give up their assignments, and some clients end: a deposed coordinator may not send them.
_FINAL = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNRELEASED_INSTANCE_ID,
    }
)


class UnwrittenCommit(NamedTuple):
    """A decided commit before it is written. answer: from the log's error code to the pieces of the answer."""

    shard: int
    record: CoordinatorRecord
    answer: Callable[[int], Pieces]
    reply: UnwrittenReply


class GroupHost:
    """All partitions of `__consumer_offsets` led by the node, behind a single coordinator.

    at_end_of_turn: `Services.at_end_of_turn`.
    """

    def __init__(self, node: ServerNode, at_end_of_turn: Callable[[Callable[[], None]], bool]) -> None:
        self._node = node
        self._at_end_of_turn = at_end_of_turn
        self._unwritten: list[UnwrittenCommit] = []  # of this turn
        # Why internal topics of streams groups could not be created, by topic, and until when (ms) that is told.
        self.creation_failures: dict[str, tuple[str, int]] = {}
        self._coordinator = GroupCoordinator(
            node.config,
            node.image,
            self._new_id,
            partial(node.image.config, ConfigResourceType.GROUP),
            node.setup.absent_member_ms,
            self._wall_at,
        )
        self._shards = CoordinatorShards(
            node, CONSUMER_OFFSETS, self, timeout_ms=lambda _: node.config.offsets_commit_timeout_ms
        )
        self.coordinator.on_topics_changed((), True, node.metadata.applied_offset)
        node.subscribe(self._on_metadata)
        self.shards.start()

    @property
    def coordinator(self) -> GroupCoordinator:
        """Return the coordinator, with everything that it has decided."""
        if self._unwritten:
            self._write_commits()
        return self._coordinator

    @property
    def shards(self) -> CoordinatorShards:
        """Return the shards, whose logs hold everything that was decided."""
        if self._unwritten:
            self._write_commits()
        return self._shards

    def _new_id(self) -> str:
        """Return a random UUID as text."""
        text = self._node.new_uuid().hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def _wall_at(self, now: int) -> int:
        return now + self._node.clock.wall - self._node.clock.now

    def settings(self, group_id: str) -> GroupConfig:
        return self.coordinator.table.group_settings(group_id)

    # -- shards

    def load(self, index: int, partition: Partition) -> Iterator[int]:
        """Replay batch after batch; yields the size of each."""
        now = self._node.clock.now
        for header, batch in read_batches(partition.log):
            if header.is_control:
                marker = read_end_transaction_marker(batch)
                if marker is not None:
                    self._replay_marker(index, marker.producer_id, marker.commit)
            else:
                producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
                replay_batch(header, batch, partial(self._replay, now=now, producer_id=producer_id))
            yield header.size

    def _replay(self, record: BatchRecord, *, now: int, producer_id: int) -> None:
        decoded = decode(record.key or b"", record.value, GROUP_RECORDS)
        if decoded is not None:
            self.coordinator.replay(decoded, now, record.offset, producer_id)

    def loaded(self, index: int, epoch: int) -> None:
        """Begin the sessions of the shard's members."""
        group_ids, now = self._groups_of({index}), self._node.clock.now
        if self._node.setup.leader_epoch >= 0:
            for group_id in group_ids:
                self.coordinator.disconnected.on_loaded(self.coordinator.groups[group_id], now)
        self._apply_unasked(self.coordinator.on_loaded(group_ids, now))

    def unload(self, indexes: Collection[int]) -> None:
        """Send waiting members to another node."""
        self._apply_unasked(self.coordinator.unload(self._groups_of(indexes)))

    def _groups_of(self, indexes: Collection[int]) -> list[str]:
        index_of = self.shards.index_of
        return [group_id for group_id in self.coordinator.groups if index_of(group_id) in indexes]

    def _replay_marker(self, index: int, producer_id: int, committed: bool) -> None:
        index_of = self.shards.index_of
        self.coordinator.offsets.replay_end_txn(producer_id, committed, lambda group_id: index_of(group_id) == index)

    # -- what handlers ask

    def refusal(self, group_id: str) -> ErrorCode:
        """Return why the node can't speak for the group; NONE if nothing is wrong."""
        return self.shards.refusal(group_id)

    def require(self, group_id: str) -> None:
        """Raise the refusal, if any."""
        self.shards.find(group_id)

    def committed(self, *group_ids: str) -> Future[None]:
        """Return the future of all known records of the groups being committed."""
        return self.shards.committed(*group_ids)

    def confirm_by_append(self, group_id: str, *verdicts: int) -> None:
        """Append a record only a coordinator can commit, if an error code is final for a member.

        The answer waits for the record. ApiError if the log refuses.
        """
        if not _FINAL.isdisjoint(verdicts):
            self.confirm_offsets_by_append(group_id)

    def confirm_offsets_by_append(self, *group_ids: str) -> None:
        """Append such records for an answer with committed offsets of the groups. ApiError if the log refuses."""
        for group_id in group_ids:
            if self.shards.refusal(group_id) is ErrorCode.NONE:
                self.shards.confirm(self.shards.index_of(group_id), no_change_record(group_id))

    def has_replicas(self, group_id: str) -> bool:
        """Return whether other nodes have replicas of the group's log, and so may become the coordinator."""
        return self.shards.has_replicas(self.shards.index_of(group_id))

    def confirmed(self, group_id: str) -> Steps[None]:
        """Wait for a new committed record of the group, before another node changes something for the group.

        Only the group's coordinator gets that far. Raises what `require` and the log raise.
        """
        self.require(group_id)
        if self.has_replicas(group_id):
            self.apply(CoordinatorResult(records=[no_change_record(group_id)], key=group_id))
            yield self.committed(group_id)
            self.require(group_id)

    def caller(self, context: RequestContext, may_see: Callable[[str], bool] | None = None) -> Caller:
        """Return the client in the form of groups."""
        return Caller(context.api_version, context.client_id or "", f"/{context.connection.client_host}", may_see)

    def heard(self, context: RequestContext, group_id: str, member_id: str) -> None:
        self.coordinator.disconnected.note_contact(context.connection.id, group_id, member_id)

    def connection_closed(self, connection: ConnectionContext) -> None:
        """Note a closed connection: members may have gone."""
        self.coordinator.disconnected.on_connection_closed(connection.id, self._node.clock.now)

    @overload
    def answer(self, group_id: str, effects: CoordinatorResult[R]) -> Answer[R]: ...

    @overload
    def answer(self, group_id: str, effects: CoordinatorResult[R | None], later: Future[R]) -> Answer[R]: ...

    def answer(self, group_id: str, effects: CoordinatorResult[Any], later: Future[Any] | None = None) -> Any:
        """Return the answer to a request on a group: the reply, once committed, or `later` without a reply yet."""
        self.apply(effects)
        if effects.reply is None:
            return later
        self.confirm_by_append(group_id, getattr(effects.reply, "error_code", 0))
        return self.shards.when_committed(effects.reply, group_id)

    def apply(self, effects: CoordinatorResult[Any]) -> None:
        """Append, replay, and answer waiting requests. If the log refuses, the requests fail.

        Raises:
            ApiError: the log has refused the records, which change nothing then, or the confirmation of an answer.
        """
        try:
            if effects.records:
                self._append_all(effects)
            if effects.completions:
                codes = [getattr(reply, "error_code", 0) for _, reply in effects.completions]
                self.confirm_by_append(effects.key, *codes)
        except ApiError as error:
            _refuse(effects.completions, error.code)
            raise
        if effects.completions:
            self.committed(effects.key).add_done_callback(partial(_complete, effects.completions))
        if effects.later is not None:
            self._node.slices.unasked(self._go_on(effects.later))

    def _go_on(self, later: Iterator[CoordinatorResult[None] | None]) -> Steps[None]:
        for effects in later:
            if effects is None:
                yield None
            else:
                self._apply_unasked([effects])

    def _append_all(self, effects: CoordinatorResult[Any]) -> None:
        try:
            self.append(self.shards.index_of(effects.key), effects.records)
        except ApiError:
            if effects.take_back is not None:
                effects.take_back()
            raise

    def append(
        self,
        shard: int,
        records: Sequence[CoordinatorRecord],
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
    ) -> None:
        """Append the records of a decision to the log of the shard, and replay them. ApiError if the log refuses."""
        now, replay = self._node.clock.now, self.coordinator.replay
        self.shards.append(
            shard,
            records,
            lambda record, offset: replay(record, now, offset, producer_id),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )

    def listed(self) -> GroupCoordinator:
        """Return the coordinator, after the load of all logs. Raises COORDINATOR_LOAD_IN_PROGRESS."""
        if self.shards.loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self.coordinator

    # -- offsets

    def commit_offsets(self, request: OffsetCommitRequest, context: RequestContext) -> Any:
        """Return the answer to an OffsetCommit; ApiError if the node can't commit.

        The short form of `answer`, for the most frequent request: nobody else waits for a commit.
        """
        shards, now = self.shards, context.now
        index = shards.find(request.group_id)
        effects = self.coordinator.offset_requests.commit(request, context.api_version, now)
        if effects.records:
            self.append(index, effects.records)
        else:
            self.confirm_by_append(request.group_id, *_verdicts(effects.reply))
        return when_committed(effects.reply, shards.shards_committed((index,)))

    def shard_for_commit(self, group_id: str) -> int | None:
        """Return the shard for a commit, if its record will be committed as soon as it is written; else None."""
        return self._shards.commits_at_once(group_id, 1 + len(self._unwritten))

    @property
    def commit_one(self) -> Callable[..., CoordinatorRecord | None]:
        """Return `OffsetRequests.commit_one`, which looks at no committed offset: commits of this turn may still be
        unwritten.
        """
        return self._coordinator.offset_requests.commit_one

    def write_commit(self, shard: int, record: CoordinatorRecord, answer: Callable[[int], Pieces]) -> Pieces:
        """Write the record of a commit: now, or together with other commits of this turn of the loop.

        A request that is served alone never waits, as with Kafka's `group.coordinator.append.linger.ms` of -1. Returns
        `answer` of the log's error code, 0 once the record is written.
        """
        if self._unwritten or self._at_end_of_turn(self._write_commits):
            reply = UnwrittenReply(answer(ErrorCode.NONE))
            self._unwritten.append(UnwrittenCommit(shard, record, answer, reply))
            return reply
        return answer(self._write(shard, (record,)))

    def _write(self, shard: int, records: Sequence[CoordinatorRecord]) -> int:
        try:
            self.append(shard, records)
        except ApiError as error:
            return error.code
        return ErrorCode.NONE

    def _write_commits(self) -> None:
        """Write the commits of this turn, one batch for each log.

        A follower or another record may have come in the same turn, after a commit was decided: then the record is not
        committed with its append, and its client has to ask again.
        """
        unwritten, self._unwritten = self._unwritten, []
        by_shard: dict[int, list[UnwrittenCommit]] = {}
        for each in unwritten:
            by_shard.setdefault(each.shard, []).append(each)
        for shard, commits in by_shard.items():
            codes = [self._write(shard, [each.record for each in commits])] * len(commits)
            if codes[0] and len(commits) > 1:  # the batch may be too large: each commit has a verdict of its own
                codes = [self._write(shard, (each.record,)) for each in commits]
            late = ErrorCode.COORDINATOR_NOT_AVAILABLE if self._shards.uncommitted((shard,)) else ErrorCode.NONE
            for each, code in zip(commits, codes, strict=True):
                if code or late:
                    each.reply[1:] = each.answer(code or late)[1:]

    def txn_commit_offsets(self, request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
        """Commit offsets as part of a transaction; ApiError if the node can't commit."""
        self.require(request.group_id)
        effects = self.coordinator.offset_requests.commit(request, context.api_version, context.now)
        if effects.records:
            index = self.shards.index_of(effects.key)
            self.append(index, effects.records, request.producer_id, request.producer_epoch)
        else:
            self.confirm_by_append(request.group_id, *_verdicts(effects.reply))
        reply: TxnOffsetCommitResponse = effects.reply
        return reply

    def end_transaction(self, index: int, producer_id: int, committed: bool) -> None:
        """Apply a marker in a partition of `__consumer_offsets`."""
        if self.shards.is_ready(index):  # if not, the marker is still to be read
            self._replay_marker(index, producer_id, committed)

    # -- metadata

    def _on_metadata(self, delta: MetadataDelta) -> None:
        self.coordinator.table.config = self._node.config
        self.shards.follow(delta)
        deleted = {topic.name for topic in delta.deleted}
        created = {topic.name for topic in delta.created}
        changed = created | deleted | {topic.name for topic, _ in delta.new_partitions} | delta.moved
        if changed:
            self.coordinator.on_topics_changed(changed, bool(created), self._node.metadata.applied_offset)
        if deleted:
            self._node.slices.unasked(self._forget_topics(deleted))

    def _forget_topics(self, names: set[str]) -> Steps[None]:
        """Remove deleted topics from groups: very many groups may have read them."""
        shards, pace = self.shards, Pace()
        ends = shards.ends()
        for effects in self.coordinator.on_topics_deleted(names, lambda key: ends.get(shards.index_of(key), 0)):
            if effects.records and shards.is_ready(shards.index_of(effects.key)):
                self._apply_unasked([effects])
            if pace.due(_ITEMS_OF_A_GROUP + len(effects.records) if effects.records else 1):
                yield None

    def _apply_unasked(self, several: Iterable[CoordinatorResult[Any]]) -> None:
        """Apply results without a request: if the log refuses, nobody is told."""
        for effects in several:
            try:
                self.apply(effects)
            except ApiError as error:
                log.warning("group %s: %s", effects.key, error)

    # -- time

    def next_deadline(self) -> int | None:
        """Return when a group has something to do, or logs are to be read on."""
        due, reading = self.coordinator.next_deadline(), self.shards.next_deadline()
        return due if reading is None else reading if due is None else min(due, reading)

    def on_deadline(self, now: int) -> None:
        """Handle due deadlines, some in each turn: the sessions of a large group may end at one moment."""
        self.shards.on_deadline(now)
        for _ in range(DEADLINES_A_TURN):
            due = self.coordinator.next_deadline()
            if due is None or due > now:
                return
            self._apply_unasked([self.coordinator.on_deadline(now)])


def _verdicts(reply: OffsetCommitResponse | TxnOffsetCommitResponse) -> Iterator[int]:
    return (partition.error_code for topic in reply.topics for partition in topic.partitions)


def _complete(completions: Completions, committed: Future[None]) -> None:
    error = committed.error
    if error is not None:
        _refuse(completions, error.code if isinstance(error, TooLate) else ErrorCode.NOT_COORDINATOR)
        return
    for token, reply in completions:
        token.complete(reply)


def _refuse(completions: Completions, code: ErrorCode) -> None:
    for token, reply in completions:
        token.complete(type(reply)(error_code=code))
