"""Differences that sequences have shown and that are repaired, each as the few steps that show it. Rule: what is found
is written down here in short, so that `recorded/found.json` holds Kafka's answers to it for good.
"""

from __future__ import annotations

from typing import Any

from interop.differential.steps import STAMP, Step, of

OLD, FUTURE = 1_000, 4_000_000_000_000
Fields = dict[str, Any]


def create(*names: str, **configs: str) -> Step:
    settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topics = [{"name": n, "num_partitions": 2, "replication_factor": 1, "configs": settings} for n in names]
    return Step("CreateTopics", 7, {"topics": topics, "timeout_ms": 10_000})


def produce(batch: Fields | None, topic: str = "§a", version: int = 9, **fields: Any) -> Step:
    """`batch` None is no batch at all, which is not the same as null."""
    data = [{"index": 0, "records": {"batches": [] if batch is None else [batch]}}]
    topics = [{"name": topic, "topic_id": of("topic_id " + topic[1:]), "partition_data": data}]
    return Step("Produce", version, {"acks": -1, "timeout_ms": 10_000, "topic_data": topics, **fields})


def records(*stamps: int, **more: Any) -> Fields:
    return {"records": [["k", f"v{i}", stamp] for i, stamp in enumerate(stamps or (STAMP, STAMP))], **more}


def transactional(topic: str, sequence: int, *stamps: int, version: int = 13, bump: int = 0) -> Step:
    producer = [of("producer_id x"), of("producer_epoch x", bump), sequence]
    batch = records(*stamps, producer=producer, transactional=True)
    return produce(batch, topic, version, transactional_id="§x")


def init(keep: str = "x") -> Step:
    fields = {"transactional_id": "§" + keep, "transaction_timeout_ms": 60_000}
    return Step("InitProducerId", 4, fields, keep=keep)


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


TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
EARLIEST = Step("IncrementalAlterConfigs", 1, {"validate_only": False, "resources": [{
    "resource_type": GROUP, "resource_name": "§g",
    "configs": [{"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}],
}]})  # fmt: skip
STATES = ("InitializeShareGroupState", "ReadShareGroupStateSummary", "DeleteShareGroupState")
SET, APPEND, SUBTRACT, UNKNOWN = 0, 2, 3, 9
FOUND: dict[str, list[Step]] = {
    "an-empty-log-has-its-leader-epoch": [
        create("§a"), leader_epoch(0), leader_epoch(1), leader_epoch(0, -2),
        fetch(partition={"last_fetched_epoch": 0}), fetch(partition={"current_leader_epoch": -2}),
        list_offsets(-1, epoch=-2),
    ],
    "sessions-with-a-topic-that-is-gone": [
        create("§a"), create("§b"), produce(records()),
        *(step for version in (12, 17) for step in (
            session(version, 0, part(), part("§b")), delete("§a"), session(version, 1), session(version, 2),
            session(version, 3, part(), part("§b")), session(version, 0, part(), part("§b")), create("§a"),
            session(version, 1), session(version, 2, part()), produce(records()), session(version, 3))),
    ],
    "sessions-with-a-topic-that-was-made-anew": [
        *(step for version in (12, 17) for step in (
            create("§a"), create("§b"), session(version, 0, part(), part(partition=1), part("§b")), delete("§a"),
            create("§a"), session(version, 1), produce(records()), session(version, 2), session(version, 3, part()),
            session(version, 4, forget=0), delete("§a", "§b"))),
    ],
    "what-is-forgotten-and-asked-for": [
        create("§a"), produce(records()), session(17, 0, part(), part(partition=1)),
        session(17, 1, part(), forget=0), produce(records()), session(17, 2), session(17, 3, part(), forget=1),
        session(17, 4), session(17, 5, forget=0), session(17, 6),
    ],
    "no-room-for-a-batch-of-committed-records": [
        create("§a"), create("§b"), produce(records()), produce(records(), "§b"),
        *(Step("Fetch", 17, {
            "max_wait_ms": 0, "min_bytes": 0, "isolation_level": level,
            "topics": [part(), part("§b", partition_max_bytes=limit), part("§b", 1, partition_max_bytes=limit)],
        }) for level in (1, 0) for limit in (0, 1, 1000)),
    ],
    "retention-beyond-all-time": [
        create("§a"), *(commit_for(2**63 - less, version) for version in (2, 3, 4) for less in (1, 10**12)),
        Step("OffsetFetch", 5, {"group_id": "§g", "topics": [{"name": "§a", "partition_indexes": [0]}]}),
    ],
    "elections-of-an-unknown-kind": [create("§a"), *(elect(kind, *on) for kind in (2, -1, 1) for on in ((), (0, 7)))],
    "subscriptions-that-nobody-can-read": [
        create("§a"), join("m", "", 3, protocols=[{"name": "range", "metadata": {"hex": "0001"}}]),
        Step("OffsetDelete", 0, {"group_id": "§g", "topics": [{"name": "§a", "partitions": [{"partition_index": 0}]}]}),
    ],
    "acknowledgements-of-what-nobody-has-read": [
        create("§a"), create("§b"), EARLIEST, produce(records()), share_join("§a"), share_fetch(0, "§a"),
        share_acknowledge(1, "§b", "§a"), share_acknowledge(2, "§a", group=""), share_acknowledge(2, "§none"),
    ],
    "acknowledgements-where-nothing-is-under-way": [
        create("§a"), EARLIEST, share_join("§a"), share_fetch(0, "§a", max_wait_ms=100),
        *(share_acknowledge(n, "§a", parts={0: ((first, last, ACCEPT),)})
          for n, (first, last) in enumerate(((0, 0), (2, 2), (0, 5), (-1, -1)), 1)),
        produce(records()), share_fetch(5, "§a"), share_acknowledge(6, "§a", parts={0: ((2, 3, ACCEPT),)}),
        share_acknowledge(7, "§a", parts={0: ((-1, 1, ACCEPT),)}),
        share_acknowledge(8, "§a", parts={0: ((2, 2, ACCEPT),)}),
    ],
    "partitions-without-acknowledgements": [
        create("§a"), share_join("§a"), share_fetch(0, "§a", max_wait_ms=100),
        share_acknowledge(1, "§a", parts={0: (), 9: ()}), share_acknowledge(2, "§none", parts={0: ()}),
        share_acknowledge(3, "§a", parts={0: (), 1: ((0, 0, ACCEPT),)}),
        share_acknowledge(4, "§a", parts={0: (), 9: ((0, 0, ACCEPT),)}),
        share_acknowledge(5, "§a", parts={1: (), 0: ((1, 0, ACCEPT),)}),
        share_fetch(6, "§a", parts={0: ((0, 0, ACCEPT),), 9: ()}, max_wait_ms=100),
    ],
    "what-is-given-back-goes-out-with-the-next-fetch": [
        create("§a"), EARLIEST, produce(records()), share_join("§a"), share_fetch(0, "§a"),
        share_fetch(1, "§a", parts={0: ((0, 0, RELEASE),)}, min_bytes=0), share_fetch(2),
        produce(records()), share_fetch(3, "§a", parts={0: ((0, 1, RELEASE),)}), share_fetch(4),
    ],
    "commits-into-a-group-that-is-not-there-any-more": [
        create("§a"), *(commit_for(-1, version, generation_id_or_member_epoch=3, member_id="m") for version in (8, 9)),
        commit_for(-1, 9),
    ],
    "as-many-votes-for-each-protocol": [
        create("§a"), join("m", "", 0, protocols=protocols("range", "roundrobin")),
        join("n", "", 0, protocols=protocols("roundrobin", "range")),
        join("m", of("member_id m"), 0, protocols=protocols("range", "roundrobin")),
    ],
    "share-states-of-no-group-and-of-no-partition": [
        create("§a"), *(share_state(what, partition=partition) for what in STATES for partition in (-1, 9)),
        *(share_state(what, group="") for what in STATES), share_state(STATES[0], state_epoch=5),
        share_state(STATES[0], state_epoch=-1), share_state(STATES[0], state_epoch=-2),
        share_state("ReadShareGroupState"),
    ],
    "markers-of-no-producer": [
        create("§a"), *(Step("WriteTxnMarkers", 1, {"markers": [{
            "producer_id": 5, "producer_epoch": -1, "transaction_result": False, "coordinator_epoch": 0,
            "topics": [{"name": name, "partition_indexes": [0, 7]}],
        }]}) for name in ("§a", "§none")),
    ],
    "a-static-member-that-turns-its-group-back-and-wants-another-topic": [
        create("§a"), create("§b"), heartbeat("nAAAAAAAAAAAAAAAAAAAAA"),
        heartbeat("oAAAAAAAAAAAAAAAAAAAAA", instance_id="§o"),
        heartbeat("nAAAAAAAAAAAAAAAAAAAAA", member_epoch=-1), join("n", "nobody"),
        join("o", "", group_instance_id="§o", protocols=[{"name": "range", "metadata": {"subscription": ["§b"]}}]),
        Step("DescribeGroups", 5, {"groups": ["§g"]}),
    ],
    "a-static-member-that-turns-its-group-back": [
        create("§a"), heartbeat("nAAAAAAAAAAAAAAAAAAAAA"), heartbeat("oAAAAAAAAAAAAAAAAAAAAA", instance_id="§o"),
        heartbeat("nAAAAAAAAAAAAAAAAAAAAA", member_epoch=-1), join("n", "nobody"),
        join("o", "", group_instance_id="§o"),
        Step("DescribeGroups", 5, {"groups": ["§g"]}),
    ],
    "names-of-offsets-that-a-version-does-not-know": [
        create("§a"), list_offsets(-4, 9, 7), list_offsets(-3, 0, 4), list_offsets(-7, -1),
    ],
    "the-greatest-timestamp-before-the-start": [create("§a"), produce(records()), delete_records(2), list_offsets(-3)],
    "produce-is-checked-in-order": [
        create("§a"), produce(None, acks=2), produce(records(), acks=2), produce(records(), "§none", acks=2),
        produce(records(patch={"attributes": 8})), fetch(),
    ],
    "an-old-record-behind-one-without-time": [
        create("§a", message_timestamp_before_max_ms="1000"), produce(records(-1, OLD)), produce(records(-1, -1)),
    ],
    "records-without-key-and-out-of-time": [
        create("§a", cleanup_policy="compact"),
        produce({"records": [[None, "a", STAMP], ["k", "b", FUTURE], [None, "c", FUTURE], ["k", "d", STAMP]]}),
        produce({"records": [["k", "a", STAMP], [None, "c", FUTURE]]}),
    ],
    "fetch-sessions-without-partitions": [
        create("§a"), fetch(session_epoch=0, keep="s"),
        fetch(session_id=of("session_id s"), session_epoch=1, topics=[], forgotten_topics_data=[
            {"topic": "§a", "topic_id": of("topic_id a"), "partitions": [0]}]),
        fetch(session_epoch=0, topics=[]),
    ],
    "named-twice": [
        create("§a"), produce(records()), delete_records(1, 2),
        Step("DescribeLogDirs", 4, {"topics": [{"topic": "§a", "partitions": [0, 0]}]}),
        Step("DeleteGroups", 2, {"groups_names": ["§g", "§g"]}),
    ],
    "acls-of-unknown-kinds": [*acls(2), *acls(99), *acls(0), *acls(2, 0)],
    "what-is-not-for-clients": [
        *(Step(api, 0, {}, "gone") for api in ("Vote", "AllocateProducerIds", "FetchSnapshot", "AssignReplicasToDirs")),
        Step("ControlledShutdown", 3, {}, "gone"), Step("LeaderAndIsr", 0, {}, "gone"),
        Step("SaslHandshake", 1, {"mechanism": "PLAIN"}), Step("SaslAuthenticate", 2, {"auth_bytes": {"hex": "00"}}),
    ],
    "voters-of-another-cluster": [
        Step("AddRaftVoter", 0, {"cluster_id": "another", "voter_id": 7}),
        Step("RemoveRaftVoter", 0, {"cluster_id": "another", "voter_id": 7}),
        Step("RemoveRaftVoter", 0, {"cluster_id": None, "voter_id": 7}),
    ],
    "configs-are-checked-before-their-topic-is-looked-for": [
        create("§a"), alter(TOPIC, "§none", ("file.delete.delay.ms", SET, "-1")),
        alter(TOPIC, "§none", ("file.delete.delay.ms", SET, "1")),
        alter(TOPIC, "a b", ("max.message.bytes", SUBTRACT, "1")),
        alter(TOPIC, "a b", ("max.message.bytes", SET, "-1")),
        alter(TOPIC, "§a", ("file.delete.delay.ms", APPEND, "1"), ("no.such.key", UNKNOWN, "1")),
        alter(TOPIC, "§a", ("local.retention.bytes", UNKNOWN, "1"), ("local.retention.ms", APPEND, "1")),
    ],
    "configs-of-a-new-topic-as-they-were-written": [create("§a", preallocate="TRUE", retention_ms=" 7")],
    "configs-of-metrics-subscriptions": [
        alter(CLIENT_METRICS, "§m", ("metrics", APPEND, "org.apache")),
        alter(CLIENT_METRICS, "§m", ("match", SET, "x"), ("no.such.key", SET, "1")),
    ],
    "security-configs-of-a-broker": [
        *(alter(BROKER, name, (key, SET, "x")) for name in ("1", "")
          for key in ("sasl.jaas.config", "ssl.keystore.location", "ssl.cipher.suites", "metric.reporters")),
    ],
    "cleaners-need-threads-and-memory": [
        alter(BROKER, name, (f"log.cleaner.{key}", SET, value))
        for name in ("1", "")
        for key, value in (("threads", "0"), ("dedupe.buffer.size", "1"), ("dedupe.buffer.size", "2097152"))
    ],
    "a-refused-join": [
        create("§a"), join("m", "nobody"), join("m", "nobody", 6), join("m", "nobody", 7, group_id=""),
    ],
    "leaving-while-a-join-waits": [
        create("§a"), join("o", "", 3), join("m", ""), join("m", of("member_id m")),
        Step("LeaveGroup", 3, {"group_id": "§g", "members": [{"member_id": of("member_id m")}]}),
    ],
    "joins-that-a-share-group-refuses": [
        create("§a"),
        Step("ShareGroupHeartbeat", 1, {"group_id": "§g", "member_id": "m" * 22, "subscribed_topic_names": ["§a"]}),
        join("n", "nobody", 4), join("n", "", 4), join("n", "nobody", 9, group_instance_id="§n"),
        join("n", "nobody", 9, session_timeout_ms=2_000_000),
    ],
    "joins-that-an-empty-consumer-group-refuses": [
        create("§a"), heartbeat("mAAAAAAAAAAAAAAAAAAAAA"), join("m", "nobody", 2, session_timeout_ms=2_000_000),
        heartbeat("mAAAAAAAAAAAAAAAAAAAAA", member_epoch=-1), join("m", "nobody", 2),
        Step("ConsumerGroupDescribe", 1, {"group_ids": ["§g"]}),
    ],
    "static-members-of-the-consumer-protocol": [
        create("§a"), heartbeat("mAAAAAAAAAAAAAAAAAAAAA", instance_id="§m"),
        heartbeat("mAAAAAAAAAAAAAAAAAAAAA", instance_id="§m"), join("o", "nobody", 7, group_instance_id="§o"),
        join("o", "nobody", 7, group_instance_id="§m"),
    ],
    "a-partition-that-is-not-in-the-transaction": [
        create("§a"), create("§s", message_timestamp_type="LogAppendTime"), init(),
        transactional("§a", 0, FUTURE, version=9), transactional("§a", 0, bump=-1), transactional("§a", 7, FUTURE),
        transactional("§a", 7), transactional("§s", 0),
        Step("EndTxn", 4, {"transactional_id": "§x", "producer_id": of("producer_id x"),
                           "producer_epoch": of("producer_epoch x"), "committed": True}),
        fetch("§s"),
    ],
    "what-comes-behind-a-refused-beginning": [
        create("§a", message_timestamp_before_max_ms="1000"), init(), transactional("§a", 0, OLD),
        transactional("§a", 1, -1, version=9), transactional("§a", 0, -1, version=9),
    ],
    "metadata-by-id-and-by-name": [
        create("§a"),
        Step("Metadata", 12, {"topics": [{"topic_id": of("topic_id a"), "name": None}, {"name": "§d"}]}),
        Step("Metadata", 12, {"topics": [{"name": "§d"}], "allow_auto_topic_creation": False}),
    ],
    "producers-of-topics-that-can-not-be": [
        Step("DescribeProducers", 0, {"topics": [{"name": name, "partition_indexes": [0]}]})
        for name in ("", "a b", "§no")
    ],
    "a-scram-password-that-is-empty": [
        Step("AlterUserScramCredentials", 0, {"upsertions": [
            {"name": "§u", "mechanism": 1, "iterations": 4096, "salt": {"hex": "01"}, "salted_password": {"hex": ""}},
        ]}),
    ],
}  # fmt: skip
