"""Differences that sequences have shown and that are repaired, each as the few steps that show it. Rule: what is found
is written down here in short, so that `recorded/found.json` holds Kafka's answers to it for good.
"""

from __future__ import annotations

from typing import Any

from interop.differential.asking import (
    ACCEPT,
    FUTURE,
    OLD,
    RELEASE,
    acls,
    alter,
    application,
    commit_for,
    create,
    delete,
    delete_records,
    elect,
    elected,
    end_transaction,
    fetch,
    group_config,
    grown,
    heartbeat,
    idempotent,
    in_no_time,
    init,
    inner,
    join,
    join_transaction,
    leader_epoch,
    list_offsets,
    moved,
    new,
    part,
    produce,
    produce_to,
    protocols,
    records,
    session,
    share_acknowledge,
    share_fetch,
    share_join,
    share_state,
    sized,
    streams_heartbeat,
    transactional,
)
from interop.differential.steps import STAMP, Step, of

TOPIC, BROKER, CLIENT_METRICS = 2, 4, 16
EARLIEST = group_config("share.auto.offset.reset", "earliest")
STATES = ("InitializeShareGroupState", "ReadShareGroupStateSummary", "DeleteShareGroupState")
BY_INDEX: dict[str, dict[str, Any]] = {
    "ListOffsets": {"timestamp": -1},
    "DeleteRecords": {"offset": 0},
    "OffsetDelete": {},
}
NAMED: list[dict[str, list[int]]] = [{"§a": []}, {"§a": [0], "§b": []}, {"§none": []}]
A, BY_ID, NOBODY = {"name": "§a"}, {"name": None, "topic_id": of("topic_id a")}, {"name": None}
UNKNOWN_ID, BOTH = {"name": None, "topic_id": {"hex": "05" * 16}}, {"name": "§a", "topic_id": {"hex": "05" * 16}}
DELETED = [
    [NOBODY], [NOBODY, NOBODY, BOTH, A, A], [NOBODY, A], [BOTH, UNKNOWN_ID], [A, BY_ID], [BY_ID, BY_ID],
    [UNKNOWN_ID, UNKNOWN_ID], [{"name": "§no"}],
]  # fmt: skip
METADATA = "__cluster_metadata"
TWICE: list[list[tuple[str, list[int]]]] = [
    [("§a", [0]), ("§none", [1]), ("§a", [0, 1]), ("§none", [1]), ("§b", [])],
    [("§a", [0]), ("§b", []), ("§a", [0, 1, 1])],
]  # fmt: skip
NOT_ONCE: list[list[dict[str, Any]]] = [
    [{}, {}], [{"name": "§a", "topic_id": of("topic_id a")}] * 2, [{"name": "§none"}] * 2, [{}, {"name": "§a"}, {}],
]  # fmt: skip
SET, APPEND, SUBTRACT, UNKNOWN = 0, 2, 3, 9


def add_partitions(version: int, named: list[tuple[str, list[int]]]) -> dict[str, Any]:
    """Ask for partitions in a transaction, or in a version of brokers whether they are there."""
    topics = [{"name": name, "partitions": partitions} for name, partitions in named]
    fields: dict[str, Any] = {
        "transactional_id": "§x", "producer_id": of("producer_id x"), "producer_epoch": of("producer_epoch x"),
        "topics": topics,
    }  # fmt: skip
    if version < 4:
        return {"v3_and_below_" + name: value for name, value in fields.items()}
    return {"transactions": [fields | {"verify_only": True}]}


WRITERS: list[dict[str, Any]] = [
    {"source_topics": ["§a"], "repartition_sink_topics": ["§x"]},
    {"source_topics": ["§b"], "repartition_sink_topics": ["§x", "§y"]},
]
TOGETHER = {"copartition_groups": [{"source_topics": [], "repartition_source_topics": [0, 1]}]}
FOLLOWERS: list[tuple[int, dict[str, Any]]] = [
    (9, {"replica_id": 5}), (14, {"replica_id": 5}), (17, {"replica_state": {"replica_id": 5}}),
]  # fmt: skip
HAVING_TWICE: list[dict[str, Any]] = [
    {"client_tags": [{"key": "k", "value": "v"}] * 2},
    *({name: [{"subtopology_id": "0", "partition": 0, "offset": offset} for offset in (5, 6)]}
      for name in ("task_offsets", "task_end_offsets")),
    *({"topology": {"epoch": 0, "subtopologies": [
        {"subtopology_id": "0", "source_topics": [topic], "state_changelog_topics": logs}]}}
      for topic in ("§no", "§a") for logs in ([inner("§log"), inner("§log")], [
          inner("§log") | {"topic_configs": [{"key": "cleanup.policy", "value": "compact"}] * 2}])),
]  # fmt: skip
LEAVES: dict[str, Any] = {
    "member_epoch": -1, "topology": None, "active_tasks": None, "standby_tasks": None, "warmup_tasks": None,
}  # fmt: skip
STREAMS = Step("StreamsGroupDescribe", 1, {"group_ids": ["§g"]})
ID = "AAAAAAAAAAAAAAAAAAAAAQ"
NEVER = {"topic_id": {"hex": "05" * 16}, "partitions": [{"partition_index": 0}]}
NOT_OF_A_SHARE = (
    "g",
    "g:",
    "::",
    f":{ID}:0",
    f" :{ID}:0",
    f"g:{ID}=:0",
    f"g:{ID[1:]}:0",
    f"g:{ID[1:]}$:0",
    f"g:{ID}:x",
)


def by_index(api: str, *named: tuple[str, list[int]]) -> Step:
    topics = [
        {"name": name, "partitions": [{"partition_index": index, **BY_INDEX[api]} for index in indexes]}
        for name, indexes in named
    ]
    more: dict[str, dict[str, Any]] = {
        "ListOffsets": {"replica_id": -1},
        "DeleteRecords": {"timeout_ms": 10_000},
        "OffsetDelete": {"group_id": "§g"},
    }
    return Step(api, {"ListOffsets": 11, "DeleteRecords": 2}.get(api, 0), {"topics": topics, **more[api]})


def marked(**topics: list[int]) -> Step:
    named = [{"name": f"§{name}", "partition_indexes": indexes} for name, indexes in topics.items()]
    return Step("WriteTxnMarkers", 1, {"markers": [{
        "producer_id": 5, "producer_epoch": 0, "transaction_result": False, "coordinator_epoch": 0, "topics": named,
    }]})  # fmt: skip


# Of several producers: id, epoch, epoch of the coordinator, partitions.
MARKERS: list[list[tuple[int, int, int, dict[str, list[int]]]]] = [
    [(5, 0, 0, {}), (6, 0, 0, {"a": [0]})], [(5, 0, 0, {"a": []}), (6, 0, 0, {"b": [0]})],
    [(5, 0, 0, {"none": [0]}), (6, 0, 0, {"a": [0]})], [(5, 0, 0, {"none": [0]}), (6, 0, 0, {"a": [7]})],
    [(5, 0, 0, {"a": [0]}), (6, 0, 0, {"none": [0]}), (7, 0, 0, {"b": [1, 0]})],
    [(5, 0, 0, {"none": [0]}), (6, 0, 0, {})], [(5, 0, 0, {"a": [0, 7], "none": [0], "b": [0]})],
    [(5, 0, 0, {"a": [0]}), (5, 0, 0, {"b": [0]})], [(5, 0, 0, {"none": [0]}), (5, 0, 0, {"a": [0]})],
    [(5, 0, 3, {"a": [0]}), (5, 0, 2, {"a": [0]})], [(5, -1, 3, {"a": [0]}), (6, 0, 0, {"a": [0]})],
    [(6, 0, 0, {"a": [0], "none": [0]}), (5, -1, 0, {"a": [0]})],
]  # fmt: skip

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
    "all-is-forgotten-and-asked-for": [
        create("§a"), produce(records()), *(step for version in (7, 12, 13, 17) for step in (
            session(version, 0, part()), session(version, 1, part(), forget=0), session(version, 2))),
    ],
    "no-room-for-a-batch-of-committed-records": [
        create("§a"), create("§b"), produce(records()), produce(records(), "§b"),
        *(Step("Fetch", 17, {
            "max_wait_ms": 0, "min_bytes": 0, "isolation_level": level,
            "topics": [part(), part("§b", partition_max_bytes=limit), part("§b", 1, partition_max_bytes=limit)],
        }) for level in (1, 0) for limit in (0, 1, 1000)),
    ],
    "fetches-of-an-unknown-isolation": [
        create("§a"), create("§b"), produce(records()), *(Step("Fetch", version, {
            "max_wait_ms": 0, "min_bytes": 0, "isolation_level": 2, "session_id": 0, "session_epoch": -1,
            "topics": [part(), {**part("§b"), "partitions": []}],
        }) for version in (4, 7, 12, 13, 17)),
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
    "markers-are-handed-out": [
        create("§a"), EARLIEST, init(), join_transaction("§a"), transactional("§a", 0, version=11),
        end_transaction(True), produce(records()), share_join("§a"), share_fetch(0, "§a"),
        share_acknowledge(1, "§a", parts={0: ((0, 1, ACCEPT),)}), share_fetch(2, max_wait_ms=100),
    ],
    "aborted-records-are-passed-by": [
        create("§a"), group_config("share.isolation.level", "read_committed"), EARLIEST, init(),
        join_transaction("§a"), transactional("§a", 0, version=11), end_transaction(False), produce(records()),
        share_join("§a"), share_fetch(0, "§a"), share_fetch(1, max_wait_ms=100),
    ],
    "what-a-share-fetch-of-an-unknown-kind-gives-back": [
        create("§a"), EARLIEST, produce(records()), share_join("§a"), share_fetch(0, "§a"),
        share_fetch(1, "§a", parts={0: ((0, 0, ACCEPT),)}, share_acquire_mode=2), share_acknowledge(2, "§a"),
        share_acknowledge(3, "§a", parts={0: ((0, 1, ACCEPT),)}),
    ],
    "share-offsets-of-a-partition-that-is-not-there-make-a-group": [
        create("§a"), *(step for name, partition in (("§none", 0), ("§a", 9)) for step in (
            Step("AlterShareGroupOffsets", 0, {"group_id": "§g", "topics": [
                {"topic_name": name, "partitions": [{"partition_index": partition, "start_offset": 0}]}]}),
            Step("DeleteShareGroupOffsets", 0, {"group_id": "§g", "topics": [{"topic_name": "§a"}]}))),
    ],
    "share-offsets-of-no-partitions": [
        create("§a", "§b"), *(step for topics in (
            {}, {"§none": ()}, {"§a": ()}, {"§none": (), "§a": (), "§b": (0, 9)}, {"§none": (1,), "§a": (), "§b": (9,)},
        ) for step in (
            Step("AlterShareGroupOffsets", 0, {"group_id": "§g", "topics": [
                {"topic_name": name, "partitions": [{"partition_index": n, "start_offset": 0} for n in partitions]}
                for name, partitions in topics.items()]}),
            Step("ShareGroupDescribe", 1, {"group_ids": ["§g"]}))),
        Step("DescribeShareGroupOffsets", 1, {"groups": [{"group_id": "§g", "topics": None}]}),
        Step("DeleteShareGroupOffsets", 0, {"group_id": "§g", "topics": [{"topic_name": "§a"}]}),
    ],
    "as-many-votes-for-each-assignor": [
        create("§a"), heartbeat("n" * 22, server_assignor="range"), heartbeat("o" * 22, server_assignor="uniform"),
        Step("ConsumerGroupDescribe", 1, {"group_ids": ["§g"]}),
    ],
    "a-share-fetch-that-wants-nothing": [
        create("§a"), share_fetch(0, "§a", parts={0: (), 9: ()}, max_wait_ms=100, max_records=0),
        share_fetch(1, max_wait_ms=100, max_bytes=0), share_fetch(2, max_wait_ms=100, min_bytes=0, max_records=0),
    ],
    "a-share-group-that-begins-with-its-offsets": [
        create("§a"), Step("AlterShareGroupOffsets", 0, {"group_id": "§g", "topics": [
            {"topic_name": "§a", "partitions": [{"partition_index": n, "start_offset": 0} for n in (0, 1)]}]}),
        Step("ShareGroupDescribe", 1, {"group_ids": ["§g"]}), share_join("§a"),
        Step("ShareGroupDescribe", 1, {"group_ids": ["§g"]}),
    ],
    "what-a-session-has-left-is-not-free-when-it-ends": [
        create("§a"), create("§b"), EARLIEST, produce(records()), produce(records(), "§b"), share_join("§a", "§b"),
        share_fetch(0, "§a"), share_fetch(1, "§b"),
        share_fetch(2, max_wait_ms=100, forgotten_topics_data=[{"topic_id": of("topic_id a"), "partitions": [0]}]),
        share_fetch(-1), share_fetch(0, "§a", max_wait_ms=100), share_fetch(1, "§b"),
        share_fetch(0, "§a", max_wait_ms=100), share_acknowledge(-1),
        share_fetch(0, "§a"), share_fetch(1, "§b", max_wait_ms=100),
    ],
    "a-share-fetch-of-an-unknown-kind": [
        create("§a"), share_join("§a"), share_fetch(0, share_acquire_mode=2),
        share_fetch(0, "§a", parts={9: ()}, share_acquire_mode=2), share_fetch(-1, share_acquire_mode=2),
        share_fetch(0, "§a", share_acquire_mode=2),
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
    "acknowledgements-of-what-is-done-with": [
        create("§a"), EARLIEST, produce(records(OLD, OLD, OLD)), share_join("§a"), share_fetch(0, "§a"),
        share_acknowledge(1, "§a", parts={0: ((0, 1, ACCEPT),)}),
        *(share_acknowledge(at, "§a", parts={0: batches}) for at, batches in (
            (2, ((0, 0, ACCEPT), (0, 0, ACCEPT))), (3, ((0, 1, ACCEPT), (1, 1, ACCEPT))),
            (4, ((0, 0, ACCEPT), (0, 0, ACCEPT), (2, 2, ACCEPT), (2, 2, ACCEPT))),
            (5, ((1, 2, ACCEPT), (2, 2, ACCEPT))), (6, ((2, 2, ACCEPT),)))),
    ],
    "a-protocol-with-an-empty-name": [
        create("§a"), *(step for version in (3, 7, 9) for step in (
            join("m", "m" * 22, version, protocols=protocols("")), heartbeat("m" * 22, member_epoch=0),
            join("m", "m" * 22, version, protocols=protocols("")), heartbeat("m" * 22, member_epoch=-1))),
        *(join(f"n{version}", "", version, group_id=f"§h{version}", protocols=protocols("")) for version in (0, 3)),
        join("o", "", 9, group_id="§i", protocols=protocols("")),
        join("o", of("member_id o"), 9, group_id="§i", protocols=protocols("")),
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
    "markers-for-no-partitions": [
        create("§a"), create("§b"), marked(a=[0], b=[]), marked(b=[]), marked(),
    ],
    "markers-of-several-producers": [
        sized(a=2, b=2), *(Step("WriteTxnMarkers", 1, {"markers": [{
            "producer_id": producer_id, "producer_epoch": epoch, "transaction_result": False,
            "coordinator_epoch": coordinator_epoch,
            "topics": [{"name": f"§{name}", "partition_indexes": [*indexes]} for name, indexes in topics.items()],
        } for producer_id, epoch, coordinator_epoch, topics in several]}) for several in MARKERS),
    ],
    "markers-of-epochs-and-versions-that-there-are-not": [
        create("§a"), *(Step("WriteTxnMarkers", 2, {"markers": [{
            "producer_id": producer_id, "producer_epoch": epoch, "transaction_result": False, "coordinator_epoch": 0,
            "topics": [{"name": name, "partition_indexes": [0]}], "transaction_version": version,
        }]}) for name in ("§a", "§none") for producer_id, epoch, version in (
            (5, -2, 0), (5, -2, -1), (5, 3, -1), (5, 3, -2), (5, -2, 0), (-1, -2, 0), (5, -1, 2))),
    ],
    "share-fetches-of-an-unknown-kind": [
        create("§a"), share_join("§a"), share_fetch(0, topics=[NEVER], max_wait_ms=100),
        share_fetch(1, share_acquire_mode=2, max_wait_ms=100),
        *(share_fetch(at, "§a", parts={partition: ()}, share_acquire_mode=2, max_wait_ms=100)
          for at, partition in ((2, 9), (3, 0))),
    ],
    "reassignments-of-nothing": [
        Step("AlterPartitionReassignments", 1, {"topics": [], "allow_replication_factor_change": allowed})
        for allowed in (True, False)
    ],
    "clients-by-expressions-of-java": [
        alter(CLIENT_METRICS, f"§m{at}", ("match", 0, f"client_id={expression}")) for at, expression in enumerate((
            "a++", r"\p{L}+", r"\Qa.b\E", "[a-z&&[^b]]", "(?<n>a)", "(?P<n>a)", "a{", "a**", r"\y", r"\p{Nope}", "[a",
            "(?#a)b", r"\h*\R", "a{2}{3}", r"(a)\2", "]", "(?i)?", r"\08"))
    ],
    "a-partition-named-twice-at-an-unknown-level": [
        create("§a"), *(Step("ListOffsets", 11, {"replica_id": -1, "isolation_level": level, "topics": [
            {"name": "§a", "partitions": [{"partition_index": index, "timestamp": -2} for index in (0, 0, 1)]},
        ]}) for level in (1, 2)),
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
    "batches-that-nobody-can-read-spoil-their-request": [
        create("§a"),
        *(produce_to(version, {"§a": {0: [records()], 1: [records(patch={name: value})]}})
          for version in (3, 13) for name, value in (("magic", 3), ("magic", 1), ("length", 13), ("length", 48))),
        produce_to(9, {"§a": {9: [records(patch={"magic": 3})], 0: [records()]}, "§none": {0: [records()]}}),
    ],
    "codecs-that-there-are-not-spoil-their-request": [
        create("§a"),
        *(produce_to(version, {"§a": {0: [records()], number: [records(patch={"attributes": codec})]}})
          for version in (6, 7, 13) for codec in (5, 7) for number in (1, 9)),
    ],
    "two-batches-of-which-one-is-old": [
        create("§a"),
        *(produce_to(9, {"§a": {0: [{"records": [["k", "v", STAMP]], "magic": one} for one in two]}})
          for two in ((2, 2), (2, 1), (1, 2))),
        produce_to(9, {"§a": {0: [records(), records(patch={"magic": 3})]}}),
    ],
    "a-negative-producer-epoch-in-another-codec": [
        create("§a", compression_type="gzip"), create("§b"),
        *(produce(records(producer=[987, -1, 0]), name) for name in ("§a", "§b")),
    ],
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
    "topics-to-delete-that-are-not-named-once": [
        create("§a"), *(Step("DeleteTopics", 6, {"topics": topics, "timeout_ms": 10_000}) for topics in NOT_ONCE),
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
    "heartbeats-of-a-group-without-a-name": [
        create("§a"), commit_for(-1, 9, group_id=""),
        Step("Heartbeat", 2, {"group_id": "", "generation_id": 77, "member_id": "nobody"}),
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
    "a-static-member-turns-back-after-another-has-left": [
        create("§a"), heartbeat("m" * 22), heartbeat("o" * 22, instance_id="§o"),
        heartbeat("m" * 22, member_epoch=-1), join("o", "", 6, group_instance_id="§o"),
        Step("DescribeGroups", 5, {"groups": ["§g"]}), join("o", of("member_id o"), 6, group_instance_id="§o"),
    ],
    "a-partition-that-is-not-in-the-transaction": [
        create("§a"), create("§s", message_timestamp_type="LogAppendTime"), init(),
        transactional("§a", 0, FUTURE, version=9), transactional("§a", 0, bump=-1), transactional("§a", 7, FUTURE),
        transactional("§a", 7), transactional("§s", 0),
        Step("EndTxn", 4, {"transactional_id": "§x", "producer_id": of("producer_id x"),
                           "producer_epoch": of("producer_epoch x"), "committed": True}),
        fetch("§s"),
    ],
    "a-new-producer-whose-first-try-was-of-an-old-version": [
        create("§a"), create("§b"), init(), transactional("§a", 0, version=10), transactional("§b", 1, version=12),
        init(), transactional("§a", 1, version=12), transactional("§b", 1, version=12),
    ],
    "what-is-in-no-transaction-behind-a-refused-beginning": [
        create("§a"), init(), transactional("§a", 0, version=10), produce(idempotent(1)), produce(idempotent(0)),
        produce(idempotent(2)), join_transaction("§a"), transactional("§a", 2, version=10), end_transaction(True),
        produce(idempotent(4)), produce(idempotent(0)), fetch(),
    ],
    "a-marker-and-what-was-tried": [
        create("§a"), create("§b"), init(), transactional("§a", 0, version=10), join_transaction("§b"),
        join_transaction("§a"), transactional("§b", 0, version=10), end_transaction(True), produce(idempotent(0)),
        produce(idempotent(2)),
    ],
    "what-comes-behind-a-refused-beginning": [
        create("§a", message_timestamp_before_max_ms="1000"), init(), transactional("§a", 0, OLD),
        transactional("§a", 1, -1, version=9), transactional("§a", 0, -1, version=9),
    ],
    "metadata-by-id-and-by-name": [
        create("§a"),
        Step("Metadata", 12, {"topics": [{"topic_id": of("topic_id a"), "name": None}, {"name": None}]}),
        Step("Metadata", 12, {"topics": [{"topic_id": of("topic_id a"), "name": None}, {"name": "§d"}]}),
        Step("Metadata", 12, {"topics": [{"name": "§d"}], "allow_auto_topic_creation": False}),
    ],
    "producers-of-topics-that-can-not-be": [
        Step("DescribeProducers", 0, {"topics": [{"name": name, "partition_indexes": [0]}]})
        for name in ("", "a b", "§no")
    ],
    "topics-named-twice-or-without-partitions": [
        create("§a"), create("§b"), commit_for(-1),
        *(by_index(api, *named.items()) for api in BY_INDEX for named in NAMED),
        *(by_index(api, ("§a", [0]), ("§b", [0]), ("§a", [index])) for api in BY_INDEX for index in (0, 1)),
        *(Step("OffsetCommit", version, {"group_id": "§g", "topics": [
            {"name": name, "topic_id": of("topic_id " + name[1:]), "partitions": [
                {"partition_index": index, "committed_offset": 1, "committed_metadata": ""} for index in indexes]}
            for name, indexes in named.items()]}) for version in (8, 10) for named in NAMED),
        init(), Step("TxnOffsetCommit", 3, {
            "transactional_id": "§x", "group_id": "§g", "producer_id": of("producer_id x"), "producer_epoch": 0,
            "topics": [{"name": "§none", "partitions": []}, {"name": "§a", "partitions": []}]}),
        Step("AlterReplicaLogDirs", 2, {"dirs": [
            {"path": path, "topics": [{"name": "§a", "partitions": [0, 0]}]} for path in ("/none", "/nothing")]}),
    ],
    "what-a-controller-is-given-no-time-for": [
        create("§a"), *in_no_time("CreateTopics", new("§b"), new()),
        *in_no_time("DeleteTopics", {"topics": [A, UNKNOWN_ID]}, {"topics": []}),
        *in_no_time("CreatePartitions", grown("§a"), grown()),
        *in_no_time("ElectLeaders", elected("§a"), {"topic_partitions": None}),
        *in_no_time("AlterPartitionReassignments", moved("§a"), moved()),
        Step("DeleteTopics", 5, {"topic_names": ["§a"], "timeout_ms": -1}),
        Step("Metadata", 12, {"topics": [{"name": "§a"}, {"name": "§b"}], "allow_auto_topic_creation": False}),
    ],
    "what-is-wrong-before-the-time-is-looked-at-and-after": [
        create("§a"), *in_no_time(
            "CreateTopics", new(METADATA), new(METADATA, "§b"), new("§b", "§b", METADATA), new("§b", "§b", "§c"),
            new("§a"), new("a b"), new("§b", validate_only=True), new("§b", "§b", validate_only=True)),
        *in_no_time("DeleteTopics", *({"topics": topics} for topics in DELETED)),
        *(Step("DeleteTopics", version, {"topic_names": names, "timeout_ms": 0})
          for version in (1, 5) for names in (["§a", "§a"], ["§a", "§a", "§no"])),
        *in_no_time("CreatePartitions", *(grown(*names, validate_only=validate_only) for names in (
            ["§a", "§a"], ["§a", "§a", "§no"], ["§no"]) for validate_only in (False, True))),
        *in_no_time("ElectLeaders", elected("§no"), elected(election_type=9), elected("§a", election_type=9),
                    {"topic_partitions": None, "election_type": 9}),
        *in_no_time("AlterPartitionReassignments", moved("§no")),
        Step("Metadata", 12, {"topics": [{"name": "§a"}, {"name": "§b"}], "allow_auto_topic_creation": False}),
    ],
    "configs-of-a-resource-of-an-unknown-kind": [
        create("§a"), *(Step("DescribeConfigs", 4, {"resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": ["retention.ms"]}
            for kind, name in ((other, ""), (TOPIC, "§a"))]}) for other in (0, 99)),
    ],
    "share-offsets-named-twice-and-of-no-group": [
        create("§a"), *(Step("DescribeShareGroupOffsets", 1, {"groups": [{"group_id": group, "topics": [
            {"topic_name": "§a", "partitions": partitions} for partitions in several]}]})
            for group in ("§g", "") for several in ([[0, 0]], [[0], [1]])),
        Step("DescribeShareGroupOffsets", 1, {"groups": [{"group_id": "", "topics": [
            {"topic_name": "§none", "partitions": [0]}]}]}),
    ],
    "a-member-with-another-instance-id": [
        create("§a"), heartbeat("o" * 22, instance_id="§a"), heartbeat("o" * 22, instance_id="§o"),
        heartbeat("n" * 22, instance_id="§a"), heartbeat("o" * 22, instance_id="§a"),
        heartbeat("o" * 22, member_epoch=-1),
        *(streams_heartbeat("o" * 22, instance_id=instance_id, group_id=group)
          for group, several in (("§s", (None, "§a")), ("§t", ("§a", "§o"))) for instance_id in several),
        streams_heartbeat("n" * 22, instance_id="§a", group_id="§t"),
        Step("StreamsGroupDescribe", 1, {"group_ids": ["§s", "§t"]}),
    ],
    "partitions-named-twice-in-a-transaction": [
        create("§a"), create("§b"), init(),
        *(Step("AddPartitionsToTxn", version, add_partitions(version, names)) for version in (3, 5) for names in TWICE),
    ],
    "acks-that-there-are-not-in-a-transaction": [
        create("§a"), init(), join_transaction("§a"), end_transaction(True),
        *(produce(batch, version=9, acks=127, transactional_id="§x") for batch in (
            records(producer=[of("producer_id x"), of("producer_epoch x"), 0], transactional=True), records())),
    ],
    "a-repartition-topic-of-another-size": [
        sized(a=2, x=6), application(WRITERS[0], {
            "repartition_source_topics": [inner("§x", 3)], "state_changelog_topics": [inner("§log")]}), STREAMS,
    ],
    "repartition-topics-of-another-size-that-are-joined": [
        sized(a=2, b=6, x=3), application(*WRITERS, {
            "repartition_source_topics": [inner("§x", 5), inner("§y")], **TOGETHER}), STREAMS,
    ],
    "a-repartition-topic-with-two-writers": [
        sized(a=2, b=6),
        application(WRITERS[0] | {"subtopology_id": "10"}, WRITERS[1] | {"subtopology_id": "9"},
                    {"repartition_source_topics": [inner("§x"), inner("§y")]}), STREAMS,
    ],
    "counts-of-an-application": [
        sized(a=2, b=6), application(*WRITERS, {"repartition_source_topics": [inner("§x"), inner("§y")], **TOGETHER},
                                     {"source_topics": ["§a"], "repartition_sink_topics": ["§z"],
                                      "state_changelog_topics": [inner("§log")]},
                                     {"repartition_source_topics": [inner("§z", 4)]}), STREAMS,
    ],
    "what-a-streams-application-has-twice": [
        sized(a=2), *(step for fields in HAVING_TWICE for step in (
            streams_heartbeat("m" * 22, **fields), streams_heartbeat("m" * 22, **LEAVES),
            Step("DeleteGroups", 2, {"groups_names": ["§g"]}))),
    ],
    "keys-of-share-partitions": [
        create("§a"), *(Step("FindCoordinator", 6, {"key_type": 2, "coordinator_keys": [key]}) for key in (
            *NOT_OF_A_SHARE, f"g:{ID}:{2**31}", f"g:{ID}:{2**31 - 1}", f"g:{ID}:+1", f"g:{ID}:-1", f"g:{ID}==:0",
            f"a:b:{ID}:0", f"::{ID}:0")),
    ],
    "share-offsets-to-delete-that-are-named-twice": [
        create("§a", "§b"), Step("AlterShareGroupOffsets", 0, {"group_id": "§g", "topics": [
            {"topic_name": "§a", "partitions": [{"partition_index": 0, "start_offset": 0}]}]}),
        *(Step("DeleteShareGroupOffsets", 0, {"group_id": "§g", "topics": [{"topic_name": "§" + n} for n in names]})
          for names in (("no", "no", "b", "b"), ("a", "no", "a"), ("a", "a"))),
    ],
    "fetches-of-followers-that-there-are-not": [
        create("§a"), produce(records()), *(fetch(version=version, partition={"current_leader_epoch": epoch}, **who)
                                            for version, who in FOLLOWERS for epoch in (-1, 0)),
    ],
    "logs-with-names-too-long-to-be-moved": [
        Step("AlterReplicaLogDirs", 2, {"dirs": [{"path": "/none", "topics": [
            {"name": "§" + "x" * size, "partitions": [0, 10, -1]}]}]}) for size in (202, 203, 204, 205, 300)
    ],
    "members-of-a-share-group-of-whom-one-wants-what-is-not-there": [
        sized(a=2, c=6), *(Step("ShareGroupHeartbeat", 1, {
            "group_id": "§g", "member_id": name * 22, "member_epoch": 0, "subscribed_topic_names": topics,
        }) for name, topics in (("m", ["§none", "§a", "§c"]), ("n", ["§a", "§c"]))),
        Step("ShareGroupDescribe", 1, {"group_ids": ["§g"]}),
    ],
    "a-scram-password-that-is-empty": [
        Step("AlterUserScramCredentials", 0, {"upsertions": [
            {"name": "§u", "mechanism": 1, "iterations": 4096, "salt": {"hex": "01"}, "salted_password": {"hex": ""}},
        ]}),
    ],
}  # fmt: skip
