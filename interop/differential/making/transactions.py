"""Transactions of several producers, with and without AddPartitionsToTxn, right and wrong."""

from __future__ import annotations

from typing import Any

from interop.differential.making import log
from interop.differential.making.maker import Area, Maker
from interop.differential.steps import Step, of

IDS = ("x", "y")  # the transactional id §x, whose producer is kept as x


def start(maker: Maker) -> list[Step]:
    steps = log.start(maker)
    for name in IDS:
        steps += maker.step("InitProducerId", init_fields(name), keep=name, version=4)
    return steps


def init_fields(name: str) -> dict[str, Any]:
    return {"transactional_id": "§" + name, "transaction_timeout_ms": 60_000}


def producer(maker: Maker) -> str:
    return maker.mostly(maker.one(*IDS), "none", share=0.97)


def epoch(maker: Maker, name: str) -> dict[str, Any]:
    return maker.mostly(
        of("producer_epoch " + name), of("producer_epoch " + name, 1), of("producer_epoch " + name, -1), share=0.94
    )


def pid(maker: Maker, name: str) -> dict[str, Any]:
    return maker.mostly(of("producer_id " + name), of("producer_id p"), of("producer_id nobody"), share=0.97)


def forget_sequences(maker: Maker, name: str) -> None:
    for at in [at for at in maker.sequence if at[0] == name]:
        del maker.sequence[at]


def init(maker: Maker) -> list[Step]:
    name = maker.mostly(maker.one(*IDS), "z", share=0.9)
    version = maker.version("InitProducerId")
    fields = init_fields(name)
    fields["transaction_timeout_ms"] = maker.mostly(60_000, 0, -1, 900_000, 900_001, 2**31 - 1, share=0.85)
    if maker.often(0.05):
        fields["transactional_id"] = maker.one("", None)
    if version >= 3 and maker.often(0.3):
        fields |= {"producer_id": pid(maker, name), "producer_epoch": epoch(maker, name)}
        if maker.often(0.1):
            fields |= maker.one({"producer_id": -1}, {"producer_epoch": -1})
    forget_sequences(maker, name)
    return maker.step("InitProducerId", fields, keep=name, version=version)


def add_partitions(maker: Maker) -> list[Step]:
    version, name = maker.version("AddPartitionsToTxn"), producer(maker)
    topics = [{"name": log.topic(maker), "partitions": [maker.partition()]} for _ in range(maker.one(1, 1, 2))]
    topics = list({t["name"]: t for t in topics}.values())
    if version <= 3:
        fields: dict[str, Any] = {
            "v3_and_below_transactional_id": maker.mostly("§" + name, "", share=0.98),
            "v3_and_below_producer_id": pid(maker, name),
            "v3_and_below_producer_epoch": epoch(maker, name),
            "v3_and_below_topics": topics,
        }
        return maker.step("AddPartitionsToTxn", fields, version=version)
    one: dict[str, Any] = {
        "transactional_id": maker.mostly("§" + name, "", share=0.98),
        "producer_id": pid(maker, name),
        "producer_epoch": epoch(maker, name),
        "verify_only": maker.often(0.3),
        "topics": topics,
    }
    return maker.step("AddPartitionsToTxn", {"transactions": [one]}, version=version)


def produce(maker: Maker) -> list[Step]:
    version, name = max(maker.version("Produce"), 3), producer(maker)
    topic, partition = log.topic(maker), maker.partition()
    batch = log.sequenced(maker, name, topic, partition) | {"transactional": maker.often(0.97)}
    fields = log.produce_fields(maker, topic, partition, [batch]) | {"acks": maker.mostly(-1, 1, share=0.97)}
    fields["transactional_id"] = maker.mostly("§" + name, None, "§x", "", share=0.97)
    return maker.step("Produce", fields, version=version)


def end(maker: Maker) -> list[Step]:
    version, name = maker.version("EndTxn"), producer(maker)
    fields = {
        "transactional_id": maker.mostly("§" + name, "", "§y", share=0.97),
        "producer_id": pid(maker, name),
        "producer_epoch": epoch(maker, name),
        "committed": maker.often(0.6),
    }
    if version >= 5:
        forget_sequences(maker, name)
    return maker.step("EndTxn", fields, keep=name, version=version)


def add_offsets(maker: Maker) -> list[Step]:
    name = producer(maker)
    fields = {
        "transactional_id": maker.mostly("§" + name, "", share=0.98),
        "producer_id": pid(maker, name),
        "producer_epoch": epoch(maker, name),
        "group_id": maker.mostly("§g", ""),
    }
    return maker.step("AddOffsetsToTxn", fields)


def commit_offsets(maker: Maker) -> list[Step]:
    version, name = maker.version("TxnOffsetCommit"), producer(maker)
    asked: dict[str, Any] = {
        "partition_index": maker.partition(),
        "committed_offset": log.offset(maker),
        "committed_metadata": "m",
    }
    if version >= 2:
        asked["committed_leader_epoch"] = maker.mostly(-1, 0, 3)
    topic = maker.topic()
    fields: dict[str, Any] = {
        "transactional_id": "§" + name,
        "group_id": maker.mostly("§g", "", share=0.97),
        "producer_id": pid(maker, name),
        "producer_epoch": epoch(maker, name),
        "topics": [{"name": topic, "topic_id": of("topic_id " + topic.removeprefix("§")), "partitions": [asked]}],
    }
    if version >= 3 and maker.often(0.3):
        member = maker.one("m", "n", "o")
        generation = maker.one(None, 1, 5, of("generation_id " + member), of("member_epoch " + member))
        fields |= {} if generation is None else {"generation_id_or_member_epoch": generation}
        ids = ("nobody", of("member_id " + member), member + "A" * 21)
        fields |= {"member_id": maker.one(*ids)} if generation != 5 else {}
        fields |= {"group_instance_id": maker.one("§o", "§none")} if maker.often(0.2) else {}
    return maker.step("TxnOffsetCommit", fields, version=version)


def fetch_offsets(maker: Maker) -> list[Step]:
    version = max(maker.version("OffsetFetch"), 8)
    asked = {"name": "§a", "topic_id": of("topic_id a"), "partition_indexes": [0, 1]}
    group = {"group_id": "§g", "topics": [asked]}
    return maker.step("OffsetFetch", {"groups": [group], "require_stable": maker.often(0.5)}, version=version)


def describe(maker: Maker) -> list[Step]:
    ids = [maker.mostly("§" + maker.one(*IDS), "§none", "") for _ in range(maker.one(1, 2))]
    return maker.step("DescribeTransactions", {"transactional_ids": ids})


def list_all(maker: Maker) -> list[Step]:
    version = maker.version("ListTransactions")
    fields: dict[str, Any] = {}
    if maker.often(0.4):
        fields["state_filters"] = [
            maker.mostly(maker.one("Ongoing", "Empty", "CompleteCommit"), "ongoing", "Nonsense", "")
        ]
    if maker.often(0.3):
        fields["producer_id_filters"] = [pid(maker, "x")]
    if version >= 1 and maker.often(0.2):
        fields["duration_filter"] = maker.one(0, 3_600_000, -1)
    if version >= 2 and maker.often(0.4):
        fields["transactional_id_pattern"] = maker.one("§.*", "§x", "", ".*x", "[", None)
    return maker.step("ListTransactions", fields, version=version)


def markers(maker: Maker) -> list[Step]:
    name = producer(maker)
    version = maker.version("WriteTxnMarkers")
    marker: dict[str, Any] = {
        "producer_id": pid(maker, name),
        "producer_epoch": epoch(maker, name),
        "transaction_result": maker.often(0.5),
        "topics": [{"name": log.topic(maker), "partition_indexes": [maker.partition()]}],
        "coordinator_epoch": maker.mostly(0, 5, -1),
    }
    if version >= 2:
        marker["transaction_version"] = maker.one(0, 1, 2)
    return maker.step("WriteTxnMarkers", {"markers": [marker]}, version=version)


AREA = Area(
    start,
    [
        (init, 4), (add_partitions, 10), (produce, 14), (end, 9), (add_offsets, 3), (commit_offsets, 4),
        (fetch_offsets, 3), (describe, 3), (list_all, 2), (markers, 1), (log.fetch, 5),
        (log.list_offsets, 3), (log.producers, 3),
    ],
)  # fmt: skip
