"""Requests about the partitions that take part: records, markers, offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder

from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from pykafka_broker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from pykafka_broker.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pykafka_broker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from pykafka_broker.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.scenarios.transactions.talk import Partition, Producer, Talk, error_name


def batch(
    producer_id: int,
    epoch: int,
    sequence: int,
    timestamp: int,
    values: Iterable[bytes] = (b"x",),
    *,
    transactional: bool = True,
) -> bytes:
    """Return a record batch of a producer."""
    builder = DefaultRecordBatchBuilder(2, 0, 1 if transactional else 0, producer_id, epoch, sequence, 1 << 20)
    for offset, value in enumerate(values):
        builder.append(offset, timestamp, None, value, [])
    return bytes(builder.build())


class PartitionTalk(Talk):
    """The requests that clients and the coordinator send to partitions and groups."""

    def produce(
        self,
        producer: Producer,
        sequence: int,
        *,
        to: Partition = ("a", 0),
        name: str | None = "t",
        version: int = 12,
        transactional: bool = True,
        values: Iterable[bytes] = (b"x",),
    ) -> int:
        records = batch(*producer, sequence, self._wire.now, values, transactional=transactional)
        transactional_id = None if name is None else self.name(name)
        data = TopicProduceData(self.name(to[0]), partition_data=[PartitionProduceData(to[1], records)])
        answer = self.request(ProduceRequest(transactional_id, -1, 5_000, [data]), version)
        one = answer.responses[0].partition_responses[0]
        self.say(
            f"Produce v{version} {name} {self._who(producer)} #{sequence} to {to[0]}-{to[1]}"
            f"{'' if transactional else ' plain'} -> {error_name(one.error_code)} {one.base_offset}"
        )
        return int(one.error_code)

    def producers(self, *partitions: Partition) -> None:
        message = DescribeProducersRequest([TopicRequest(t, ps) for t, ps in self._grouped(partitions)])
        answer = self.request(message, 0)
        for topic in answer.topics:
            for one in topic.partitions:
                states = sorted(
                    f"{self.pid(p.producer_id)}/{p.producer_epoch} #{p.last_sequence} "
                    f"coordinator {p.coordinator_epoch} from {p.current_txn_start_offset}"
                    for p in one.active_producers
                )
                self.say(
                    f"DescribeProducers {topic.name}-{one.partition_index} -> {error_name(one.error_code)} "
                    f"{one.error_message or '-'} [{'; '.join(states)}]"
                )

    def write_marker(
        self,
        producer: Producer,
        commit: bool,
        *partitions: Partition,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
        version: int = 1,
    ) -> None:
        topics = [WritableTxnMarkerTopic(t, ps) for t, ps in self._grouped(partitions)]
        marker = WritableTxnMarker(*producer, commit, topics, coordinator_epoch, transaction_version)
        answer = self.request(WriteTxnMarkersRequest([marker]), version)
        outcome = sorted(
            f"{topic.name}-{one.partition_index} {error_name(one.error_code)}"
            for result in answer.markers
            for topic in result.topics
            for one in topic.partitions
        )
        self.say(
            f"WriteTxnMarkers v{version} {self._who(producer)} {'commit' if commit else 'abort'} "
            f"coordinator {coordinator_epoch} transaction version {transaction_version} -> {', '.join(outcome)}"
        )

    def txn_commit(
        self,
        producer: Producer,
        offsets: dict[Partition, int],
        *,
        group: str = "g",
        name: str = "t",
        version: int = 3,
        member: str = "",
        generation: int = -1,
        instance: str | None = None,
    ) -> None:
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(self.name(topic), []).append(TxnOffsetCommitRequestPartition(partition, offset, -1, "m"))
        message = TxnOffsetCommitRequest(self.name(name), self.name(group), *producer)
        if version >= 3:
            message.generation_id_or_member_epoch = generation
            message.member_id, message.group_instance_id = member, instance
        message.topics = [TxnOffsetCommitRequestTopic(topic, partitions=ps) for topic, ps in topics.items()]
        answer = self.request(message, version)
        outcome = sorted(
            f"{topic.name}-{one.partition_index} {error_name(one.error_code)}"
            for topic in answer.topics
            for one in topic.partitions
        )
        as_member = f" as {member or repr(member)}/{generation}" if member or generation >= 0 else ""
        self.say(
            f"TxnOffsetCommit v{version} {name} {self._who(producer)} {group or repr(group)}{as_member}"
            f" -> {', '.join(outcome)}"
        )

    def create_topic(self, name: str = "a", partitions: int = 2) -> None:
        request = CreateTopicsRequest([CreatableTopic(self.name(name), partitions, 1)])
        answer = self.request(request, 5)
        assert error_name(answer.topics[0].error_code) == "NONE", answer
        self._await_leaders(name, partitions)

    def _await_leaders(self, name: str, partitions: int) -> None:
        """Wait until the partitions have leaders: a real Kafka serves a topic a moment after its creation."""
        wanted = ListOffsetsTopic(self.name(name), [ListOffsetsPartition(p, -1, -1) for p in range(partitions)])
        for _ in range(500):
            answer = self.request(ListOffsetsRequest(-1, 0, [wanted]), 5)
            if not any(one.error_code for one in answer.topics[0].partitions):
                return
            self._wire.wait(10)
        raise AssertionError(f"{name} has no leader")

    def await_group(self, group: str = "g") -> None:
        """Make the coordinator of this group ready, and `__consumer_offsets` with it."""
        for _ in range(500):
            answer = self.request(FindCoordinatorRequest(self.name(group), 0), 2)
            fetched = self.request(OffsetFetchRequest(self.name(group), []), 5)
            if not answer.error_code and not fetched.error_code:
                return
            self._wire.wait(20)
        raise AssertionError("no group coordinator")

    def await_transactions(self, name: str = "t") -> None:
        """Make the transaction coordinator ready, and `__transaction_state` with it."""
        for _ in range(500):
            answer = self.request(FindCoordinatorRequest(self.name(name), 1), 2)
            described = self.request(DescribeTransactionsRequest([self.name(name)]), 0).transaction_states[0]
            if not answer.error_code and error_name(described.error_code) == "TRANSACTIONAL_ID_NOT_FOUND":
                return
            self._wire.wait(20)
        raise AssertionError("no transaction coordinator")

    def offsets(self, *partitions: Partition) -> None:
        """Record high watermark and last stable offset, and the aborted transactions that a reader must skip."""
        for topic, partition in partitions:
            ends = [self._end_offset(topic, partition, isolation) for isolation in (0, 1)]
            aborted = ", ".join(
                f"{self.pid(one.producer_id)} from {one.first_offset}" for one in self._aborted(topic, partition)
            )
            self.say(f"{topic}-{partition} ends at {ends[0]}, stable up to {ends[1]}, aborted [{aborted}]")

    def _end_offset(self, topic: str, partition: int, isolation_level: int) -> int:
        wanted = ListOffsetsTopic(self.name(topic), [ListOffsetsPartition(partition, -1, -1)])
        answer = self.request(ListOffsetsRequest(-1, isolation_level, [wanted]), 5)
        return int(answer.topics[0].partitions[0].offset)

    def _aborted(self, topic: str, partition: int) -> list[Any]:
        wanted = FetchTopic(
            self.name(topic), partitions=[FetchPartition(partition, fetch_offset=0, partition_max_bytes=1 << 20)]
        )
        answer = self.request(FetchRequest(max_wait_ms=0, isolation_level=1, topics=[wanted]), 11)
        one = answer.responses[0].partitions[0]
        return sorted(one.aborted_transactions or [], key=lambda a: (a.first_offset, a.producer_id))

    def committed(self, *partitions: Partition, group: str = "g", require_stable: bool = True) -> None:
        topics = [OffsetFetchRequestTopic(t, ps) for t, ps in self._grouped(partitions)]
        answer = self.request(OffsetFetchRequest(self.name(group), topics, require_stable=require_stable), 7)
        outcome = sorted(
            f"{topic.name}-{one.partition_index} {error_name(one.error_code)} {one.committed_offset} {one.metadata!r}"
            for topic in answer.topics
            for one in topic.partitions
        )
        self.say(
            f"OffsetFetch {group}{' stable' if require_stable else ''} -> {error_name(answer.error_code)} "
            f"{', '.join(outcome)}"
        )

    def delete_offsets(self, *partitions: Partition, group: str = "g") -> None:
        wanted = [
            OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(number) for number in numbers])
            for name, numbers in self._grouped(partitions)
        ]
        answer = self.request(OffsetDeleteRequest(self.name(group), wanted), 0)
        outcome = sorted(
            f"{topic.name}-{one.partition_index} {error_name(one.error_code)}"
            for topic in answer.topics
            for one in topic.partitions
        )
        self.say(f"OffsetDelete {group} -> {error_name(answer.error_code)} {', '.join(outcome)}")

    def delete_topic(self, name: str = "a", *, internal: bool = False) -> None:
        answer = self.request(
            DeleteTopicsRequest(topic_names=[name if internal else self.name(name)], timeout_ms=10_000), 5
        )
        assert error_name(answer.responses[0].error_code) == "NONE", answer

    def finalize(self, level: int) -> None:
        """Finalize this level of the feature `transaction.version`."""
        upgrade, unsafe_downgrade = 1, 3
        update = FeatureUpdateKey("transaction.version", level, upgrade_type=upgrade if level else unsafe_downgrade)
        answer = self.request(UpdateFeaturesRequest(60_000, [update]), 1)
        assert error_name(answer.error_code) == "NONE", answer
        assert not any(one.error_code for one in answer.results), answer
        self.wait(100)  # a real broker learns the new level a moment later
