"""Producer ids, features, quotas and configs: what the recorded answers don't show."""

from __future__ import annotations

import pytest

from pykafka_broker.cluster.config_changes import ConfigOp, alter_configs, incremental_alter_configs
from pykafka_broker.cluster.feature_updates import update_features
from pykafka_broker.cluster.features import ELR_VERSION
from pykafka_broker.cluster.quotas import alter_client_quotas
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import AlterConfigOp, ConfigResourceType, UpgradeType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from pykafka_broker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord
from tests.cluster.parts import cluster_of, partition_in
from tests.cluster.support import Cluster

TOPIC, BROKER, GROUP, CLIENT_METRICS = (
    ConfigResourceType.TOPIC,
    ConfigResourceType.BROKER,
    ConfigResourceType.GROUP,
    ConfigResourceType.CLIENT_METRICS,
)


def alter(cluster: Cluster, kind: int, name: str, *ops: tuple[str, int, str | None]) -> None:
    cluster.apply(altered(cluster, kind, name, *(ConfigOp(*op) for op in ops)))


def altered(cluster: Cluster, kind: int, name: str, *ops: ConfigOp) -> list[ApiMessageAndVersion]:
    return incremental_alter_configs(cluster.controller, kind, name, ops)


def refusal(cluster: Cluster, kind: int, name: str, *ops: tuple[str, int, str | None]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        alter(cluster, kind, name, *ops)
    return caught.value


def test_lists_are_edited_from_what_is_in_force() -> None:
    cluster = Cluster()
    cluster.create("t")
    alter(cluster, TOPIC, "t", ("cleanup.policy", AlterConfigOp.APPEND, "compact"))
    assert cluster.image.topic_config("t") == {"cleanup.policy": "delete,compact"}
    alter(cluster, TOPIC, "t", ("cleanup.policy", AlterConfigOp.APPEND, "compact"))
    assert cluster.image.topic_config("t") == {"cleanup.policy": "delete,compact"}
    alter(cluster, TOPIC, "t", ("cleanup.policy", AlterConfigOp.SUBTRACT, "delete"))
    assert cluster.image.topic_config("t") == {"cleanup.policy": "compact"}
    alter(cluster, TOPIC, "t", ("cleanup.policy", AlterConfigOp.DELETE, None))
    assert cluster.image.topic_config("t") == {}


def test_what_stays_the_same_is_not_written() -> None:
    cluster = Cluster()
    cluster.create("t")
    op = ConfigOp("retention.ms", AlterConfigOp.SET, "5")
    assert len(altered(cluster, TOPIC, "t", op)) == 1
    alter(cluster, TOPIC, "t", op)
    assert altered(cluster, TOPIC, "t", op) == []
    assert altered(cluster, TOPIC, "t", ConfigOp("flush.ms", AlterConfigOp.DELETE, None)) == []


def test_alter_configs_replaces_all() -> None:
    cluster = Cluster()
    cluster.create("t")
    alter(cluster, TOPIC, "t", ("retention.ms", AlterConfigOp.SET, "5"), ("flush.ms", AlterConfigOp.SET, "6"))
    cluster.apply(alter_configs(cluster.controller, TOPIC, "t", [ConfigOp("flush.ms", AlterConfigOp.SET, "7")]))
    assert cluster.image.topic_config("t") == {"flush.ms": "7"}


def test_unknown_operation() -> None:
    cluster = Cluster()
    cluster.create("t")
    assert refusal(cluster, TOPIC, "t", ("flush.ms", 7, "1")).code == ErrorCode.INVALID_REQUEST


def test_overrides_are_checked_together_with_those_that_stay() -> None:
    cluster = Cluster()
    cluster.create("t")
    alter(cluster, TOPIC, "t", ("min.compaction.lag.ms", AlterConfigOp.SET, "5"))
    error = refusal(cluster, TOPIC, "t", ("max.compaction.lag.ms", AlterConfigOp.SET, "4"))
    assert error.code == ErrorCode.INVALID_CONFIG
    assert error.message == "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (4)"


# As a real 4.4.0 broker answered; those that are in the recorded answers are not repeated.
@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "code", "message"),
    [
        (
            BROKER,
            "1",
            "num.io.threads",
            "0",
            ErrorCode.INVALID_REQUEST,
            "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
        ),
        (
            BROKER,
            "1",
            "leader.replication.throttled.rate",
            "-5",
            ErrorCode.INVALID_REQUEST,
            "Invalid value -5 for configuration leader.replication.throttled.rate: Value must be at least 0",
        ),
        (
            CLIENT_METRICS,
            "m",
            "interval.ms",
            "3600001",
            ErrorCode.INVALID_REQUEST,
            "Invalid value 3600001 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            CLIENT_METRICS,
            "m",
            "interval.ms",
            "x",
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration interval.ms: Not a number of type INT",
        ),
        (
            CLIENT_METRICS,
            "m",
            "match",
            "client_id",
            ErrorCode.INVALID_CONFIG,
            "Illegal client matching pattern: client_id",
        ),
        (
            CLIENT_METRICS,
            "m",
            "match",
            "client_id=",
            ErrorCode.INVALID_CONFIG,
            "Illegal client matching pattern: client_id=",
        ),
        (
            CLIENT_METRICS,
            "m",
            "match",
            "client_id=a=b",
            ErrorCode.INVALID_CONFIG,
            "Illegal client matching pattern: client_id=a=b",
        ),
        (
            CLIENT_METRICS,
            "m",
            "metrics",
            "a,,",
            ErrorCode.INVALID_CONFIG,
            "Configuration 'metrics' values must not be empty.",
        ),
        (
            BROKER,
            "1",
            "max.connections",
            "0",
            ErrorCode.INVALID_REQUEST,
            (
                "Invalid value org.apache.kafka.common.config.ConfigException: Invalid max.connections 0 for "
                "configuration Invalid dynamic configuration"
            ),
        ),
        (
            BROKER,
            "",
            "listener.name.a.plain.sasl.jaas.config",
            "Module required;",
            ErrorCode.INVALID_REQUEST,
            (
                "Cannot update these configs at default cluster level, broker id must be specified: "
                "[listener.name.a.plain.sasl.jaas.config]"
            ),
        ),
        (
            BROKER,
            "1",
            "listener.name.plaintext.plain.connections.max.reauth.ms",
            "soon",
            ErrorCode.INVALID_REQUEST,
            (
                "Invalid value org.apache.kafka.common.config.ConfigException: Invalid value soon for configuration "
                "connections.max.reauth.ms: Not a number of type LONG for configuration Invalid dynamic configuration"
            ),
        ),
        (
            BROKER,
            "1",
            "listener.name.a.principal.builder.class",
            "foo.Bar",
            ErrorCode.INVALID_REQUEST,
            "Invalid value foo.Bar for configuration principal.builder.class: Class foo.Bar could not be found.",
        ),
        (
            BROKER,
            "1",
            "listener.name.plaintext.connections.max.reauth.ms",
            "soon",
            ErrorCode.INVALID_REQUEST,
            (
                "Invalid value org.apache.kafka.common.config.ConfigException: Invalid value soon for configuration "
                "connections.max.reauth.ms: Not a number of type LONG for configuration Invalid dynamic configuration"
            ),
        ),
        (
            BROKER,
            "",
            "max.connection.creation.rate",
            "0",
            ErrorCode.INVALID_REQUEST,
            (
                "Invalid value org.apache.kafka.common.config.ConfigException: Invalid max.connection.creation.rate 0 "
                "for configuration Invalid dynamic configuration"
            ),
        ),
        (
            BROKER,
            "1",
            "listener.name.plaintext.max.connections",
            "0",
            ErrorCode.INVALID_REQUEST,
            (
                "Invalid value org.apache.kafka.common.config.ConfigException: Invalid max.connections 0 for "
                "configuration Invalid dynamic configuration"
            ),
        ),
        (
            BROKER,
            "",
            "listener.name.a.num.io.threads",
            "soon",
            ErrorCode.INVALID_REQUEST,
            "Invalid value soon for configuration num.io.threads: Not a number of type INT",
        ),
        (
            BROKER,
            "",
            "listener.name.a.principal.builder.class",
            "foo.Bar",
            ErrorCode.INVALID_REQUEST,
            "Invalid value foo.Bar for configuration principal.builder.class: Class foo.Bar could not be found.",
        ),
    ],
)
def test_refused_as_kafka_refuses(kind: int, name: str, key: str, value: str, code: ErrorCode, message: str) -> None:
    error = refusal(Cluster(), kind, name, (key, AlterConfigOp.SET, value))
    assert (error.code, error.message) == (code, message)


@pytest.mark.parametrize(
    ("key", "value", "limit", "limits"),
    [
        (
            "share.session.timeout.ms",
            "99999",
            "less than or equal to group.share.max.session.timeout.ms",
            "45000 to 60000",
        ),
        (
            "share.record.lock.duration.ms",
            "1000",
            "greater than or equal to group.share.min.record.lock.duration.ms",
            "15000 to 60000",
        ),
        (
            "streams.session.timeout.ms",
            "1",
            "greater than or equal to group.streams.min.session.timeout.ms",
            "45000 to 60000",
        ),
        ("share.delivery.count.limit", "11", "less than or equal to group.share.max.delivery.count.limit", "2 to 10"),
        (
            "consumer.assignment.interval.ms",
            "16000",
            "less than or equal to group.consumer.max.assignment.interval.ms",
            "0 to 15000",
        ),
    ],
)
def test_the_limits_of_a_group_key_as_each_release_tells_them(key: str, value: str, limit: str, limits: str) -> None:
    for release, message in (("4.3", limit), ("4.4", f"in the range {limits} inclusive.")):
        error = refusal(Cluster(pykafka_emulate=release), GROUP, "g", (key, AlterConfigOp.SET, value))
        assert (error.code, error.message) == (ErrorCode.INVALID_CONFIG, f"{key} must be {message}")


def test_the_only_limit_of_a_group_key_is_told_alone() -> None:
    for release, told in (("4.3", "group.streams.max.standby.replicas"), ("4.4", "2")):
        key = "streams.num.standby.replicas"
        error = refusal(Cluster(pykafka_emulate=release), GROUP, "g", (key, AlterConfigOp.SET, "3"))
        assert error.message == f"{key} must be less than or equal to {told}"


@pytest.mark.parametrize(
    ("kind", "name", "key", "value"),
    [
        (BROKER, "1", "no.such.key", "5"),
        (BROKER, "1", "background.threads", "9"),
        (BROKER, "1", "config.providers", "x"),
        (BROKER, "1", "zookeeper.connect", "x"),
        (BROKER, "1", "max.connections.per.ip.overrides", "127.0.0.1:5"),
        (BROKER, "1", "listener.name.external.ssl.keystore.location", "/none"),
        (BROKER, "1", "listener.name.external.plain.sasl.jaas.config", "as it stands"),
        (BROKER, "1", "listener.name.external.plain.sasl.server.callback.handler.class", "of.python:Class"),
        (BROKER, "", "listener.name.external.max.connections", "7"),
        (BROKER, "", "listener.name.external.max.connections", "0"),
        (BROKER, "1", "listener.name.external.connections.max.reauth.ms", "soon"),
        (BROKER, "1", "listener.name.external.plain.connections.max.reauth.ms", "soon"),
        (BROKER, "1", "listener.name.PLAINTEXT.connections.max.reauth.ms", "soon"),
        (BROKER, "1", "listener.name.controller.connections.max.reauth.ms", "soon"),
        (BROKER, "", "follower.replication.throttled.rate", "5"),
        (CLIENT_METRICS, "m", "metrics", "*"),
        (CLIENT_METRICS, "m", "metrics", "a,b,a"),
        (CLIENT_METRICS, "m", "match", "client_id=a,client_id=b"),
    ],
)
def test_taken_as_kafka_takes_it(kind: int, name: str, key: str, value: str) -> None:
    cluster = Cluster()
    alter(cluster, kind, name, (key, AlterConfigOp.SET, value))
    assert cluster.image.config(kind, name)[key] == value


def test_sockets_are_bound_once() -> None:
    error = refusal(Cluster(), BROKER, "1", ("listeners", AlterConfigOp.SET, "PLAINTEXT://:1"))
    assert error.message == "Cannot update these configs dynamically: [listeners]"


def test_a_feature_that_stays_is_not_written() -> None:
    cluster = Cluster()
    request = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("group.version", 1)])
    assert update_features(cluster.controller, request, 2).records == []


def test_eligible_leaders_need_a_metadata_version() -> None:
    cluster = Cluster()
    for name, level in (("metadata.version", 22), ("eligible.leader.replicas.version", 0)):
        cluster.apply([ApiMessageAndVersion(FeatureLevelRecord(name, level), 0)])
    request = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("eligible.leader.replicas.version", 1)])
    reply = update_features(cluster.controller, request, 1).reply
    assert reply.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "depends on metadata.version level 23" in (reply.error_message or "")


def test_features_go_up_together_with_the_metadata_version_that_one_needs() -> None:
    """Kafka 4.4 does so on data of 3.9, in the order in which kafka-features names them."""
    cluster = Cluster()
    for name, level in (("metadata.version", 21), ("eligible.leader.replicas.version", 0)):
        cluster.apply([ApiMessageAndVersion(FeatureLevelRecord(name, level), 0)])
    updates = [FeatureUpdateKey("eligible.leader.replicas.version", 1), FeatureUpdateKey("metadata.version", 33)]
    decision = update_features(cluster.controller, UpdateFeaturesRequest(feature_updates=updates), 1)
    assert decision.reply.error_code == ErrorCode.NONE
    cluster.apply(decision.records)
    assert {cluster.image.features[each.feature] for each in updates} == {1, 33}


def test_what_one_broker_can_not_do_is_not_begun() -> None:
    cluster = cluster_of(3)
    cluster.apply([ApiMessageAndVersion(FeatureLevelRecord("transaction.version", 0), 0)])
    for level, range_of_two, reason in (
        (1, (0, 0), "Broker 2 does not support this feature."),
        (2, (0, 1), "Broker 2 only supports versions 0-1"),
        (1, (0, 1), None),
    ):
        cluster.image.brokers[2].features["transaction.version"] = range_of_two
        request = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("transaction.version", level)])
        message = update_features(cluster.controller, request, 2).reply.error_message
        assert message is None if reason is None else (message or "").endswith(reason)


def test_who_was_eligible_before_is_not_when_elr_is_on_again() -> None:
    cluster = cluster_of(min_insync_replicas="2")
    topic, _ = partition_in(cluster, isr=(1,), elr=(2,))
    for level in (0, 1):
        request = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(ELR_VERSION, level, upgrade_type=2 - level)])
        cluster.apply(update_features(cluster.controller, request, 2).records)
    assert (cluster.image.features[ELR_VERSION], topic.partitions[0].elr) == (1, ())


def test_the_quorum_goes_up_and_never_down() -> None:
    controller = Cluster().controller

    def decided(level: int, upgrade_type: int, *, validate_only: bool = False) -> tuple[int, int]:
        update = FeatureUpdateKey("kraft.version", level, upgrade_type=upgrade_type)
        decision = update_features(controller, UpdateFeaturesRequest(0, [update], validate_only), 2)
        assert decision.records == []  # it is no feature among the metadata
        return decision.reply.error_code, decision.kraft_version

    assert decided(0, UpgradeType.UNSAFE_DOWNGRADE) == decided(1, UpgradeType.UPGRADE, validate_only=True) == (0, 0)
    assert decided(1, UpgradeType.UPGRADE) == (0, 1)
    assert decided(2, UpgradeType.UPGRADE) == (ErrorCode.INVALID_UPDATE_VERSION, 0)
    controller.kraft_version = 1
    assert decided(1, UpgradeType.UPGRADE) == (0, 0)
    assert decided(0, UpgradeType.UNSAFE_DOWNGRADE) == (ErrorCode.INVALID_UPDATE_VERSION, 0)


def test_a_quota_is_removed_by_any_order_of_its_entity() -> None:
    cluster = Cluster()

    def request(remove: bool, *entity: tuple[str, str | None]) -> AlterClientQuotasRequest:
        parts = [EntityData(kind, name) for kind, name in entity]
        return AlterClientQuotasRequest([EntryData(parts, [OpData("request_percentage", 2.5, remove)])])

    cluster.do(alter_client_quotas(cluster.controller, request(False, ("user", "u"), ("client-id", None))))
    assert cluster.image.client_quotas == {(("client-id", None), ("user", "u")): {"request_percentage": 2.5}}
    cluster.do(alter_client_quotas(cluster.controller, request(True, ("client-id", None), ("user", "u"))))
    assert cluster.image.client_quotas == {}


def test_an_entity_that_comes_twice_is_told_as_kafka_tells_it() -> None:
    """The first entry counts, in any order of its parts (Apache Kafka 4.4.0)."""
    cluster = Cluster()
    parts = EntityData("user", "u"), EntityData("client-id", None)
    request = AlterClientQuotasRequest(
        [
            EntryData([*parts], [OpData("producer_byte_rate", 100.0)]),
            EntryData([*reversed(parts)], [OpData("consumer_byte_rate", 200.0)]),
        ]
    )
    (entry,) = cluster.do(alter_client_quotas(cluster.controller, request)).entries
    assert entry.error_message == "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=<default>, user=u})"
    assert [part.entity_type for part in entry.entity] == ["client-id", "user"]
    assert cluster.image.client_quotas == {(("client-id", None), ("user", "u")): {"producer_byte_rate": 100.0}}
