"""Configs of topics, brokers, groups and client metrics: described, altered, refused."""

from __future__ import annotations

from typing import Any

from interop.differential.making import topics
from interop.differential.making.maker import Area, Maker
from interop.differential.steps import Step

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
BROKER_CONFIGS = {
    "log.cleaner.threads": ["2", "0", "x", "1"],
    "log.retention.ms": ["60000", "-1", "x"],
    "log.retention.hours": ["5"],
    "message.max.bytes": ["2000000", "-1"],
    "num.partitions": ["3"],
    "max.connections": ["1000", "-1"],
    "max.connections.per.ip": ["-1", "500"],
    "compression.type": ["gzip", "producer", "zip"],
    "min.insync.replicas": ["1", "0"],
    "num.io.threads": ["8", "0", "100"],
    "num.network.threads": ["3", "1000"],
    "background.threads": ["10", "0"],
    "log.flush.interval.messages": ["1000", "0"],
    "node.id": ["9", "1"],
    "broker.id": ["9"],
    "log.dirs": ["/elsewhere"],
    "auto.create.topics.enable": ["false"],
    "zookeeper.connect": ["x"],
    "no.such.key": ["1"],
    "log.segment.bytes": ["1073741824", "1"],
    "log.cleaner.dedupe.buffer.size": ["134217728", "1"],
    "log.cleaner.io.buffer.load.factor": ["0.9", "x"],
    "log.message.timestamp.type": ["CreateTime", "Never"],
    "transaction.partition.verification.enable": ["true", "x"],
    "producer.id.expiration.ms": ["86400000", "0"],
    "group.initial.rebalance.delay.ms": ["3"],
    "offsets.topic.num.partitions": ["3"],
    "ssl.keystore.location": ["/none"],
    "leader.replication.throttled.rate": ["1000", "-1"],
    "unclean.leader.election.enable": ["true", "x"],
    "principal.builder.class": ["x"],
    "metric.reporters": ["", "x.y"],
    "sasl.jaas.config": ["x"],
    "log.local.retention.ms": ["-2", "5"],
    "remote.log.manager.copy.max.bytes.per.second": ["5", "0"],
    "errors.deadletterqueue.topic.name.prefix": ["dlq.", "", "x"],
    "errors.deadletterqueue.auto.create.topics.enable": ["true", "x"],
}
GROUP_CONFIGS = {
    "consumer.session.timeout.ms": ["45000", "1", "60000", "x"],
    "consumer.heartbeat.interval.ms": ["5000", "1", "100000"],
    "share.session.timeout.ms": ["45000", "1"],
    "share.heartbeat.interval.ms": ["5000", "1"],
    "share.record.lock.duration.ms": ["30000", "1"],
    "share.auto.offset.reset": ["earliest", "latest", "by_duration:PT1H", "x", "by_duration:"],
    "share.isolation.level": ["read_committed", "x"],
    "share.delivery.count.limit": ["5", "0", "100"],
    "share.renew.acknowledge.enable": ["true", "x"],
    "errors.deadletterqueue.topic.name": ["", "dlq.a", "__a", "a b"],
    "errors.deadletterqueue.copy.record.enable": ["true", "x"],
    "streams.session.timeout.ms": ["45000", "1"],
    "streams.heartbeat.interval.ms": ["5000", "1"],
    "streams.num.standby.replicas": ["1", "-1", "100"],
    "no.such.key": ["1"],
}
METRICS_CONFIGS = {
    "interval.ms": ["1000", "1", "x"],
    "metrics": ["org.apache", "*", ""],
    "match": ["client_id=.*", "x=y", "client_id=["],
    "no.such.key": ["1"],
}
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def resource(maker: Maker) -> tuple[int, str, dict[str, list[str]]]:
    """Return a resource's kind, its name and the configs that can be set there."""
    return maker.mostly(
        (TOPIC, maker.topic(), topics.CONFIGS),
        (BROKER, maker.mostly("1", "", "", "2", "x"), BROKER_CONFIGS),
        (BROKER, maker.mostly("1", "", "", "2", "x"), BROKER_CONFIGS),
        (GROUP, maker.mostly("§g", ""), GROUP_CONFIGS),
        (CLIENT_METRICS, maker.mostly("§m", ""), METRICS_CONFIGS),
        (maker.one(99, 0, 1, 3), "§a", topics.CONFIGS),
        share=0.5,
    )


def start(maker: Maker) -> list[Step]:
    return topics.start(maker)


def describe(maker: Maker) -> list[Step]:
    kind, name, configs = resource(maker)
    keys: list[str] | None = maker.mostly(maker.some([*configs]), [], ["no.such.key"], ["RETENTION.MS"])
    if kind in (TOPIC, GROUP, CLIENT_METRICS) and maker.often(0.2):
        keys = None
    if kind == BROKER and not keys:  # no keys means all, and some of a broker's configs belong to the machine
        keys = ["num.partitions"]
    asked = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    version = maker.version("DescribeConfigs")
    fields: dict[str, Any] = {"resources": [asked] * maker.mostly(1, 2, share=0.95)}
    if version >= 1:
        fields["include_synonyms"] = maker.often(0.6)
    if version >= 3:
        fields["include_documentation"] = maker.often(0.2)
    return maker.step("DescribeConfigs", fields, version=version)


def incremental(maker: Maker) -> list[Step]:
    kind, name, configs = resource(maker)
    changes = []
    for _ in range(maker.one(1, 1, 1, 2)):
        key = maker.one(*configs)
        value = maker.mostly(maker.value(configs[key]), None, "x,y", share=0.93)
        operation = maker.mostly(SET, DELETE, APPEND, SUBTRACT, 9, -1, share=0.6)
        if operation == DELETE and maker.often():
            value = None
        changes.append({"name": key, "config_operation": operation, "value": value})
    asked = {"resource_type": kind, "resource_name": name, "configs": changes}
    fields = {"resources": [asked], "validate_only": maker.often(0.15)}
    return maker.step("IncrementalAlterConfigs", fields)


def replace(maker: Maker) -> list[Step]:
    kind, name, configs = resource(maker)
    changes = []
    for key in maker.some([*configs], 2):
        changes.append({"name": key, "value": maker.mostly(maker.value(configs[key]), None, share=0.93)})
    asked = {"resource_type": kind, "resource_name": name, "configs": changes}
    fields = {"resources": [asked], "validate_only": maker.often(0.3)}
    return maker.step("AlterConfigs", fields)


def list_resources(maker: Maker) -> list[Step]:
    version = maker.version("ListConfigResources")
    kinds = maker.one([CLIENT_METRICS], [GROUP], [BROKER], [99], [BROKER_LOGGER]) if version else []
    return maker.step("ListConfigResources", {"resource_types": kinds}, version=version)


def describe_again(maker: Maker) -> list[Step]:
    """Describe the configs of the topic that earlier steps may have changed."""
    asked = {"resource_type": TOPIC, "resource_name": "§a", "configuration_keys": None}
    return maker.step("DescribeConfigs", {"resources": [asked], "include_synonyms": True}, version=4)


AREA = Area(
    start,
    [(describe, 4), (incremental, 10), (replace, 4), (list_resources, 1), (describe_again, 2), (topics.create, 2)],
)
