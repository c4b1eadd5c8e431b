"""Topics as the page lists them: a piece at a time, with sizes and what has gone in and out.

Rule: what a list shows is looked up for its piece alone, but for what it is sorted by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pykafka_broker.cluster.image import PartitionImage, TopicImage
from pykafka_broker.cluster.topic_names import INTERNAL_TOPICS
from pykafka_broker.control.control import Control
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.schema import Limits
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.protocol.runtime import uuid_text

From = Annotated[int, Limits(minimum=0, maximum=2**31 - 1)]
Piece = Annotated[int, Limits(minimum=1, maximum=500)]
SortedBy = Literal["name", "partitions", "records", "bytes"]


@dataclass
class TopicRow:
    """A topic in a list. Records and bytes are those of the logs on this node; `messages_in`, `bytes_in` and
    `bytes_out` count what clients have written and read since the process began."""

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
    """A piece of a list; `total` says how many there are."""

    total: int
    topics: list[TopicRow]


@dataclass
class PartitionRow:
    """A partition. `start`, `stable`, `end`, `bytes` and `segments` are of the log on this node, null where it has
    none; `stable` is where read_committed ends."""

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


def browse_topics(
    control: Control,
    search: str = "",
    internal: bool = False,
    sort: SortedBy = "name",
    descending: bool = False,
    offset: From = 0,
    limit: Piece = 100,
) -> TopicRows:
    """A piece of the list of topics whose names hold `search`."""
    fitting = [
        each
        for each in control.services.image.topics.values()
        if search.lower() in each.name.lower() and (internal or each.name not in INTERNAL_TOPICS)
    ]
    orders: dict[str, Callable[[TopicImage], int]] = {
        "partitions": lambda topic: len(topic.partitions),
        "records": lambda topic: sum(each.log_end_offset - each.log_start_offset for each in _logs(control, topic)),
        "bytes": lambda topic: sum(each.size_bytes for each in _logs(control, topic)),
    }
    fitting.sort(key=lambda topic: topic.name, reverse=descending and sort == "name")
    if sort in orders:
        fitting.sort(key=orders[sort], reverse=descending)
    control.observing.counts.catch_up()
    return TopicRows(len(fitting), [_row(control, each) for each in fitting[offset : offset + limit]])


def browse_topic(control: Control, topic: str, offset: From = 0, limit: Piece = 100) -> PartitionRows:
    """A topic and a piece of its partitions."""
    found = control.services.image.topics.get(topic)
    if found is None:
        raise Problem(404, f"there is no topic {topic}", code="UNKNOWN_TOPIC_OR_PARTITION")
    numbers = sorted(found.partitions)[offset : offset + limit]
    rows = [_partition(control, found, found.partitions[each]) for each in numbers]
    internal = found.name in INTERNAL_TOPICS
    return PartitionRows(found.name, uuid_text(found.id), internal, len(found.partitions), rows)


def _logs(control: Control, topic: TopicImage) -> Iterator[PartitionLog]:
    loaded = control.broker.node.logs.loaded
    return (log for number in topic.partitions if (log := loaded.get((topic.name, number))) is not None)


def _row(control: Control, topic: TopicImage) -> TopicRow:
    logs, partitions = list(_logs(control, topic)), topic.partitions.values()
    sums = control.observing.counts.topics.get(topic.name)
    return TopicRow(
        topic.name,
        topic.name in INTERNAL_TOPICS,
        len(topic.partitions),
        max((len(each.replicas) for each in partitions), default=0),
        sum(len(each.isr) < len(each.replicas) for each in partitions),
        sum(each.log_end_offset - each.log_start_offset for each in logs),
        sum(each.size_bytes for each in logs),
        sums.messages_in if sums else 0,
        sums.bytes_in if sums else 0,
        sums.bytes_out if sums else 0,
    )


def _partition(control: Control, topic: TopicImage, state: PartitionImage) -> PartitionRow:
    row = PartitionRow(
        state.partition,
        state.leader,
        state.leader_epoch,
        list(state.replicas),
        list(state.isr),
        *(None, None, None, None, None),
    )
    log = control.broker.node.logs.loaded.get((topic.name, state.partition))
    if log is not None:
        row.start, row.stable, row.end = log.log_start_offset, log.last_stable_offset, log.high_watermark
        row.bytes, row.segments = log.size_bytes, len(log.segments)
    return row
