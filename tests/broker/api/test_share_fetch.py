"""The amount of records in one share fetch: only the first batch may exceed `max_bytes`; enough records end it.

The numbers are those of a real 4.4.0, asked with batches of 300,073 bytes, for both ways of counting records. Kafka
also sends the part of a batch that still fits.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka_broker.broker.api.share_fetch import ACQUIRE_MODES, EXACTLY, ShareReader
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.log.filesystem import FileSlice
from pykafka_broker.log.index import AbortedTransaction
from pykafka_broker.log.partition_log import Origin, PartitionLog
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_fetch_request import ShareFetchRequest
from pykafka_broker.protocol.messages.share_fetch_response import PartitionData
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from pykafka_broker.records.builder import BatchBuilder
from tests.broker.support import NOW, LightBroker
from tests.log.support import batch, marker

MB = 1 << 20
MEMBER = ("g", "m")
# max_bytes, and the bytes of three answers one after the other
LIMITS = [
    (100_000, [300_073] * 3),
    (300_073, [300_073] * 3),
    (310_000, [300_073] * 3),
    (600_145, [300_073] * 3),
    (600_146, [600_146] * 3),
    (650_000, [600_146] * 3),
    (900_000, [600_146] * 3),
    (MB, [900_219] * 3),
    (1_300_000, [1_200_292] * 3),
    (2 * MB, [1_800_438, 1_800_438, 0]),
    (3 * MB, [3_000_730, 600_146, 0]),
    (50 * MB, [3_600_876, 0, 0]),
]
# max_bytes, min_bytes and whether 3.6 MB are enough
ENOUGH = [
    (310_000, 310_000, True),
    (310_000, 305_000, True),
    (650_000, 650_000, True),
    (310_000, MB, True),
    (MB, MB, True),
    (5 * MB, 5 * MB, False),
]


class World:
    def __init__(self, directory: Path, **config: str) -> None:
        self.broker = LightBroker(directory, share_coordinator_state_topic_num_partitions="1", **config)

    def add(self, name: str, *sizes: int, partitions: int = 1, records: int = 1) -> list[tuple[bytes, int]]:
        """Add a topic with a batch of each size in each partition, which the group reads from the first record on."""
        topic_id = self.broker.add(name, partitions)
        for number in range(partitions):
            self.broker.shares.initialize(ShareKey(MEMBER[0], topic_id, number), 1, 0)
            for size in sizes:
                builder = BatchBuilder()
                for _ in range(records):
                    builder.append(b"k", bytes(size // records), NOW)
                self.broker.partition(name, number).append(bytearray(builder.build()), NOW)
        return [(topic_id, number) for number in range(partitions)]

    def reader(self, max_bytes: int, mode: int = 0, max_records: int = 500) -> ShareReader:
        request = ShareFetchRequest(*MEMBER, 1, max_bytes=max_bytes, max_records=max_records, batch_size=500)
        request.share_acquire_mode = mode
        return ShareReader(self.broker.shares.partitions, 55 * MB, MEMBER, request, {})

    def read(
        self, places: list[tuple[bytes, int]], max_bytes: int, mode: int = 0, max_records: int = 500
    ) -> list[PartitionData]:
        found = self.reader(max_bytes, mode, max_records).read(places, NOW)
        return [data for data in found.values() if isinstance(data, PartitionData)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def sizes(found: list[PartitionData]) -> list[int]:
    return [len(data.records) for data in found]


@pytest.mark.parametrize("mode", ACQUIRE_MODES)
@pytest.mark.parametrize(("max_bytes", "answers"), LIMITS)
def test_only_the_first_batch_exceeds_the_limit(world: World, max_bytes: int, answers: list[int], mode: int) -> None:
    places = world.add("big", *[300_000] * 12)
    assert [sum(sizes(world.read(places, max_bytes, mode))) for _ in answers] == answers


@pytest.mark.parametrize("mode", ACQUIRE_MODES)
@pytest.mark.parametrize("max_bytes", [100_000, 310_000, 650_000, MB, 1_300_000, 2 * MB, 3 * MB, 10 * MB])
def test_several_partitions_share_the_limit(world: World, max_bytes: int, mode: int) -> None:
    places = world.add("three", *[300_000] * 6, partitions=3)
    brought = 0
    while found := world.read(places, max_bytes, mode):
        size = sum(sizes(found))
        assert size <= max(max_bytes, 300_073)
        brought += size
    assert brought == 3 * 6 * 300_073


# Sizes of the batches in each of three partitions, max_bytes, and what one answer has of each partition.
PARTS: list[tuple[tuple[list[int], ...], int, list[int]]] = [
    (([300_000] * 6,) * 3, 100_000, [300_073]),
    (([300_000] * 6,) * 3, 650_000, [300_073]),
    (([300_000] * 6,) * 3, 2 * MB, [600_146] * 3),
    (([300_000] * 6,) * 3, 3 * MB, [900_219] * 3),
    (([300_000] * 6,) * 3, 10 * MB, [1_800_438] * 3),
    (([], [300_000] * 6, [300_000] * 6), 2 * MB, [600_146] * 2),
    (([300_000] * 6, [], []), 2 * MB, [600_146]),
    (([10_000] * 200,) * 3, MB, [34 * 10_073] * 3),
]


@pytest.mark.parametrize("mode", ACQUIRE_MODES)
@pytest.mark.parametrize(("batches", "max_bytes", "answer"), PARTS)
def test_partitions_have_equal_parts(
    world: World, batches: tuple[list[int], ...], max_bytes: int, answer: list[int], mode: int
) -> None:
    places = [world.add(f"part-{number}", *sizes)[0] for number, sizes in enumerate(batches)]
    assert sizes(world.read(places, max_bytes, mode)) == answer


def test_a_partition_that_can_hand_out_nothing_has_no_part(tmp_path: Path) -> None:
    world = World(tmp_path, group_share_partition_max_record_locks="100")
    places = world.add("full", *[300_000] * 6, partitions=2, records=100)
    assert len(world.read(places[:1], 1)) == 1
    assert [data.partition_index for data in world.read(places, MB)] == [1]
    assert world.read(places, MB) == []


def test_batches_larger_than_what_is_read_at_a_time(world: World) -> None:
    places = world.add("huge", 10_000, 1_500_000, 10_000, 2_500_000)
    answers = [sizes(world.read(places, 2 * MB)) for _ in range(4)]
    assert answers == [[10_073], [1_500_075 + 10_073], [2_500_075], []]


@pytest.mark.parametrize(("max_records", "last"), [(1, 0), (5, 4), (15, 14)])
def test_exactly_so_many_records_come_with_their_whole_batches(world: World, max_records: int, last: int) -> None:
    places = world.add("many", *[300_000] * 6, records=10)
    (data,) = world.read(places, 650_000, EXACTLY, max_records)
    assert [(run.first_offset, run.last_offset) for run in data.acquired_records] == [(0, last)]
    assert len(data.records) == 300_181 * (1 + last // 10)


@pytest.mark.parametrize(("max_bytes", "min_bytes", "enough"), ENOUGH)
def test_what_is_there_counts_up_to_the_limit(world: World, max_bytes: int, min_bytes: int, enough: bool) -> None:
    places = world.add("big", *[300_000] * 12)
    assert world.reader(max_bytes).has(places, min_bytes) is enough


@pytest.mark.parametrize("max_records", [1, 100])
def test_a_missing_partition_is_refused_beyond_the_limits_too(world: World, max_records: int) -> None:
    [place] = world.add("t", 100)
    found = world.reader(MB, max_records=max_records).read([place, (place[0], -1)], NOW)
    assert [one.error_code for one in found.values()] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_disk_that_fails_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: FileSlice) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    places = world.add("t", 1000)
    monkeypatch.setattr(FileSlice, "read", failing)
    found = world.reader(MB).read(places, NOW)
    assert [one.error_code for one in found.values()] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert [directory.online for directory in world.broker.services.logs.directories] == [False]


def test_aborted_transactions_are_passed_over_in_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk of the log may hold thousands of transactions of one record each."""
    world = World(tmp_path)
    places = world.add("t")
    config = ConfigRecord(ConfigResourceType.GROUP, MEMBER[0], "share.isolation.level", "read_committed")
    world.broker.commit_metadata([ApiMessageAndVersion(config, 0)])
    partition, passes = world.broker.partition("t", 0), 0
    for number in range(40):  # of two producers in turn; every fourth transaction is committed
        producer, sequence = number % 2, number // 2
        partition.append(batch(producer_id=producer, epoch=0, sequence=sequence, transactional=True), NOW)
        partition.append(marker(producer, 0, commit=number % 4 == 0), NOW, origin=Origin.COORDINATOR)

    class Passed(list[AbortedTransaction]):
        def __iter__(self) -> Iterator[AbortedTransaction]:
            nonlocal passes
            passes += 1
            return super().__iter__()

    found = partition.log.aborted_transactions
    monkeypatch.setattr(PartitionLog, "aborted_transactions", lambda log, *between: Passed(found(*between)))
    [data] = world.read(places, MB)
    runs = [offset for run in data.acquired_records for offset in range(run.first_offset, run.last_offset + 1)]
    assert runs == [offset for offset in range(80) if offset % 2 or offset % 8 == 0], "markers, and what is committed"
    assert passes == 1
