"""Administrative handlers where we differ from Kafka on purpose, every version of each, and what is cached."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.api import configs
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.router import served_versions
from pykafka_broker.config.describe import documentation
from pykafka_broker.errors import NOT_HOSTED, ApiError
from pykafka_broker.log.checkpoints import LOST
from pykafka_broker.log.jobs import Job, run_inline
from pykafka_broker.log.log_directory import LogDirectory
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from pykafka_broker.protocol.messages.alter_configs_request import AlterableConfig as ReplacingConfig
from pykafka_broker.protocol.messages.alter_configs_request import AlterConfigsRequest
from pykafka_broker.protocol.messages.alter_configs_request import AlterConfigsResource as Replacement
from pykafka_broker.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from pykafka_broker.protocol.messages.describe_acls_request import DescribeAclsRequest
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from pykafka_broker.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from pykafka_broker.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from pykafka_broker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from pykafka_broker.protocol.runtime import ZERO_UUID
from pykafka_broker.records.builder import BatchBuilder
from tests.broker.api.real_broker import NOW, RealBroker

ADMIN_APIS = [
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UPDATE_FEATURES,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
]
EVERY_VERSION = [
    (api_key, version)
    for api_key in ADMIN_APIS
    for version in range(served_versions(api_key)[0], served_versions(api_key)[1] + 1)
]


@pytest.fixture
def node(tmp_path: Path) -> RealBroker:
    return RealBroker(tmp_path)


def create(node: RealBroker, *names: str) -> None:
    request = CreateTopicsRequest([CreatableTopic(name, 2, 1) for name in names])
    assert all(topic.error_code == 0 for topic in node.call(request, 7).topics)


def metadata(node: RealBroker, *names: str, version: int = 12, **fields: Any) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return node.call(MetadataRequest(topics, **fields), version)


@pytest.mark.parametrize(("api_key", "version"), EVERY_VERSION, ids=lambda value: getattr(value, "name", value))
def test_every_version_can_be_written(node: RealBroker, api_key: ApiKey, version: int) -> None:
    create(node, "t")
    bodies: dict[ApiKey, Any] = {
        ApiKey.METADATA: MetadataRequest([MetadataRequestTopic(name="t"), MetadataRequestTopic(name="?")]),
        ApiKey.CREATE_TOPICS: CreateTopicsRequest([CreatableTopic("n", 1, 1), CreatableTopic("?", 1, 1)]),
        ApiKey.CREATE_PARTITIONS: CreatePartitionsRequest([CreatePartitionsTopic("t", 1, None)], 30_000),
        ApiKey.DELETE_TOPICS: DeleteTopicsRequest(topic_names=["t", "?"], timeout_ms=30_000)
        if version < 6
        else DeleteTopicsRequest([DeleteTopicState("t"), DeleteTopicState(None, b"?" * 16)]),
        ApiKey.DESCRIBE_CONFIGS: DescribeConfigsRequest([DescribeConfigsResource(4, "1", None)]),
        ApiKey.DESCRIBE_LOG_DIRS: DescribeLogDirsRequest(None),
        ApiKey.DESCRIBE_QUORUM: DescribeQuorumRequest([TopicData("__cluster_metadata", [PartitionData(0)])]),
        ApiKey.DESCRIBE_ACLS: DescribeAclsRequest(1, None, 3, None, None, 1, 1),
        ApiKey.ELECT_LEADERS: ElectLeadersRequest(topic_partitions=[TopicPartitions("t", [0])]),
    }
    if api_key is ApiKey.API_VERSIONS and version >= 3:
        bodies[api_key] = ApiVersionsRequest("a", "1")
    request = bodies.get(api_key) or SPECS[api_key].request_class()()
    assert node.call(request, version) is not None


def test_api_versions_lists_the_routes_and_nothing_else(node: RealBroker) -> None:
    answer = node.call(ApiVersionsRequest("librdkafka", "2.14.0"), 4)
    ranges = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
    assert ranges[ApiKey.PRODUCE][0] == 0  # librdkafka takes less for a broker without compression
    assert ranges[ApiKey.METADATA] == (0, 13)
    assert ranges[ApiKey.API_VERSIONS] == (0, 5)
    for key in (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.VOTE, ApiKey.BROKER_HEARTBEAT, ApiKey.LEADER_AND_ISR):
        assert key not in ranges
    assert (node.connection.software_name, node.connection.software_version) == ("librdkafka", "2.14.0")
    assert answer.finalized_features_epoch == node.broker.metadata.applied_offset


def test_a_version_from_the_future_is_answered_in_version_0(node: RealBroker) -> None:
    spec = SPECS[ApiKey.API_VERSIONS]
    answer = node.answer_to(ApiKey.API_VERSIONS, 99, b"whatever stands there")
    decoded: Any = spec.response_class().decode(answer, 0)
    assert decoded.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.api_key, key.min_version, key.max_version) for key in decoded.api_keys] == [(18, 0, 5)]


def test_a_cached_answer_ends_with_the_metadata_that_it_tells_of(node: RealBroker) -> None:
    create(node, "t")
    assert [topic.name for topic in node.call(MetadataRequest(None), 12).topics] == ["t"]
    create(node, "u")
    assert [topic.name for topic in node.call(MetadataRequest(None), 12).topics] == ["t", "u"]
    assert len(metadata(node, "t").topics[0].partitions) == 2
    node.call(CreatePartitionsRequest([CreatePartitionsTopic("t", 3, None)], 30_000), 3)
    assert len(metadata(node, "t").topics[0].partitions) == 3
    epoch = node.call(ApiVersionsRequest("a", "1"), 3).finalized_features_epoch
    create(node, "v")
    assert node.call(ApiVersionsRequest("a", "1"), 3).finalized_features_epoch > epoch


def test_each_client_is_told_the_address_that_it_dialled(node: RealBroker) -> None:
    assert [(found.host, found.port) for found in metadata(node).brokers] == [("127.0.0.1", 29092)]
    node.connection = ConnectionContext(2, "PLAINTEXT", ("broker.example", 5), ("10.0.0.9", 6))
    assert [(found.host, found.port) for found in metadata(node).brokers] == [("broker.example", 5)]


def test_a_topic_that_metadata_creates_is_in_the_same_answer(node: RealBroker) -> None:
    answer = metadata(node, "new", "a b", "__consumer_offsets", version=9)
    found = {topic.name: topic for topic in answer.topics}
    assert (found["new"].error_code, len(found["new"].partitions), found["new"].is_internal) == (0, 1, False)
    assert found["a b"].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert (len(found["__consumer_offsets"].partitions), found["__consumer_offsets"].is_internal) == (50, True)
    assert node.broker.topic_config("__consumer_offsets").cleanup_policy == ["compact"]
    assert node.broker.partition_log("new", 0).log_end_offset == 0


def test_metadata_creates_nothing_unasked(tmp_path: Path) -> None:
    node = RealBroker(tmp_path)
    assert metadata(node, "new", allow_auto_topic_creation=False).topics[0].error_code == 3
    assert node.call(MetadataRequest([]), 0).topics == []
    assert node.call(MetadataRequest([]), 1).topics == []
    assert metadata(node, "__cluster_metadata").topics[0].error_code == 3
    assert node.broker.image.topics == {}
    node.stop()
    forbidden = RealBroker(tmp_path, **{"auto.create.topics.enable": "false"})
    assert metadata(forbidden, "new").topics[0].error_code == 3


def test_an_old_id_is_unknown(node: RealBroker) -> None:
    create(node, "t")
    old = node.broker.image.topics["t"].id
    node.call(DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=30_000), 6)
    create(node, "t")
    answer = node.call(MetadataRequest([MetadataRequestTopic(old, None)]), 12)
    assert (answer.topics[0].error_code, answer.topics[0].name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)


def test_neither_name_nor_id(node: RealBroker) -> None:
    answer = node.call(MetadataRequest([MetadataRequestTopic(ZERO_UUID, None)]), 12)
    assert (answer.topics[0].error_code, answer.brokers) == (ErrorCode.INVALID_REQUEST, [])


def test_log_directories_have_true_sizes(node: RealBroker) -> None:
    create(node, "t")
    builder = BatchBuilder()
    builder.append(b"k", b"v" * 1000, NOW)
    batch = builder.build()
    node.broker.partition_log("t", 1).append(batch, NOW)
    (result,) = node.call(DescribeLogDirsRequest(None), 4).results
    sizes = {partition.partition_index: partition.partition_size for partition in result.topics[0].partitions}
    assert sizes == {0: 0, 1: len(batch)}
    assert [topic.name for topic in result.topics] == ["t"]
    assert 0 < result.usable_bytes <= result.total_bytes


def test_the_metadata_log_is_in_no_directory(node: RealBroker) -> None:
    named = [DescribableLogDirTopic("__cluster_metadata", [0])]
    for asked in (None, named):
        assert [result.topics for result in node.call(DescribeLogDirsRequest(asked), 4).results] == [[]]


def two_directories(tmp_path: Path) -> tuple[RealBroker, LogDirectory, LogDirectory]:
    """Return a broker with the topic `t`, the directory that has t-0, and the other directory."""
    first, second = tmp_path / "a", tmp_path / "b"
    node = RealBroker(first, **{"log.dirs": f"{first},{second}"})
    create(node, "t")
    here = node.broker.logs.directory_of(("t", 0))
    assert here is not None
    return node, here, next(directory for directory in node.broker.logs.directories if directory is not here)


def move(node: RealBroker, path: str, topic: str = "t") -> int:
    request = AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(topic, [0])])])
    return int(node.call(request, 2).results[0].partitions[0].error_code)


def places(node: RealBroker) -> list[tuple[str, int, bool]]:
    """Return each log of t-0 in DescribeLogDirs: its directory, its size, and whether it is a future log."""
    return [
        (result.log_dir, found.partition_size, found.is_future_key)
        for result in node.call(DescribeLogDirsRequest(None), 4).results
        for topic in result.topics
        for found in topic.partitions
        if (topic.name, found.partition_index) == ("t", 0)
    ]


def test_a_log_moves_to_another_directory(tmp_path: Path) -> None:
    node, here, there = two_directories(tmp_path)
    builder = BatchBuilder()
    builder.append(b"k", b"v" * 200_000, NOW)
    batch = builder.build()
    log = node.broker.partition_log("t", 0)
    log.append(bytearray(batch), NOW)
    jobs: list[Job] = []
    node.broker.logs.submit = jobs.append
    assert move(node, there.path) == ErrorCode.NONE
    assert sorted(places(node)) == sorted([(here.path, len(batch), False), (there.path, len(batch), True)])
    log.append(bytearray(batch), NOW)
    while jobs:
        run_inline(jobs.pop(0))
    assert places(node) == [(there.path, 2 * len(batch), False)]
    assert node.broker.partition_log("t", 0).log_end_offset == 2
    node.broker.logs.submit = run_inline
    node.restart()
    assert places(node) == [(there.path, 2 * len(batch), False)]


def test_moves_that_go_nowhere(tmp_path: Path) -> None:
    node, here, there = two_directories(tmp_path)
    assert move(node, here.path) == ErrorCode.NONE
    assert move(node, "/nowhere") == ErrorCode.LOG_DIR_NOT_FOUND
    assert move(node, there.path, "u") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert places(node) == [(here.path, 0, False)]
    node.broker.logs.take_offline(there, OSError(5, "Input/output error"))
    assert [move(node, there.path, topic) for topic in ("t", "u")] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


def test_a_directory_that_fails_takes_only_its_own_partitions_along(tmp_path: Path) -> None:
    node, here, there = two_directories(tmp_path)
    node.broker.partition_log("t", 0)
    node.broker.logs.take_offline(here, OSError(5, "Input/output error"))
    with pytest.raises(ApiError) as caught:
        node.broker.partition_log("t", 0)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert node.broker.logs.directory_of(("t", 1)) is there
    assert node.broker.partition_log("t", 1).log_end_offset == 0


def alter_logger(node: RealBroker, name: str, level: str | None, *, validate_only: bool = False) -> int:
    config = AlterableConfig(name, 0 if level is not None else 1, level)
    resource = AlterConfigsResource(ConfigResourceType.BROKER_LOGGER, "1", [config])
    request = IncrementalAlterConfigsRequest([resource], validate_only)
    return int(node.call(request, 1).responses[0].error_code)


def logger_levels(node: RealBroker) -> dict[str, str]:
    answer = node.call(
        DescribeConfigsRequest([DescribeConfigsResource(ConfigResourceType.BROKER_LOGGER, "1", None)]), 4
    )
    return {config.name: config.value for config in answer.results[0].configs}


def test_logger_levels_are_told_and_set(node: RealBroker) -> None:
    name = "pykafka_broker.broker.requests.router"
    logger = logging.getLogger(name)
    try:
        assert alter_logger(node, name, "TRACE") == 0
        assert logger_levels(node)[name] == "TRACE"
        assert alter_logger(node, name, "FATAL") == 0
        assert logger.level == logging.CRITICAL
        assert alter_logger(node, name, "INFO", validate_only=True) == 0
        assert logger.level == logging.CRITICAL
        assert alter_logger(node, name, None) == 0
        assert logger.level == logging.NOTSET
        assert logger_levels(node)[name] == logger_levels(node)["root"]
        assert alter_logger(node, "no.such", None) == ErrorCode.INVALID_CONFIG
    finally:
        logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize(("level", "name"), [(0, "TRACE"), (7, "TRACE"), (10, "DEBUG"), (25, "INFO"), (90, "FATAL")])
def test_levels_have_kafkas_names(level: int, name: str) -> None:
    assert configs.level_name(level) == name


def test_a_repeated_resource_is_refused_by_both_forms(node: RealBroker) -> None:
    create(node, "t")
    request = AlterConfigsRequest(
        [Replacement(ConfigResourceType.TOPIC, "t"), Replacement(ConfigResourceType.TOPIC, "t")]
    )
    codes = [response.error_code for response in node.call(request, 2).responses]
    assert codes == [ErrorCode.INVALID_REQUEST] * 2


def test_nothing_is_altered_by_a_request_for_too_many_records(
    node: RealBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configs, "MAX_RECORDS_PER_OPERATION", 1)
    create(node, "t")
    create(node, "u")
    wanted = [Replacement(ConfigResourceType.TOPIC, name, [ReplacingConfig("retention.ms", "1")]) for name in "tu"]
    for asked, code in ((wanted, ErrorCode.POLICY_VIOLATION), (wanted[:1], ErrorCode.NONE)):
        answers = node.call(AlterConfigsRequest(asked), 2).responses
        assert [(each.error_code, each.resource_name) for each in answers] == [
            (code, each.resource_name) for each in asked
        ]
        keys = [DescribeConfigsResource(ConfigResourceType.TOPIC, "t", ["retention.ms"])]
        ((told,),) = (each.configs for each in node.call(DescribeConfigsRequest(keys), 4).results)
        assert (told.value == "1") == (not code)


def test_config_sources_of_version_0(node: RealBroker) -> None:
    request = DescribeConfigsRequest(
        [DescribeConfigsResource(ConfigResourceType.BROKER, "1", ["node.id", "num.io.threads"])]
    )
    configs = {config.name: config for config in node.call(request, 0).results[0].configs}
    assert (configs["node.id"].is_default, configs["num.io.threads"].is_default) == (False, True)


def test_a_config_is_explained_to_whoever_asks(node: RealBroker) -> None:
    asked = DescribeConfigsResource(ConfigResourceType.BROKER, "1", ["num.partitions", "log.dirs"])
    (plain,) = node.call(DescribeConfigsRequest([asked]), 4).results
    assert [config.documentation for config in plain.configs] == [None, None]
    (explained,) = node.call(DescribeConfigsRequest([asked], False, True), 4).results
    says = {config.name: config.documentation for config in explained.configs}
    assert says == {key: documentation("broker")[key] for key in ("num.partitions", "log.dirs")}


def test_what_no_key_is_known_of_is_not_explained(tmp_path: Path) -> None:
    settings = {"zookeeper.connect": "here", "listener.name.plaintext.num.network.threads": "2"}
    node = RealBroker(tmp_path, **settings)
    asked = DescribeConfigsResource(ConfigResourceType.BROKER, "1", list(settings))
    (result,) = node.call(DescribeConfigsRequest([asked], False, True), 4).results
    assert {config.name: config.documentation for config in result.configs} == dict.fromkeys(settings)


def test_the_broker_can_not_be_taken_out_of_itself(node: RealBroker) -> None:
    assert node.call(UnregisterBrokerRequest(1), 0).error_code == ErrorCode.INVALID_REQUEST
    assert node.call(AddRaftVoterRequest("another"), 1).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert node.call(AddRaftVoterRequest(None), 1).error_code == ErrorCode.INVALID_REQUEST
    wanted = AddRaftVoterRequest(None, 0, 2, b"d" * 16, [Listener("CONTROLLER", "127.0.0.1", 1)])
    assert node.call(wanted, 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert node.call(RemoveRaftVoterRequest(None, 1, b"d" * 16), 0).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert 1 in node.broker.image.brokers


def test_the_voter_stands_in_the_log_once_the_quorum_has_gone_up(node: RealBroker) -> None:
    def seen() -> tuple[int, bytes]:
        features = node.call(ApiVersionsRequest("n", "1"), 4).finalized_features
        level = next((each.max_version_level for each in features if each.name == "kraft.version"), 0)
        asked = DescribeQuorumRequest([TopicData("__cluster_metadata", [PartitionData(0)])])
        [voter] = node.call(asked, 2).topics[0].partitions[0].current_voters
        return level, voter.replica_directory_id

    assert seen() == (0, ZERO_UUID)
    request = UpdateFeaturesRequest(0, [FeatureUpdateKey("kraft.version", 1)])
    assert node.call(request, 2).error_code == 0
    level, mine = seen()
    assert (level, mine != ZERO_UUID) == (1, True)
    node.restart()
    assert seen() == (1, mine)
    again = AddRaftVoterRequest(None, 0, 1, mine, [Listener("CONTROLLER", "127.0.0.1", 1)])
    assert node.call(again, 1).error_code == ErrorCode.DUPLICATE_VOTER
    another = AddRaftVoterRequest(None, 0, 2, b"d" * 16, [Listener("CONTROLLER", "127.0.0.1", 1)])
    assert node.call(another, 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    for number, directory_id in ((1, mine), (2, b"d" * 16)):
        assert node.call(RemoveRaftVoterRequest(None, number, directory_id), 0).error_code == ErrorCode.VOTER_NOT_FOUND


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("other", [[("__cluster_metadata", 0)], [("__cluster_metadata", 1)], [("a", 0)]])
def test_a_quorum_is_described_alone(node: RealBroker, version: int, other: list[tuple[str, int]]) -> None:
    """Kafka 4.4.0 answers so where anything else is named, the partition of the quorum included."""
    named = [("__cluster_metadata", 0), *other]
    asked = DescribeQuorumRequest([TopicData(name, [PartitionData(index)]) for name, index in named])
    answer = node.call(asked, version)
    refusals = [(topic.topic_name, each.partition_index) for topic in answer.topics for each in topic.partitions]
    assert refusals == named
    found = [each for topic in answer.topics for each in topic.partitions]
    assert {each.error_code for each in found} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert {each.error_message for each in found} == {NOT_HOSTED if version else ""}
    assert answer.nodes == []


def test_a_partition_without_a_leader(node: RealBroker) -> None:
    create(node, "t")
    partition = node.broker.image.topics["t"].partitions[0]
    partition.leader, partition.directories = -1, (LOST,)
    node.broker.image.generation += 1
    assert [p.error_code for p in metadata(node, "t").topics[0].partitions] == [ErrorCode.LEADER_NOT_AVAILABLE, 0]
    for kind, code in ((0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE), (1, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)):
        request = ElectLeadersRequest(kind, [TopicPartitions("t", [0])])
        assert node.call(request, 2).replica_election_results[0].partition_result[0].error_code == code
