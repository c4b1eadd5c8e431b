"""Fetch v0-v18.

Behaviour: partitions are read in the order of the session (KIP-227), the first one with records gives at least a whole
batch whatever the limits say (KIP-74), the answer waits until `min_bytes` are there, an error is found or `max_wait_ms`
is over. Bytes count as being there up to each partition's limit, though an answer has whole batches only; and a topic,
id or partition that the metadata does not know, or a topic that is denied, ends no wait for the others. A waiting fetch
yields to the next request of its connection, since it may always return less; with `pykafka.strict.parked.fetch` that
one waits, as in Kafka.
Versions: 0-1 read message format v0, 2-3 format v1 (down-converted), 4 isolation levels and aborted transactions, 5 log
start offset, 7 sessions, 9 leader epochs (KIP-320), 12 flexible and diverging epochs (KIP-595), 13 topic ids (KIP-516),
15 replica state, 16 node endpoints, 17 directory ids, 18 high watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from typing import Any, TypeVar

from pykafka_broker.broker.api.partition_reader import NOT_SHOWN, PartitionReader
from pykafka_broker.broker.partitions.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, FetchedPartition, FetchSession
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Future, Parked, Steps
from pykafka_broker.errors import ApiError
from pykafka_broker.log.filesystem import FileSlice
from pykafka_broker.log.segments import MORE_THAN_A_SEGMENT
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import IsolationLevel
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchRequest
from pykafka_broker.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData

TOPIC_IDS_FROM = 13
_READ_AT_ONCE = 128  # partitions; more are read in slices
_READ_A_SLICE = 32
_INLINE_BYTES = 32 << 10  # up to here a copy is cheaper than a system call of its own to send a slice of a file
_ISOLATION_LEVELS = frozenset(IsolationLevel)
_COMMITTED = IsolationLevel.READ_COMMITTED
_NOT_COUNTED = -1
T = TypeVar("T")
# What one partition has for an answer: what was asked, what is told, and the bytes of its records.
Found = tuple[FetchedPartition, PartitionData, int]


@handles(ApiKey.FETCH)
def fetch(services: Services, context: RequestContext, request: FetchRequest) -> Answer[FetchResponse]:
    if request.isolation_level not in _ISOLATION_LEVELS:
        return _all_failed(request, ErrorCode.UNKNOWN_SERVER_ERROR)  # which is what a real broker calls it
    attempts: type[FetchAttempt] = FetchAttempt
    if request.replica_state.replica_id >= 0 or request.replica_id >= 0:
        from pykafka_broker.broker.api.replica_fetch import (
            ReplicaFetchAttempt,
        )  # no node that is alone needs it

        attempts = ReplicaFetchAttempt
    try:
        attempt = attempts(services, context, request)
    except ApiError as error:
        return FetchResponse(error_code=error.code)
    deadline = context.now + request.max_wait_ms
    if attempt.takes_long:
        return _read_in_slices(services, attempt, deadline)
    response = attempt.poll(context.now)
    if response is not None:
        return response
    return Parked(deadline, keys=attempt.watched(), poll=attempt.poll, expire=attempt.answer, yields=True)


def _read_in_slices(services: Services, attempt: FetchAttempt, deadline: int) -> Future[Any]:
    """The answer to a fetch of many partitions, or of messages of old formats. One that waits keeps its connection to
    itself.
    """

    def steps() -> Steps[Answer[FetchResponse]]:
        found = yield from attempt.poll_in_slices(lambda: services.clock.now < deadline)
        return found if isinstance(found, FetchResponse) else Parked(deadline, keys=found, poll=again, expire=again)

    def again(now: int) -> Future[Any]:
        return services.slices.begin(steps())

    return again(services.clock.now)


class FetchAttempt:
    """One fetch, tried as often as something arrives in its partitions."""

    PRIVILEGED = False  # whose sessions need not make room for others
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
        """The partitions to read; opens, continues or closes the session."""
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
            partitions = {(one.topic, one.partition): one for one in wanted}
            self._session = sessions.open(partitions, self._uses_ids, now, privileged=self.PRIVILEGED)
        return wanted

    def _to_read(self, session: FetchSession, named: list[FetchedPartition]) -> list[FetchedPartition]:
        """What of a session is looked at for a request that names some of it."""
        return list(session.partitions.values())

    @property
    def takes_long(self) -> bool:
        return len(self._partitions) > _READ_AT_ONCE or self._reader.converts

    def watched(self) -> Sequence[Hashable]:
        """What is waited for: the growth of the partitions."""
        return self._reader.watched(self._partitions)

    def poll(self, now: int) -> FetchResponse | None:
        """The answer, or None while it is worth waiting."""
        found, size, failed = self._read(self._partitions, 0)
        return None if self._waits(found, size, failed) else self._respond(self._told(found))

    def answer(self, now: int) -> FetchResponse:
        """The answer as things stand."""
        return self._respond(self._told(self._read(self._partitions, 0)[0]))

    def poll_in_slices(self, may_wait: Callable[[], bool]) -> Steps[FetchResponse | list[Partition]]:
        """The answer or, while it is worth waiting and that may be, what is to be watched."""
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
            told += self._told(part)
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
        """Return whether `min_bytes` are there, counting parts of batches as Kafka does: up to each partition's limit,
        or what was read together with the part for which there was no room.
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
        """What is in some of the partitions; `size` bytes were found in others before."""
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
        """The same as messages of an old format."""
        failed = False
        converted: list[Found] = []
        for wanted, read, _ in found:
            data = yield from self._reader.converted(wanted, read)
            got = len(data.records)
            size += got
            failed = failed or (data.error_code != 0 and data.error_code not in NOT_SHOWN)
            converted.append((wanted, data, got))
        return converted, size, failed

    def _told(self, found: list[Found]) -> list[Found]:
        """What stands in the answer."""
        if self._session is not None:
            found = [one for one in found if self._tells(*one)]
        for _, data, size in found:
            if 0 < size <= _INLINE_BYTES:
                _inline(data)
        return found

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
        session = self._session
        if session is not None:
            response.session_id = session.id
            session.rotate([(wanted.topic, wanted.partition) for wanted, _, size in found if size])
        return response

    def _tells(self, wanted: FetchedPartition, data: PartitionData, size: int) -> bool:
        """Whether an incremental answer has to name this partition; a full one names all."""
        if data.error_code != ErrorCode.NONE or data.diverging_epoch.epoch >= 0:
            wanted.changed(-1, -1)  # the rest of it is not what the client goes by
            return True
        changed = wanted.changed(data.high_watermark, data.log_start_offset)
        return changed or not self._incremental or size > 0 or data.preferred_read_replica >= 0


def slices_of(items: list[T]) -> Iterator[list[T]]:
    return (items[start : start + _READ_A_SLICE] for start in range(0, len(items), _READ_A_SLICE))


def _nothing_new(found: list[Found], watched: list[Partition]) -> bool:
    """Whether the partitions that can be read, which were read in several slices, still are as they were then."""
    read = [data for _, data, _ in found if not data.error_code]
    return len(read) == len(watched) and all(
        data.high_watermark == partition.log.high_watermark
        and data.last_stable_offset == partition.log.last_stable_offset
        for data, partition in zip(read, watched, strict=True)
    )


def _inline(data: PartitionData) -> None:
    """Replace a short slice of a file by its bytes, so that most answers are sent as one piece."""
    if isinstance(data.records, FileSlice):
        try:
            data.records = data.records.read()
        except OSError:
            data.records, data.error_code = b"", ErrorCode.KAFKA_STORAGE_ERROR


def _wanted(request: FetchRequest, uses_ids: bool) -> list[FetchedPartition]:
    return [
        FetchedPartition(
            topic.topic_id if uses_ids else topic.topic,
            one.partition,
            one.fetch_offset,
            one.partition_max_bytes,
            one.current_leader_epoch,
            one.last_fetched_epoch,
            one.log_start_offset,
        )
        for topic in request.topics
        for one in topic.partitions
    ]


def _all_failed(request: FetchRequest, code: ErrorCode) -> FetchResponse:
    return FetchResponse(
        error_code=code,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(partition_index=one.partition, error_code=code, high_watermark=-1, records=b"")
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
