"""Records of Kafka's own topics that make no sense to whoever keeps the topic.

Rule: one such record keeps a whole coordinator out of service, or the metadata from being read. A coordinator's log is
mended by taking them out: every other record stays where it is, at its offset, and the segment as it was is kept aside.
"""

from __future__ import annotations

from collections.abc import Iterator

from pykafka_broker.log.compaction.filter import empty_batch, rewrite
from pykafka_broker.log.compaction.spans import iter_spans, records_bytes
from pykafka_broker.log.filesystem import Buffer, FileSystem
from pykafka_broker.log.scan import ScannedBatch, scan
from pykafka_broker.log.tool.decoding import senseless
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.record import iter_records


def senseless_records(topic: str, batch: ScannedBatch) -> Iterator[tuple[int, str]]:
    """Offset and reason of each; the batch's own offset if its records can't be told apart."""
    header = batch.header
    if header.is_control:
        return
    try:
        for record in iter_records(batch.data, header):
            reason = senseless(topic, record.key, record.value)
            if reason is not None:
                yield record.offset, reason
    except CorruptBatch as error:
        yield header.base_offset, str(error)


def without_senseless(topic: str, batch: ScannedBatch) -> Buffer:
    """The batch with the records that can be read."""
    found = {offset for offset, _ in senseless_records(topic, batch)}
    if not found:
        return batch.data
    header = batch.header
    try:
        data = records_bytes(batch.data, header)
        spans = list(iter_spans(data, header.count))
    except CorruptBatch:
        return empty_batch(header)
    kept = [
        (start, body, end, stamp)
        for start, body, end, delta, stamp, _, _ in spans
        if header.base_offset + delta not in found
    ]
    return rewrite(header, data, kept, header.delete_horizon_ms) if kept else empty_batch(header)


def take_out(fs: FileSystem, topic: str, source: str, target: str) -> None:
    """Write what makes sense of one sound segment to another file."""
    old, new = fs.open(source, writable=False), fs.open(target, create=True)
    written = 0
    for batch in scan(old, source, 0, old.size(), verify=False):
        data = without_senseless(topic, batch)
        new.write_at(data, written)
        written += len(data)
    new.sync()
