"""The checks that nodes agree once all faults are over: on the metadata, and on every byte of every replica."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.cluster.image_records import image_records
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records
from pykafka_broker.testing.simulation.node import SimNode

METADATA_FOLDER = "__cluster_metadata-0"
_RECORD_VERSIONS = 2, 4  # of records for partitions and for brokers: the versions with the most fields


def unsettled(nodes: Sequence[SimNode]) -> list[str]:
    """Return the partitions that are not what they should be when nothing is wrong any more: led, with every replica in
    sync, and with all records committed, as every replica knows.
    """
    by_id = {node.broker.node.id: node for node in nodes}
    found = []
    for name, topic in nodes[0].broker.node.image.topics.items():
        for number, each in topic.partitions.items():
            if each.adding_replicas or each.removing_replicas:
                found.append(f"{name}-{number} still moves: {each.adding_replicas} and {each.removing_replicas}")
            elif each.leader not in by_id or set(each.isr) != set(each.replicas):
                found.append(f"{name}-{number} is led by {each.leader}, in sync are {list(each.isr)}")
            else:
                found += _uncommitted(f"{name}-{number}", {id: _log(by_id[id], name, number) for id in each.replicas})
    return found


def _uncommitted(partition: str, logs: dict[int, PartitionLog]) -> Iterator[str]:
    """Yield the replicas that do not know that all their records are committed."""
    for id, log in logs.items():
        if log.high_watermark < log.log_end_offset:
            yield f"{partition} on {id} is committed to {log.high_watermark} of {log.log_end_offset}"


def undecided(nodes: Sequence[SimNode]) -> Iterator[str]:
    """Yield replicas that hold a transaction for open after every producer has ended its own."""
    by_id = {node.broker.node.id: node for node in nodes}
    for name, topic in nodes[0].broker.node.image.topics.items():
        for number, each in topic.partitions.items():
            for id in each.replicas:
                log = _log(by_id[id], name, number)
                opened = [one.producer_id for one in log.producers.entries.values() if one.txn_first_offset >= 0]
                if opened:
                    yield f"{name}-{number} on {id} has transactions of {opened} open"


def leftovers(nodes: Sequence[SimNode]) -> Iterator[str]:
    """Yield folders of partitions that the node has no replica of, and replicas that lie in two directories."""
    for node in nodes:
        mine = {
            f"{name}-{number}"
            for name, topic in node.broker.node.image.topics.items()
            for number, each in topic.partitions.items()
            if node.broker.node.id in each.replicas
        }
        folders = [each for directory in node.directories for each in node.disk.list_folders(directory)]
        for folder in sorted(set(folders)):
            if folder.rpartition("-")[2].isdigit() and folder != METADATA_FOLDER and folder not in mine:
                yield f"{node.name} still has {folder}"
            if folders.count(folder) > 1 and folder in mine:
                yield f"{node.name} has {folder} twice"


def differences(nodes: Sequence[SimNode], *, cleaned: bool = False) -> Iterator[str]:
    """Yield the differences between the images of all nodes, and between the replicas of each partition.

    cleaned: replicas are compacted, each in its own time, so only the last record of each key is compared.
    """
    images = [_records(node.broker.node.image) for node in nodes]
    for node, image in zip(nodes, images, strict=True):
        differing = [image.get(each) or images[0][each] for each in image.keys() ^ images[0].keys()]
        if differing:
            yield f"{nodes[0].name} and {node.name} know different metadata: {sorted(differing)[:4]}"
    by_id = {node.broker.node.id: node for node in nodes}
    for name, topic in nodes[0].broker.node.image.topics.items():
        for number, each in topic.partitions.items():
            logs = [_log(by_id[id], name, number) for id in each.replicas]
            yield from (_differ_in_keys if cleaned else _differ)(f"{name}-{number}", logs)


def _differ(partition: str, logs: list[PartitionLog]) -> Iterator[str]:
    """Yield the differences of the offsets that all replicas still have: one may have deleted more than another."""
    start = max(log.log_start_offset for log in logs)
    end = min(log.high_watermark for log in logs)
    contents = [_bytes_between(log, start, end) for log in logs]
    for content in contents:
        if content != contents[0]:
            yield f"replicas of {partition} differ from {start} to {end}: {len(contents[0])} and {len(content)} bytes"


def _bytes_between(log: PartitionLog, start: int, end: int) -> bytes:
    pieces, offset = [], start
    while offset < end and (read := log.read(offset, 1 << 20, end)) is not None:
        pieces.append(read.records.read())
        offset = read.end_offset
    return b"".join(pieces)


def _differ_in_keys(partition: str, logs: list[PartitionLog]) -> Iterator[str]:
    start = max(log.log_start_offset for log in logs)
    end = min(log.high_watermark for log in logs)
    contents = [_last_of_keys(log, start, end) for log in logs]
    for content in contents:
        differing = sorted(content.items() ^ contents[0].items())
        if differing:
            yield f"replicas of {partition} differ from {start} to {end} in {differing[:4]}"


def _last_of_keys(log: PartitionLog, start: int, end: int) -> dict[tuple[bytes | None, int], bytes]:
    """Return the last committed record of each key; records without a key are listed by their offset."""
    aborted = [(each.producer_id, each.first_offset, each.last_offset) for each in log.aborted_transactions(start, end)]
    last: dict[tuple[bytes | None, int], bytes] = {}
    for header, batch in iter_batches(_bytes_between(log, start, end)):
        if header.is_control:
            continue
        if header.is_transactional and any(
            producer == header.producer_id and first <= header.base_offset <= to for producer, first, to in aborted
        ):
            continue
        for record in iter_records(batch, header):
            if start <= record.offset < end:
                place = (record.key, -1) if record.key is not None else (None, record.offset)
                last[place] = b"%d: %r" % (record.offset, record.value)
    return last


def _log(node: SimNode, topic: str, partition: int) -> PartitionLog:
    return node.broker.node.logs.get(topic, partition)


def _records(image: MetadataImage) -> dict[tuple[type, bytes], str]:
    """Return the records of a snapshot of the image: type and bytes, with a readable text of each."""
    return {
        (type(each.message), each.message.encode(each.version)): repr(each.message)
        for each in image_records(image, *_RECORD_VERSIONS)
    }
