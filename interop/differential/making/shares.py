"""Share groups (KIP-932): members, records that are acquired and acknowledged, offsets, and the state behind them."""

from __future__ import annotations

from typing import Any

from interop.differential.making import groups, log, topics
from interop.differential.making.maker import Area, Maker
from interop.differential.steps import Step, of

GROUP, STATE_GROUP, UNREAD_GROUP = "§g", "§y", "§i"
MEMBERS = ("m", "n", "o")
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
GROUP_RESOURCE, SET = 32, 0
WAIT_MS, LOADING_MS = 150, 2000  # LOADING_MS: where there are records, and the state must be loaded first
CONFIGS = {
    "share.auto.offset.reset": ["earliest", "latest", "earliest"],
    "share.isolation.level": ["read_committed", "read_uncommitted"],
    "share.delivery.count.limit": ["2", "5"],
    "share.partition.max.record.locks": ["100", "2000"],
    "share.renew.acknowledge.enable": ["true", "false"],
}


def start(maker: Maker) -> list[Step]:
    """Topics with records, and a member that reads them from the beginning."""
    steps = topics.start(maker)
    steps += configured(maker, "share.auto.offset.reset", "earliest")
    for name in ("§a", "§a", "§b", "§c"):
        steps += produced(maker, name)
    return steps + begun(maker)


def configured(maker: Maker, key: str, value: str) -> list[Step]:
    change = {"name": key, "config_operation": SET, "value": value}
    asked = {"resource_type": GROUP_RESOURCE, "resource_name": GROUP, "configs": [change]}
    return maker.step("IncrementalAlterConfigs", {"resources": [asked], "validate_only": False}, version=1)


def produced(maker: Maker, name: str) -> list[Step]:
    batch = {"records": [["k", maker.text()] for _ in range(maker.one(1, 2, 4))], "codec": maker.one("none", "gzip")}
    return maker.step("Produce", log.produce_fields(maker, name, 0, [batch]) | {"acks": -1}, version=maker.one(9, 13))


def produce(maker: Maker) -> list[Step]:
    return produced(maker, maker.one("§a", "§a", "§b", "§c"))


def configure(maker: Maker) -> list[Step]:
    key = maker.one(*CONFIGS)
    return configured(maker, key, maker.value(CONFIGS[key]))


def group(maker: Maker) -> str:
    return maker.mostly(GROUP, "§h", "", share=0.97)


def member(maker: Maker) -> str:
    return "m" if maker.alone else maker.one(*MEMBERS)


def member_id(name: str) -> str:
    return name + "A" * 21


def joined(maker: Maker, name: str) -> list[Step]:
    fields = {"group_id": GROUP, "member_id": member_id(name), "member_epoch": 0}
    fields["subscribed_topic_names"] = maker.subscribed
    return maker.step("ShareGroupHeartbeat", fields, keep=name)


def heartbeat(maker: Maker) -> list[Step]:
    name = member(maker)
    kind = maker.rng.random()
    if kind < 0.3:
        return joined(maker, name)
    epoch: Any = maker.mostly(of("member_epoch " + name), of("member_epoch " + name, -1), 9, -2, -3)
    fields: dict[str, Any] = {
        "group_id": group(maker),
        "member_id": maker.mostly(member_id(name), "", "nobody", share=0.96),
        "member_epoch": -1 if kind > 0.9 else epoch,
    }
    if maker.often(0.2):
        fields["subscribed_topic_names"] = maker.mostly(maker.some(maker.subscribed), ["§none"], [], ["a b"], [""])
    if maker.often(0.05):
        fields["rack_id"] = maker.one("r", "")
    if maker.often(0.04):
        fields |= {"member_epoch": 0, "subscribed_topic_names": maker.one(None, [], maker.subscribed)}
    return maker.step("ShareGroupHeartbeat", fields, keep=name)


def number(maker: Maker, name: str) -> int:
    """That of the member's next request in its session; they count on from the last opening."""
    due = maker.sequence.get((name, "share session", 0), 0)
    asked = maker.mostly(due, 0, -1, due + 1, max(due - 1, 0), share=0.92)
    if asked == due:
        maker.sequence[name, "share session", 0] = due + 1
    elif asked in (0, -1):
        maker.sequence[name, "share session", 0] = asked + 1
    return asked


def acknowledgements(maker: Maker) -> list[dict[str, Any]]:
    found, at = [], maker.one(0, 0, 0, 1, 2, 4)
    for _ in range(maker.mostly(1, 2, share=0.9)):
        end = at + maker.mostly(maker.one(0, 0, 1, 2), -1, 40, share=0.97)
        types = [maker.mostly(maker.one(ACCEPT, ACCEPT, RELEASE, REJECT), GAP, RENEW, 5, share=0.93)]
        if maker.often(0.1):
            types = [maker.one(ACCEPT, RELEASE, REJECT, GAP) for _ in range(max(end - at + 1, 0) + maker.one(0, 0, 1))]
        found.append({"first_offset": at, "last_offset": end, "acknowledge_types": types})
        at = end + maker.mostly(1, 0, share=0.95)
    return found


def asked_topics(maker: Maker, with_acks: float, share_of_strangers: float = 0.05) -> list[dict[str, Any]]:
    found = []
    for name in sorted({maker.one(*maker.subscribed) for _ in range(maker.one(1, 1, 2))}):
        # For a topic that the group is not subscribed to Kafka's answer varies.
        part: dict[str, Any] = {"partition_index": maker.mostly(0, maker.partition(), share=0.85)}
        if maker.often(with_acks):
            part["acknowledgement_batches"] = acknowledgements(maker)
        of_topic = maker.mostly(name, "§none", share=1 - share_of_strangers)
        found.append({"topic_id": of("topic_id " + of_topic.removeprefix("§")), "partitions": [part]})
    return found


def begun(maker: Maker) -> list[Step]:
    """Return the steps of a member that joins and opens a share session.

    Each fetch adds one partition, since Kafka answers with the partitions that it has loaded first.
    """
    steps = joined(maker, "m")
    for session, topic in enumerate(maker.subscribed):
        steps += fetched(maker, "m", session, topic, wait_ms=LOADING_MS)
    return steps


def fetched(maker: Maker, name: str, session: int, *topics: str, wait_ms: int = WAIT_MS) -> list[Step]:
    """Return a share fetch of these topics, as a consumer sends it."""
    wanted = [
        {"topic_id": of("topic_id " + topic.removeprefix("§")), "partitions": [{"partition_index": 0}]}
        for topic in topics
    ]
    fields: dict[str, Any] = {
        "group_id": GROUP, "member_id": member_id(name), "share_session_epoch": session, "topics": wanted,
        "max_wait_ms": wait_ms, "min_bytes": 1, "max_bytes": 1_000_000, "max_records": 100, "batch_size": 100,
    }  # fmt: skip
    maker.sequence[name, "share session", 0] = session + 1
    return maker.step("ShareFetch", fields, on="share-" + name, version=2)


def fetch(maker: Maker) -> list[Step]:
    name, version = member(maker), maker.version("ShareFetch")
    if maker.often(0.3):
        return fetched(maker, name, 0, *maker.subscribed)
    session = number(maker, name)
    # Limits are for one partition only: Kafka's choice among several depends on how far it has looked into each.
    limited = [] if maker.alone else [1]
    fields: dict[str, Any] = {
        "group_id": maker.mostly(group(maker), None, share=0.99),
        "member_id": maker.mostly(member_id(name), "nobody", "", None, share=0.97),
        "share_session_epoch": session,
        # Kafka answers UNKNOWN_SERVER_ERROR to a session from the moment that it has an unknown topic.
        "topics": maker.one([], asked_topics(maker, 0.0 if session == 0 and maker.often(0.9) else 0.8, 0.0)),
        "max_wait_ms": WAIT_MS,
        "min_bytes": maker.mostly(1, 0),
        "max_bytes": maker.mostly(1_000_000, *limited, share=0.95),
        "max_records": maker.mostly(maker.one(100, *limited, *limited), 0, share=0.97),
        "batch_size": maker.mostly(maker.one(100, 1), 0, share=0.97),
    }
    if version >= 2:
        fields["share_acquire_mode"] = maker.mostly(0, 1, 2, share=0.9)
        fields["is_renew_ack"] = maker.often(0.05)
    if session > 0 and maker.often(0.1):
        fields["forgotten_topics_data"] = [{"topic_id": of("topic_id a"), "partitions": [maker.partition()]}]
    return maker.step("ShareFetch", fields, on="share-" + name, version=version)


def acknowledge(maker: Maker) -> list[Step]:
    name, version = member(maker), maker.version("ShareAcknowledge")
    fields: dict[str, Any] = {
        "group_id": maker.mostly(group(maker), None, share=0.99),
        "member_id": maker.mostly(member_id(name), "nobody", "", share=0.98),
        "share_session_epoch": number(maker, name),
        "topics": asked_topics(maker, 0.97),
    }
    if version >= 2:
        fields["is_renew_ack"] = maker.often(0.1)
    return maker.step("ShareAcknowledge", fields, on="share-" + name, version=version)


def describe(maker: Maker) -> list[Step]:
    fields = {"group_ids": [group(maker)] * maker.mostly(1, 2, share=0.95)}
    return maker.step("ShareGroupDescribe", fields | {"include_authorized_operations": maker.often(0.3)})


def offsets(maker: Maker) -> list[Step]:
    # Kafka never answers for a partition that does not exist.
    names = {
        maker.mostly(maker.one("§a", "§b", "§c"), "§none", "a b", "", share=0.93) for _ in range(maker.one(1, 1, 2))
    }
    wanted = [{"topic_name": name, "partitions": [0]} for name in sorted(names)]
    one = {"group_id": maker.mostly(GROUP, "§h"), "topics": maker.mostly(wanted, None, [], share=0.8)}
    return maker.step("DescribeShareGroupOffsets", {"groups": [one] * maker.mostly(1, 0, share=0.97)})


def altered(maker: Maker, name: str) -> list[Step]:
    partitions = [{"partition_index": maker.partition(), "start_offset": maker.mostly(maker.one(0, 1, 3), 100, -1)}]
    topic = {"topic_name": maker.topic(), "partitions": partitions}
    return maker.step("AlterShareGroupOffsets", {"group_id": name, "topics": [topic]})


def deleted(maker: Maker, name: str) -> list[Step]:
    topics = [{"topic_name": maker.topic()} for _ in range(maker.mostly(1, 2, 3))]
    return maker.step("DeleteShareGroupOffsets", {"group_id": name, "topics": topics * maker.mostly(1, 2)})


def refused(maker: Maker) -> list[Step]:
    """Return a change of the offsets of a group that has members, which the broker refuses."""
    return joined(maker, "m") + maker.one(altered, deleted)(maker, GROUP)


def administer(maker: Maker) -> list[Step]:
    """Return changes of the offsets of a group whose member comes and goes and reads nothing.

    Where a group has read, Kafka uses the offsets that it has in memory until its next write.
    """
    who = {"group_id": UNREAD_GROUP, "member_id": member_id("q")}
    steps = []
    if maker.often(0.5):
        joins = who | {"member_epoch": 0, "subscribed_topic_names": maker.some(["§a", "§b", "§c"])}
        steps += maker.step("ShareGroupHeartbeat", joins)
    if maker.often(0.9):
        steps += maker.step("ShareGroupHeartbeat", who | {"member_epoch": -1})
    for _ in range(maker.one(1, 2)):
        steps += maker.one(altered, altered, deleted)(maker, UNREAD_GROUP)
    asked = {"group_id": UNREAD_GROUP, "topics": None}
    return steps + maker.step("DescribeShareGroupOffsets", {"groups": [asked]})


def state(maker: Maker) -> list[Step]:
    """Return a request that brokers send to the share coordinator, for a group without members."""
    kind = maker.one("Initialize", "Read", "Write", "ReadSummary", "Delete", "Write")
    part: dict[str, Any] = {"partition": maker.mostly(0, 1, -1, share=0.9)}
    if kind in ("Initialize", "Write"):
        part |= {"state_epoch": maker.mostly(maker.one(0, 1, 2), -1), "start_offset": maker.mostly(0, 3, 10, -1)}
    if kind in ("Write", "Read", "ReadSummary"):
        part["leader_epoch"] = maker.mostly(maker.one(0, 1), 5, -1)
    if kind == "Write":
        # Batches that end before they begin stop a real Kafka for good.
        part["state_batches"] = [
            {"first_offset": at, "last_offset": at + maker.one(0, 1), "delivery_state": maker.one(0, 2, 4),
             "delivery_count": maker.one(1, 2)}
            for at in (3, 5, 7)[: maker.one(0, 1, 2, 3)]
        ]  # fmt: skip
        part |= {"delivery_complete_count": maker.one(0, 2, 99)} if maker.often(0.2) else {}
    topic = {"topic_id": of("topic_id a"), "partitions": [part]}
    fields = {"group_id": maker.mostly(STATE_GROUP, "", share=0.97), "topics": [topic] * maker.mostly(1, 0, share=0.97)}
    api = "ReadShareGroupStateSummary" if kind == "ReadSummary" else kind + "ShareGroupState"
    return maker.step(api, fields)


AREA = Area(
    start,
    [
        (produce, 6), (heartbeat, 8), (fetch, 14), (acknowledge, 10), (describe, 3), (offsets, 4), (refused, 1),
        (administer, 2), (configure, 1), (state, 3), (groups.listing, 1), (log.delete_records, 1),
    ],
)  # fmt: skip
