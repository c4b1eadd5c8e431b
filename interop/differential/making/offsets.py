"""A group's offsets in all versions, with and without members."""

from __future__ import annotations

from typing import Any

from interop.differential.making import topics
from interop.differential.making.maker import Area, Maker
from interop.differential.steps import Step, of


def who(maker: Maker) -> dict[str, Any]:
    """The group itself (no member), or a member as it may be."""
    name = maker.one("m", "n", "o")
    return maker.one(
        {},
        {},
        {"generation": of("generation_id " + name), "member_id": of("member_id " + name)},
        {"generation": of("member_epoch " + name), "member_id": name + "A" * 21},
        maker.mostly({}, {"generation": 0}, {"member_id": "nobody"}, {"generation": 5, "member_id": ""}, share=0.5),
    )


def group(maker: Maker) -> str:
    return maker.mostly("§g", "§h", "", share=0.93)


def commit(maker: Maker) -> list[Step]:
    version, member = maker.version("OffsetCommit"), who(maker)
    partition: dict[str, Any] = {
        "partition_index": maker.partition(),
        "committed_offset": maker.mostly(maker.one(0, 5, 100), -1, -2),
        "committed_metadata": maker.mostly("m", "", None, "x" * 4096, share=0.8),
    }
    if version >= 6:
        partition["committed_leader_epoch"] = maker.one(-1, 0, 3, -2)
    name = maker.topic()
    topic: dict[str, Any] = {"name": name, "topic_id": of("topic_id " + name.removeprefix("§"))}
    topic["partitions"] = [partition] * maker.mostly(1, 2, share=0.97)
    fields: dict[str, Any] = {"group_id": group(maker), "topics": [topic] * maker.mostly(1, 0, share=0.97)}
    if version >= 1:
        fields["generation_id_or_member_epoch"] = member.get("generation", -1)
        fields["member_id"] = member.get("member_id", "")
    if version == 1:
        partition["commit_timestamp"] = maker.one(-1, 5)
    if 2 <= version <= 4:
        fields["retention_time_ms"] = maker.one(-1, 0, 60_000)
    if version >= 7 and maker.often(0.1):
        fields["group_instance_id"] = "§o"
    return maker.step("OffsetCommit", fields, version=version)


def fetch(maker: Maker) -> list[Step]:
    version = maker.version("OffsetFetch")
    wanted: list[dict[str, Any]] = []
    for _ in range(maker.one(1, 1, 2)):
        name = maker.topic()
        wanted.append({"name": name, "partition_indexes": [maker.partition(), 0]})
        if version >= 8:
            wanted[-1]["topic_id"] = of("topic_id " + name.removeprefix("§"))
    every = version >= 2 and maker.often(0.3)
    fields: dict[str, Any] = {"require_stable": maker.often(0.3)} if version >= 7 else {}
    if version < 8:
        return maker.step(
            "OffsetFetch", fields | {"group_id": group(maker), "topics": None if every else wanted}, version=version
        )
    groups = [
        {"group_id": group(maker), "topics": None if every else wanted} for _ in range(maker.mostly(1, 2, 0, share=0.9))
    ]
    if version >= 9:
        member = who(maker)
        for asked in groups:
            if "member_id" in member:
                asked |= {"member_id": member["member_id"], "member_epoch": member.get("generation", -1)}
    return maker.step("OffsetFetch", fields | {"groups": groups}, version=version)


def delete(maker: Maker) -> list[Step]:
    asked = {"name": maker.topic(), "partitions": [{"partition_index": maker.partition()}]}
    return maker.step("OffsetDelete", {"group_id": group(maker), "topics": [asked] * maker.mostly(1, 0, share=0.97)})


def delete_group(maker: Maker) -> list[Step]:
    return maker.step("DeleteGroups", {"groups_names": [maker.mostly("§g", "§h", "")]})


def delete_topic(maker: Maker) -> list[Step]:
    return maker.step("DeleteTopics", {"topic_names": ["§c"], "timeout_ms": 10_000}, version=5)


def start(maker: Maker) -> list[Step]:
    """With a group that has an offset: Kafka keeps an empty one for a while also where it refused all offsets."""
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}
    fields = {"group_id": "§g", "topics": [{"name": "§a", "partitions": [partition]}]}
    return [*topics.start(maker), *maker.step("OffsetCommit", fields, version=8)]


AREA = Area(start, [(commit, 8), (fetch, 8), (delete, 2), (delete_group, 1), (delete_topic, 1)])
