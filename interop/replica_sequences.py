"""Gaps and repetitions in the sequence numbers of a replica's batches, as a note to a failed check.

The numbers show who wrote a record twice: a broker that took a batch twice has the same sequence numbers twice; a
client that sent the records again as a new batch has given them new numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from interop.kafka_cluster import KafkaCluster
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.scan import scan


def breaks(folder: Path) -> Iterator[str]:
    """Yield a line for each batch in a partition's folder that does not continue the batch before.

    A batch continues another with the same producer id and epoch, and the next sequence number.
    """
    fs, following = OsFileSystem(), None
    for segment in sorted(folder.glob("*.log")):
        for batch in scan(fs.open(str(segment), writable=False), str(segment), 0, segment.stat().st_size, verify=False):
            header = batch.header
            here = header.producer_id, header.producer_epoch, header.base_sequence
            if here != following and not header.is_control:
                yield f"{header.base_offset}: producer, epoch, sequence {here}, {following} would follow"
            following = header.producer_id, header.producer_epoch, header.last_sequence + 1


def told(cluster: KafkaCluster, topic: str) -> str:
    """Return the lines of `breaks` for each replica of the topic."""
    lines = []
    for node in cluster.brokers:
        for folder in sorted((node.directory / "data-0").glob(f"{topic}-*")):
            lines += [f"{node} {folder.name} {line}" for line in breaks(folder)]
    return "\n".join(lines)
