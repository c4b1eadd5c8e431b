"""The lists of the page: totals, topics with sizes, groups with lag, transactions, configs.

Rule: a list is sent in pieces, and details are looked up for the sent piece alone. Only the field that sorts the list
is looked up for all topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from pykafka_broker.cluster.image import PartitionImage, TopicImage
from pykafka_broker.cluster.scram import SCRAM_MECHANISMS
from pykafka_broker.cluster.topic_names import INTERNAL_TOPICS, TRANSACTION_STATE
from pykafka_broker.control.answers import GroupSummary
from pykafka_broker.control.api.groups import all_groups, committed, summary, total_lag
from pykafka_broker.control.api.topics import raise_if, topic_image
from pykafka_broker.control.control import Control, SchemaSubject, in_pauses
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.schema import Index, ValueLimits
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.enums import (
    AclOperation,
    AclPermissionType,
    AclResourceType,
    ConfigResourceType,
    PatternType,
)
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from pykafka_broker.protocol.messages.describe_transactions_response import TransactionState
from pykafka_broker.protocol.messages.list_transactions_request import ListTransactionsRequest
from pykafka_broker.protocol.runtime import uuid_text

Piece = Annotated[int, ValueLimits(minimum=1, maximum=500)]
SortedBy = Literal["name", "partitions", "records", "bytes"]
GroupsSortedBy = Literal["group", "type", "state", "members", "lag"]
_GROUPS_IN_A_TURN = _IDS_IN_A_TURN = 100


@dataclass
class TopicRow:
    """A topic in a list. Records are counted in the partitions the node leads, bytes in all logs of the node;
    `messages_in`, `bytes_in` and `bytes_out` count the clients' traffic since the process began.
    """

    name: str
    internal: bool
    partitions: int
    replication_factor: int
    out_of_sync: int
    records: int
    bytes: int
    messages_in: int
    bytes_in: int
    bytes_out: int


@dataclass
class TopicRows:
    """A piece of a list; `total` is the length of the list."""

    total: int
    topics: list[TopicRow]


@dataclass
class PartitionRow:
    """A partition. `start`, `stable`, `end`, `bytes` and `segments` describe the log on the node, and are null without
    one; `stable` is where read_committed ends.
    """

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    start: int | None
    stable: int | None
    end: int | None
    bytes: int | None
    segments: int | None


@dataclass
class PartitionRows:
    """A piece of a topic's partitions."""

    name: str
    topic_id: str
    internal: bool
    total: int
    partitions: list[PartitionRow]


async def browse_topics(
    control: Control,
    search: str = "",
    internal: bool = False,
    sort: SortedBy = "name",
    descending: bool = False,
    offset: Index = 0,
    limit: Piece = 100,
) -> TopicRows:
    """Return a piece of the list of topics, with names containing `search`."""
    fitting = [
        each
        for each in control.services.image.topics.values()
        if search.lower() in each.name.lower() and (internal or each.name not in INTERNAL_TOPICS)
    ]
    orders: dict[str, Callable[[TopicImage], int]] = {
        "partitions": lambda topic: len(topic.partitions),
        "records": lambda topic: _records(control, topic),
        "bytes": lambda topic: sum(each.segments.size_bytes for each in _logs(control, topic)),
    }
    fitting.sort(key=lambda topic: topic.name, reverse=descending and sort == "name")
    if sort in orders:
        fitting.sort(key=orders[sort], reverse=descending)
    await control.counted()
    return TopicRows(len(fitting), [_row(control, each) for each in fitting[offset : offset + limit]])


def browse_topic(control: Control, topic: str, offset: Index = 0, limit: Piece = 100) -> PartitionRows:
    """Return a topic and a piece of the partitions."""
    found = topic_image(control, topic)
    indexes = sorted(found.partitions)[offset : offset + limit]
    rows = [_partition(control, found, found.partitions[each]) for each in indexes]
    internal = found.name in INTERNAL_TOPICS
    return PartitionRows(found.name, uuid_text(found.id), internal, len(found.partitions), rows)


def _logs(control: Control, topic: TopicImage) -> Iterator[PartitionLog]:
    loaded = control.broker.node.logs.loaded
    return (log for index in topic.partitions if (log := loaded.get((topic.name, index))) is not None)


def _records(control: Control, topic: TopicImage) -> int:
    """Return the number of offsets in the partitions the node leads: of all nodes together, each counts once."""
    loaded, node_id = control.broker.node.logs.loaded, control.services.node_id
    logs = (loaded.get((topic.name, each.partition)) for each in topic.partitions.values() if each.leader == node_id)
    return sum(log.log_end_offset - log.log_start_offset for log in logs if log is not None)


def _row(control: Control, topic: TopicImage) -> TopicRow:
    partitions = topic.partitions.values()
    sums = control.observing.counts.topics.get(topic.name)
    return TopicRow(
        topic.name,
        topic.name in INTERNAL_TOPICS,
        len(topic.partitions),
        max((len(each.replicas) for each in partitions), default=0),
        sum(len(each.isr) < len(each.replicas) for each in partitions),
        _records(control, topic),
        sum(each.segments.size_bytes for each in _logs(control, topic)),
        sums.messages_in if sums else 0,
        sums.bytes_in if sums else 0,
        sums.bytes_out if sums else 0,
    )


def _partition(control: Control, topic: TopicImage, state: PartitionImage) -> PartitionRow:
    of_state = (state.partition, state.leader, state.leader_epoch, list(state.replicas), list(state.isr))
    log = control.broker.node.logs.loaded.get((topic.name, state.partition))
    if log is None:
        return PartitionRow(*of_state, *(None, None, None, None, None))
    offsets = log.log_start_offset, log.last_stable_offset, log.high_watermark
    return PartitionRow(*of_state, *offsets, log.segments.size_bytes, len(log.segments))


_SOURCES = {  # sources of DescribeConfigs (KIP-226)
    1: "topic",
    2: "broker, dynamic",
    3: "all brokers, dynamic",
    4: "broker, static",
    5: "default",
    6: "broker, logger",
    7: "client metrics",
    8: "group",
}


@dataclass
class Overview:
    """Totals. Traffic is counted since the process began; `now_ms` is the broker's time."""

    now_ms: int
    topics: int
    partitions: int
    groups: int
    connections: int
    bytes: int
    messages_in: int
    bytes_in: int
    bytes_out: int
    requests: int


@dataclass
class GroupRow:
    """A group in a list, with the number of records left to read."""

    group: GroupSummary
    lag: int


@dataclass
class GroupRows:
    """A piece of a list; `total` is the length of the list."""

    total: int
    groups: list[GroupRow]


@dataclass
class TransactionRow:
    """A transactional id and its transaction. `started_ms` is null without an open transaction; `partitions` are
    the partitions of the transaction, by topic.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    partitions: dict[str, list[int]]


@dataclass
class ConfigRow:
    """A config in force and the source of the value. The value of a secret is null."""

    name: str
    value: str | None
    source: str
    read_only: bool
    secret: bool


async def browse_overview(control: Control) -> Overview:
    """Return totals."""
    counts, services = await control.counted(), control.services
    topics, sums = services.image.topics.values(), counts.topics.values()
    return Overview(
        services.clock.wall,
        len(topics),
        sum(len(each.partitions) for each in topics),
        0 if services.loading() else len(all_groups(services)),
        control.server.connection_count,
        sum(log.segments.size_bytes for log in control.broker.node.logs.loaded.values()),
        sum(each.messages_in for each in sums),
        sum(each.bytes_in for each in sums),
        sum(each.bytes_out for each in sums),
        sum(each.requests for each in counts.apis.values()),
    )


async def browse_groups(
    control: Control,
    search: str = "",
    topic: str | None = None,
    sort: GroupsSortedBy = "group",
    descending: bool = False,
    offset: Index = 0,
    limit: Piece = 100,
) -> GroupRows:
    """Return a piece of the list of groups, with names containing `search`; with `topic` the groups that have
    committed offsets of the topic.
    """
    fitting, lags = [], {}
    async for each in in_pauses(all_groups(control.services), _GROUPS_IN_A_TURN):
        if search.lower() in each.group_id.lower():
            offsets = await committed(control, each.group_id) if topic is not None or sort == "lag" else []
            if topic is None or any(there["topic"] == topic for there in offsets):
                fitting.append(each)
                lags[each.group_id] = total_lag(offsets)
    if sort == "lag":
        fitting.sort(key=lambda group: lags[group.group_id], reverse=descending)
    elif sort == "group":
        fitting.sort(key=lambda group: group.group_id, reverse=descending)
    else:
        fitting.sort(key=lambda group: cast(Any, summary(group)[sort]), reverse=descending)
    rows = [
        GroupRow(summary(each), total_lag(await committed(control, each.group_id)))
        for each in fitting[offset : offset + limit]
    ]
    return GroupRows(len(fitting), rows)


@dataclass
class SubjectRows:
    """A piece of a list; `total` is the length of the list."""

    total: int
    subjects: list[SchemaSubject]


def browse_schemas(control: Control, search: str = "", offset: Index = 0, limit: Piece = 100) -> SubjectRows:
    """Return a piece of the list of the schema registry's subjects, with names containing `search`. 404 where no
    registry is in the process of the broker.
    """
    if control.subjects is None:
        raise Problem(404, "no schema registry is beside this broker (--schema-registry)")
    fitting = [each for each in control.subjects() if search.lower() in each["subject"].lower()]
    return SubjectRows(len(fitting), fitting[offset : offset + limit])


@dataclass
class AclRow:
    """An ACL, in the words of Kafka's tools."""

    principal: str
    permission: str
    operation: str
    resource_type: str
    pattern_type: str
    resource_name: str
    host: str


@dataclass
class QuotaRow:
    """The quotas of an entity: types and names, where null is the default of the type. A quota that is no finite number
    is null.
    """

    entity: dict[str, str | None]
    quotas: dict[str, float | None]


@dataclass
class Access:
    """ACLs, the SCRAM mechanisms of each user, and quotas."""

    acls: list[AclRow]
    users: dict[str, list[str]]
    quotas: list[QuotaRow]


_MECHANISMS = {number: name for name, number in SCRAM_MECHANISMS.items()}


def browse_access(control: Control) -> Access:
    """Return who may do what, and how much."""
    image = control.services.image
    users: dict[str, list[str]] = {}
    for mechanism, name in sorted(image.scram):
        users.setdefault(name, []).append(_MECHANISMS.get(mechanism, str(mechanism)))
    acls = [
        AclRow(
            each.principal,
            AclPermissionType(each.permission_type).name,
            AclOperation(each.operation).name,
            AclResourceType(each.resource_type).name,
            PatternType(each.pattern_type).name,
            each.resource_name,
            each.host,
        )
        for each in image.acls.values()
    ]
    acls.sort(key=lambda row: (row.principal, row.resource_type, row.resource_name, row.operation))
    quotas = [QuotaRow(dict(entity), dict(values)) for entity, values in sorted(image.client_quotas.items(), key=str)]
    return Access(acls, users, quotas)


@dataclass
class KnownNames:
    """The names that a fault may have: of APIs, and of errors."""

    apis: list[str]
    errors: list[str]


def browse_names(control: Control) -> KnownNames:
    """Return the names of all APIs and of all errors, sorted."""
    return KnownNames(sorted(spec.name for spec in SPECS.values()), sorted(code.name for code in ErrorCode if code))


async def browse_transactions(control: Control) -> list[TransactionRow]:
    """Return the transactional ids the node coordinates."""
    if TRANSACTION_STATE not in control.services.image.topics:
        return []  # no transaction was ever used
    listed = await control.inside.ask(ListTransactionsRequest())
    raise_if(listed.error_code)
    names = sorted(each.transactional_id for each in listed.transaction_states)
    rows: list[TransactionRow] = []
    pieces = (names[first : first + _IDS_IN_A_TURN] for first in range(0, len(names), _IDS_IN_A_TURN))
    async for piece in in_pauses(pieces, 1):
        described = await control.inside.ask(DescribeTransactionsRequest(transactional_ids=piece))
        rows += map(_transaction_row, (each for each in described.transaction_states if not each.error_code))
    return rows


def _transaction_row(each: TransactionState) -> TransactionRow:
    return TransactionRow(
        each.transactional_id,
        each.transaction_state,
        each.producer_id,
        each.producer_epoch,
        each.transaction_timeout_ms,
        each.transaction_start_time_ms if each.transaction_start_time_ms >= 0 else None,
        {topic.topic: list(topic.partitions) for topic in each.topics},
    )


async def browse_configs(control: Control, kind: Literal["topic", "broker"], name: str) -> list[ConfigRow]:
    """Return the configs in force of a topic, or of a broker by the id."""
    kinds = {"topic": ConfigResourceType.TOPIC, "broker": ConfigResourceType.BROKER}
    asked = DescribeConfigsResource(int(kinds[kind]), name, None)
    (found,) = (await control.inside.ask(DescribeConfigsRequest([asked]))).results
    raise_if(found.error_code, found.error_message)
    return [
        ConfigRow(each.name, each.value, _SOURCES.get(each.config_source, "unknown"), each.read_only, each.is_sensitive)
        for each in sorted(found.configs, key=lambda each: each.name)
    ]
