"""Reading one partition for a fetch.

Rule: an error of one partition stands in its own part of the answer. Readers of committed records never see past the
last stable offset and are told which transactions in what they got were aborted; the others read up to the high
watermark. A follower serves clients up to where it knows that records are committed (KIP-392).
"""

from __future__ import annotations

from collections.abc import Generator

from pykafka_broker.broker.partitions.fetch_session import FetchedPartition
from pykafka_broker.broker.partitions.partition import NO_EPOCH, NotLeader, Partition
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.services import Services
from pykafka_broker.errors import ApiError
from pykafka_broker.log.filesystem import FileSlice
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    LeaderIdAndEpoch,
    PartitionData,
)
from pykafka_broker.records.errors import CorruptBatch, UnsupportedCompression

_DOWN_CONVERTED_BELOW = 4  # Fetch v4 is the first whose readers know record batches v2
_MAGIC_1_FROM = 2
_FROM_FOLLOWERS = 11  # of clients that can be sent to another replica (KIP-392)
# Errors of what can't be read at all: nothing is waited for in these partitions.
NOT_SHOWN = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )
)
_READ_TOPIC = (AclOperation.READ, AclResourceType.TOPIC)
_NO_ERROR = 0
_EMPTY = b""
_MOST_CONVERTED = 32 << 20  # of one batch: the client waits for it


class PartitionReader:
    """Reads partitions for one fetch request."""

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
        self.redirects = False  # the client is to read somewhere else
        self._committed = committed
        self._tells_leader = version >= 12
        self._uses_ids = version >= 13
        self._magic = 2 if version >= _DOWN_CONVERTED_BELOW else int(version >= _MAGIC_1_FROM)
        self._allowed: set[str] = set()  # topics that the authorizer has been asked about

    def watched(self, partitions: list[FetchedPartition]) -> list[Partition]:
        """Those that this node leads."""
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
            gone, topic = described is None, wanted.name  # a session goes on to know what the id stood for
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
        """What there is from the wanted offset on; `max_bytes` may be exceeded by the first batch if `at_least_one`."""
        try:
            return self._read(wanted, max_bytes, at_least_one)
        except ApiError as error:
            failure = _failure(wanted, error.code)
            if error.code in NOT_SHOWN:
                failure.aborted_transactions = []
            if isinstance(error, NotLeader) and self._tells_leader:
                failure.current_leader = LeaderIdAndEpoch(error.leader, error.leader_epoch)
            return failure
        except OSError:
            return _failure(wanted, ErrorCode.KAFKA_STORAGE_ERROR)

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
                for aborted in log.aborted_transactions(wanted.fetch_offset, read.end_offset())
            ]
        return data

    def bytes_there(self, wanted: FetchedPartition, data: PartitionData) -> int:
        """Return how many bytes there are from the wanted offset to the end that the client may read to, parts of
        batches included; MORE_THAN_A_SEGMENT where the records go on in another segment.
        """
        upper = data.last_stable_offset if self._committed else data.high_watermark
        if wanted.fetch_offset >= upper:
            return 0
        try:
            return self._find(wanted).log.bytes_between(wanted.fetch_offset, upper)
        except ApiError:
            return 0  # the next look at the partition tells the error

    def _redirect(self, partition: Partition, wanted: FetchedPartition, data: PartitionData) -> bool:
        """Whether another replica is closer to the client."""
        from pykafka_broker.broker.replication.node_replication import closest_replica

        found = closest_replica(partition, wanted.fetch_offset, self._rack, self._services.image)
        data.preferred_read_replica = found
        self.redirects = self.redirects or found >= 0
        return found >= 0

    @property
    def converts(self) -> bool:
        """Whether what is read has yet to become messages of an old format."""
        return self._magic < 2

    def converted(self, wanted: FetchedPartition, data: PartitionData) -> Generator[None, None, PartitionData]:
        """What was read, as messages of the format that the client knows."""
        from pykafka_broker.records.conversion import from_v2

        if not isinstance(data.records, FileSlice):
            return data
        try:
            records, first = data.records.read(), wanted.fetch_offset
            data.records = yield from from_v2(records, self._magic, first_offset=first, max_bytes=_MOST_CONVERTED)
        except UnsupportedCompression:
            return _failure(wanted, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        except CorruptBatch:
            return _failure(wanted, ErrorCode.CORRUPT_MESSAGE)
        except OSError:
            return _failure(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
        return data

    @staticmethod
    def _diverges(log: PartitionLog, wanted: FetchedPartition, data: PartitionData) -> bool:
        """Whether the client's last record is not of this log's history (KIP-595); tells it where they part."""
        epoch, end_offset = log.leader_epoch_end(wanted.last_fetched_epoch)
        if epoch < 0:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
            data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
            return True
        return False


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
