"""The short way of Fetch: a consumer that reads one partition and gets records at once, or waits for them, v4-v18.

Rule: a request that anything makes unusual gets None before anything is changed, and goes the general way
(`fetch.py`): a replica, a rack, two partitions, a session that begins or ends, a partition that is led elsewhere or not
open yet, another leader epoch, a history that diverges, an offset out of range, a wait for more than a byte, aborted
transactions, a disk that fails. No rule about records or sessions stands here: `PartitionLog.read`, `diverging_epoch`
and `FetchSessionCache` decide, as in the general way. A request that waits is a `FetchAttempt` of the general way; only
its look at new records is short.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.broker.api.fetch import INLINE_BYTES, TOPIC_IDS_FROM, FetchAttempt, PartitionReader, diverging_epoch
from pykafka_broker.broker.partitions.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchedPartition,
    FetchSession,
)
from pykafka_broker.broker.partitions.partition import NO_EPOCH, Partition
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.encoded_reply import WrittenReply
from pykafka_broker.broker.requests.router import shortens
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Parked
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import IsolationLevel
from pykafka_broker.protocol.messages.fetch_request import SINGLE_READERS
from pykafka_broker.protocol.messages.fetch_response import SINGLE_WRITERS
from pykafka_broker.protocol.runtime import Pieces

_ISOLATION_LEVELS = frozenset(IsolationLevel)
_COMMITTED = int(IsolationLevel.READ_COMMITTED)
_NOTHING_UNKNOWN = 0


@shortens(ApiKey.FETCH)
def fetch_shortly(services: Services, context: RequestContext, frame: Any, body: int) -> Pieces | Parked | None:
    version = context.api_version
    reader = SINGLE_READERS.get(version)
    asked = None if reader is None else reader(frame, body)
    if asked is None:
        return None
    replica, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch, names, *wants = asked
    topic, topic_id, index, leader_epoch, offset, last_epoch, log_start, partition_max_bytes = wants
    uses_ids = version >= TOPIC_IDS_FROM
    session: FetchSession | None = None
    if session_epoch == FINAL_EPOCH:
        if session_id != NO_SESSION or not names:
            return None
    elif session_epoch == INITIAL_EPOCH:
        return None
    else:
        session = services.fetch_sessions.continued(session_id, session_epoch, uses_ids)
        if session is None or len(session.partitions) != 1:
            return None
        (known,) = session.partitions.values()
        if not names:
            topic = topic_id = known.topic
            index, leader_epoch, offset = known.partition, known.current_leader_epoch, known.fetch_offset
            last_epoch, partition_max_bytes = known.last_fetched_epoch, known.max_bytes
        elif index != known.partition or known.topic != (topic_id if uses_ids else topic):
            return None
    if replica >= 0 or isolation not in _ISOLATION_LEVELS:
        return None
    partition = _leader(services, topic_id if uses_ids else topic, index, leader_epoch, uses_ids)
    if partition is None:
        return None
    most_bytes = min(max_bytes, services.config.fetch_max_bytes)
    found = _look(partition, offset, last_epoch, min(most_bytes, partition_max_bytes), isolation)
    if found is None or most_bytes <= 0:
        return None
    records, size = found
    if size < min_bytes and size < most_bytes and (size or min_bytes != 1) and max_wait_ms > 0:
        return None
    if not size and (max_wait_ms <= 0 or min_bytes != 1):
        return None
    # From here on nothing steps aside.
    if session is not None:
        services.fetch_sessions.resume(session_id, session_epoch, uses_ids, context.now)
    if names and not (session is None and size):
        key = topic_id if uses_ids else topic
        wanted = FetchedPartition(key, index, offset, partition_max_bytes, leader_epoch, last_epoch, log_start)
        if session is None:
            known = wanted
        else:
            session.update((wanted,), ())
    if size and session is None:
        return _answer(version, NO_SESSION, topic, topic_id, partition, isolation, records)
    if size:
        return _told(version, session, known, partition, isolation, records)
    known.name = partition.topic
    attempt = SingleFetchAttempt(services, context, session, known, most_bytes, isolation)
    return Parked(context.now + max_wait_ms, keys=(partition,), poll=attempt.poll, expire=attempt.answer, yields=True)


def _leader(services: Services, topic: Any, index: int, leader_epoch: int, uses_ids: bool) -> Partition | None:
    """Return an open partition that this node leads in the client's epoch, or None. topic: the id or the name."""
    if uses_ids:
        described = services.image.topics_by_id.get(topic)
        if described is None:
            return None
        topic = described.name
    partition = services.replicas.open_leader(topic, index)
    if partition is None or (leader_epoch > NO_EPOCH and leader_epoch != partition.leader_epoch):
        return None
    return partition


def _look(partition: Partition, offset: int, last_epoch: int, max_bytes: int, isolation: int) -> tuple[Any, int] | None:
    """Return the records from the offset on and their size, 0 where there are none yet; None where a look in the
    general way has more to tell.
    """
    log = partition.log
    committed = isolation == _COMMITTED
    try:
        if last_epoch >= 0 and diverging_epoch(log, last_epoch, offset) is not None:
            return None
        read = log.read(offset, max_bytes, log.last_stable_offset if committed else log.high_watermark)
        if read is None:
            return b"", 0
        if committed and log.aborted_transactions(offset, read.end_offset()):
            return None
        size = len(read.records)
        return (read.records.read() if size <= INLINE_BYTES else read.records), size
    except (ApiError, OSError):
        return None


def _answer(
    version: int, session_id: int, topic: str, topic_id: bytes, partition: Partition, isolation: int, records: Any
) -> Pieces:
    log = partition.log
    high_watermark, stable, start = log.high_watermark, log.last_stable_offset, log.log_start_offset
    committed = isolation == _COMMITTED
    return SINGLE_WRITERS[version](
        session_id, topic, topic_id, partition.number, high_watermark, stable, start, committed, records
    )


def _told(
    version: int,
    session: FetchSession | None,
    wanted: FetchedPartition,
    partition: Partition,
    isolation: int,
    records: Any,
) -> Pieces:
    """Return the answer with these records, after the session has noted what the client is told."""
    topic, session_id = wanted.topic, NO_SESSION
    wanted.name = partition.topic
    if session is not None:
        session_id = session.id
        wanted.changed(partition.log.high_watermark, partition.log.log_start_offset)
        if len(session.partitions) > 1:  # named by a fetch on another connection
            session.rotate([(topic, wanted.partition)])
    return _answer(version, session_id, topic, topic, partition, isolation, records)


class SingleFetchAttempt(FetchAttempt):
    """A fetch of one partition, in a session or waiting. `poll` takes a short look first."""

    __slots__ = ("_isolation", "_services", "_version")

    def __init__(
        self,
        services: Services,
        context: RequestContext,
        session: FetchSession | None,
        wanted: FetchedPartition,
        max_bytes: int,
        isolation: int,
    ) -> None:
        self._services = services
        self._version = context.api_version
        self._isolation = isolation
        self._uses_ids = context.api_version >= TOPIC_IDS_FROM
        self._max_bytes, self._min_bytes = max_bytes, 1
        self._unknown = _NOTHING_UNKNOWN
        self._patient = True
        self._reader = PartitionReader(services, context, committed=isolation == _COMMITTED)
        self._incremental = session is not None
        self._session = session
        self._partitions = [wanted]

    def poll(self, now: int) -> Any:
        wanted = self._partitions[0]
        partition = _leader(self._services, wanted.topic, wanted.partition, wanted.current_leader_epoch, self._uses_ids)
        if partition is not None:
            max_bytes = min(self._max_bytes, wanted.max_bytes)
            found = _look(partition, wanted.fetch_offset, wanted.last_fetched_epoch, max_bytes, self._isolation)
            if found is not None:
                if not found[1]:
                    return None
                told = _told(self._version, self._session, wanted, partition, self._isolation, found[0])
                return WrittenReply(told)
        return super().poll(now)
