"""Share consumers and their admin, as short verbs over the raw requests.

Rule: a verb sends exactly one request and fills in what an honest client would; every part can be overridden.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.protocol.messages import share_acknowledge_request, share_fetch_request
from pykafka_broker.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykafka_broker.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.records.builder import BatchBuilder
from tests.scenarios.groups.actors import Actor
from tests.scenarios.groups.stage import Stage

GROUP_CONFIG = 32
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
Acks = dict[tuple[str, int], list[tuple[int, int, list[int]]]]  # (topic, partition) -> first, last, types


class ShareAdmin(Actor):
    """A client whose requests need no membership."""

    def produce(self, topic: str, *values: str, partition: int = 0, compression: int = 0) -> None:
        """Produce one batch; add no line to the recording."""
        builder = BatchBuilder()
        for value in values:
            builder.append(None, value.encode(), 1_600_000_000_000)
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, bytes(builder.build()))])
        self.wire.send(ProduceRequest(None, -1, 10_000, [data]), 12)
        answer = self.wire.receive().responses[0].partition_responses[0]
        assert answer.error_code == 0, answer.error_code

    def configure(self, **configs: str) -> None:
        """Set configs of the group; add no line to the recording."""
        entries = [AlterableConfig(name.replace("_", "."), 0, value) for name, value in configs.items()]
        resource = AlterConfigsResource(GROUP_CONFIG, self.group, entries)
        self.wire.send(IncrementalAlterConfigsRequest([resource]), 1)
        answer = self.wire.receive().responses[0]
        assert answer.error_code == 0, answer.error_message
        self.stage.world.settle()

    def delete_records(self, topic: str, offset: int, partition: int = 0) -> None:
        """Delete records; add no line to the recording."""
        what = DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])
        self.wire.send(DeleteRecordsRequest([what], 10_000), 2)
        self.wire.receive()

    def delete_topic(self, topic: str) -> None:
        """Delete a topic; add no line to the recording."""
        self.wire.send(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 5)
        self.wire.receive()
        self.stage.world.settle()

    def describe_share(self, *groups: str, operations: bool = False) -> Any:
        return self.ask(ShareGroupDescribeRequest(list(groups) or [self.group], operations))

    def offsets(self, topics: dict[str, list[int]] | None = None, group: str | None = None, version: int = 1) -> Any:
        wanted = None
        if topics is not None:
            wanted = [DescribeShareGroupOffsetsRequestTopic(name, parts) for name, parts in topics.items()]
        one = DescribeShareGroupOffsetsRequestGroup(self.group if group is None else group, wanted)
        return self.ask(DescribeShareGroupOffsetsRequest([one]), version)

    def alter(self, offsets: dict[tuple[str, int], int], group: str | None = None) -> Any:
        topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, []).append(AlterShareGroupOffsetsRequestPartition(partition, offset))
        wanted = [AlterShareGroupOffsetsRequestTopic(name, parts) for name, parts in topics.items()]
        return self.ask(AlterShareGroupOffsetsRequest(self.group if group is None else group, wanted))

    def delete_share_offsets(self, *topics: str, group: str | None = None) -> Any:
        wanted = [DeleteShareGroupOffsetsRequestTopic(name) for name in topics]
        return self.ask(DeleteShareGroupOffsetsRequest(self.group if group is None else group, wanted))


class ShareMember(ShareAdmin):
    """A share consumer."""

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(stage, name)
        self.member_id = name  # clients choose their own
        self.epoch = 0
        self.session_epoch = 0

    # Membership

    def beat(self, epoch: int | None = None, **fields: Any) -> Any:
        fields.setdefault("group_id", self.group)
        fields.setdefault("member_id", self.member_id)
        request = ShareGroupHeartbeatRequest(member_epoch=self.epoch if epoch is None else epoch, **fields)
        answer = self.ask(request)
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
        return answer

    def join(self, *topics: str, **fields: Any) -> Any:
        return self.beat(0, subscribed_topic_names=list(topics), **fields)

    def enter(self, *topics: str) -> None:
        """Join and wait until partitions are assigned.

        Add no line to the recording, since Kafka needs one heartbeat more than our broker.
        """
        lines = len(self.stage.lines)
        self.join(*topics)
        self._until_all_is_assigned(topics)
        del self.stage.lines[lines:]

    def resubscribe(self, *topics: str) -> None:
        """Change the subscription, and wait for the assignment without a line, as `enter` does."""
        lines = len(self.stage.lines)
        self.beat(subscribed_topic_names=list(topics))
        self._until_all_is_assigned(topics)
        del self.stage.lines[lines:]

    def _until_all_is_assigned(self, topics: tuple[str, ...]) -> None:
        for _ in range(20):
            self.stage.world.wait(100)
            answer = self.beat(subscribed_topic_names=list(topics))
            if answer.error_code == 0 and len(answer.assignment.topic_partitions) == len(topics):
                return
        raise AssertionError(f"nothing is assigned: {self.stage.lines[-1]}")

    # Records

    def send_fetch(
        self,
        topic: str | None = None,
        partitions: tuple[int, ...] = (0,),
        *,
        epoch: int | None = None,
        acks: Acks | None = None,
        forget: dict[str, list[int]] | None = None,
        topics: list[Any] | None = None,
        version: int = 2,
        **fields: Any,
    ) -> None:
        """Send a fetch for one topic's records, or for the partitions that the session has."""
        wanted: dict[bytes, dict[int, list[Any]]] = {}
        if topic is not None:
            wanted[self.stage.topic_id(topic)] = {partition: [] for partition in partitions}
        for (name, partition), batches in (acks or {}).items():
            part = wanted.setdefault(self.stage.topic_id(name), {}).setdefault(partition, [])
            part += [share_fetch_request.AcknowledgementBatch(*batch) for batch in batches]
        fields = {
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": 1_000_000,
            "max_records": 500,
            "batch_size": 500,
            "group_id": self.group,
            "member_id": self.member_id,
            **fields,
        }
        epoch = self.session_epoch if epoch is None else epoch
        request = share_fetch_request.ShareFetchRequest(
            share_session_epoch=epoch,
            topics=topics
            if topics is not None
            else [
                share_fetch_request.FetchTopic(
                    topic_id,
                    [share_fetch_request.FetchPartition(p, acknowledgement_batches=a) for p, a in parts.items()],
                )
                for topic_id, parts in wanted.items()
            ],
            forgotten_topics_data=[
                share_fetch_request.ForgottenTopic(self.stage.topic_id(name), parts)
                for name, parts in (forget or {}).items()
            ],
            **fields,
        )
        self._max_wait_ms = fields["max_wait_ms"]
        self.send(request, version)

    def fetched(self) -> Any:
        """Return the answer to a fetch; if it waits, let its longest wait pass."""
        if self.wire.is_quiet():
            self.stage.world.wait(self._max_wait_ms)
        answer = self.receive()
        if answer.error_code == 0:
            self.session_epoch = 0 if self._final else self.session_epoch + 1
        return answer

    _final = False

    def fetch(  # type: ignore[override]  # ShareFetch: those of other groups fetch offsets
        self, topic: str | None = None, partitions: tuple[int, ...] = (0,), **fields: Any
    ) -> Any:
        self._final = fields.get("epoch") == -1
        if fields.get("epoch") == 0:
            self.session_epoch = 0
        self.send_fetch(topic, partitions, **fields)
        return self.fetched()

    def ack(self, acks: Acks, *, epoch: int | None = None, version: int = 2, **fields: Any) -> Any:
        """Send acknowledgements, and return the answer."""
        topics: dict[bytes, dict[int, list[Any]]] = {}
        for (name, partition), batches in acks.items():
            part = topics.setdefault(self.stage.topic_id(name), {}).setdefault(partition, [])
            part += [share_acknowledge_request.AcknowledgementBatch(*batch) for batch in batches]
        request = share_acknowledge_request.ShareAcknowledgeRequest(
            share_session_epoch=self.session_epoch if epoch is None else epoch,
            topics=[
                share_acknowledge_request.AcknowledgeTopic(
                    topic_id,
                    [share_acknowledge_request.AcknowledgePartition(p, batches) for p, batches in parts.items()],
                )
                for topic_id, parts in topics.items()
            ],
            **{"group_id": self.group, "member_id": self.member_id, **fields},
        )
        answer = self.ask(request, version)
        if answer.error_code == 0:
            self.session_epoch = 0 if epoch == -1 else self.session_epoch + 1
        return answer

    def drop(self) -> None:
        """Break the connection, and open another one."""
        self.wire.close()
        self.stage.world.settle()
        self.wire = self.stage.world.connect(self.name)
