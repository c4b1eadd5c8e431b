"""What nodes must agree about when all is whole: the metadata, and every byte of every replica."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.cluster.image_records import image_records
from pykafka_broker.log.partition_log import PartitionLog
from tests.simulation.node import SimNode

_RECORD_VERSIONS = 2, 4  # of partitions and of brokers: those that say the most


def unsettled(nodes: Sequence[SimNode]) -> list[str]:
    """Partitions that are not what they should be when nothing is wrong any more: led, with every replica in sync and
    everything committed.
    """
    by_id = {node.id: node for node in nodes}
    found = []
    for name, topic in nodes[0].broker.node.image.topics.items():
        for number, each in topic.partitions.items():
            if each.leader not in by_id or set(each.isr) != set(each.replicas):
                found.append(f"{name}-{number} is led by {each.leader}, in sync are {list(each.isr)}")
            elif (log := _log(by_id[each.leader], name, number)).high_watermark < log.log_end_offset:
                found.append(f"{name}-{number} is committed to {log.high_watermark} of {log.log_end_offset}")
    return found


def differences(nodes: Sequence[SimNode]) -> Iterator[str]:
    """Between their images, and between their replicas."""
    texts = {node.name: _text(node.broker.node.image) for node in nodes}
    first, *others = nodes
    for other in others:
        differing = set(texts[first.name]) ^ set(texts[other.name])
        if differing:
            yield f"{first.name} and {other.name} know different metadata: {sorted(differing)[:4]}"
    by_id = {node.id: node for node in nodes}
    for name, topic in first.broker.node.image.topics.items():
        for number, each in topic.partitions.items():
            logs = [_log(by_id[id], name, number) for id in each.replicas if id in by_id]
            yield from _differ(f"{name}-{number}", logs)


def _differ(partition: str, logs: list[PartitionLog]) -> Iterator[str]:
    end = min(log.high_watermark for log in logs)
    contents = [_bytes_to(log, end) for log in logs]
    for log, content in zip(logs, contents, strict=True):
        if log.log_start_offset != logs[0].log_start_offset:
            yield f"replicas of {partition} start at {logs[0].log_start_offset} and {log.log_start_offset}"
        elif content != contents[0]:
            yield f"replicas of {partition} differ below {end}: {len(contents[0])} and {len(content)} bytes"


def _bytes_to(log: PartitionLog, end: int) -> bytes:
    pieces, offset = [], log.log_start_offset
    while offset < end and (read := log.read(offset, 1 << 20, end)) is not None:
        pieces.append(read.records.read())
        offset = read.end_offset()
    return b"".join(pieces)


def _log(node: SimNode, topic: str, partition: int) -> PartitionLog:
    return node.broker.node.logs.get(topic, partition)


def _text(image: MetadataImage) -> list[str]:
    return [repr(each.message) for each in image_records(image, *_RECORD_VERSIONS)]
