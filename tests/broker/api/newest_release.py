"""A talk about what Kafka 4.4 has and 4.3 has not, played on a real 4.4.0 and on this broker as one.

Rule: a talk needs no more than `ask(request, version)`, which returns the answer or raises; the answers are plain data
without ids that differ from run to run. `python -m interop.record newest` writes Kafka's to `newest_release.json`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.describe_cluster_request import DescribeClusterRequest
from pykafka_broker.protocol.messages.end_txn_request import EndTxnRequest
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
)
from pykafka_broker.protocol.messages.initialize_share_group_state_request import PartitionData as InitializedPartition
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.read_share_group_state_request import PartitionData as ReadPartition
from pykafka_broker.protocol.messages.read_share_group_state_request import ReadShareGroupStateRequest, ReadStateData
from pykafka_broker.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from pykafka_broker.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from pykafka_broker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from pykafka_broker.protocol.messages.write_share_group_state_request import PartitionData as WrittenPartition
from pykafka_broker.protocol.messages.write_share_group_state_request import (
    StateBatch,
    WriteShareGroupStateRequest,
    WriteStateData,
)
from pykafka_broker.protocol.runtime import ZERO_UUID, Fields, Message, uuid_text
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.compression import CODEC_NAMES, GZIP, LZ4, NONE, SNAPPY, ZSTD
from pykafka_broker.records.record import BatchRecord

RECORDED = Path(__file__).with_name("newest_release.json")
Ask = Callable[[Message, int], Any]
UNKNOWN = b"u" * 16  # a topic id
VARYING = {"finalized_features_epoch", "client_host", "client_id"}
NOW_MS = 1_700_000_000_000  # the time of records
MAX_TIMESTAMP = -3
_TRIES, _EVERY_S = 100, 0.2  # until a coordinator of Kafka's is there


def _error_of_topic(answer: Any) -> int:
    [topic] = answer.topics
    return int(topic.error_code) or max(int(each.error_code) for each in topic.partitions)


class Talk:
    """The answers by what was asked: `told` fills up as the parts of the talk are played."""

    def __init__(self, ask: Ask, settle: Callable[[], None] = lambda: None) -> None:
        """`settle` waits until leaders and coordinators have heard of new topics."""
        self.ask, self._settle = ask, settle
        self.told: dict[str, Any] = {}
        self._ids = {ZERO_UUID: "no id", UNKNOWN: "an unknown id"}
        self.cluster_id: str = ask(DescribeClusterRequest(), 1).cluster_id

    def play(self) -> dict[str, Any]:
        self._api_versions()
        self._controllers()
        self._transactional_offsets()
        self._groups()
        self._streams_groups()
        self._static_streams_members()
        self._empty_groups()
        self._share_states()
        self._full_groups()
        self._configs()
        self._quotas()
        self._bombs()
        self._look_ups()
        return self.told

    def _tell(self, asked: str, request: Message, version: int) -> Any:
        assert asked not in self.told, asked
        answer = self.ask(request, version)
        self.told[asked] = self._plain(answer)
        return answer

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Fields):
            return {
                name: ErrorCode(field).name if name == "error_code" else self._plain(field)
                for name in value.__match_args__
                if name not in VARYING
                for field in [getattr(value, name)]
            }
        if isinstance(value, bytes):
            return self._ids[value]
        if isinstance(value, list):  # the order of some lists is that of Java's hash tables
            return sorted((self._plain(each) for each in value), key=repr)
        return value

    def _until(self, request: Message, version: int, error_of: Callable[[Any], int]) -> Any:
        for _ in range(_TRIES):
            answer = self.ask(request, version)
            if error_of(answer) == ErrorCode.NONE:
                return answer
            time.sleep(_EVERY_S)
        raise AssertionError(answer)

    # -- parts

    def _bombs(self) -> None:
        """Produce records of 207 bytes, without their length, in topics that take as much or less."""
        value = b"x" * 200
        topics = [(limit, kept_as) for limit in (206, 207) for kept_as in ("producer", "zstd", "uncompressed")]
        for limit, kept_as in topics:
            self._topic(f"takes-{limit}-{kept_as}", max_decompressed_message_bytes=limit, compression_type=kept_as)
        self._settle()
        for limit, kept_as in topics:
            for codec in (NONE, GZIP, SNAPPY, LZ4, ZSTD):
                topic = f"takes-{limit}-{kept_as}"
                records = [BatchRecord(index, NOW_MS, None, value) for index in range(3)]
                batch = bytes(build_batch(records, codec=codec))
                data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
                self._tell(f"{topic}: {CODEC_NAMES[codec]}", ProduceRequest(None, -1, 10_000, [data]), 12)

    def _look_ups(self) -> None:
        """Look up records by time behind and before records of 207 bytes, where a topic now takes as much or less."""
        small, large = b"s", b"x" * 200
        batches = [(small, large, small), (small, small), (large,), (small,)]
        for codec in (NONE, GZIP, SNAPPY, LZ4, ZSTD):
            topic, stamp = f"timed-{CODEC_NAMES[codec]}", NOW_MS
            self._topic(topic)
            self._settle()
            for values in batches:
                records = [BatchRecord(index, stamp + index, None, value) for index, value in enumerate(values)]
                data = PartitionProduceData(0, bytes(build_batch(records, codec=codec)))
                answer = self.ask(
                    ProduceRequest(None, -1, 10_000, [TopicProduceData(topic, partition_data=[data])]), 12
                )
                assert not answer.responses[0].partition_responses[0].error_code
                stamp += len(values)
            for limit in (206, 207, 5):
                change = AlterableConfig("max.decompressed.message.bytes", 0, str(limit))
                resource = AlterConfigsResource(ConfigResourceType.TOPIC, topic, [change])
                assert not self.ask(IncrementalAlterConfigsRequest([resource]), 1).responses[0].error_code
                self._settle()
                for time_ms in (*range(NOW_MS, stamp + 1), MAX_TIMESTAMP):
                    asked = ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, time_ms)])
                    named = "the greatest" if time_ms < 0 else time_ms - NOW_MS
                    self._tell(f"{topic}, {limit} bytes: {named}", ListOffsetsRequest(-1, 0, [asked]), 7)

    def _api_versions(self) -> None:
        self._tell("ApiVersions 4", ApiVersionsRequest("test", "1"), 4)
        clusters = {"no": None, "this": self.cluster_id, "another": "another", "an empty": ""}
        for said, cluster_id in clusters.items():
            for node_id in (-1, 1, 2, -5):
                request = ApiVersionsRequest("test", "1", cluster_id, node_id)
                self._tell(f"ApiVersions 5 for {said} cluster, node {node_id}", request, 5)
        self._tell("ApiVersions 5 without a client's name", ApiVersionsRequest("", "", "another", 1), 5)

    def _controllers(self) -> None:
        for controller_id in (1, 99, -1):
            self._tell(f"unregister controller {controller_id}", UnregisterControllerRequest(controller_id), 0)

    def _topic(self, name: str, **configs: object) -> bytes:
        set_to = [CreatableTopicConfig(key.replace("_", "."), str(value)) for key, value in configs.items()]
        self.ask(CreateTopicsRequest([CreatableTopic(name, 2, 1, configs=set_to)]), 7)
        asked = MetadataRequest([MetadataRequestTopic(name=name)])
        topic_id = bytes(self._until(asked, 12, _error_of_topic).topics[0].topic_id)
        self._ids[topic_id] = f"the id of {name}"
        return topic_id

    def _transactional_offsets(self) -> None:
        topic_id = self._topic("t")
        for key_type in (0, 1):
            find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"])
            self._until(find, 6, lambda answer: answer.coordinators[0].error_code)
        producer = self._until(InitProducerIdRequest("x", 60_000), 5, lambda answer: answer.error_code)
        beat = ConsumerGroupHeartbeatRequest("c", "m", 0, rebalance_timeout_ms=1000, topic_partitions=[])
        beat.subscribed_topic_names = ["t"]
        epoch = self._until(beat, 1, lambda answer: answer.error_code).member_epoch
        self.told["the epoch of a consumer"] = epoch

        def by_ids(*topics: tuple[bytes, int]) -> list[TxnOffsetCommitRequestTopic]:
            return [
                TxnOffsetCommitRequestTopic(topic_id=each, partitions=[TxnOffsetCommitRequestPartition(index, 5)])
                for each, index in topics
            ]

        def commit(asked: str, version: int, topics: list[TxnOffsetCommitRequestTopic], **fields: Any) -> None:
            request = TxnOffsetCommitRequest("x", "g", producer.producer_id, producer.producer_epoch, topics=topics)
            for name, value in fields.items():
                setattr(request, name, value)
            self._tell(f"TxnOffsetCommit {version}: {asked}", request, version)

        several = {
            "a topic": [(topic_id, 0)],
            "a partition that is not there": [(topic_id, 0), (topic_id, 9)],
            "an unknown id": [(UNKNOWN, 0)],
            "an unknown id and a topic": [(UNKNOWN, 0), (topic_id, 1)],
            "no id, twice": [(ZERO_UUID, 0), (UNKNOWN, 1), (ZERO_UUID, 1)],
            "a topic twice": [(topic_id, 0), (topic_id, 1)],
            "a topic twice and an unknown id": [(topic_id, 0), (UNKNOWN, 1), (topic_id, 1)],
        }
        for asked, pairs in several.items():
            commit(asked, 6, by_ids(*pairs))
        commit("no group", 6, by_ids((topic_id, 0), (UNKNOWN, 0)), group_id="")
        commit("another epoch of the producer", 6, by_ids((topic_id, 0)), producer_epoch=7)
        commit("another producer", 6, by_ids((topic_id, 0)), producer_id=77)
        for version in (5, 6):
            named = TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, 5)])
            topics = by_ids((topic_id, 0)) if version > 5 else [named]
            member = {"generation_id_or_member_epoch": 3, "member_id": "m"}
            commit("a member of a missing group", version, topics, group_id="missing", **member)
            for member_id, off in (("m", 0), ("m", 1), ("m", -1), ("m", -epoch), ("other", 0)):
                member = {"generation_id_or_member_epoch": epoch + off, "member_id": member_id}
                commit(f"member {member_id} with an epoch off by {off}", version, topics, group_id="c", **member)
        self._tell("EndTxn", EndTxnRequest("x", producer.producer_id, producer.producer_epoch, True), 4)

    def _groups(self) -> None:
        for version in (2, 3):
            self._tell(f"DeleteGroups {version}", DeleteGroupsRequest(["missing", "c", ""]), version)

    def _streams_groups(self) -> None:
        self._topic("lines")
        self._settle()
        for version in (0, 1):
            join = StreamsGroupHeartbeatRequest(f"s{version}", "m", rebalance_timeout_ms=60_000, process_id="p")
            join.topology = Topology(0, [Subtopology("0", source_topics=["lines"])])
            join.active_tasks, join.standby_tasks, join.warmup_tasks = [], [], []
            epoch = self._tell(f"a streams member joins {version}", join, version).member_epoch
            beat = StreamsGroupHeartbeatRequest(f"s{version}", "m", member_epoch=epoch)
            self._tell(f"a streams member stays {version}", beat, version)
            self._tell(
                f"StreamsGroupDescribe {version}", StreamsGroupDescribeRequest([f"s{version}", "missing"]), version
            )
        wanted = StreamsGroupDescribeRequest(["s1", "missing"], include_topology_description=True)
        self._tell("StreamsGroupDescribe 1 with a description", wanted, 1)
        node = TopologyDescriptionNode("n", 1, ["lines"])
        description = TopologyDescription([TopologyDescriptionSubtopology("0", [node])])
        for group_id, member_id, epoch in (("s1", "m", 0), ("s1", "other", 0), ("missing", "m", 0), ("", "", -1)):
            update = StreamsGroupTopologyDescriptionUpdateRequest(group_id, member_id, epoch, description)
            self._tell(f"describe a topology: {group_id!r} {member_id!r} {epoch}", update, 0)
        self._tell("a streams member leaves", StreamsGroupHeartbeatRequest("s1", "m", member_epoch=-1), 1)
        self._tell("delete a streams group", DeleteGroupsRequest(["s1"]), 3)

    def _static_streams_members(self) -> None:
        """Let threads with instance ids come, leave for a while, return under another member id, and go."""

        def beat(asked: str, member_id: str, epoch: int, instance_id: str | None, group_id: str = "static") -> int:
            request = StreamsGroupHeartbeatRequest(group_id, member_id, member_epoch=epoch, instance_id=instance_id)
            if epoch == 0:
                request.rebalance_timeout_ms, request.process_id = 60_000, f"of {instance_id}"
                request.topology = Topology(0, [Subtopology("0", source_topics=["lines"])])
                request.active_tasks, request.standby_tasks, request.warmup_tasks = [], [], []
            told = self._tell(f"static streams members: {asked}", request, 1)
            self._tell(f"static streams members, after: {asked}", StreamsGroupDescribeRequest([group_id]), 1)
            return int(told.member_epoch)

        beat("an instance id without characters", "m", 0, "")
        beat("an unknown instance stays", "m", 3, "i", "missing")
        beat("an unknown instance leaves a missing group", "m", -2, "i", "missing")
        epoch = beat("one joins", "m", 0, "i")
        beat("one joins again", "m", 0, "i")
        beat("another member under its instance id", "n", 0, "i")
        beat("stays", "m", epoch, "i")
        beat("stays and names no instance", "m", epoch, None)
        beat("stays under another instance id", "m", epoch, "j")
        beat("another member stays under its instance id", "n", epoch, "i")
        beat("an unknown instance stays in the group", "n", epoch, "k")
        beat("another member leaves under its instance id", "n", -2, "i")
        beat("leaves for good without naming the instance", "o", -1, None)
        beat("leaves for a while without naming the instance", "m", -2, None)
        beat("leaves for a while", "m", -2, "i")
        beat("stays although away", "m", epoch, "i")
        beat("leaves for a while once more", "m", -2, "i")
        second = beat("a dynamic member joins while one is away", "d", 0, None)
        beat("the dynamic member joins as an instance", "d", 0, "d")
        beat("the dynamic member leaves for a while", "d", -2, "d")
        epoch = beat("returns as another member", "n", 0, "i")
        beat("the member that was there before stays", "m", second, "i")
        beat("the member that was there before stays, without an instance id", "m", second, None)
        beat("stays after its return", "n", epoch, "i")
        beat("leaves for good", "n", -1, "i")
        beat("the other instance leaves for good", "d", -1, "d")
        beat("comes as a new member", "p", 0, "i")

    def _empty_groups(self) -> None:
        """Describe groups before and after their last member has gone."""
        consumer = ConsumerGroupHeartbeatRequest("e", "m", 0, rebalance_timeout_ms=1000, topic_partitions=[])
        share = ShareGroupHeartbeatRequest("es", "m", 0)
        consumer.subscribed_topic_names = share.subscribed_topic_names = ["lines"]
        for join in (consumer, share):
            self._until(join, 1, lambda answer: answer.error_code)
        self.ask(ConsumerGroupHeartbeatRequest("e", "m", -1), 1)
        self._tell("a consumer group without members", ConsumerGroupDescribeRequest(["e"]), 1)
        self.ask(ShareGroupHeartbeatRequest("es", "m", -1), 1)
        [group] = self.ask(ShareGroupDescribeRequest(["es"]), 1).groups  # its epoch depends on time
        self.told["a share group without members has reached its epoch"] = group.assignment_epoch == group.group_epoch

    def _share_states(self) -> None:
        """Initialize and write the state of share partitions with epochs that no group has."""
        topic_id = next(each for each, name in self._ids.items() if name == "the id of lines")
        find = FindCoordinatorRequest(key_type=2, coordinator_keys=[f"y:{uuid_text(topic_id)}:0"])
        self._until(find, 6, lambda answer: answer.coordinators[0].error_code)

        def initialize(epoch: int, start: int) -> InitializeShareGroupStateRequest:
            partition = InitializedPartition(0, epoch, start)
            return InitializeShareGroupStateRequest("y", [InitializeStateData(topic_id, [partition])])

        self._until(initialize(0, 0), 0, lambda answer: answer.results[0].partitions[0].error_code)
        for epoch, start in ((-1, 0), (-2, 0), (0, -1), (0, -2), (-1, -2), (1, 5)):
            self._tell(f"share state of epoch {epoch} from {start} on", initialize(epoch, start), 0)
        for state_epoch, leader_epoch, start in ((1, 0, 7), (1, 0, 6), (-1, 0, 8), (1, -1, 8), (-2, -2, 8), (0, 0, 8)):
            partition = WrittenPartition(0, state_epoch, leader_epoch, start, state_batches=[StateBatch(9, 9, 0, 1)])
            write = WriteShareGroupStateRequest("y", [WriteStateData(topic_id, [partition])])
            self._tell(f"share state written: epochs {state_epoch}, {leader_epoch}, from {start} on", write, 1)
            read = ReadShareGroupStateRequest("y", [ReadStateData(topic_id, [ReadPartition(0, 0)])])
            self._tell(f"after {state_epoch}, {leader_epoch}, {start}", read, 0)

    def _full_groups(self) -> None:
        """Join a consumer group of one member, which is static, under its instance's name and another's."""

        def beat(asked: str, member_id: str, epoch: int, instance_id: str | None = "i") -> None:
            request = ConsumerGroupHeartbeatRequest("full", member_id, epoch, instance_id)
            if epoch == 0:
                request.rebalance_timeout_ms, request.topic_partitions = 1000, []
                request.subscribed_topic_names = ["lines"]
            self._tell(f"a full group: {asked}", request, 1)

        beat("its member", "a", 0)
        beat("another instance", "b", 0, "j")
        beat("the same instance, while it is there", "c", 0)
        beat("its member goes for a while", "a", -2)
        beat("another instance then", "d", 0, "j")
        beat("a member without an instance", "e", 0, None)
        beat("the same instance then", "f", 0)

    def _configs(self) -> None:
        kinds = {
            (ConfigResourceType.GROUP, "s1"): [
                *(("streams.assignor.name", value) for value in ("other", "", "sticky")),
                ("streams.rack.aware.assignment.tags", "a,b"),
                *(("streams.num.warmup.replicas", value) for value in ("21", "3")),
                *(("streams.task.offset.interval.ms", value) for value in ("5", "15000")),
                *(("streams.acceptable.recovery.lag", value) for value in ("-1", "7")),
                ("streams.assignor.offload.enable", "perhaps"),
                ("errors.deadletterqueue.copy.record.enable", "true"),
                ("errors.deadletterqueue.topic.name", ""),
            ],
            (ConfigResourceType.TOPIC, "t"): [
                ("errors.deadletterqueue.group.enable", "true"),
                *(("max.decompressed.message.bytes", value) for value in ("0", "5")),
                *(("remote.copy.lag.bytes", value) for value in ("-2", "9")),
            ],
            (ConfigResourceType.BROKER, "1"): [
                *(("max.decompressed.message.bytes", value) for value in ("0", "2147483639")),
                ("log.remote.copy.lag.ms", "5"),
                ("group.streams.assignors", "sticky"),
                ("group.streams.task.offset.interval.ms", "5"),
            ],
        }
        for (kind, name), changes in kinds.items():
            for key, value in changes:
                resource = AlterConfigsResource(kind, name, [AlterableConfig(key, 0, value)])
                self._tell(f"{kind.name} {name}: {key}={value}", IncrementalAlterConfigsRequest([resource]), 1)

    def _quotas(self) -> None:
        """Set quotas to what is no number, of a whole key and of a real one, and under a key that is none."""
        for key in ("producer_byte_rate", "request_percentage", "none"):
            for value in (math.nan, math.inf, -math.inf):
                entry = EntryData([EntityData("user", "alice")], [OpData(key, value)])
                self._tell(f"quota {key}={value}", AlterClientQuotasRequest([entry]), 1)
