"""Batches that Kafka's own classes wrote: read record by record, written byte for byte, converted as by Kafka 3.9."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.log.compaction.filter import empty_batch, rewrite
from pykafka_broker.log.compaction.latest import marked_records, records_bytes
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.compression import CODEC_NAMES, NONE, decompress, decompress_in_steps
from pykafka_broker.records.control import (
    ControlType,
    EndTransactionMarker,
    build_control_batch,
    build_end_transaction_marker,
    read_control_type,
    read_end_transaction_marker,
)
from pykafka_broker.records.conversion import (
    MessageEntry,
    build_message_set,
    from_v2,
    iter_entries,
    iter_messages,
    to_v2,
    with_codec,
)
from pykafka_broker.records.header import (
    HEADER_SIZE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    check_crc,
    read_header,
    set_max_timestamp,
)
from pykafka_broker.records.record import BatchRecord, iter_records
from pykafka_broker.steps import at_once

GOLDEN = dict(line.split() for line in (Path(__file__).parent / "golden" / "batches.txt").read_text().splitlines())
TIME = 1_700_000_000_000
APPEND_TIME = 1_800_000_000_000
HEADERS = [("h", b"v"), ("h", None), ("é", b"")]
V2 = [f"v2-{codec}" for codec in CODEC_NAMES]
LEGACY = [f"v{magic}-{codec}" for magic in (0, 1) for codec in CODEC_NAMES[:4]]


def golden(name: str) -> bytes:
    return bytes.fromhex(GOLDEN[name])


def pattern(size: int) -> bytes:
    return bytes(i % 251 for i in range(size))


def sample(
    magic: int = 2, timestamp: int | None = None, offsets: tuple[int, ...] = (100, 101, 102, 105, 106)
) -> list[BatchRecord]:
    """Return the Java program's records as a reader of format `magic` sees them; `timestamp`: LogAppendTime's."""
    fields = [
        (TIME, b"key", b"value"),
        (TIME + 1, None, b"only a value"),
        (TIME + 2000, b"only a key", None),
        (TIME - 5, b"", b""),
        (TIME + 86_400_000, pattern(300), pattern(1500)),
    ]
    records = []
    for offset, (time, key, value) in zip(offsets, fields, strict=True):
        seen = -1 if magic == 0 else time if timestamp is None else timestamp
        records.append(BatchRecord(offset, seen, key, value, HEADERS if magic == 2 and key == b"only a key" else []))
    return records


def codec_of(name: str) -> int:
    return CODEC_NAMES.index(name.split("-")[1])


def opened(wrapper: MessageEntry) -> MessageEntry:
    """Return the wrapper with its value decompressed: compressed bytes may differ, their content may not."""
    assert wrapper.value is not None
    value = at_once(decompress_in_steps(wrapper.codec, wrapper.value, 1 << 20, broken_lz4_checksum=wrapper.magic == 0))
    return wrapper._replace(value=value)


@pytest.mark.parametrize("name", V2)
def test_batches_are_read(name: str) -> None:
    for kind, timestamp in (("create", None), ("append", APPEND_TIME)):
        batch = golden(f"{name}-{kind}")
        header = read_header(batch)
        check_crc(batch, header)
        assert header.codec == codec_of(name)
        assert header.log_append_time == (kind == "append")
        assert (header.base_offset, header.last_offset, header.count) == (100, 106, 5)
        assert (header.base_timestamp, header.max_timestamp) == (TIME, timestamp or TIME + 86_400_000)
        for buffer in (batch, bytearray(batch), memoryview(batch)):
            assert list(iter_records(buffer)) == sample(2, timestamp)


@pytest.mark.parametrize("name", V2)
def test_batches_are_written(name: str) -> None:
    for kind, timestamp in (("create", None), ("append", APPEND_TIME)):
        built = build_batch(sample(), codec=codec_of(name), log_append_time=timestamp)
        theirs = read_header(golden(f"{name}-{kind}"))
        ours = read_header(built)
        check_crc(built, ours)
        assert list(iter_records(built)) == sample(2, timestamp)
        if codec_of(name) == NONE:
            assert built == golden(f"{name}-{kind}")
        for field in ("base_offset", "attributes", "last_offset_delta", "base_timestamp", "max_timestamp", "count"):
            assert getattr(ours, field) == getattr(theirs, field)


def test_log_append_time_is_patched_in_as_kafka_writes_it() -> None:
    batch = bytearray(golden("v2-none-create"))
    set_max_timestamp(batch, APPEND_TIME, log_append_time=True)
    assert batch == golden("v2-none-append")


def test_fields_of_idempotent_and_transactional_batches() -> None:
    fields: dict[str, Any] = {"producer_id": 4000, "producer_epoch": 3, "partition_leader_epoch": 7}
    idempotent = build_batch(sample(), base_sequence=2_147_483_646, **fields)
    assert idempotent == golden("idempotent")
    assert read_header(idempotent).last_sequence == 4
    assert build_batch(sample(), base_sequence=0, transactional=True, **fields) == golden("transactional")
    assert read_header(golden("transactional")).is_transactional


def test_base_timestamp_of_a_delete_horizon_and_of_odd_times() -> None:
    batch = golden("delete-horizon")
    assert read_header(batch).delete_horizon_ms == TIME + 500
    assert list(iter_records(batch)) == sample()
    plain = build_batch(sample(), partition_leader_epoch=7)
    header = read_header(plain)
    data = records_bytes(plain, header)
    assert rewrite(header, marked_records(data, b"\1" * header.count), TIME + 500) == batch
    for name, times in (("no-timestamps", (-1, -1)), ("far-timestamps", (2**63 - 1, -1, 0, 2**62))):
        records = [BatchRecord(100 + i, time, b"k", b"v") for i, time in enumerate(times)]
        assert list(iter_records(golden(name))) == records
        assert build_batch(records) == golden(name)


def test_a_batch_that_compaction_emptied() -> None:
    batch = golden("empty")
    attributes = TRANSACTIONAL_BIT | CODEC_NAMES.index("lz4")
    assert empty_batch(BatchHeader(100, 999, 7, 2, 0, attributes, 6, TIME, TIME, 4000, 3, 9, 7)) == batch
    assert list(iter_records(batch)) == []


@pytest.mark.parametrize("commit", [True, False])
def test_markers_that_end_transactions(commit: bool) -> None:
    batch = golden("commit" if commit else "abort")
    marker = read_end_transaction_marker(batch)
    assert marker == EndTransactionMarker(100, TIME, 4000, 3, 12, commit)
    built = build_end_transaction_marker(
        commit=commit,
        producer_id=4000,
        producer_epoch=3,
        coordinator_epoch=12,
        timestamp=TIME,
        offset=100,
        partition_leader_epoch=7,
    )
    assert built == batch


@pytest.mark.parametrize(
    ("name", "control_type"),
    [
        ("leader-change", ControlType.LEADER_CHANGE),
        ("snapshot-header", ControlType.SNAPSHOT_HEADER),
        ("snapshot-footer", ControlType.SNAPSHOT_FOOTER),
        ("kraft-version", ControlType.KRAFT_VERSION),
        ("kraft-voters", ControlType.KRAFT_VOTERS),
    ],
)
def test_control_batches_of_metadata_logs(name: str, control_type: int) -> None:
    batch = golden(name)
    (record,) = iter_records(batch)
    assert read_header(batch).is_control
    assert read_control_type(record) == control_type
    assert read_end_transaction_marker(batch) is None
    assert record.value is not None
    built = build_control_batch(control_type, record.value, offset=100, timestamp=TIME, partition_leader_epoch=7)
    assert built == batch


@pytest.mark.parametrize("name", LEGACY)
def test_message_sets_are_read(name: str) -> None:
    magic = int(name[1])
    for kind, timestamp in (("create", None), ("append", APPEND_TIME)):
        if magic or timestamp is None:
            assert list(iter_messages(golden(f"{name}-{kind}"))) == sample(magic, timestamp)


@pytest.mark.parametrize("name", LEGACY)
def test_message_sets_are_written(name: str) -> None:
    magic = int(name[1])
    for kind, timestamp in (("create", None), ("append", APPEND_TIME)):
        if not magic and timestamp is not None:
            continue
        built = at_once(build_message_set(sample(), magic, codec=codec_of(name), log_append_time=timestamp))
        assert list(iter_messages(built)) == sample(magic, timestamp)
        if codec_of(name) == NONE:
            assert built == golden(f"{name}-{kind}")
        else:
            (ours,), (theirs,) = iter_entries(built), iter_entries(golden(f"{name}-{kind}"))
            assert opened(ours) == opened(theirs)


@pytest.mark.parametrize("name", [name for name in GOLDEN if name.endswith("-large")])
def test_values_of_many_compressed_blocks(name: str) -> None:
    magic = int(name[1])
    read = iter_records if magic == 2 else iter_messages
    assert list(read(golden(name))) == [BatchRecord(100, -1 if magic == 0 else TIME, None, pattern(100_000))]


@pytest.mark.parametrize("kind", ["create", "append"])
@pytest.mark.parametrize("name", LEGACY)
def test_up_conversion(name: str, kind: str) -> None:
    theirs = golden(f"up-{kind}-{name}-create")
    timestamp = APPEND_TIME if kind == "append" else None
    ours = at_once(to_v2(golden(f"{name}-create")))
    ours[:8] = (100).to_bytes(8, "big")
    if timestamp is not None:
        set_max_timestamp(ours, timestamp, log_append_time=True)
    records = sample(int(name[1]), timestamp, offsets=(100, 101, 102, 103, 104))
    for record in records:
        record.headers = []
        record.timestamp = timestamp or record.timestamp
    assert list(iter_records(ours)) == list(iter_records(theirs)) == records
    header, expected = read_header(ours), read_header(theirs)
    for field in ("base_offset", "attributes", "last_offset_delta", "base_timestamp", "max_timestamp", "count"):
        assert getattr(header, field) == getattr(expected, field)


@pytest.mark.parametrize("kind", ["create", "append"])
@pytest.mark.parametrize("name", V2[:4])
@pytest.mark.parametrize("magic", [0, 1])
def test_down_conversion(name: str, kind: str, magic: int) -> None:
    """Kafka was asked for the records from offset 102 on."""
    theirs = golden(f"down-v{magic}-{name}-{kind}")
    ours = at_once(from_v2(golden(f"{name}-{kind}"), magic, first_offset=102))
    assert list(iter_messages(ours)) == list(iter_messages(theirs))
    if codec_of(name) == NONE:
        assert ours == theirs
        assert next(iter_messages(ours)).offset == 102
    else:
        (entry,), (expected,) = iter_entries(ours), iter_entries(theirs)
        assert opened(entry) == opened(expected)


@pytest.mark.parametrize("target", CODEC_NAMES)
@pytest.mark.parametrize("source", CODEC_NAMES)
def test_recompression_leaves_all_else_as_it_was(source: str, target: str) -> None:
    records = [BatchRecord(100 + i, TIME - i, b"k", pattern(i)) for i in range(300)]
    codec = CODEC_NAMES.index(target)
    fields: dict[str, Any] = {"producer_id": 4000, "producer_epoch": 3, "base_sequence": 5, "transactional": True}
    batch = build_batch(records, codec=CODEC_NAMES.index(source), **fields)
    header = read_header(batch)
    data = decompress(header.codec, memoryview(batch)[HEADER_SIZE:])
    assert at_once(with_codec(header, data, codec)) == build_batch(records, codec=codec, **fields)
