"""A cluster whose nodes log in at each other, and whose clients have rights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from pykafka_broker.testing import KafkaCluster

pytestmark = pytest.mark.ours_only
PATIENCE_S = 60.0
MODULE = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="node" password="node-secret" user_node="node-secret" user_alice="alice-secret";'
)
EVERYBODY = {
    "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,INSIDE:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.inside.plain.sasl.jaas.config": MODULE,
    "listener.name.controller.plain.sasl.jaas.config": MODULE,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:node",
}
OF_BROKERS = {"listeners": "INSIDE://127.0.0.1:0", "inter.broker.listener.name": "INSIDE"}


def client(cluster: KafkaCluster, user: str) -> dict[str, str | int | float | bool]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
        "log_level": 0,
    }


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(3, config=EVERYBODY, configs=dict.fromkeys((1, 2, 3), OF_BROKERS)) as running:
        yield running


def produced(cluster: KafkaCluster, user: str, topic: str) -> KafkaError | None:
    """Produce one record as the user; return its error, None for success."""
    told: list[KafkaError | None] = []
    producer = Producer(client(cluster, user) | {"acks": "all", "delivery.timeout.ms": int(PATIENCE_S * 1000)})
    try:
        producer.produce(topic, b"x", on_delivery=lambda error, _: told.append(error))
    except KafkaException as refused:  # the metadata came before the record
        told.append(refused.args[0])
    assert producer.flush(PATIENCE_S) == 0
    return told[0]


def test_replicas_follow_over_connections_that_log_in(cluster: KafkaCluster) -> None:
    admin = AdminClient(client(cluster, "node"))
    admin.create_topics([NewTopic("safe", 3, 3)])["safe"].result(PATIENCE_S)
    for partition in range(3):
        cluster.wait_for_isr("safe", partition, size=3)
    assert produced(cluster, "node", "safe") is None


def test_who_asks_is_known_where_the_controller_decides(cluster: KafkaCluster) -> None:
    admin = AdminClient(client(cluster, "alice"))
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic("hers", 1, 3)])["hers"].result(PATIENCE_S)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_right_counts_on_all_brokers(cluster: KafkaCluster) -> None:
    admin = AdminClient(client(cluster, "node"))
    for future in admin.create_topics([NewTopic("granted", 3, 3)]).values():
        future.result(PATIENCE_S)
    error = produced(cluster, "alice", "granted")
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    binding = AclBinding(
        ResourceType.TOPIC,
        "granted",
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    for future in admin.create_acls([binding]).values():
        future.result(PATIENCE_S)
    cluster.wait_for_metadata(PATIENCE_S)
    assert produced(cluster, "alice", "granted") is None


def test_nothing_of_it_is_in_a_log(cluster: KafkaCluster) -> None:
    for node in cluster.nodes.values():
        assert "secret" not in node.log
        assert "Traceback" not in node.log
