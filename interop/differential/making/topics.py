"""Topics and partitions: made, described, grown, deleted, moved."""

from __future__ import annotations

from typing import Any

from interop.differential.making.maker import Area, Maker
from interop.differential.steps import Step, of

CONFIGS = {
    "cleanup.policy": [
        "compact",
        "delete",
        "compact,delete",
        "delete,compact",
        " compact",
        "",
        "none",
        "shred",
        "compact,",
    ],
    "compression.type": ["gzip", "producer", "lz4", "GZIP", "uncompressed", "zip"],
    "compression.gzip.level": ["-1", "9", "10", "0"],
    "retention.ms": ["-1", "-2", "0", "5000", "9223372036854775807", "9223372036854775808", " 7", "1e3", ""],
    "retention.bytes": ["-1", "1000000", "-5"],
    "segment.bytes": ["1048576", "14", "13", "2147483647", "2147483648", "1"],
    "segment.ms": ["60000", "0", "1", "-1"],
    "segment.jitter.ms": ["0", "-1", "10"],
    "segment.index.bytes": ["10485760", "3", "4", "0"],
    "max.message.bytes": ["500", "0", "-1", "1048588"],
    "min.insync.replicas": ["1", "0", "2", "x"],
    "message.timestamp.type": ["CreateTime", "LogAppendTime", "logappendtime", "Never"],
    "message.timestamp.before.max.ms": ["0", "-1", "9223372036854775807"],
    "message.timestamp.after.max.ms": ["3600000", "-1"],
    "min.cleanable.dirty.ratio": ["0.5", "1.1", "-0.1", "0", "NaN", "abc"],
    "delete.retention.ms": ["0", "-1", "100"],
    "file.delete.delay.ms": ["0", "-1"],
    "flush.messages": ["1", "0", "100"],
    "flush.ms": ["0", "-1", "1000"],
    "index.interval.bytes": ["0", "-1", "4096"],
    "max.compaction.lag.ms": ["1", "0", "-1"],
    "min.compaction.lag.ms": ["0", "-1", "10"],
    "preallocate": ["true", "TRUE", "yes", "false", "1", ""],
    "unclean.leader.election.enable": ["true", "false", "maybe"],
    "remote.storage.enable": ["true", "false"],
    "local.retention.ms": ["-2", "-1", "-3", "100"],
    "local.retention.bytes": ["-2", "-3", "5"],
    "remote.log.copy.disable": ["true", "false"],
    "remote.log.delete.on.disable": ["true", "false"],
    "leader.replication.throttled.replicas": ["*", "0:1", "0:1,1:1", "x", "0"],
    "follower.replication.throttled.replicas": ["*", "", "0:1", ":"],
    "message.downconversion.enable": ["true"],
    "message.format.version": ["2.8"],
    "no.such.key": ["1"],
    "log.retention.ms": ["1"],
    "RETENTION.MS": ["1"],
    "errors.deadletterqueue.group.enable": ["true", "x"],
    "": ["1"],
}
NAMES = ["§d", "§e", "§f", "§g.h", "§g_h", "§a"]
BAD_NAMES = ["", ".", "..", "a b", "§/", "é§", "§" + "x" * 250, "__cluster_metadata", "__share_group_state§"]


def config_value(maker: Maker) -> tuple[str, str | None]:
    name = maker.one(*CONFIGS)
    return name, maker.mostly(maker.value(CONFIGS[name]), None, share=0.95)


def start(maker: Maker) -> list[Step]:
    made = [
        {"name": "§a", "num_partitions": 2, "replication_factor": 1},
        {"name": "§b", "num_partitions": 1, "replication_factor": 1},
        {"name": "§c", "num_partitions": 6, "replication_factor": 1},
    ]
    return maker.step("CreateTopics", {"topics": made, "timeout_ms": 30_000}, version=7)


def new_topic(maker: Maker) -> dict[str, Any]:
    topic: dict[str, Any] = {
        "name": maker.mostly(maker.one(*NAMES), *BAD_NAMES),
        "num_partitions": maker.mostly(maker.one(1, 2, 3), -1, 0, -2),
        "replication_factor": maker.mostly(1, -1, 0, 2, -2, 32767),
    }
    if maker.often(0.4):
        topic["configs"] = [
            dict(zip(("name", "value"), config_value(maker), strict=True)) for _ in range(maker.one(1, 1, 2))
        ]
    if maker.often(0.12):
        topic["assignments"] = [
            {
                "partition_index": maker.mostly(i, i + 1, -1),
                "broker_ids": maker.mostly([1], [], [1, 1], [2], [1, 2], [-1]),
            }
            for i in range(maker.one(1, 2))
        ]
        if maker.often(0.8):
            topic |= {"num_partitions": -1, "replication_factor": -1}
    return topic


def create(maker: Maker) -> list[Step]:
    made = [new_topic(maker) for _ in range(maker.one(1, 1, 2))]
    return maker.step(
        "CreateTopics",
        {"topics": made, "timeout_ms": maker.mostly(30_000, share=1), "validate_only": maker.often(0.15)},
    )


def delete(maker: Maker) -> list[Step]:
    version = maker.version("DeleteTopics")
    names = [maker.mostly(maker.one(*NAMES[:-1]), "§none", "a b", "", "§b") for _ in range(maker.one(1, 1, 2))]
    if version < 6:
        return maker.step("DeleteTopics", {"topic_names": names, "timeout_ms": 30_000}, version=version)
    states: list[dict[str, Any]] = []
    for name in names:
        by_id = {"topic_id": of("topic_id " + name.removeprefix("§"))}
        states.append(maker.one({"name": name}, {"name": name}, by_id, maker.mostly(by_id, {"name": name} | by_id, {})))
    return maker.step("DeleteTopics", {"topics": states, "timeout_ms": 30_000}, version=version)


def grow(maker: Maker) -> list[Step]:
    topic: dict[str, Any] = {
        "name": maker.one(maker.topic(), "§d", "§e"),
        "count": maker.mostly(maker.one(2, 3, 4), 0, -1, 1),
    }
    topic["assignments"] = maker.mostly(
        None,
        [{"broker_ids": [1]}],
        [],
        [{"broker_ids": []}],
        [{"broker_ids": [2]}],
        [{"broker_ids": [1]}] * 2,
        share=0.7,
    )
    topics = [topic] * maker.mostly(1, 2, share=0.95)
    return maker.step("CreatePartitions", {"topics": topics, "timeout_ms": 30_000, "validate_only": maker.often(0.2)})


def metadata(maker: Maker) -> list[Step]:
    version = maker.version("Metadata")
    asked: list[dict[str, Any]] = []
    for _ in range(maker.one(1, 2)):
        name = maker.one(maker.topic(), *NAMES)
        by_id = version >= 10 and maker.often(0.3)
        asked.append({"topic_id": of("topic_id " + name.removeprefix("§")), "name": None} if by_id else {"name": name})
        if version >= 12 and by_id and maker.often(0.1):
            asked[-1]["name"] = name
    fields: dict[str, Any] = {"topics": asked, "allow_auto_topic_creation": maker.often(0.15)}
    if version >= 8:
        fields["include_topic_authorized_operations"] = maker.often(0.5)
    if 8 <= version <= 10:
        fields["include_cluster_authorized_operations"] = maker.often(0.5)
    if version < 4:
        del fields["allow_auto_topic_creation"]
    return maker.step("Metadata", fields, version=version)


def describe(maker: Maker) -> list[Step]:
    # To an empty name Kafka answers that it does not know what is wrong, for all topics.
    topics = [{"name": maker.one(maker.topic() or "§a", "§d", "§e")} for _ in range(maker.one(1, 2, 3))]
    fields: dict[str, Any] = {"topics": topics}
    if maker.often(0.4):
        fields["response_partition_limit"] = maker.mostly(maker.one(1, 2, 3), 0, -1)
    if maker.often(0.3):
        fields["cursor"] = {
            "topic_name": maker.topic() or "§a",
            "partition_index": maker.mostly(maker.one(0, 1, 2), 9, -1),
        }
    return maker.step("DescribeTopicPartitions", fields)


def elect(maker: Maker) -> list[Step]:
    partitions = [{"topic": maker.topic(), "partitions": [maker.partition()]} for _ in range(maker.one(1, 2))]
    fields: dict[str, Any] = {"topic_partitions": partitions, "timeout_ms": 10_000}
    version = maker.version("ElectLeaders")
    if version:
        fields["election_type"] = maker.mostly(maker.one(0, 1), 2, -1, share=0.95)
    return maker.step("ElectLeaders", fields, version=version)


def reassign(maker: Maker) -> list[Step]:
    if maker.often(0.3):
        topics = maker.one([{"name": maker.topic(), "partition_indexes": [maker.partition()]}], None, [])
        return maker.step("ListPartitionReassignments", {"topics": topics, "timeout_ms": 10_000})
    moved = {"partition_index": maker.partition(), "replicas": maker.one([1], None, [], [1, 1], [2], [-1], [1, 2])}
    fields = {"topics": [{"name": maker.topic(), "partitions": [moved]}], "timeout_ms": 10_000}
    return maker.step("AlterPartitionReassignments", fields)


AREA = Area(start, [(create, 6), (delete, 4), (grow, 4), (metadata, 6), (describe, 4), (elect, 1), (reassign, 2)])
