"""Streams groups (KIP-1071): members with their topologies, tasks that move, internal topics that are made."""

from __future__ import annotations

from typing import Any

from interop.differential.making import groups, offsets, topics
from interop.differential.making.maker import Area, Maker
from interop.differential.steps import Step, of

GROUP = "§g"
MEMBERS = ("m", "n", "o")


def inner(name: str, maker: Maker, partitions: int = 0) -> dict[str, Any]:
    configs = [{"key": "cleanup.policy", "value": "compact"}] if maker.often(0.3) else []
    return {"name": f"§g-{name}", "partitions": partitions, "replication_factor": 0, "topic_configs": configs}


def topology(maker: Maker, epoch: int = 0) -> dict[str, Any]:
    """One step over §c for several members, whose tasks can be shared evenly; anything for one that is alone."""
    if not maker.alone:
        return {"epoch": epoch, "subtopologies": [{"subtopology_id": "0", "source_topics": ["§c"]}]}
    first: dict[str, Any] = {"subtopology_id": "0", "source_topics": maker.mostly(["§a"], ["§none"], ["§b"], ["§a"])}
    if maker.often(0.4):
        first["state_changelog_topics"] = [inner("store-changelog", maker)]
    if maker.often(0.2):
        first |= {"source_topics": ["§a", "§c"], "copartition_groups": [{"source_topics": [0, 1]}]}
    if maker.often(0.05):
        first["source_topic_regex"] = ["§.*"]
    steps = [first]
    if maker.often(0.3):
        again = inner("again-repartition", maker, maker.mostly(0, 3))
        first["repartition_sink_topics"] = [again["name"]]
        steps.append({"subtopology_id": "1", "repartition_source_topics": [again]})
    return {"epoch": epoch, "subtopologies": maker.mostly(steps, [], [first, first], share=0.97)}


def member(maker: Maker) -> str:
    return "m" if maker.alone else maker.one(*MEMBERS)


def member_id(name: str) -> str:
    return name + "A" * 21


def tasks(maker: Maker) -> list[dict[str, Any]]:
    return [
        {"subtopology_id": subtopology, "partitions": maker.one([0], [0, 1], [])}
        for subtopology in maker.mostly(["0"], ["0", "1"], ["9"], [])
    ]


def joining(maker: Maker, name: str, brought: dict[str, Any]) -> list[Step]:
    fields: dict[str, Any] = {
        "group_id": GROUP, "member_id": member_id(name), "member_epoch": 0, "endpoint_information_epoch": -1,
        "rebalance_timeout_ms": 60_000, "topology": brought, "process_id": "process-" + name, "client_tags": [],
        "active_tasks": [], "standby_tasks": [], "warmup_tasks": [],
    }  # fmt: skip
    if name == "o":
        fields["instance_id"] = "§o"
    return maker.step("StreamsGroupHeartbeat", fields, keep=name)


def join(maker: Maker) -> list[Step]:
    """Rightly, or nearly so."""
    steps = joining(maker, member(maker), topology(maker, maker.mostly(0, 1, -1, share=0.95)))
    if maker.often(0.25):
        for step in steps:
            step.fields.update(
                maker.one(
                    {"topology": None},
                    {"process_id": None},
                    {"rebalance_timeout_ms": -1},
                    {"active_tasks": tasks(maker)},
                    {"standby_tasks": None},
                    {"member_id": ""},
                    {"group_id": ""},
                    {"instance_id": ""},
                    {"rack_id": ""},
                    {"user_endpoint": {"host": "h", "port": 9}},
                    {"client_tags": [{"key": "k", "value": "v"}]},
                )
            )
    return steps


def heartbeat(maker: Maker) -> list[Step]:
    name = member(maker)
    fields: dict[str, Any] = {
        "group_id": maker.mostly(GROUP, "§h", share=0.97),
        "member_id": maker.mostly(member_id(name), "nobody", share=0.97),
        "member_epoch": maker.mostly(of("member_epoch " + name), of("member_epoch " + name, -1), 9, -3),
        "endpoint_information_epoch": maker.mostly(-1, 0, 1),
    }
    if name == "o":
        fields["instance_id"] = "§o"
    if maker.often(0.12):
        fields["member_epoch"] = maker.mostly(-2 if name == "o" else -1, -1, -2)
    if maker.often(0.4):
        fields |= {"active_tasks": tasks(maker), "standby_tasks": [], "warmup_tasks": []}
        if maker.often(0.1):
            del fields["warmup_tasks"]
    if maker.often(0.1):
        fields["topology"] = topology(maker, maker.one(0, 1))
    if maker.often(0.04):
        fields["shutdown_application"] = True
    return maker.step("StreamsGroupHeartbeat", fields, keep=name)


def describe(maker: Maker) -> list[Step]:
    fields = {"group_ids": [maker.mostly(GROUP, "§h", "", share=0.95)] * maker.mostly(1, 2, share=0.95)}
    return maker.step("StreamsGroupDescribe", fields | {"include_authorized_operations": maker.often(0.3)})


def start(maker: Maker) -> list[Step]:
    return [*topics.start(maker), *joining(maker, "m", topology(maker))]


AREA = Area(
    start,
    [
        (join, 8), (heartbeat, 20), (describe, 5), (groups.listing, 2), (groups.delete, 1), (offsets.commit, 3),
        (offsets.fetch, 2), (offsets.delete, 1), (groups.consumer_describe, 1),
    ],
)  # fmt: skip
