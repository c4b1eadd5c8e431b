"""Steps that write into a partition's log and read from it."""

from __future__ import annotations

from typing import Any

from interop.differential.making import topics
from interop.differential.making.maker import Area, Maker
from interop.differential.steps import STAMP, Step, of

CODECS = ["none", "none", "none", "gzip", "snappy", "lz4", "zstd"]
IDEMPOTENT = ("p", "q")
LONG = ["§" + "x" * size for size in (200, 204, 205, 240)]  # around the length that leaves room for a folder's suffix
KINDS = [
    {"cleanup.policy": "compact"},
    {"cleanup.policy": "compact", "compression.type": "lz4"},
    {"message.timestamp.type": "LogAppendTime"},
    {"compression.type": "gzip"},
    {"compression.type": "uncompressed"},
    {"max.message.bytes": "300"},
    {"message.timestamp.before.max.ms": "1000"},
    {"message.timestamp.after.max.ms": "1000"},
    {"segment.bytes": "1048576", "retention.ms": "-1"},
    {"min.insync.replicas": "2"},
]


def start(maker: Maker) -> list[Step]:
    steps = topics.start(maker)
    special = [
        {
            "name": name,
            "num_partitions": 2,
            "replication_factor": 1,
            "configs": [{"name": k, "value": v} for k, v in maker.one(*KINDS).items()],
        }
        for name in ("§s", "§t")
    ]
    steps += maker.step("CreateTopics", {"topics": special, "timeout_ms": 30_000}, version=7)
    for producer in IDEMPOTENT:
        fields = {"transactional_id": None, "transaction_timeout_ms": 60_000}
        steps += maker.step("InitProducerId", fields, keep=producer, version=4)
    for name in ("§a", "§a", "§b", "§s", "§s"):
        batch = {"records": [["k", maker.text()] for _ in range(maker.one(1, 2, 3))], "codec": maker.one(*CODECS)}
        fields = produce_fields(maker, name, 0, [batch]) | {"acks": -1}
        steps += maker.step("Produce", fields, version=maker.one(9, 13))
    return steps


def topic(maker: Maker) -> str:
    return maker.topic() if maker.often(0.6) else maker.one("§s", "§t")


def record(maker: Maker, magic: int) -> list[Any]:
    key = maker.one(None, None, "k", "k2", "")
    value = maker.mostly(maker.text(), None, "")
    stamp = maker.mostly(STAMP + maker.rng.randint(0, 5), STAMP - 10_000, 0, -1, 4_000_000_000_000)
    headers = [] if magic < 2 or maker.often() else [["h", "1"], ["h", None]]
    return [key, value, stamp, headers]


def plain_batch(maker: Maker, version: int) -> dict[str, Any]:
    magic = maker.mostly(2 if version >= 3 else maker.one(0, 1) if version == 2 else 0, 0, 1, 2, share=0.95)
    records = [record(maker, magic) for _ in range(maker.one(1, 1, 2, 4))]
    codec = maker.one(*CODECS)
    if (codec, magic) in (("zstd", 0), ("zstd", 1), ("lz4", 0)):  # the builder of batches can't make these
        codec = "none"
    made: dict[str, Any] = {"records": records, "magic": magic, "codec": codec}
    if magic == 2 and maker.often(0.07):
        made["patch"] = maker.one(
            {"crc": 1}, {"count": 2}, {"last_offset_delta": 3}, {"base_offset": 100}, {"attributes": 0x20},
            {"attributes": 0x10}, {"attributes": 0x8}, {"attributes": 7}, {"magic": 3}, {"leader_epoch": 5},
            {"count": 0}, {"count": -1}, {"attributes": 0x80},
            {"producer_id": 5, "producer_epoch": 0, "base_sequence": -1}, {"producer_id": 5}, {"length": 20},
        )  # fmt: skip
        if "attributes" in made["patch"]:
            made["codec"] = "none"  # the patched attributes say so, and Kafka reads the records of every batch
    return made


def sequenced(maker: Maker, producer: str, name: str, partition: int) -> dict[str, Any]:
    """Return a batch of an idempotent producer, most of the time with the sequence number that follows."""
    count = maker.one(1, 1, 2)
    at = (producer, name, partition)
    due = maker.sequence.get(at, 0)
    number = maker.mostly(
        due, due + 1, max(due - 1, 0), due - count if due >= count else 0, 0, -1, 2**31 - 1, share=0.8
    )
    if number == due:
        maker.sequence[at] = due + count
    bump = maker.mostly(0, 1, -1, share=0.95)
    if bump == 1 and number == 0:
        maker.sequence[at] = count
    records = [record(maker, 2) for _ in range(count)]
    numbers = [of(f"producer_id {producer}"), of(f"producer_epoch {producer}", bump), number]
    return {"records": records, "codec": maker.one(*CODECS), "producer": numbers}


def produce_fields(maker: Maker, name: str, partition: int, batches: list[dict[str, Any]] | None) -> dict[str, Any]:
    records = None if batches is None else {"batches": batches}
    where = {
        "name": name,
        "topic_id": of("topic_id " + name.removeprefix("§")),
        "partition_data": [{"index": partition, "records": records}],
    }
    return {"acks": maker.mostly(-1, 1, 1, 2, 0, -2, share=0.6), "timeout_ms": 10_000, "topic_data": [where]}


def produce(maker: Maker) -> list[Step]:
    version = maker.version("Produce")
    name, partition = topic(maker), maker.partition()
    if maker.often(0.4) and version >= 3:
        batches = [sequenced(maker, maker.one(*IDEMPOTENT), name, partition)]
    else:
        batches = [plain_batch(maker, version) for _ in range(maker.mostly(1, 2, 0, share=0.95))]
    fields = produce_fields(maker, name, partition, batches)
    if maker.often(0.1):
        other = produce_fields(maker, topic(maker), maker.partition(), [plain_batch(maker, version)])
        fields["topic_data"] += [one for one in other["topic_data"] if one["name"] != name]
    on = "unanswered" if fields["acks"] == 0 else "main"
    return maker.step("Produce", fields, version=version, on=on)


def offset(maker: Maker) -> int:
    return maker.mostly(maker.one(0, 0, 1, 2, 3, 5), 8, 100, -1, -2, share=0.9)


def asked_partition(maker: Maker, version: int) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "partition": maker.mostly(0, maker.partition(), share=0.75),
        "fetch_offset": maker.mostly(maker.one(0, 0, 1), offset(maker), share=0.6),
        "partition_max_bytes": maker.mostly(1_000_000, 1, 100, 250, 0),
    }
    if version >= 9:
        asked["current_leader_epoch"] = maker.mostly(maker.one(-1, 0), 1, -2, share=0.95)
    if version >= 12 and maker.often(0.15):
        asked["last_fetched_epoch"] = maker.one(0, 1, -1)
    return asked


def fetch(maker: Maker, on: str = "main", keep: str = "") -> list[Step]:
    version = maker.version("Fetch")
    fields: dict[str, Any] = {
        "max_wait_ms": maker.one(0, 0, 20),
        "min_bytes": maker.mostly(maker.one(0, 1), 100, 1_000_000, -1),
        "topics": fetched_topics(maker, version),
    }
    if version >= 3:
        fields["max_bytes"] = maker.mostly(50_000_000, 1, 200, 0)
    if version >= 4:
        fields["isolation_level"] = maker.one(0, 1)
    if version >= 11 and maker.often(0.1):
        fields["rack_id"] = maker.one("r", "§")
    if maker.often(0.04):  # the request is that of an unknown follower
        fields |= {"replica_state": {"replica_id": 5, "replica_epoch": 1}} if version >= 15 else {"replica_id": 5}
    return maker.step("Fetch", fields, version=version, on=on, keep=keep)


def fetched_topics(maker: Maker, version: int) -> list[dict[str, Any]]:
    found = []
    for name in {maker.mostly(maker.one("§a", "§s"), topic(maker), share=0.7) for _ in range(maker.one(1, 1, 2))}:
        partitions = [asked_partition(maker, version)]
        if maker.often(0.1) and partitions[0]["partition"] != 1:
            partitions.append(asked_partition(maker, version) | {"partition": 1})
        found.append({"topic": name, "topic_id": of("topic_id " + name.removeprefix("§")), "partitions": partitions})
    return sorted(found, key=lambda t: t["topic"])  # the order of a set varies from run to run


def fetch_in_session(maker: Maker) -> list[Step]:
    """Return a fetch that opens, continues, changes, closes or misuses the session `s`."""
    version = max(maker.version("Fetch"), 7)
    fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": maker.one(0, 1), "topics": fetched_topics(maker, version)}
    opening = maker.often(0.3) or ("session", "", 0) not in maker.sequence
    if opening:
        fields["session_epoch"] = 0
        maker.sequence["session", "", 0] = 1
    else:
        due = maker.sequence["session", "", 0]
        number = maker.mostly(due, due + 1, -1, due - 1, share=0.9)
        fields |= {"session_id": of("session_id s"), "session_epoch": number}
        maker.sequence["session", "", 0] = due + (number == due)
        fields["topics"] = maker.one([], fields["topics"])
        if maker.often(0.3):
            name = topic(maker)
            gone = {
                "topic": name,
                "topic_id": of("topic_id " + name.removeprefix("§")),
                "partitions": [maker.partition()],
            }
            fields["forgotten_topics_data"] = [gone]
    version = version if version < 13 else 17
    return maker.step("Fetch", fields, version=version, keep="s")


def list_offsets(maker: Maker) -> list[Step]:
    version = maker.version("ListOffsets")
    asked: dict[str, Any] = {
        "partition_index": maker.partition(),
        "timestamp": maker.one(
            -1, -2, -3, -4, -5, -6, -7, 0, STAMP, STAMP + 3, STAMP + 100, STAMP - 10_000, 5_000_000_000_000
        ),
    }
    if version >= 4:
        asked["current_leader_epoch"] = maker.mostly(maker.one(-1, 0), 1, -2, share=0.95)
    if version == 0:
        asked["max_num_offsets"] = maker.one(1, 2, 0)
    fields: dict[str, Any] = {"replica_id": maker.mostly(-1, -2, share=0.97), "topics": []}
    fields["topics"] = [{"name": topic(maker), "partitions": [asked] * maker.mostly(1, 2, share=0.97)}]
    if version >= 2:
        fields["isolation_level"] = maker.one(0, 1)
    if version >= 10:
        fields["timeout_ms"] = 1000
    return maker.step("ListOffsets", fields, version=version)


def leader_epoch(maker: Maker) -> list[Step]:
    version = maker.version("OffsetForLeaderEpoch")
    asked: dict[str, Any] = {"partition": maker.partition(), "leader_epoch": maker.mostly(0, 1, -1, 5, -2)}
    if version >= 2:
        asked["current_leader_epoch"] = maker.mostly(maker.one(-1, 0), 1, -2)
    fields: dict[str, Any] = {"topics": [{"topic": topic(maker), "partitions": [asked]}]}
    if version >= 3:
        fields["replica_id"] = maker.mostly(-1, -2, share=0.9)
    return maker.step("OffsetForLeaderEpoch", fields, version=version)


def delete_records(maker: Maker) -> list[Step]:
    partitions = [
        {"partition_index": maker.partition(), "offset": maker.mostly(maker.one(0, 1, 2, -1), 100, -2)}
        for _ in range(maker.mostly(1, 2, share=0.95))
    ]
    fields = {"topics": [{"name": topic(maker), "partitions": partitions}], "timeout_ms": 10_000}
    return maker.step("DeleteRecords", fields)


def producers(maker: Maker) -> list[Step]:
    fields = {"topics": [{"name": topic(maker), "partition_indexes": [maker.partition()]}]}
    return maker.step("DescribeProducers", fields)


def log_dirs(maker: Maker) -> list[Step]:
    topics = [{"topic": topic(maker), "partitions": [0, maker.partition()]} for _ in range(maker.one(1, 2))]
    return maker.step("DescribeLogDirs", {"topics": topics})


def move_log_dir(maker: Maker) -> list[Step]:
    fields = {
        "dirs": [
            {
                "path": maker.one("/none", "", "none"),
                "topics": [{"name": maker.mostly(topic(maker), *LONG), "partitions": [maker.partition()]}],
            }
        ]
    }
    return maker.step("AlterReplicaLogDirs", fields)


AREA = Area(
    start,
    [
        (produce, 14), (fetch, 8), (fetch_in_session, 6), (list_offsets, 8), (leader_epoch, 2), (delete_records, 3),
        (producers, 2), (log_dirs, 1), (move_log_dir, 1), (topics.metadata, 1),
    ],
)  # fmt: skip
