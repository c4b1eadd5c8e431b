"""Differences that a client without some right has shown, and that are repaired. Rule: as in `found.py`; who prepares
something for the client does it on a connection of its own.
"""

from __future__ import annotations

from typing import Any

from interop.differential.asking import (
    ACCEPT,
    IN_TIME,
    alter,
    create,
    elected,
    grown,
    heartbeat,
    in_no_time,
    moved,
    new,
    produce,
    records,
    share_fetch,
    share_join,
)
from interop.differential.making.acls import allowed, by_the_preparer
from interop.differential.steps import Step, of
from pykafka_broker.cluster.authorizer import CLUSTER_NAME
from pykafka_broker.protocol.enums import AclOperation, AclResourceType

BROKER, CLIENT_METRICS, SET, DELETE = 4, 16, 0, 1
NO_ID, UNKNOWN_ID = {"hex": "00" * 16}, of("topic_id zz")
GROUPS = allowed(AclResourceType.GROUP, "*", AclOperation.ALL)


def find(kind: int, version: int, *keys: str) -> Step:
    key: dict[str, Any] = {"coordinator_keys": [*keys]} if version >= 4 else {"key": keys[0]}
    return Step("FindCoordinator", version, {"key_type": kind, **key})


def commit(version: int, **topic: Any) -> Step:
    partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}]
    return Step("OffsetCommit", version, {"group_id": "§g", "topics": [{**topic, "partitions": partitions}]})


def fetch_offsets(version: int, *topics: dict[str, Any], **member: Any) -> Step:
    asked = [{**topic, "partition_indexes": [0]} for topic in topics]
    return Step("OffsetFetch", version, {"groups": [{"group_id": "§g", "topics": asked, **member}]})


def commit_nothing(version: int) -> Step:
    fields = {"transactional_id": "§x", "group_id": "§g", "producer_id": 1, "producer_epoch": 0, "topics": []}
    return Step("TxnOffsetCommit", version, fields)


def replace(name: str, **configs: str) -> Step:
    settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    resources = [{"resource_type": BROKER, "resource_name": name, "configs": settings}]
    return Step("AlterConfigs", 2, {"resources": resources, "validate_only": True})


def metrics(**configs: str) -> Step:
    settings = tuple((key.replace("_", "."), SET, value) for key, value in configs.items())
    return alter(CLIENT_METRICS, "§m", *settings)


MIN_INSYNC = "min.insync.replicas"
CONTROLLERS = [
    alter(BROKER, "", (MIN_INSYNC, DELETE, "")), alter(BROKER, "1", (MIN_INSYNC, SET, "1")),
    alter(BROKER, "1", (MIN_INSYNC, SET, "x")), replace(""), replace("1", min_insync_replicas="1"),
    replace("1", min_insync_replicas="1", num_partitions="x"),
]  # fmt: skip
TOPIC, METADATA = AclResourceType.TOPIC, "__cluster_metadata"
A, BY_ID, OPEN = {"name": "§a"}, {"name": None, "topic_id": of("topic_id a")}, {"name": "§open"}
CHANGES = {
    "CreateTopics": [new("§b"), new("§b", "§b", METADATA), new("§open", "§b"), new("§open", "§open", "§b"), new()],
    "DeleteTopics": [{"topics": topics} for topics in ([A], [BY_ID], [A, A], [OPEN, A], [])],
    "CreatePartitions": [grown("§a"), grown("§a", "§a"), grown("§open", "§a"), grown("§open", "§open", "§a"), grown()],
    "ElectLeaders": [elected("§a"), elected(), {"topic_partitions": None}],
    "AlterPartitionReassignments": [moved("§a"), moved()],
}
FOUND: dict[str, list[Step]] = {
    "coordinators-of-shares-are-refused-in-words": [
        *(find(kind, version, "§g") for kind in (0, 1, 2) for version in (3, 5, 6)), find(2, 6, "§g:nobody:0"),
    ],
    "the-metadatas-topic-is-out-of-bounds-for-everybody": [create("__cluster_metadata"), create("§a", "a b")],
    "transactions-without-a-name-need-a-right": [
        Step("DescribeTransactions", 0, {"transactional_ids": ["", "§x"]}),
        allowed(AclResourceType.TRANSACTIONAL_ID, "*", AclOperation.DESCRIBE),
        Step("DescribeTransactions", 0, {"transactional_ids": ["", "§x"]}),
    ],
    "offsets-of-a-topic-without-a-name": [
        by_the_preparer(create("§a")), GROUPS, *(commit(version, name="") for version in (2, 9)),
        *(commit(10, topic_id=one) for one in (NO_ID, UNKNOWN_ID, of("topic_id a"))),
        *(fetch_offsets(10, {"topic_id": one}) for one in (NO_ID, UNKNOWN_ID, of("topic_id a"))),
        fetch_offsets(9, {"name": ""}),
    ],
    "a-refused-member-is-told-of-no-topics": [
        by_the_preparer(create("§a")), GROUPS, by_the_preparer(heartbeat("m" * 22)),
        *(fetch_offsets(version, {"name": "§a", "topic_id": of("topic_id a")}, member_id=member, member_epoch=77)
          for version in (9, 10) for member in ("m" * 22, "nobody")),
    ],
    "no-offsets-into-a-transaction": [*map(commit_nothing, (0, 5)), GROUPS, commit_nothing(5)],
    "a-topic-without-partitions": [
        by_the_preparer(create("§a", "§b")),
        *(Step("Produce", version, {"acks": acks, "timeout_ms": 10_000, "topic_data": [
            {"name": "§a", "topic_id": of("topic_id a"), "partition_data": []},
            {"name": "§b", "topic_id": of("topic_id b"), "partition_data": [
                {"index": 0, "records": {"batches": [records()]}}] * full},
        ]}) for version in (3, 13) for acks in (1, -1) for full in (0, 1)),
        produce(records()),
    ],
    "what-a-controller-finds-wrong-is-for-those-with-the-right": [
        *CONTROLLERS, allowed(AclResourceType.CLUSTER, CLUSTER_NAME, AclOperation.ALTER_CONFIGS), *CONTROLLERS,
    ],
    "rights-for-changes-that-a-controller-is-given-no-time-for": [
        by_the_preparer(create("§a")), *(step for api in IN_TIME for step in in_no_time(api, *CHANGES[api])),
        *(allowed(TOPIC, "§open", operation) for operation in (
            AclOperation.CREATE, AclOperation.ALTER, AclOperation.DELETE)), allowed(TOPIC, "§a", AclOperation.DESCRIBE),
        *(step for api in [*IN_TIME][:3] for step in in_no_time(api, *CHANGES[api])),
    ],
    "topics-without-partitions-are-named-in-a-refusal": [
        by_the_preparer(create("§a", "§b")),
        *(Step("ElectLeaders", version, {"topic_partitions": [
            {"topic": "§a", "partitions": []}, {"topic": "§b", "partitions": [0]}]}) for version in (0, 2)),
        Step("AlterPartitionReassignments", 1, {"topics": [{"name": "§a", "partitions": []}, *moved("§b")["topics"]]}),
        *(Step(api, 0, {"group_id": "§g", "topics": [
            {"topic_id": of("topic_id a"), "partitions": []},
            {"topic_id": of("topic_id b"), "partitions": [{"partition": 0}]}]}) for api in (
                "InitializeShareGroupState", "ReadShareGroupState", "ReadShareGroupStateSummary")),
    ],
    "a-share-fetch-of-an-unknown-kind-that-reads-nothing-it-may": [
        by_the_preparer(create("§a")), GROUPS, share_join("§a"), share_fetch(0, "§a", max_wait_ms=100),
        share_fetch(1, "§a", parts={0: ((0, 0, ACCEPT),)}, share_acquire_mode=2, max_wait_ms=100),
        allowed(AclResourceType.TOPIC, "§a", AclOperation.READ), share_fetch(2, share_acquire_mode=2, max_wait_ms=100),
    ],
    "two-wrong-values-of-a-metrics-subscription": [
        allowed(AclResourceType.CLUSTER, CLUSTER_NAME, AclOperation.ALL), metrics(match="x=y", interval_ms="1"),
        metrics(interval_ms="1", match="x=y"), metrics(match="x=y", interval_ms="100"),
    ],
}  # fmt: skip
