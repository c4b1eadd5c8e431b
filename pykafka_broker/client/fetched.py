"""What a fetch has brought: batches, whose records are read when their turn comes.

Rule: control batches and records of aborted transactions are batches without records, so that positions go on over
them. A broker of any age may give what stands in its log in the formats v0 and v1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import dropwhile
from typing import Any

from pykafka_broker.client.errors import ClientError
from pykafka_broker.protocol.enums import TopicPartition
from pykafka_broker.records.control import read_end_transaction_marker
from pykafka_broker.records.errors import CorruptBatch, TruncatedBatch
from pykafka_broker.records.header import BatchHeader, check_crc, peek, read_header, require_whole
from pykafka_broker.records.message_set import iter_messages
from pykafka_broker.records.record import Record, iter_records


class Batch:
    """Records of a partition in one batch; `header` None: messages of an old format."""

    __slots__ = ("_data", "_header", "_partition", "_skipped", "leader_epoch", "next_offset", "timestamp_type")

    def __init__(
        self, partition: TopicPartition, data: memoryview, header: BatchHeader | None, skipped: bool, next_offset: int
    ) -> None:
        self._partition = partition
        self._data = data
        self._header = header
        self._skipped = skipped
        self.next_offset = next_offset
        self.leader_epoch = -1 if header is None else header.partition_leader_epoch
        self.timestamp_type = 0 if header is None else header.timestamp_type

    def records(self, offset: int) -> Iterator[Record]:
        """From that offset on. Raises ClientError where they are damaged."""
        if self._skipped:
            return
        found = iter_messages(self._data) if self._header is None else iter_records(self._data, self._header)
        try:
            yield from dropwhile(lambda record: record.offset < offset, found)
        except CorruptBatch as error:
            raise damaged(self._partition, offset, error) from None


def batches_of(partition: TopicPartition, records: Any, aborted: Iterable[Any], check_crcs: bool) -> Iterator[Batch]:
    """The whole batches of an answer. aborted: AbortedTransactions that came with it, if nobody wants them."""
    data = memoryview(records if records is not None else b"")
    due = sorted(aborted, key=lambda each: int(each.first_offset))
    producers: set[int] = set()
    position = 0
    while position < len(data):
        try:
            if (magic := peek(data, position)) is None:
                return  # cut short, as the last one may be
            if magic < 2:
                yield from _old(partition, data[position:])
                return
            header = read_header(data, position)
            stop = require_whole(data, header, position)
            if check_crcs:
                check_crc(data, header, position)
        except TruncatedBatch:
            return
        except CorruptBatch as error:
            raise damaged(partition, -1, error) from None
        batch, position = data[position:stop], stop
        while due and due[0].first_offset <= header.last_offset:
            producers.add(due.pop(0).producer_id)
        skipped = header.is_control or (header.is_transactional and header.producer_id in producers)
        if header.is_control and header.producer_id in producers:
            marker = read_end_transaction_marker(batch, header)
            if marker is not None and not marker.commit:
                producers.discard(header.producer_id)
        yield Batch(partition, batch, header, skipped, header.next_offset)


def _old(partition: TopicPartition, data: memoryview) -> Iterator[Batch]:
    """Messages are batches of their own to a position, so all that are whole become one."""
    last = -1
    try:
        for record in iter_messages(data):
            last = record.offset
    except TruncatedBatch:
        pass
    except CorruptBatch as error:
        raise damaged(partition, -1, error) from None
    if last >= 0:
        yield Batch(partition, data, None, False, last + 1)


def damaged(partition: TopicPartition, offset: int, error: CorruptBatch) -> ClientError:
    at = f" at offset {offset}" if offset >= 0 else ""
    return ClientError(f"Record batch for partition {partition}{at} is invalid, cause: {error}")
