"""What nodes must agree about when all is whole: the metadata, and every byte of every replica."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.cluster.image_records import image_records
from pykafka_broker.log.partition_log import PartitionLog
from tests.simulation.node import SimNode

METADATA_FOLDER = "__cluster_metadata-0"
_RECORD_VERSIONS = 2, 4  # of partitions and of brokers: those that say the most


def unsettled(nodes: Sequence[SimNode]) -> list[str]:
    """Partitions that are not what they should be when nothing is wrong any more: led, with every replica in sync and
    everything committed.
    """
    by_id = {node.id: node for node in nodes}
    found = []
    for name, topic in nodes[0].broker.node.image.topics.items():
        for number, each in topic.partitions.items():
            if each.adding_replicas or each.removing_replicas:
                found.append(f"{name}-{number} still moves: {each.adding_replicas} and {each.removing_replicas}")
            elif each.leader not in by_id or set(each.isr) != set(each.replicas):
                found.append(f"{name}-{number} is led by {each.leader}, in sync are {list(each.isr)}")
            elif (log := _log(by_id[each.leader], name, number)).high_watermark < log.log_end_offset:
                found.append(f"{name}-{number} is committed to {log.high_watermark} of {log.log_end_offset}")
    return found


def leftovers(nodes: Sequence[SimNode]) -> Iterator[str]:
    """Folders of partitions that are not there, or somebody else's; and one partition in two directories."""
    for node in nodes:
        mine = {
            f"{name}-{number}"
            for name, topic in node.broker.node.image.topics.items()
            for number, each in topic.partitions.items()
            if node.id in each.replicas
        }
        folders = [each for directory in node.directories for each in node.disk.list_folders(directory)]
        for folder in sorted(set(folders)):
            if folder.rpartition("-")[2].isdigit() and folder != METADATA_FOLDER and folder not in mine:
                yield f"{node.name} still has {folder}"
            if folders.count(folder) > 1 and folder in mine:
                yield f"{node.name} has {folder} twice"


def differences(nodes: Sequence[SimNode]) -> Iterator[str]:
    """Between the images of all nodes, and between the replicas."""
    images = [_records(node.broker.node.image) for node in nodes]
    for node, image in zip(nodes, images, strict=True):
        differing = [image.get(each) or images[0][each] for each in image.keys() ^ images[0].keys()]
        if differing:
            yield f"{nodes[0].name} and {node.name} know different metadata: {sorted(differing)[:4]}"
    by_id = {node.id: node for node in nodes}
    for name, topic in nodes[0].broker.node.image.topics.items():
        for number, each in topic.partitions.items():
            logs = [_log(by_id[id], name, number) for id in each.replicas]
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


def _records(image: MetadataImage) -> dict[tuple[type, bytes], str]:
    """As they would stand in a snapshot, with a text of each."""
    return {
        (type(each.message), each.message.encode(each.version)): repr(each.message)
        for each in image_records(image, *_RECORD_VERSIONS)
    }
