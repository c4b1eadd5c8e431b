"""Groups of both protocols: several members on connections of their own, so that one can wait for the others."""

from __future__ import annotations

from typing import Any

from interop.differential.making import offsets, topics
from interop.differential.making.maker import Area, Maker
from interop.differential.steps import Step, of

MEMBERS = ("m", "n", "o")
GROUP = "§g"
START_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH = 0, -1, -2


def group(maker: Maker) -> str:
    return maker.mostly(GROUP, "§h", "", share=0.96)


def instance(maker: Maker, version: int, static_from: int, name: str) -> dict[str, Any]:
    """Member o is static."""
    if version < static_from:
        return {}
    return {"group_instance_id": "§" + name} if maker.mostly(name == "o", name != "o", share=0.95) else {}


def member_id(maker: Maker, name: str, share: float = 0.93) -> Any:
    return maker.mostly(of("member_id " + name), of("member_id nobody"), "", of("member_id m"), share=share)


def generation(maker: Maker, name: str) -> Any:
    return maker.mostly(
        of("generation_id " + name), of("generation_id " + name, -1), of("generation_id " + name, 1), -1
    )


def protocols(maker: Maker) -> list[dict[str, Any]]:
    names = maker.mostly(
        maker.one(["range"], ["range", "roundrobin"], ["roundrobin", "range"]), ["sticky"], [], share=0.94
    )
    metadata = maker.mostly({"subscription": maker.some(maker.subscribed, 2)}, {"hex": "0001"}, {"hex": ""}, share=0.95)
    return [{"name": name, "metadata": metadata} for name in names]


def join(maker: Maker) -> list[Step]:
    version, name = maker.version("JoinGroup"), maker.one(*MEMBERS)
    fields: dict[str, Any] = {
        "group_id": group(maker),
        "session_timeout_ms": maker.mostly(30_000, 5, 2_000_000, share=0.97),
        "member_id": maker.one("", of("member_id " + name), member_id(maker, name)),
        "protocol_type": maker.mostly("consumer", "connect", "", share=0.96),
        "protocols": protocols(maker),
        **instance(maker, version, 5, name),
    }
    if version >= 1:
        fields["rebalance_timeout_ms"] = 60_000
    if version >= 8 and maker.often(0.2):
        fields["reason"] = "as it likes"
    steps = maker.step("JoinGroup", fields, on=name, keep=name, version=version)
    if version >= 4 and fields["member_id"] == "" and "group_instance_id" not in fields and maker.often():
        again = fields | {"member_id": of("member_id " + name)}
        steps += maker.step("JoinGroup", again, on=name, keep=name, version=version)
    return steps


def classic_join(maker: Maker) -> list[Step]:
    """Into a group of the new protocol. The broker makes up the id, on whose order shares would depend: the topic that
    it wants has no partitions."""
    steps = join(maker) if maker.alone else []
    for step in steps:
        step.fields["protocols"] = [{"name": "range", "metadata": {"subscription": ["§none"]}}]
    return steps


def sync(maker: Maker) -> list[Step]:
    version, name = maker.version("SyncGroup"), maker.one(*MEMBERS)
    fields: dict[str, Any] = {
        "group_id": group(maker),
        "generation_id": generation(maker, name),
        "member_id": member_id(maker, name),
        "assignments": [
            {"member_id": of("member_id " + other), "assignment": {"assignment": {"§a": [i]}}}
            for i, other in enumerate(maker.some(MEMBERS))
        ],
        **instance(maker, version, 3, name),
    }
    if not maker.often(0.7):
        fields["assignments"] = []
    if version >= 5:
        fields["protocol_type"] = maker.mostly("consumer", None, "connect", share=0.95)
        fields["protocol_name"] = maker.mostly("range", None, "sticky", share=0.95)
    return maker.step("SyncGroup", fields, on=name, version=version)


def rebalance(maker: Maker) -> list[Step]:
    """All members that there may be join rightly, and the first hands out."""
    version, steps = maker.one(2, 4, 5, 7, 9), []
    names = maker.some(MEMBERS)
    for name in names:
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": of("member_id " + name) if maker.often(0.5) else "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": {"subscription": ["§a"]}}],
        }
        if name == "o" and version >= 5:
            fields["group_instance_id"] = "§o"
        steps += maker.step("JoinGroup", fields, on=name, keep=name, version=version)
        if version >= 4 and "group_instance_id" not in fields:
            again = fields | {"member_id": of("member_id " + name)}
            steps += maker.step("JoinGroup", again, on=name, keep=name, version=version)
    handed = [{"member_id": of("member_id " + n), "assignment": {"assignment": {"§a": [0]}}} for n in names]
    for name in names:
        steps += sync_rightly(maker, name, handed if name == names[0] else [])
    return steps


def sync_rightly(maker: Maker, name: str, handed: list[dict[str, Any]]) -> list[Step]:
    fields = {
        "group_id": GROUP,
        "generation_id": of("generation_id " + name),
        "member_id": of("member_id " + name),
        "assignments": handed,
    }
    if name == "o":
        fields["group_instance_id"] = "§o"
    return maker.step("SyncGroup", fields, on=name, version=3 if name == "o" else maker.one(1, 3, 4))


def heartbeat(maker: Maker) -> list[Step]:
    version, name = maker.version("Heartbeat"), maker.one(*MEMBERS)
    fields = {"group_id": group(maker), "generation_id": generation(maker, name), "member_id": member_id(maker, name)}
    return maker.step("Heartbeat", fields | instance(maker, version, 3, name), on=name, version=version)


def leave(maker: Maker) -> list[Step]:
    version, name = maker.version("LeaveGroup"), maker.one(*MEMBERS)
    if version < 3:
        return maker.step(
            "LeaveGroup", {"group_id": group(maker), "member_id": member_id(maker, name)}, version=version
        )
    who: dict[str, Any] = {"member_id": member_id(maker, name), **instance(maker, version, 3, name)}
    if name == "o" and maker.often(0.4):
        who["member_id"] = ""
    if version >= 5 and maker.often(0.2):
        who["reason"] = "it is late"
    several = [who, {"member_id": member_id(maker, maker.one(*MEMBERS))}, {"member_id": "", "group_instance_id": "§o"}]
    leaving = [who] if maker.often() else maker.some(several)
    return maker.step("LeaveGroup", {"group_id": group(maker), "members": leaving}, version=version)


def listing(maker: Maker) -> list[Step]:
    version = maker.version("ListGroups")
    fields: dict[str, Any] = {}
    if version >= 4 and maker.often(0.5):
        states = (
            "Stable",
            "stable",
            "Empty",
            "Dead",
            "PreparingRebalance",
            "CompletingRebalance",
            "Nonsense",
            "",
            "Assigning",
        )
        fields["states_filter"] = maker.some(states, 2)
    if version >= 5 and maker.often(0.5):
        fields["types_filter"] = maker.some(("Classic", "consumer", "CONSUMER", "share", "Nonsense", ""), 2)
    return maker.step("ListGroups", fields, version=version)


def describe(maker: Maker) -> list[Step]:
    version = maker.version("DescribeGroups")
    fields: dict[str, Any] = {"groups": [group(maker)] * maker.mostly(1, 2, share=0.95)}
    if version >= 3:
        fields["include_authorized_operations"] = maker.often(0.3)
    return maker.step("DescribeGroups", fields, version=version)


def delete(maker: Maker) -> list[Step]:
    names = maker.some([GROUP, GROUP, GROUP, "§h", "", "§none"], 2)
    return maker.step("DeleteGroups", {"groups_names": names})


def consumer_member(name: str) -> str:
    """The consumer protocol's members choose their ids."""
    return {"m": "mAAAAAAAAAAAAAAAAAAAAA", "n": "nAAAAAAAAAAAAAAAAAAAAA", "o": "oAAAAAAAAAAAAAAAAAAAAA"}[name]


def consumer_heartbeat(maker: Maker) -> list[Step]:
    """Joins with everything that a first heartbeat needs; else whatever came to mind."""
    version, name = maker.one(0, 1), "m" if maker.alone else maker.one(*MEMBERS)
    joining = maker.often(0.35)
    epoch: Any = (
        START_EPOCH
        if joining
        else maker.mostly(of("member_epoch " + name), of("member_epoch " + name, -1), 9, -3, share=0.8)
    )
    if not joining and maker.often(0.12):
        epoch = maker.mostly(STATIC_LEAVE_EPOCH if name == "o" else LEAVE_EPOCH, -1, -2)
    fields: dict[str, Any] = {
        "group_id": group(maker),
        "member_id": maker.mostly(consumer_member(name), "", share=0.97) if version else consumer_member(name),
        "member_epoch": epoch,
    }
    if name == "o":
        fields["instance_id"] = "§" + name
    if joining or maker.often(0.2):
        fields["rebalance_timeout_ms"] = maker.mostly(60_000, -1, 0, share=0.95)
        fields["subscribed_topic_names"] = maker.mostly(maker.some(maker.subscribed), ["§none"], [], None, share=0.93)
        fields["topic_partitions"] = maker.mostly([], None, share=0.93)
        if maker.often(0.1):
            fields["server_assignor"] = maker.one("range", "uniform", "nonsense", "")
    elif maker.often(0.5):
        fields["topic_partitions"] = owned(maker)
    if version >= 1 and maker.often(0.04):
        fields["subscribed_topic_regex"] = maker.one("[", "")
    return maker.step("ConsumerGroupHeartbeat", fields, on="main", keep=name, version=version)


def owned(maker: Maker) -> list[dict[str, Any]]:
    return [
        {"topic_id": of("topic_id " + topic), "partitions": maker.one([], [0], [0, 1])}
        for topic in maker.some("abc", 2)
        if maker.often(0.7)
    ]


def consumer_describe(maker: Maker) -> list[Step]:
    fields = {
        "group_ids": [group(maker)] * maker.mostly(1, 2, share=0.95),
        "include_authorized_operations": maker.often(0.3),
    }
    return maker.step("ConsumerGroupDescribe", fields)


def grow_alone(maker: Maker) -> list[Step]:
    return topics.grow(maker) if maker.alone else []


SHARED = [
    (offsets.commit, 4), (offsets.fetch, 3), (offsets.delete, 1), (listing, 2), (describe, 3), (delete, 1),
]  # fmt: skip
AREA = Area(
    topics.start, [(rebalance, 4), (join, 8), (sync, 9), (heartbeat, 6), (leave, 4), (consumer_describe, 1), *SHARED]
)
CONSUMERS = Area(
    topics.start,
    [
        (consumer_heartbeat, 26),
        (consumer_describe, 4),
        (classic_join, 1),
        (grow_alone, 1),
        (heartbeat, 1),
        *SHARED,
    ],
)
