"""Fetches of followers (`replica_id` of Fetch; from v15 on `replica_state`).

Rule: a follower reads to the log's end, and by asking for an offset it says that it has all below. What it asks for is
looked at before it is believed: it has to be a replica, of a broker that is no older than one that was here, and its
last record has to be of this log's history. The answer does not wait once the high watermark has moved beyond what the
follower was told.
"""

from __future__ import annotations

from pykafka_broker.broker.api.fetch import FetchAttempt
from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.fetch_session import FetchedPartition
from pykafka_broker.broker.partition import NO_EPOCH, Partition
from pykafka_broker.broker.partition_reader import PartitionReader
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.authorizer import Operation, Resource
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchRequest
from pykafka_broker.protocol.messages.fetch_response import PartitionData


class ReplicaReader(PartitionReader):
    """Reads partitions for one follower."""

    __slots__ = ("_broker_epoch", "_heard", "_is_follower", "_replica_id", "has_news")

    def __init__(self, services: Services, context: RequestContext, replica_id: int, broker_epoch: int) -> None:
        super().__init__(services, context, committed=False)
        self._replica_id = replica_id
        self._broker_epoch = broker_epoch
        self._is_follower = services.allows(context, Operation.CLUSTER_ACTION, Resource.CLUSTER)
        self._heard: set[int] = set()  # of which partitions it was noted how far the follower is
        self.has_news = False  # the high watermark of one of them is beyond what the follower was told

    def _authorise(self, topic: str) -> None:
        if not self._is_follower:
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def _read(self, wanted: FetchedPartition, max_bytes: int, at_least_one: bool) -> PartitionData:
        partition = self._find(wanted)
        log = partition.log
        data = PartitionData(
            wanted.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        partition.check_follower(self._replica_id, self._broker_epoch)
        if wanted.last_fetched_epoch >= 0 and self._diverges(log, wanted, data):
            return data
        read = log.read(wanted.fetch_offset, max_bytes, log.log_end_offset, min_one=at_least_one)
        if read is not None:
            data.records = read.records
        self._hear(partition, wanted)
        data.high_watermark, data.last_stable_offset = log.high_watermark, log.last_stable_offset
        self.has_news = self.has_news or max(wanted.high_watermark, 0) < log.high_watermark
        return data

    def _hear(self, partition: Partition, wanted: FetchedPartition) -> None:
        """Once for each request: tried again, it says nothing more."""
        if id(wanted) not in self._heard:
            self._heard.add(id(wanted))
            partition.fetched_by(
                self._replica_id,
                wanted.fetch_offset,
                self._services.clock.now,
                broker_epoch=self._broker_epoch,
                log_start_offset=wanted.log_start_of_replica,
            )


class ReplicaFetchAttempt(FetchAttempt):
    """One fetch of a follower."""

    __slots__ = ("_replica_reader",)
    PRIVILEGED = True

    def _reader_for(self, services: Services, context: RequestContext, request: FetchRequest) -> PartitionReader:
        state = request.replica_state
        epoch = state.replica_epoch if state.replica_id >= 0 else NO_EPOCH
        self._replica_reader = ReplicaReader(services, context, max(state.replica_id, request.replica_id), epoch)
        return self._replica_reader

    def _waits(self, size: int, failed: bool) -> bool:
        has_news = (
            self._session is not None and self._replica_reader.has_news
        )  # without one, nobody knows what was told
        return super()._waits(size, failed) and not has_news
