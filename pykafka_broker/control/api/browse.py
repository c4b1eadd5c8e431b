"""What else the page shows: how much there is, groups with their lag, transactions, configs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pykafka_broker.cluster.topic_names import TRANSACTION_STATE
from pykafka_broker.control.api.browse_topics import From, Piece
from pykafka_broker.control.api.topics import raise_if
from pykafka_broker.control.control import Control
from pykafka_broker.control.groups_view import GroupSummary, all_groups, committed, summary, total_lag
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from pykafka_broker.protocol.messages.list_transactions_request import ListTransactionsRequest

_SOURCES = {  # of DescribeConfigs (KIP-226)
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
    """How much there is. What went in and out is counted since the process began; `now_ms` is the broker's time."""

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
    """A group in a list, with all that it has still to read."""

    group: GroupSummary
    lag: int


@dataclass
class GroupRows:
    """A piece of a list; `total` says how many there are."""

    total: int
    groups: list[GroupRow]


@dataclass
class TransactionRow:
    """A transactional id and what its transaction is doing. `started_ms` is null where none is under way; `partitions`
    are those that it has written to, by topic."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    partitions: dict[str, list[int]]


@dataclass
class ConfigRow:
    """A config in force and where its value comes from. The value of a secret is null."""

    name: str
    value: str | None
    source: str
    read_only: bool
    secret: bool


def browse_overview(control: Control) -> Overview:
    """How much there is."""
    services, counts = control.services, control.observing.counts
    counts.catch_up()
    topics, sums = services.image.topics.values(), counts.topics.values()
    return Overview(
        services.clock.wall,
        len(topics),
        sum(len(each.partitions) for each in topics),
        0 if services.loading() else len(all_groups(services)),
        control.server.connection_count,
        sum(log.size_bytes for log in control.broker.node.logs.loaded.values()),
        sum(each.messages_in for each in sums),
        sum(each.bytes_in for each in sums),
        sum(each.bytes_out for each in sums),
        sum(each.requests for each in counts.apis.values()),
    )


def browse_groups(control: Control, search: str = "", offset: From = 0, limit: Piece = 100) -> GroupRows:
    """A piece of the list of groups whose names hold `search`."""
    fitting = [each for each in all_groups(control.services) if search.lower() in each.group_id.lower()]
    rows = [
        GroupRow(summary(each), total_lag(committed(control.services, each.group_id)))
        for each in fitting[offset : offset + limit]
    ]
    return GroupRows(len(fitting), rows)


async def browse_transactions(control: Control) -> list[TransactionRow]:
    """The transactional ids that this node is the coordinator of."""
    if TRANSACTION_STATE not in control.services.image.topics:
        return []  # nobody has used one
    listed = await control.inside.ask(ListTransactionsRequest())
    raise_if(listed.error_code)
    names = sorted(each.transactional_id for each in listed.transaction_states)
    described = await control.inside.ask(DescribeTransactionsRequest(transactional_ids=names))
    return [
        TransactionRow(
            each.transactional_id,
            each.transaction_state,
            each.producer_id,
            each.producer_epoch,
            each.transaction_timeout_ms,
            each.transaction_start_time_ms if each.transaction_start_time_ms >= 0 else None,
            {topic.topic: list(topic.partitions) for topic in each.topics},
        )
        for each in described.transaction_states
        if not each.error_code
    ]


async def browse_configs(control: Control, kind: Literal["topic", "broker"], name: str) -> list[ConfigRow]:
    """The configs in force of a topic, or of a broker by its id."""
    kinds = {"topic": ConfigResourceType.TOPIC, "broker": ConfigResourceType.BROKER}
    asked = DescribeConfigsResource(int(kinds[kind]), name, None)
    (found,) = (await control.inside.ask(DescribeConfigsRequest([asked]))).results
    raise_if(found.error_code, found.error_message)
    return [
        ConfigRow(each.name, each.value, _SOURCES.get(each.config_source, "unknown"), each.read_only, each.is_sensitive)
        for each in sorted(found.configs, key=lambda each: each.name)
    ]
