"""The short way of Fetch: a consumer that reads one partition and gets an answer at once, or waits for records, v4-v18.

Rule: for an unusual request the result is None, before anything is changed, and `fetch.py` serves the request. Unusual
are: a replica, a rack, two partitions, a session that begins or ends, a partition that another node leads or that is
not open yet, another leader epoch, a history that diverges, an offset out of range, a wait for more than a byte,
aborted transactions, a disk that fails. This module has no rules about records or sessions of its own:
`PartitionLog.read`, `diverging_epoch` and `FetchSessionCache` decide, as in `fetch.py`. A request that waits is a
`FetchAttempt` of `fetch.py`; only its look at new records is short.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.broker.api.fetch import INLINE_BYTES, TOPIC_IDS_FROM, FetchAttempt, PartitionReader, diverging_epoch
from pykafka_broker.broker.partitions.fetch_session import FINAL_EPOCH, NO_SESSION, FetchedPartition, FetchSession
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
from pykafka_broker.protocol.messages.fetch_response import SINGLE_WRITERS, FetchResponse
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
    replica, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch, names, *wanted_values = asked
    topic, topic_id, index, leader_epoch, offset, last_epoch, log_start, partition_bytes = wanted_values
    if replica >= 0 or isolation not in _ISOLATION_LEVELS:
        return None
    uses_ids, sessions = version >= TOPIC_IDS_FROM, services.fetch_sessions
    key = topic_id if uses_ids else topic
    wanted = FetchedPartition(key, index, offset, partition_bytes, leader_epoch, last_epoch, log_start)
    session = known = None
    if session_epoch != FINAL_EPOCH:
        session = sessions.continued(session_id, session_epoch, uses_ids)
        known = None if session is None else session.only_partition
        if known is None or (names and (known.topic != key or known.partition != index)):
            return None
        wanted = wanted if names else known
    elif session_id != NO_SESSION:
        return None
    partition = _leader(services, wanted, uses_ids)
    most_bytes = min(max_bytes, services.config.fetch_max_bytes)
    found = None if partition is None else _look(partition, wanted, most_bytes, isolation)
    if partition is None or found is None or most_bytes <= 0:
        return None
    records, size = found
    enough = max_wait_ms <= 0 or size >= min_bytes
    if not enough and min_bytes != 1:
        return None
    # From here on the result is never None, since the session changes.
    if session is not None and known is not None:
        sessions.resume(session_id, session_epoch, uses_ids, context.now)
        if names:
            session.update((wanted,), ())
        wanted = known
    if enough:
        return _encoded(version, session, wanted, partition, isolation, records)
    wanted.name = partition.topic
    attempt = SingleFetchAttempt(services, context, session, wanted, most_bytes, isolation)
    return Parked(context.now + max_wait_ms, keys=(partition,), poll=attempt.poll, expire=attempt.answer, yields=True)


def _leader(services: Services, wanted: FetchedPartition, uses_ids: bool) -> Partition | None:
    """Return the partition, if it is open and this node leads it in the client's epoch; else None."""
    topic, epoch = wanted.topic, wanted.current_leader_epoch
    if uses_ids:
        described = services.image.topics_by_id.get(topic)
        if described is None:
            return None
        topic = described.name
    partition = services.replicas.open_leader(topic, wanted.partition)
    if partition is None or (epoch > NO_EPOCH and epoch != partition.leader_epoch):
        return None
    return partition


def _look(partition: Partition, wanted: FetchedPartition, max_bytes: int, isolation: int) -> tuple[Any, int] | None:
    """Return the records from the wanted offset on and their size, 0 without new records; None where only `fetch.py`
    knows the answer.
    """
    offset, last_epoch = wanted.fetch_offset, wanted.last_fetched_epoch
    log = partition.log
    committed = isolation == _COMMITTED
    try:
        if last_epoch >= 0 and diverging_epoch(log, last_epoch, offset) is not None:
            return None
        read = log.read(
            offset, min(max_bytes, wanted.max_bytes), log.last_stable_offset if committed else log.high_watermark
        )
        if read is None:
            return b"", 0
        if committed and log.aborted_transactions(offset, read.end_offset):
            return None
        size = len(read.records)
        return (read.records.read() if size <= INLINE_BYTES else read.records), size
    except (ApiError, OSError):
        return None


def _encoded(
    version: int,
    session: FetchSession | None,
    wanted: FetchedPartition,
    partition: Partition,
    isolation: int,
    records: Any,
) -> Pieces:
    """Return the answer with these records, after the session has noted what the client is told. A session's answer
    without news names no partition.
    """
    log, topic, session_id = partition.log, wanted.topic, NO_SESSION
    high_watermark, start, committed = log.high_watermark, log.log_start_offset, isolation == _COMMITTED
    wanted.name = partition.topic
    if session is not None:
        session_id = session.id
        if not (wanted.changed(high_watermark, start) or len(records)):
            pieces: Pieces = [b""]
            FetchResponse(session_id=session_id).write(version, pieces.append)
            return pieces
        if len(session.partitions) > 1:  # named by a fetch on another connection
            session.rotate([(topic, wanted.partition)])
    index, stable = partition.index, log.last_stable_offset
    return SINGLE_WRITERS[version](session_id, topic, topic, index, high_watermark, stable, start, committed, records)


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
        """Begin to wait. `FetchAttempt.__init__` would look at the request once more."""
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
        partition = _leader(self._services, wanted, self._uses_ids)
        found = None if partition is None else _look(partition, wanted, self._max_bytes, self._isolation)
        if partition is not None and found is not None:
            records, size = found
            if not size:
                return None
            return WrittenReply(_encoded(self._version, self._session, wanted, partition, self._isolation, records))
        return super().poll(now)
