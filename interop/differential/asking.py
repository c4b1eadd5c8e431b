"""Requests in short, for sequences that are written by hand. Rule: what is not said is as a client would have it."""

from __future__ import annotations

from typing import Any

from interop.differential.steps import STAMP, Step, of

OLD, FUTURE = 1_000, 4_000_000_000_000
Fields = dict[str, Any]


def create(*names: str, **configs: str) -> Step:
    settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topics = [{"name": n, "num_partitions": 2, "replication_factor": 1, "configs": settings} for n in names]
    return Step("CreateTopics", 7, {"topics": topics, "timeout_ms": 10_000})


def sized(**counts: int) -> Step:
    """Topics with so many partitions."""
    topics = [{"name": "§" + name, "num_partitions": n, "replication_factor": 1} for name, n in counts.items()]
    return Step("CreateTopics", 7, {"topics": topics, "timeout_ms": 10_000})


def produce(batch: Fields | None, topic: str = "§a", version: int = 9, **fields: Any) -> Step:
    """`batch` None is no batch at all, which is not the same as null."""
    data = [{"index": 0, "records": {"batches": [] if batch is None else [batch]}}]
    topics = [{"name": topic, "topic_id": of("topic_id " + topic[1:]), "partition_data": data}]
    return Step("Produce", version, {"acks": -1, "timeout_ms": 10_000, "topic_data": topics, **fields})


def produce_to(version: int, batches: dict[str, dict[int, list[Fields]]]) -> Step:
    topics = [
        {"name": name, "topic_id": of("topic_id " + name[1:]), "partition_data": [
            {"index": number, "records": {"batches": some}} for number, some in partitions.items()
        ]} for name, partitions in batches.items()
    ]  # fmt: skip
    return Step("Produce", version, {"acks": -1, "timeout_ms": 10_000, "topic_data": topics})


def records(*stamps: int, **more: Any) -> Fields:
    return {"records": [["k", f"v{i}", stamp] for i, stamp in enumerate(stamps or (STAMP, STAMP))], **more}


def transactional(topic: str, sequence: int, *stamps: int, version: int = 13, bump: int = 0) -> Step:
    producer = [of("producer_id x"), of("producer_epoch x", bump), sequence]
    batch = records(*stamps, producer=producer, transactional=True)
    return produce(batch, topic, version, transactional_id="§x")


def idempotent(sequence: int) -> Fields:
    return records(producer=[of("producer_id x"), of("producer_epoch x"), sequence])


def init(keep: str = "x") -> Step:
    fields = {"transactional_id": "§" + keep, "transaction_timeout_ms": 60_000}
    return Step("InitProducerId", 4, fields, keep=keep)


def join_transaction(topic: str) -> Step:
    producer = {"v3_and_below_producer_id": of("producer_id x"), "v3_and_below_producer_epoch": of("producer_epoch x")}
    topics = {"v3_and_below_topics": [{"name": topic, "partitions": [0]}]}
    return Step("AddPartitionsToTxn", 3, {"v3_and_below_transactional_id": "§x", **producer, **topics})


def end_transaction(committed: bool) -> Step:
    producer = {"producer_id": of("producer_id x"), "producer_epoch": of("producer_epoch x")}
    return Step("EndTxn", 3, {"transactional_id": "§x", **producer, "committed": committed})


def fetch(topic: str = "§a", version: int = 17, keep: str = "", partition: Fields | None = None, **fields: Any) -> Step:
    one = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000_000, **(partition or {})}
    topics = [{"topic": topic, "topic_id": of("topic_id " + topic[1:]), "partitions": [one]}]
    return Step("Fetch", version, {"max_wait_ms": 0, "min_bytes": 0, "topics": topics, **fields}, keep=keep)


def delete(*names: str) -> Step:
    return Step("DeleteTopics", 5, {"topic_names": [*names], "timeout_ms": 10_000})


def part(topic: str = "§a", partition: int = 0, **more: Any) -> Fields:
    one = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1_000_000, **more}
    return {"topic": topic, "topic_id": of("topic_id " + topic[1:]), "partitions": [one]}


def session(version: int, number: int, *topics: Fields, forget: int | None = None) -> Step:
    """The fetch with that number of a session; 0 opens it. `forget` is a partition of §a."""
    fields: Fields = {"max_wait_ms": 0, "min_bytes": 0, "session_epoch": number, "topics": [*topics]}
    if number:
        fields["session_id"] = of("session_id s")
    if forget is not None:
        fields["forgotten_topics_data"] = [{"topic": "§a", "topic_id": of("topic_id a"), "partitions": [forget]}]
    return Step("Fetch", version, fields, keep="" if number else "s")


def commit_for(retention_ms: int, version: int = 2, **fields: Any) -> Step:
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": "m"}
    topics = [{"name": "§a", "partitions": [partition]}]
    asked = {"group_id": "§g", "topics": topics, "retention_time_ms": retention_ms}
    return Step("OffsetCommit", version, asked | fields)


def elect(kind: int, *partitions: int) -> Step:
    topics = [{"topic": "§a", "partitions": [*partitions]}] if partitions else []
    return Step("ElectLeaders", 2, {"topic_partitions": topics, "timeout_ms": 10_000, "election_type": kind})


IN_TIME = {
    "CreateTopics": 7, "DeleteTopics": 6, "CreatePartitions": 3, "ElectLeaders": 2, "AlterPartitionReassignments": 1,
}  # fmt: skip


def in_no_time(api: str, *requests: Fields) -> list[Step]:
    """Requests for changes that a controller is given no time for."""
    return [Step(api, IN_TIME[api], {**one, "timeout_ms": ms}) for one in requests for ms in (0, -1)]


def new(*names: str, **more: Any) -> Fields:
    return {"topics": [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names], **more}


def grown(*names: str, **more: Any) -> Fields:
    return {"topics": [{"name": name, "count": 9} for name in names], **more}


def moved(*names: str) -> Fields:
    return {"topics": [{"name": name, "partitions": [{"partition_index": 0, "replicas": [1]}]} for name in names]}


def elected(*names: str, **more: Any) -> Fields:
    return {"topic_partitions": [{"topic": name, "partitions": [0]} for name in names], **more}


def list_offsets(timestamp: int, partition: int = 0, version: int = 11, epoch: int = -1) -> Step:
    asked = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": epoch}
    topics = [{"name": "§a", "partitions": [asked]}]
    return Step("ListOffsets", version, {"replica_id": -1, "topics": topics})


def leader_epoch(epoch: int, current: int = -1) -> Step:
    asked = {"partition": 0, "leader_epoch": epoch, "current_leader_epoch": current}
    return Step("OffsetForLeaderEpoch", 4, {"replica_id": -1, "topics": [{"topic": "§a", "partitions": [asked]}]})


def delete_records(*offsets: int) -> Step:
    partitions = [{"partition_index": 0, "offset": offset} for offset in offsets]
    return Step("DeleteRecords", 2, {"topics": [{"name": "§a", "partitions": partitions}], "timeout_ms": 10_000})


def alter(kind: int, name: str, *changes: tuple[str, int, str]) -> Step:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
    return Step("IncrementalAlterConfigs", 1, {"resources": resources, "validate_only": True})


def protocols(*names: str) -> list[Fields]:
    return [{"name": name, "metadata": {"subscription": ["§a"]}} for name in names]


def join(name: str, member: Any, version: int = 9, **fields: Any) -> Step:
    asked = {"group_id": "§g", "session_timeout_ms": 30_000, "rebalance_timeout_ms": 60_000, "member_id": member}
    asked |= {"protocol_type": "consumer", "protocols": protocols("range"), **fields}
    return Step("JoinGroup", version, asked, on=name, keep=name)


def heartbeat(member: str, **fields: Any) -> Step:
    asked = {"group_id": "§g", "member_id": member, "member_epoch": 0, "rebalance_timeout_ms": 60_000}
    return Step(
        "ConsumerGroupHeartbeat", 1, asked | {"subscribed_topic_names": ["§a"], "topic_partitions": []} | fields
    )


def streams_heartbeat(member: str, **fields: Any) -> Step:
    topology = {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": ["§a"]}]}
    asked = {
        "group_id": "§g", "member_id": member, "member_epoch": 0, "endpoint_information_epoch": -1,
        "rebalance_timeout_ms": 60_000, "topology": topology, "process_id": "process-" + member[0], "client_tags": [],
        "active_tasks": [], "standby_tasks": [], "warmup_tasks": [],
    }  # fmt: skip
    return Step("StreamsGroupHeartbeat", 1, asked | fields)


def application(*subtopologies: Fields) -> Step:
    """The first member of a streams group; ids of the subtopologies count from 0 if they have none."""
    parts = [{"subtopology_id": str(i), **one} for i, one in enumerate(subtopologies)]
    return streams_heartbeat("m" * 22, topology={"epoch": 0, "subtopologies": parts})


def inner(topic: str, partitions: int = 0) -> Fields:
    return {"name": topic, "partitions": partitions, "replication_factor": 0, "topic_configs": []}


def share_join(*topics: str) -> Step:
    fields = {"group_id": "§g", "member_id": "m" * 22, "member_epoch": 0, "subscribed_topic_names": [*topics]}
    return Step("ShareGroupHeartbeat", 1, fields, keep="m")


Acks = tuple[tuple[int, int, int], ...]  # first and last offset, and what becomes of them
ACCEPT, RELEASE = 1, 2


def share_parts(parts: dict[int, Acks]) -> list[Fields]:
    return [
        {"partition_index": number}
        | ({"acknowledgement_batches": [
            {"first_offset": first, "last_offset": last, "acknowledge_types": [kind]} for first, last, kind in acks
        ]} if acks else {})
        for number, acks in parts.items()
    ]  # fmt: skip


def share_fetch(number: int, *topics: str, parts: dict[int, Acks] | None = None, **more: Any) -> Step:
    partitions = share_parts(parts or {0: ()})
    wanted = [{"topic_id": of("topic_id " + topic[1:]), "partitions": partitions} for topic in topics]
    fields = {"group_id": "§g", "member_id": "m" * 22, "share_session_epoch": number, "max_wait_ms": 2000}
    fields |= {"min_bytes": 1, "max_bytes": 1_000_000, "max_records": 100, "batch_size": 100, "topics": wanted}
    return Step("ShareFetch", 2, fields | more, on="share")


def share_acknowledge(number: int, *topics: str, group: str = "§g", parts: dict[int, Acks] | None = None) -> Step:
    partitions = share_parts({0: ((0, 0, ACCEPT),)} if parts is None else parts)
    told = [{"topic_id": of("topic_id " + topic[1:]), "partitions": partitions} for topic in topics]
    fields = {"group_id": group, "member_id": "m" * 22, "share_session_epoch": number, "topics": told}
    return Step("ShareAcknowledge", 2, fields, on="share")


def share_state(what: str, group: str = "§y", **partition: int) -> Step:
    one = {"partition": 0, **partition}
    return Step(what, 0, {"group_id": group, "topics": [{"topic_id": of("topic_id a"), "partitions": [one]}]})


def acls(kind: int, operation: int = 2) -> list[Step]:
    looked_for = {"resource_type_filter": kind, "operation": operation, "permission_type": 3}
    made = {"resource_type": kind, "resource_name": "§a", "principal": "User:x", "host": "*"}
    made |= {"operation": operation, "permission_type": 3}
    return [
        Step("DescribeAcls", 3, looked_for),
        Step("DeleteAcls", 3, {"filters": [looked_for]}),
        Step("CreateAcls", 3, {"creations": [made]}),
    ]


def group_config(key: str, value: str) -> Step:
    configs = [{"name": key, "config_operation": 0, "value": value}]
    resource = {"resource_type": 32, "resource_name": "§g", "configs": configs}
    return Step("IncrementalAlterConfigs", 1, {"validate_only": False, "resources": [resource]})
