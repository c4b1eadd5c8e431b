"""The logs behind coordinators: `__consumer_offsets`, `__transaction_state` and their kind.

Rule: a key's partition is Java's hash of it modulo the number of partitions, as every Kafka client and tool works it
out. The records of one decision are one batch, and a load replays batch after batch in the order of the log. A decision
is replayed at once, but where the log is to be synced (`flush.messages`) nobody is told of it before it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS
from pykafka_broker.errors import ApiError
from pykafka_broker.log.partition_log import AppendInfo, Origin, PartitionLog
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.header import NO_PRODUCER_ID, BatchHeader, iter_batches
from pykafka_broker.records.record import Record

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker
    from pykafka_broker.broker.purgatory import Commit
    from pykafka_broker.coordinators.effects import KeyValue

logger = logging.getLogger(__name__)

_READ_BYTES = 1 << 20

# What the coordinator's own clients are told when its log refuses an append: to find the coordinator again, or that it
# is our fault.
_REFUSALS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def coordinator_log(broker: Broker, topic: str, partition: int) -> PartitionLog:
    """The log behind a coordinator; that it can't be served is told as its coordinator tells it."""
    try:
        return broker.partition_log(topic, partition)
    except ApiError as error:
        raise ApiError(_REFUSALS.get(error.code, error.code), error.message) from error


def read_slice(loading: dict[int, Iterator[int]], budget: int) -> None:
    """Read on in what is being loaded, one log after the other. One that can't be read is given up; whoever asks for it
    next has it tried again."""
    while loading and budget > 0:
        partition, sizes = next(iter(loading.items()))
        try:
            for size in sizes:
                budget -= size
                if budget <= 0:
                    return
        except ApiError as error:
            logger.error("Partition %d of a coordinator's log can't be read: %s", partition, error)
        loading.pop(partition, None)


@lru_cache(maxsize=4096)
def partition_for(key: str, partitions: int) -> int:
    """Which of so many partitions holds this group or transactional id."""
    hash_code = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        hash_code = (31 * hash_code + (high << 8 | low)) & 0xFFFFFFFF
    if hash_code >= 1 << 31:
        hash_code = (1 << 32) - hash_code
    return 0 if hash_code == 1 << 31 else hash_code % partitions


def append_records(
    broker: Broker,
    topic: str,
    partition: int,
    records: Iterable[KeyValue],
    now: int,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
) -> AppendInfo:
    """Append a decision's records as one batch, transactional if a producer is named. A refusal is told as its
    coordinator tells it.
    """
    batch = build_batch(
        [Record(offset, now, record.key, record.value) for offset, record in enumerate(records)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=producer_id != NO_PRODUCER_ID,
    )
    try:
        log = broker.partition_log(topic, partition)
        wanted = broker.topic_config(topic).min_insync_replicas
        if wanted > 1:
            broker.require_insync_replicas(topic, partition, wanted)
        appended = log.append(batch, now, origin=Origin.COORDINATOR)
    except ApiError as error:
        raise ApiError(_REFUSALS.get(error.code, error.code), error.message) from error
    broker.purgatory.touch(log)
    hold_answer(broker, log, now)
    return appended


def commit_of(broker: Broker, log: PartitionLog, now: int) -> Commit | None:
    """How to wait until all that is in the log by now is committed, if there is anything to wait for."""
    end = log.log_end_offset
    return None if log.high_watermark >= end else partial(broker.logs.when_committed, log, end, now)


def hold_answer(broker: Broker, log: PartitionLog, now: int) -> None:
    """The request that is being served is answered when all that is in the log by now is committed."""
    commit = commit_of(broker, log, now)
    if commit is not None:
        broker.purgatory.commits.append(commit)


def when_all(commits: Iterable[Commit], then: Callable[[OSError | None], None]) -> None:
    """Call `then` after all of them, with the first error; at once if there are none."""
    waiting = 1
    first: OSError | None = None

    def committed(error: OSError | None) -> None:
        nonlocal waiting, first
        first = first or error
        waiting -= 1
        if not waiting:
            then(first)

    for commit in commits:
        waiting += 1
        commit(committed)
    committed(None)


def read_batches(log: PartitionLog) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every batch of a log, in order."""
    offset, end = log.log_start_offset, log.log_end_offset
    while offset < end and (found := log.read(offset, _READ_BYTES, end)) is not None:
        for header, batch in iter_batches(found.records.read()):
            yield header, batch
            offset = header.next_offset


def offsets_partition(broker: Broker, group_id: str) -> tuple[str, int]:
    """The partition of `__consumer_offsets` that holds a group, also before there is one."""
    topic = broker.image.topics.get(CONSUMER_OFFSETS)
    partitions: int = len(topic.partitions) if topic is not None else broker.config.offsets_topic_num_partitions
    return CONSUMER_OFFSETS, partition_for(group_id, partitions)
