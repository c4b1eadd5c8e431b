"""The types of answers, shown to tests by `pykafka_broker.testing.answers`.

Rule: an answer is a dict with these fields, as in JSON; `null` is None. The docstrings are the descriptions in
`/openapi.json`. The module imports nothing but types, so tests get them at no cost.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class Topic(TypedDict):
    """A topic: name, Kafka's id, number of partitions, and configs set for the topic."""

    name: str
    topic_id: str
    partitions: int
    internal: bool
    config: dict[str, str]


class PartitionState(TypedDict):
    """The replicas of a partition: `leader` is -1 without a leader, `isr` are the replicas in sync. `log_start_offset`
    and `high_watermark` are the bounds of consumers' reads; null where the broker that was asked is not the leader.
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
    """The present content of a partition on a broker."""

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    segments: int
    bytes: int


class Member(TypedDict):
    """A member of a group; `partitions` are the assigned partitions, by topic."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    partitions: dict[str, list[int]]


class CommittedPartition(TypedDict):
    """The position of a group in a partition: `lag` is the number of records left. Without a commit `committed` is
    null, and everything in the partition is left. `end` and `lag` are null if another broker leads the partition, since
    only the leader knows.
    """

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    metadata: str | None


class GroupSummary(TypedDict):
    """A group. `type` is classic, consumer, share or streams; `state` is in Kafka's words (Stable, Empty, ...);
    `members` is the number of members.
    """

    group_id: str
    type: str
    state: str
    protocol_type: str
    members: int


class GroupDetails(TypedDict):
    """A group with the members and the committed offsets."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    members: list[Member]
    offsets: list[CommittedPartition]


class TransactionDetails(TypedDict):
    """A transactional id: producer, state of the transaction, and partitions in the transaction."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    partitions: list[str]


class Connected(TypedDict):
    """A connection of a client. The client id is null before the first request; the principal is User:ANONYMOUS
    before the client has authenticated.
    """

    connection: int
    client_id: str | None
    principal: str
    software: str
    client: str
    listener: str


class SeenRequestAnswer(TypedDict):
    """A request of a client. `number` counts the answers of the broker and is null while the request waits; `time` is
    the broker's at arrival, in milliseconds since 1970. `response_bytes` is null without an answer: the request waits,
    or its client or connection has gone, or the protocol has none. `errors` are the names of Kafka's errors in the
    answer. `fault` is the fault that has met the request. `request` and `response` are null unless bodies were asked
    for, which have the names of Kafka's schemas.
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
    request: Any
    response: Any


class FaultAnswer(TypedDict):
    """A fault: the numbers of hits, of held requests and of requests that fitted so far, and the definition."""

    id: int
    hits: int
    held: int
    fitted: int
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
    nth: int | None
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
    event: str | None


class Advice(TypedDict):
    """An advice for a client. `seen` is the evidence, `since` the release and KIP, `change` what to do; `requests`
    are the numbers of a few requests that show it. `node_id` is the broker of a cluster that saw them.
    """

    rule: str
    client_id: str | None
    software: str
    seen: str
    since: str
    change: str
    requests: list[int]
    node_id: NotRequired[int]


class RecordingState(TypedDict):
    """A recording of whole requests and answers. `full`: it has reached its most bytes, and takes no more."""

    exchanges: int
    size_bytes: int
    full: bool


class ChaosHit(TypedDict):
    """A fault that was drawn for the `nth` request of a client id to an API: the arguments of `add_fault`, with `topic`
    and `group` where the chaos is limited to one. `node_id` is the broker of a cluster that drew it, `start` which of
    its starts after a trouble.
    """

    client_id: str | None
    api: str
    topic: str | None
    group: str | None
    nth: int
    error: str | None
    delay_ms: int
    drop: str | None
    throttle_ms: int
    event: str | None
    node_id: NotRequired[int]
    start: NotRequired[int]


class ChaosState(TypedDict):
    """Random faults: a share of all requests is disturbed, or of those that match `api`, `client_id`, `topic` and
    `group`, drawn from the seed, while it is `active`. `fitted` counts the matching requests and `hits` the disturbed
    ones; `met` has the first ten thousand.
    """

    seed: int
    rate: float
    events: bool
    api: list[str] | None
    client_id: str | None
    topic: str | None
    group: str | None
    active: bool
    fitted: int
    hits: int
    met: list[ChaosHit]


class Snapshot(TypedDict):
    """A snapshot of the whole state. `size_bytes` is the size of the records."""

    name: str
    size_bytes: int


class Node(TypedDict):
    """A broker: addresses for clients, rack, and whether the broker is fenced and hidden from clients.
    `silent_ms` is the time since its last heartbeat, on the controller's clock; null where another node is the
    controller.
    """

    node_id: int
    listeners: dict[str, str]
    rack: str | None
    fenced: bool
    silent_ms: int | None


class Cluster(TypedDict):
    """The cluster as known to the node; `controller_id` is -1 while no leader of the metadata is known, and
    `metadata_offset` is this node's position in the metadata log.
    """

    cluster_id: str
    controller_id: int
    metadata_offset: int
    brokers: list[Node]
