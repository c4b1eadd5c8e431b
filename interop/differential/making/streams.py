"""Streams groups (KIP-1071): applications with state and several subtopologies, tasks that move, internal topics.

Rule: an application has one topology for each epoch, which all of its members bring, as Streams does it; a member
reports the tasks that it was given last. What goes wrong goes wrong beside that.
"""

from __future__ import annotations

from typing import Any

from interop.differential.making import groups, offsets, topics
from interop.differential.making.maker import Area, Maker
from interop.differential.steps import Step, of

GROUP = "§g"
MEMBERS = ("m", "n", "o")
PROCESSES = ("p", "q")
INTERNAL = ("§g-store-changelog", "§g-second-changelog", "§g-again-repartition", "§g-other-repartition")
WILD = tuple(f"§g-{number}-{kind}" for kind in ("repartition", "changelog") for number in range(5))
WILD_IDS = ("0", "1", "2", "9", "10", "d")  # no two of them in the same place of a small hash table
ROLES = ("active_tasks", "standby_tasks", "warmup_tasks")
GROUP_RESOURCE = 32
SETTINGS = {
    "streams.num.standby.replicas": ("1", "1", "2", "0"),
    "streams.num.warmup.replicas": ("2", "1"),
    "streams.acceptable.recovery.lag": ("0", "100"),
    "streams.rack.aware.assignment.tags": ("k",),
    "streams.assignor.name": ("sticky",),
}


def inner(name: str, maker: Maker, partitions: int = 0) -> dict[str, Any]:
    configs = [{"key": "cleanup.policy", "value": "compact"}] if maker.often(0.3) else []
    return {"name": name, "partitions": partitions, "replication_factor": 0, "topic_configs": configs}


def subtopologies(maker: Maker) -> list[dict[str, Any]]:
    """Up to three steps: from sources, over repartition topics, to stores."""
    store, second, again, other = INTERNAL
    sources = maker.mostly(maker.one(["§a"], ["§c"]), ["§none"], ["§b"], ["§a", "§b"])
    first: dict[str, Any] = {"subtopology_id": "0", "source_topics": sources}
    if maker.often(0.2):
        first |= {"source_topics": ["§a", "§c"], "copartition_groups": [{"source_topics": [0, 1]}]}
    if maker.often(0.03):
        first["source_topic_regex"] = ["§.*"]
    found = [first]
    if maker.often(0.5):
        first["state_changelog_topics"] = [inner(store, maker)]
    if maker.often(0.4):
        repartition = inner(again, maker, maker.mostly(0, 3, share=0.6))
        first["repartition_sink_topics"] = [again]
        found.append({"subtopology_id": "1", "repartition_source_topics": [repartition]})
        if maker.often(0.6):
            found[1]["state_changelog_topics"] = [inner(second, maker)]
        if maker.often(0.3):
            found[1]["repartition_sink_topics"] = [other]
            joined = {"subtopology_id": "2", "repartition_source_topics": [inner(other, maker, maker.one(0, 2))]}
            if maker.often(0.5):
                joined |= {"source_topics": ["§b"], "copartition_groups": [
                    {"source_topics": [0], "repartition_source_topics": [0]},
                ]}  # fmt: skip
            found.append(joined)
    elif maker.often(0.3):
        found.append({"subtopology_id": "1", "source_topics": [maker.one("§b", "§c")]})
        if maker.often(0.5):
            found[1]["state_changelog_topics"] = [inner(second, maker)]
    return maker.mostly(found, [], [first, first], share=0.97)


def wild_subtopologies(maker: Maker) -> list[dict[str, Any]]:
    """Several steps that read and write whatever there is, with counts that may not fit."""
    ids = maker.rng.sample(WILD_IDS, maker.one(2, 3, 4, 5))
    found: list[dict[str, Any]] = [{"subtopology_id": each, "source_topics": maker.some("abc", 2)} for each in ids]
    for at, one in enumerate(found):
        one["source_topics"] = ["§" + name for name in one["source_topics"]] if not at or maker.often(0.5) else []
    for topic in WILD[: maker.one(*range(len(ids)))]:
        inner_topic = inner(topic, maker, maker.one(0, 0, 0, 2, 3))
        maker.one(*found[1:]).setdefault("repartition_source_topics", []).append(inner_topic)
        for writer in maker.some(found, maker.mostly(1, 2)):
            writer.setdefault("repartition_sink_topics", []).append(topic)
    for one, topic in zip(found, WILD[5:], strict=False):
        if maker.often(0.4):
            one["state_changelog_topics"] = [inner(topic, maker)] * maker.mostly(1, 2, share=0.97)
        outer, inside = (range(len(one.get(name, ()))) for name in ("source_topics", "repartition_source_topics"))
        if len(outer) + len(inside) > 1 and maker.often(0.5):
            one["copartition_groups"] = [
                {"source_topics": [*outer][: maker.one(0, 1, 2)], "repartition_source_topics": [*inside]}
            ]
    return found


def sized(maker: Maker) -> list[Step]:
    """Internal topics that are there already, rightly or not."""
    made = [
        {"name": name, "num_partitions": maker.one(1, 2, 3, 6), "replication_factor": 1}
        for name in maker.some([*WILD[:3], *WILD[5:8]])
    ]
    return maker.step("CreateTopics", {"topics": made, "timeout_ms": 30_000}, version=7)


def epoch(maker: Maker) -> int:
    """Return the epoch of the application's topology."""
    return int(maker.known.setdefault("topology epoch", 0))


def topology(maker: Maker, of_epoch: int | None = None) -> dict[str, Any]:
    """Return the topology of an epoch, or of the current one."""
    wanted = epoch(maker) if of_epoch is None else of_epoch
    made = wild_subtopologies if maker.known.get("wild") else subtopologies
    known = maker.known.setdefault(f"topology {wanted}", made(maker))
    return {"epoch": wanted, "subtopologies": known}


def member(maker: Maker) -> str:
    return "m" if maker.alone else maker.one(*MEMBERS)


def member_id(name: str) -> str:
    return name + "A" * 21


def guessed_tasks(maker: Maker) -> list[dict[str, Any]]:
    return [
        {"subtopology_id": subtopology, "partitions": maker.one([0], [0, 1], [])}
        for subtopology in maker.mostly(["0"], ["0", "1"], ["9"], [])
    ]


def task_offsets(maker: Maker) -> list[dict[str, Any]]:
    return [
        {"subtopology_id": maker.mostly("0", "1", "9"), "partition": partition, "offset": maker.one(0, 5, 100, -1)}
        for partition in range(maker.one(1, 2, 6))
    ]


def joining(maker: Maker, name: str, brought: dict[str, Any]) -> list[Step]:
    process = maker.mostly("process-" + name, *(f"process-{each}" for each in PROCESSES), share=0.6)
    fields: dict[str, Any] = {
        "group_id": GROUP, "member_id": member_id(name), "member_epoch": 0, "endpoint_information_epoch": -1,
        "rebalance_timeout_ms": 60_000, "topology": brought, "process_id": process, "client_tags": [],
        "active_tasks": [], "standby_tasks": [], "warmup_tasks": [],
    }  # fmt: skip
    if name == "o":
        fields["instance_id"] = "§o"
    if maker.often(0.3):
        fields["user_endpoint"] = {"host": "host-" + name, "port": 9}
    return maker.step("StreamsGroupHeartbeat", fields, keep=name)


def join(maker: Maker) -> list[Step]:
    """Rightly, or nearly so."""
    current = epoch(maker)
    steps = joining(maker, member(maker), topology(maker, maker.mostly(current, current + 1, current - 1, share=0.95)))
    if maker.often(0.2):
        for step in steps:
            step.fields.update(
                maker.one(
                    {"topology": None},
                    {"process_id": None},
                    {"rebalance_timeout_ms": -1},
                    {"active_tasks": guessed_tasks(maker)},
                    {"standby_tasks": None},
                    {"member_id": ""},
                    {"group_id": ""},
                    {"instance_id": ""},
                    {"rack_id": ""},
                    {"rack_id": "r"},
                    {"client_tags": [{"key": "k", "value": "v"}]},
                    {"topology": {"epoch": current, "subtopologies": subtopologies(maker)}},
                )
            )
    return steps


def heartbeat(maker: Maker) -> list[Step]:
    name = member(maker)
    fields: dict[str, Any] = {
        "group_id": maker.mostly(GROUP, "§h", share=0.97),
        "member_id": maker.mostly(member_id(name), "nobody", share=0.97),
        "member_epoch": maker.mostly(of("member_epoch " + name), of("member_epoch " + name, -1), 9, -3, share=0.93),
        "endpoint_information_epoch": maker.mostly(-1, 0, 1),
    }
    if name == "o":
        fields["instance_id"] = "§o"
    if maker.often(0.08):
        fields["member_epoch"] = maker.mostly(-2 if name == "o" else -1, -1, -2)
    if maker.often(0.6):
        fields |= {role: of(f"{role} {name}") for role in ROLES}
    elif maker.often(0.2):
        fields |= {"active_tasks": guessed_tasks(maker), "standby_tasks": [], "warmup_tasks": []}
        if maker.often(0.1):
            del fields["warmup_tasks"]
    if maker.often(0.1):
        fields["topology"] = topology(maker, epoch(maker) + maker.mostly(0, 1))
    if maker.often(0.1):
        fields |= maker.one(
            {"task_offsets": task_offsets(maker), "task_end_offsets": task_offsets(maker)},
            {"user_endpoint": {"host": "other", "port": 7}},
            {"client_tags": [{"key": "k", "value": "w"}]},
            {"process_id": "process-" + maker.one(*PROCESSES)},
        )
    if maker.often(0.03):
        fields["shutdown_application"] = True
    return maker.step("StreamsGroupHeartbeat", fields, keep=name)


def settle(maker: Maker) -> list[Step]:
    """Let members report and hear what they have until tasks are where they belong."""
    names = ["m"] if maker.alone else [*MEMBERS] * 2
    steps = []
    for name in names:
        fields: dict[str, Any] = {
            "group_id": GROUP, "member_id": member_id(name), "member_epoch": of("member_epoch " + name),
            "endpoint_information_epoch": -1, **{role: of(f"{role} {name}") for role in ROLES},
        }  # fmt: skip
        if name == "o":
            fields["instance_id"] = "§o"
        steps += maker.step("StreamsGroupHeartbeat", fields, keep=name)
    return steps


def upgrade(maker: Maker) -> list[Step]:
    """Stop the application, delete its group, and start it with the topology of the next epoch."""
    steps = []
    for name in ["m"] if maker.alone else MEMBERS:
        gone = {"group_id": GROUP, "member_id": member_id(name), "member_epoch": -1, "endpoint_information_epoch": -1}
        steps += maker.step("StreamsGroupHeartbeat", gone | ({"instance_id": "§o"} if name == "o" else {}), keep=name)
    if maker.often(0.8):
        steps += maker.step("DeleteGroups", {"groups_names": [GROUP]})
    maker.known["topology epoch"] = epoch(maker) + 1
    return steps + joining(maker, "m", topology(maker))


def configure(maker: Maker) -> list[Step]:
    configs = [
        {"name": name, "config_operation": 0, "value": maker.one(*SETTINGS[name])}
        for name in ["streams.num.standby.replicas", *maker.some([*SETTINGS][1:], 2)][: maker.one(1, 1, 2)]
    ]
    resources = [{"resource_type": GROUP_RESOURCE, "resource_name": GROUP, "configs": configs}]
    return maker.step("IncrementalAlterConfigs", {"resources": resources, "validate_only": False})


def describe(maker: Maker) -> list[Step]:
    fields = {"group_ids": [maker.mostly(GROUP, "§h", "", share=0.95)] * maker.mostly(1, 2, share=0.95)}
    return maker.step("StreamsGroupDescribe", fields | {"include_authorized_operations": maker.often(0.3)})


def tell_topology(maker: Maker) -> list[Step]:
    """Send a description of the topology, which a broker without a keeper of such takes from nobody."""
    fields = {
        "group_id": maker.mostly(GROUP, "§h", "", share=0.9), "member_id": member_id(member(maker)),
        "topology_epoch": epoch(maker), "topology_description": {"subtopologies": [], "global_stores": []},
    }  # fmt: skip
    return maker.step("StreamsGroupTopologyDescriptionUpdate", fields)


def start(maker: Maker) -> list[Step]:
    """Topics, sometimes settings, and the first member."""
    settings = configure(maker) if maker.often(0.4) else []
    maker.known["wild"] = maker.often(0.3)
    sizes = sized(maker) if maker.known["wild"] and maker.often(0.4) else []
    return [*topics.start(maker), *sizes, *settings, *joining(maker, "m", topology(maker))]


AREA = Area(
    start,
    [
        (join, 8), (heartbeat, 18), (settle, 3), (describe, 5), (configure, 1), (upgrade, 1), (tell_topology, 1),
        (groups.listing, 2), (groups.delete, 1), (offsets.commit, 3), (offsets.fetch, 2), (offsets.delete, 1),
        (groups.consumer_describe, 1),
    ],
)  # fmt: skip
