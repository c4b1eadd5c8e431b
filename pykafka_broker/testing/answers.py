"""The types of what a broker answers to a test.

Rule: a type is a dict, as the control API has written it, with the fields of the dataclass of the same meaning in
`control/`; a test compares both. Nothing is converted, so an answer costs nothing more than its JSON. A field that a
cluster adds to the answers of its brokers is not required.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypeAlias, TypedDict

ConfigValue: TypeAlias = str | int | float | bool


class Topic(TypedDict):
    """A topic with the configs set for the topic. `partitions` is the number of partitions."""

    name: str
    topic_id: str
    partitions: int
    internal: bool
    config: dict[str, str]


class PartitionState(TypedDict):
    """A partition's leader (-1 for none), the replicas and the replicas in sync.

    `log_start_offset` and `high_watermark`, the bounds for consumers, are None if the broker that was asked is not the
    leader.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    log_start_offset: int | None
    high_watermark: int | None


class LogSize(TypedDict):
    """The size of a partition's log on one broker."""

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    segments: int
    bytes: int


class Member(TypedDict):
    """A member of a group. `partitions` are the assigned partitions by topic."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    partitions: dict[str, list[int]]


class CommittedPartition(TypedDict):
    """A partition read by a group. `lag` is the number of records still to read.

    `committed` is None without a commit: then all records of the partition are still to read. `end` and `lag` are None
    if the broker that was asked does not lead the partition; a cluster asks the leaders.
    """

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    metadata: str | None


class GroupSummary(TypedDict):
    """A group. `type` is classic, consumer, share or streams; `members` is the number of members."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    members: int


class Group(TypedDict):
    """A group with members and committed offsets."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    members: list[Member]
    offsets: list[CommittedPartition]


class Transaction(TypedDict):
    """A transactional id with producer, state of the transaction, and participating partitions."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    partitions: list[str]


class Connection(TypedDict):
    """A client's connection. `client_id` is None before the first request.

    `node_id` is the broker of a cluster.
    """

    connection: int
    client_id: str | None
    principal: str
    software: str
    client: str
    listener: str
    node_id: NotRequired[int]


class SeenRequest(TypedDict):
    """A client's request. `number` counts the broker's answers and is None while the request waits.

    `time` is its arrival in epoch milliseconds of the broker's clock; `response_bytes` is None without an answer;
    `errors` are the names of Kafka's errors in the answer; `fault` is the id of the fault that affected it. `request`
    and `response` are there if bodies were asked for, with the names of Kafka's schemas; `node_id` is the broker of a
    cluster.
    """

    number: int | None
    time: int
    duration_ms: float
    connection: int
    client: str
    listener: str
    client_id: str | None
    principal: str
    software: str
    api: str
    version: int
    correlation_id: int
    request_bytes: int
    response_bytes: int | None
    errors: list[str]
    fault: int | None
    request: NotRequired[Any]
    response: NotRequired[Any]
    node_id: NotRequired[int]


class FaultState(TypedDict):
    """A fault with all arguments, the number of affected requests (`hits`) and of requests held now (`held`).

    Of a cluster, `nodes` are the hits by broker, and `node_id` is the broker of a fault in a list.
    """

    id: int
    hits: int
    held: int
    spent: bool
    api: list[str] | None
    version: int | None
    client_id: str | None
    principal: str | None
    connection: int | None
    listener: str | None
    topic: str | None
    partition: int | None
    group: str | None
    transactional_id: str | None
    every: int
    times: int | None
    probability: float
    seed: int
    error: str | None
    applied: bool
    delay_ms: int
    delay_clock: str
    drop: str | None
    cut: bool
    corrupt: bool
    hang: bool
    throttle_ms: int
    connect: str | None
    nodes: NotRequired[dict[int, int]]
    node_id: NotRequired[int]


class ChaosState(TypedDict):
    """The share of all requests to disturb at random, and the number of disturbed requests."""

    seed: int
    rate: float
    hits: int


class Snapshot(TypedDict):
    """A snapshot. `size_bytes` is the size of the records."""

    name: str
    size_bytes: int


class Node(TypedDict):
    """A broker of a cluster. `silent_ms` is the time since the last heartbeat.

    None if the node that was asked is not the controller.
    """

    node_id: int
    listeners: dict[str, str]
    rack: str | None
    fenced: bool
    silent_ms: int | None


class ClusterState(TypedDict):
    """A cluster as known to a node. `controller_id` is -1 while no leader of the metadata is known.

    `metadata_offset` is how far the node has read the metadata log.
    """

    cluster_id: str
    controller_id: int
    metadata_offset: int
    brokers: list[Node]
