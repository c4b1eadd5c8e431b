"""Fetch v0-v18.

Behaviour: partitions are read in the order of the session (KIP-227), the first one with records gives at least a whole
batch whatever the limits say (KIP-74), the answer waits until `min_bytes` are there, an error is found or `max_wait_ms`
is over. Bytes count as being there up to each partition's limit, though an answer has whole batches only; and a topic,
id or partition that the metadata does not know, or a topic that is denied, ends no wait for the others. A waiting fetch
yields to the next request of its connection, since it may always return less; with `pykafka.strict.parked.fetch` that
one waits, as in Kafka. An error of a partition stands in its own part of the answer. Readers of committed records never
see past the last stable offset and are told the aborted transactions among their records; other readers read up to the
high watermark. A follower serves clients up to the high watermark that it knows (KIP-392).
Versions: 0-1 read message format v0, 2-3 format v1 (down-converted), 4 isolation levels and aborted transactions, 5 log
start offset, 7 sessions, 9 leader epochs (KIP-320), 12 flexible and diverging epochs (KIP-595), 13 topic ids (KIP-516),
15 replica state, 16 node endpoints, 17 directory ids, 18 high watermark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from pykafka_broker.broker.partitions.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, FetchedPartition, FetchSession
from pykafka_broker.broker.partitions.partition import NO_EPOCH, NotLeader, Partition
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Future, Parked, Steps
from pykafka_broker.errors import ApiError
from pykafka_broker.log.filesystem import FileSlice
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.segments import MORE_THAN_A_SEGMENT
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType, IsolationLevel
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchRequest
from pykafka_broker.protocol.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from pykafka_broker.records.errors import CorruptBatch, UnsupportedCompression

TOPIC_IDS_FROM = 13
_READ_AT_ONCE = 128  # partitions; more are read in slices
_READ_A_SLICE = 32
INLINE_BYTES = 32 << 10  # up to here a copy is cheaper than a system call of its own to send a slice of a file
_ISOLATION_LEVELS = frozenset(IsolationLevel)
_COMMITTED = IsolationLevel.READ_COMMITTED
_NOT_COUNTED = -1
T = TypeVar("T")
# A partition in an answer: the request's part, the answer's part, and the bytes of the records.
Found = tuple[FetchedPartition, PartitionData, int]
_DOWN_CONVERTED_BELOW = 4  # Fetch v4 is the first whose readers know record batches v2
_MAGIC_1_FROM = 2
_TELLS_LEADER_FROM = 16  # the field is older, but Kafka left it empty
_FROM_FOLLOWERS = 11  # of clients that can be sent to another replica (KIP-392)
logger = logging.getLogger(__name__)

# Errors of partitions that can't be read at all: a fetch does not wait for them.
NOT_SHOWN = frozenset(
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
)
_READ_TOPIC = (AclOperation.READ, AclResourceType.TOPIC)
_NO_ERROR = 0
_EMPTY = b""
_MOST_CONVERTED = 32 << 20  # of one batch: the client waits for it


class PartitionReader:
    """A reader of partitions for a fetch request."""

    __slots__ = (
        "_allowed",
        "_committed",
        "_context",
        "_magic",
        "_rack",
        "_replica",
        "_services",
        "_tells_leader",
        "_uses_ids",
        "leaders",
        "redirects",
    )

    def __init__(self, services: Services, context: RequestContext, *, committed: bool, rack: str = "") -> None:
        version = context.api_version
        self._services = services
        self._context = context
        others = services.replicas.replication
        from_follower = others is not None and version >= _FROM_FOLLOWERS
        self._replica = services.replicas.readable if from_follower else services.replicas.leader
        self._rack = rack if others is not None and others.selects_by_rack else ""
        self.redirects = False  # the client is to read from another replica
        self.leaders: set[int] = set()  # of partitions that the client asks in vain for
        self._committed = committed
        self._tells_leader = version >= _TELLS_LEADER_FROM
        self._uses_ids = version >= TOPIC_IDS_FROM
        self._magic = 2 if version >= _DOWN_CONVERTED_BELOW else int(version >= _MAGIC_1_FROM)
        self._allowed: set[str] = set()  # topics that the authorizer has been asked about

    def watched(self, partitions: list[FetchedPartition]) -> list[Partition]:
        """Return the partitions that this node can read."""
        found: list[Partition] = []
        for wanted in partitions:
            try:
                found.append(self._find(wanted))
            except ApiError:
                continue
        return found

    def _find(self, wanted: FetchedPartition) -> Partition:
        topic, gone = wanted.topic, False
        if self._uses_ids:
            described = self._services.image.topics_by_id.get(topic)
            if described is not None:
                wanted.name = described.name
            gone, topic = described is None, wanted.name  # a session still knows the topic of the id
            if not topic:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        if topic not in self._allowed:
            self._authorise(topic)
            self._allowed.add(topic)
        if gone:
            self._services.replicas.replica(topic, wanted.partition)  # raises where no topic has that name now
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
        epoch = wanted.current_leader_epoch
        return self._replica(topic, wanted.partition, epoch if epoch > NO_EPOCH else NO_EPOCH)  # any below is none

    def _authorise(self, topic: str) -> None:
        self._services.authorise(self._context, *_READ_TOPIC, topic)

    def read(self, wanted: FetchedPartition, max_bytes: int, at_least_one: bool) -> PartitionData:
        """Return the records from the wanted offset on; with `at_least_one`, the first batch may exceed `max_bytes`."""
        try:
            return self._read(wanted, max_bytes, at_least_one)
        except ApiError as error:
            failure = _failure(wanted, error.code)
            if error.code in NOT_SHOWN:
                failure.aborted_transactions = []
            if isinstance(error, NotLeader) and self._tells_leader:
                failure.current_leader = LeaderIdAndEpoch(error.leader, error.leader_epoch)
                self.leaders.add(error.leader)
            return failure

    def _read(self, wanted: FetchedPartition, max_bytes: int, at_least_one: bool) -> PartitionData:
        partition = self._find(wanted)
        log = partition.log
        high_watermark, stable = log.high_watermark, log.last_stable_offset
        data = PartitionData(
            wanted.partition,
            _NO_ERROR,
            high_watermark,
            stable,
            log.log_start_offset,
            aborted_transactions=None,
            records=_EMPTY,
        )
        if wanted.last_fetched_epoch >= 0 and self._diverges(log, wanted, data):
            return data
        if self._rack and partition.is_leader and self._redirect(partition, wanted, data):
            return data
        if not partition.is_leader and high_watermark < wanted.fetch_offset <= log.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
        upper = stable if self._committed else high_watermark
        read = log.read(wanted.fetch_offset, max_bytes, upper, min_one=at_least_one)
        if self._committed and (read is not None or at_least_one or not max_bytes or wanted.fetch_offset >= upper):
            data.aborted_transactions = []  # null where there is a batch for which there was no room
        if read is None:
            return data
        data.records = read.records
        if self._committed:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                for aborted in log.aborted_transactions(wanted.fetch_offset, read.end_offset)
            ]
        return data

    def bytes_there(self, wanted: FetchedPartition, data: PartitionData) -> int:
        """Return the number of bytes from the wanted offset to the end for the client, parts of batches included.

        MORE_THAN_A_SEGMENT where the records go on in another segment.
        """
        upper = data.last_stable_offset if self._committed else data.high_watermark
        if wanted.fetch_offset >= upper:
            return 0
        try:
            return self._find(wanted).log.bytes_between(wanted.fetch_offset, upper)
        except ApiError:
            return 0  # the next look at the partition tells the error

    def endpoints(self) -> list[NodeEndpoint]:
        """Return the addresses of the leaders that the answer names (KIP-951)."""
        return [NodeEndpoint(*node) for node in self._services.leaders(self._context, self.leaders)]

    def _redirect(self, partition: Partition, wanted: FetchedPartition, data: PartitionData) -> bool:
        """Return whether another replica is closer to the client; tell the client."""
        from pykafka_broker.broker.replication.node_replication import closest_replica

        found = closest_replica(partition, wanted.fetch_offset, self._rack, self._services.image)
        data.preferred_read_replica = found
        self.redirects = self.redirects or found >= 0
        return found >= 0

    @property
    def converts(self) -> bool:
        """Return whether the client reads messages of an old format."""
        return self._magic < 2

    def converted(self, wanted: FetchedPartition, data: PartitionData) -> Generator[None, None, PartitionData]:
        """Return the records as messages of the client's format."""
        from pykafka_broker.records.conversion import from_v2

        if not isinstance(data.records, FileSlice):
            return data
        try:
            records, first = data.records.read(), wanted.fetch_offset
            data.records = yield from from_v2(records, self._magic, first_offset=first, max_bytes=_MOST_CONVERTED)
        except UnsupportedCompression:
            return _failure(wanted, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        except CorruptBatch as error:
            where = wanted.topic, wanted.partition, wanted.fetch_offset
            logger.warning("%s-%d from offset %d on can't be converted for an old client: %s", *where, error)
            return _failure(wanted, ErrorCode.CORRUPT_MESSAGE)
        except OSError as error:
            return self.disk_failed(wanted, error)
        return data

    def disk_failed(self, wanted: FetchedPartition, error: OSError) -> PartitionData:
        """Tell the log's keeper that records can't be read, and return the answer for their partition."""
        with suppress(ApiError):  # the partition may have gone since
            self._find(wanted).log.storage_error(error)
        return _failure(wanted, ErrorCode.KAFKA_STORAGE_ERROR)

    @staticmethod
    def _diverges(log: PartitionLog, wanted: FetchedPartition, data: PartitionData) -> bool:
        """Return whether the client's last record is not of this log's history; tell where they part."""
        found = diverging_epoch(log, wanted.last_fetched_epoch, wanted.fetch_offset)
        if found is None:
            return False
        data.diverging_epoch = found
        return True


def diverging_epoch(log: PartitionLog, last_fetched_epoch: int, fetch_offset: int) -> EpochEndOffset | None:
    """Return where the histories of client and log part, None where the client's last record is in the log (KIP-595).

    Raises OFFSET_OUT_OF_RANGE.
    """
    epoch, end_offset = log.epochs.led_end_offset_for(last_fetched_epoch, log.log_end_offset)
    if epoch < 0:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None


def _failure(wanted: FetchedPartition, code: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=wanted.partition,
        error_code=code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=None,
        records=_EMPTY,
    )


@handles(ApiKey.FETCH)
def fetch(services: Services, context: RequestContext, request: FetchRequest) -> Answer[FetchResponse]:
    if request.isolation_level not in _ISOLATION_LEVELS:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)  # which is what a real broker calls it
    attempts: type[FetchAttempt] = FetchAttempt
    if request.replica_state.replica_id >= 0 or request.replica_id >= 0:
        from pykafka_broker.broker.api.replica_fetch import ReplicaFetchAttempt  # no node that is alone needs it

        attempts = ReplicaFetchAttempt
    try:
        attempt = attempts(services, context, request)
    except ApiError as error:
        return FetchResponse(error_code=error.code)
    deadline = context.now + request.max_wait_ms
    if attempt.takes_long:
        return _read_in_slices(services, attempt, deadline, context.now)
    response = attempt.poll(context.now)
    if response is not None:
        return response
    return Parked(deadline, keys=attempt.watched(), poll=attempt.poll, expire=attempt.answer, yields=True)


def _read_in_slices(services: Services, attempt: FetchAttempt, deadline: int, now: int) -> Future[Any]:
    """Return the answer to a fetch of many partitions or of messages of old formats, which does not yield."""
    return services.slices.begin(_slices(services, attempt, deadline))


def _slices(services: Services, attempt: FetchAttempt, deadline: int) -> Steps[Answer[FetchResponse]]:
    found = yield from attempt.poll_in_slices(lambda: services.clock.now < deadline)
    if isinstance(found, FetchResponse):
        return found
    again = partial(_read_in_slices, services, attempt, deadline)
    return Parked(deadline, keys=found, poll=again, expire=again)


class FetchAttempt:
    """A fetch, tried again whenever records arrive (Kafka: DelayedFetch)."""

    PRIVILEGED = False  # a privileged session does not make room for others
    __slots__ = (
        "_incremental",
        "_max_bytes",
        "_min_bytes",
        "_partitions",
        "_patient",
        "_reader",
        "_session",
        "_unknown",
        "_uses_ids",
    )

    def __init__(self, services: Services, context: RequestContext, request: FetchRequest) -> None:
        version = context.api_version
        self._uses_ids = version >= TOPIC_IDS_FROM
        self._max_bytes = min(request.max_bytes, services.config.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._unknown = _NOT_COUNTED  # partitions in `NOT_SHOWN` when the wait began
        self._patient = request.max_wait_ms > 0
        self._reader = self._reader_for(services, context, request)
        self._incremental = request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH)
        self._session: FetchSession | None = None
        self._partitions = self._resolve(services, request, context.now)

    def _reader_for(self, services: Services, context: RequestContext, request: FetchRequest) -> PartitionReader:
        committed = request.isolation_level == _COMMITTED
        return PartitionReader(services, context, committed=committed, rack=request.rack_id)

    def _resolve(self, services: Services, request: FetchRequest, now: int) -> list[FetchedPartition]:
        """Return the partitions to read; open, continue or close the session."""
        sessions = services.fetch_sessions
        wanted = _wanted(request, self._uses_ids)
        if self._incremental:
            self._session = sessions.resume(request.session_id, request.session_epoch, self._uses_ids, now)
            forgotten = [
                (topic.topic_id if self._uses_ids else topic.topic, partition)
                for topic in request.forgotten_topics_data
                for partition in topic.partitions
            ]
            self._session.update(wanted, forgotten)
            if not self._session.partitions:
                sessions.close(request.session_id)
                self._session = None
                return wanted  # as if there had been no session
            return self._to_read(self._session, wanted)
        if request.session_id:
            sessions.close(request.session_id)
        if request.session_epoch == INITIAL_EPOCH:
            partitions = {(each.topic, each.partition): each for each in wanted}
            self._session = sessions.open(partitions, self._uses_ids, now, privileged=self.PRIVILEGED)
        return wanted

    def _to_read(self, session: FetchSession, named: list[FetchedPartition]) -> list[FetchedPartition]:
        """Return the partitions of a session to read for a request that names some of them."""
        return list(session.partitions.values())

    @property
    def takes_long(self) -> bool:
        return len(self._partitions) > _READ_AT_ONCE or self._reader.converts

    def watched(self) -> Sequence[Hashable]:
        """Return the keys to watch: the partitions."""
        return self._reader.watched(self._partitions)

    def poll(self, now: int) -> FetchResponse | None:
        """Return the answer, or None while waiting is worth it."""
        found, size, failed = self._read(self._partitions, 0)
        return None if self._waits(found, size, failed) else self._respond(self._to_answer(found))

    def answer(self, now: int) -> FetchResponse:
        """Return the answer with the records at hand."""
        return self._respond(self._to_answer(self._read(self._partitions, 0)[0]))

    def poll_in_slices(self, may_wait: Callable[[], bool]) -> Steps[FetchResponse | list[Partition]]:
        """Return the answer or, while waiting is worth it and allowed, the partitions to watch."""
        while True:
            found: list[Found] = []
            size, failed = 0, False
            for some in slices_of(self._partitions):
                before = size
                more, size, one_failed = self._read(some, before)
                if self._reader.converts:
                    more, size, one_failed = yield from self._converted(more, before)
                found += more
                failed = failed or one_failed
                yield None
            if not (self._waits(found, size, failed) and may_wait()):
                break
            watched = self._reader.watched(self._partitions)
            if _nothing_new(found, watched):
                return watched
            yield None
        told: list[Found] = []
        for part in slices_of(found):
            told += self._to_answer(part)
            yield None
        return self._respond(told)

    def _waits(self, found: list[Found], size: int, failed: bool) -> bool:
        """Return whether waiting can bring more. `failed`: a partition that can be read has an error."""
        if failed or size >= self._min_bytes or not self._patient or self._reader.redirects:
            return False
        unknown = sum(1 for _, data, _ in found if data.error_code)
        if unknown == len(found):
            return False
        if self._unknown == _NOT_COUNTED:
            self._unknown = unknown
        elif unknown > self._unknown:  # a partition has gone since
            return False
        return not self._has_enough(found)

    def _has_enough(self, found: list[Found]) -> bool:
        """Return whether `min_bytes` are there, counting parts of batches as Kafka does.

        Counted are the bytes up to each partition's limit, or the bytes read with the part that had no room.
        """
        if self._min_bytes <= 1:
            return False  # the first batch of all would have been enough
        in_limits = with_read = 0
        for wanted, data, got in found:
            here = 0 if data.error_code else self._reader.bytes_there(wanted, data)
            in_limits += min(here, wanted.max_bytes)
            with_read += max(got, min(here, wanted.max_bytes)) if got else 0
            if here == MORE_THAN_A_SEGMENT or max(in_limits, with_read) >= self._min_bytes:
                return True
        return False

    def _read(self, partitions: list[FetchedPartition], size: int) -> tuple[list[Found], int, bool]:
        """Read some of the partitions, after `size` bytes of others; return results, all bytes, and any error."""
        left = max(0, self._max_bytes - size)
        failed = False
        found: list[Found] = []
        read = self._reader.read
        for wanted in partitions:
            data = read(wanted, min(left, wanted.max_bytes), not size)
            got = len(data.records)
            size += got
            left = max(0, left - got)
            if data.diverging_epoch.epoch >= 0 or (data.error_code and data.error_code not in NOT_SHOWN):
                failed = True
            found.append((wanted, data, got))
        return found, size, failed

    def _converted(self, found: list[Found], size: int) -> Generator[None, None, tuple[list[Found], int, bool]]:
        """Return the results of `_read` as messages of an old format."""
        failed = False
        converted: list[Found] = []
        for wanted, read, _ in found:
            data = yield from self._reader.converted(wanted, read)
            got = len(data.records)
            size += got
            failed = failed or (data.error_code != 0 and data.error_code not in NOT_SHOWN)
            converted.append((wanted, data, got))
        return converted, size, failed

    def _to_answer(self, found: list[Found]) -> list[Found]:
        """Return the results that stand in the answer."""
        for position, (wanted, data, size) in enumerate(found):
            if 0 < size <= INLINE_BYTES and isinstance(data.records, FileSlice):  # most answers are sent as one piece
                try:
                    data.records = data.records.read()
                except OSError as error:
                    found[position] = wanted, self._reader.disk_failed(wanted, error), 0
        if self._session is None:
            return found
        return [each for each in found if self._is_in_answer(*each)]

    def _respond(self, found: list[Found]) -> FetchResponse:
        topics: dict[object, FetchableTopicResponse] = {}
        for wanted, data, _ in found:
            key = wanted.topic
            topic = topics.get(key)
            if topic is None:
                topic = FetchableTopicResponse("", key) if self._uses_ids else FetchableTopicResponse(key)
                topics[key] = topic
            topic.partitions.append(data)
        response = FetchResponse(responses=list(topics.values()))
        if self._reader.leaders:
            response.node_endpoints = self._reader.endpoints()
        session = self._session
        if session is not None:
            response.session_id = session.id
            if self._incremental:  # the answer that opens a session leaves the order as it was asked for
                session.rotate([(wanted.topic, wanted.partition) for wanted, _, size in found if size])
        return response

    def _is_in_answer(self, wanted: FetchedPartition, data: PartitionData, size: int) -> bool:
        """Return whether the answer has to name the partition; an answer that is not incremental names all."""
        if data.error_code != ErrorCode.NONE or data.diverging_epoch.epoch >= 0:
            wanted.changed(-1, -1)  # the client does not take the offsets of such an answer
            return True
        changed = wanted.changed(data.high_watermark, data.log_start_offset)
        return changed or not self._incremental or size > 0 or data.preferred_read_replica >= 0


def slices_of(items: list[T]) -> Iterator[list[T]]:
    return (items[start : start + _READ_A_SLICE] for start in range(0, len(items), _READ_A_SLICE))


def _nothing_new(found: list[Found], watched: list[Partition]) -> bool:
    """Return whether the readable partitions have not changed since they were read, in several slices."""
    read = [data for _, data, _ in found if not data.error_code]
    return len(read) == len(watched) and all(
        data.high_watermark == partition.log.high_watermark
        and data.last_stable_offset == partition.log.last_stable_offset
        for data, partition in zip(read, watched, strict=True)
    )


def _wanted(request: FetchRequest, uses_ids: bool) -> list[FetchedPartition]:
    return [
        FetchedPartition(
            topic.topic_id if uses_ids else topic.topic,
            asked.partition,
            asked.fetch_offset,
            asked.partition_max_bytes,
            asked.current_leader_epoch,
            asked.last_fetched_epoch,
            asked.log_start_offset,
        )
        for topic in request.topics
        for asked in topic.partitions
    ]
