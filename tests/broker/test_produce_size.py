"""How many partitions a produce request names, found without reading it."""

from __future__ import annotations

import pytest

from pykafka_broker.broker.produce_size import MOST_PARTITIONS, names_many_partitions
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.runtime import uvarint

VERSIONS = pytest.mark.parametrize("version", range(3, 14))


def frame(version: int, *topics: int, transactional_id: str | None = None) -> memoryview:
    """A request with topics of so many partitions."""
    asked = [
        TopicProduceData(
            "" if version >= 13 else f"topic-{number}",
            bytes([number]) * 16 if version >= 13 else bytes(16),
            [PartitionProduceData(index, b"records" * 30 if index % 3 else None) for index in range(count)],
        )
        for number, count in enumerate(topics)
    ]
    return memoryview(b"head" + ProduceRequest(transactional_id, 1, 1000, asked).encode(version))


@VERSIONS
def test_few_partitions_are_few_wherever_they_are(version: int) -> None:
    for topics in ((), (1,), (MOST_PARTITIONS - 1,), (1,) * (MOST_PARTITIONS // 2), (0, 20, 0, 20)):
        assert not names_many_partitions(frame(version, *topics, transactional_id="id"), 4, version)


@VERSIONS
def test_many_are_found_also_behind_others(version: int) -> None:
    for topics in ((MOST_PARTITIONS + 1,), (1, 1, MOST_PARTITIONS), (0,) * (MOST_PARTITIONS + 1), (30, 40)):
        assert names_many_partitions(frame(version, *topics), 4, version)


@VERSIONS
def test_bytes_that_make_no_sense_are_left_to_whoever_reads_them(version: int) -> None:
    whole = frame(version, 5, 6)
    for end in range(4, len(whole)):
        assert not names_many_partitions(whole[:end], 4, version)


def test_unknown_tagged_fields_are_no_way_round() -> None:
    body = bytes(ProduceRequest(None, 1, 1, [TopicProduceData("t", partition_data=[])]).encode(9))
    assert body[-2:] == b"\0\0"
    few = body[:-2] + uvarint(2) + b"\x7d\0\x7e\0" + b"\0"
    many = body[:-2] + uvarint(1000) + b"\x7d\0" * 1000 + b"\0"
    assert not names_many_partitions(memoryview(few), 0, 9)
    assert names_many_partitions(memoryview(many), 0, 9)
