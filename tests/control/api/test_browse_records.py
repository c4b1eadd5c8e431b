"""Records as the page shows them: everything that a log holds, and never more than a page of it."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from pykafka_broker.control.api.browse_records import ReadBudget, RecordFilter, Scanned, scan, scan_back, shown
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.compression import GZIP, ZSTD, compress
from pykafka_broker.records.header import HEADER_SIZE, batch_of, read_header
from pykafka_broker.records.record import BatchRecord
from pykafka_broker.testing import ControlError, KafkaBroker, NewRecord
from tests.broker.support import batch
from tests.broker.turns import SlowBroker
from tests.control.raw_client import raw_client

LONG = 3 << 20


def browse(broker: KafkaBroker, path: str, **query: Any) -> Any:
    return broker.control.call("GET", f"/browse{path}", query=query)


@pytest.fixture(scope="module")
def numbered(broker: KafkaBroker) -> str:
    """300 records in three partitions, in turn."""
    broker.create_topic("numbered", partitions=3)
    for first in range(0, 300, 100):
        records = [
            {"key": f"key-{number}", "value": f"value {number}", "partition": number % 3, "timestamp": 1000 + number}
            for number in range(first, first + 100)
        ]
        broker.produce("numbered", records)
    return "numbered"


def timestamps(page: dict[str, Any]) -> list[int]:
    return [each["timestamp"] for each in page["records"]]


def test_pages_follow_each_other_in_the_order_of_time(broker: KafkaBroker, numbered: str) -> None:
    seen: list[int] = []
    page = browse(broker, f"/topics/{numbered}/records", limit=70)
    while True:
        seen += timestamps(page)
        if not page["more"]:
            break
        page = browse(broker, f"/topics/{numbered}/records", limit=70, offsets=page["next_offsets"])
    assert seen == [1000 + number for number in range(300)]


def test_what_came_after_the_last_page_is_on_the_next(broker: KafkaBroker) -> None:
    broker.create_topic("growing", partitions=2)
    page = browse(broker, "/topics/growing/records", newest=True)
    assert (page["records"], page["more"]) == ([], False)
    broker.produce("growing", [{"value": "new", "partition": 1}])
    page = browse(broker, "/topics/growing/records", offsets=page["next_offsets"])
    assert [(each["partition"], each["value"]["text"]) for each in page["records"]] == [(1, "new")]


def test_the_newest_of_all_partitions(broker: KafkaBroker, numbered: str) -> None:
    page = browse(broker, f"/topics/{numbered}/records", newest=True, limit=10)
    assert timestamps(page) == list(range(1290, 1300))
    assert not page["more"]


def test_from_the_newest_one_goes_back_page_by_page(broker: KafkaBroker, numbered: str) -> None:
    path, seen = f"/topics/{numbered}/records", list[int]()
    page = browse(broker, path, newest=True, limit=70)
    while page["earlier_offsets"] is not None:
        seen = timestamps(page) + seen
        page = browse(broker, path, before=page["earlier_offsets"], limit=70)
    assert timestamps(page) + seen == list(range(1000, 1300))


def test_the_newest_that_fit_are_looked_for_from_the_end(broker: KafkaBroker, numbered: str) -> None:
    path = f"/topics/{numbered}/records"
    page = browse(broker, path, newest=True, key="key-29", limit=10)
    assert timestamps(page) == list(range(1290, 1300))
    rest = browse(broker, path, before=page["earlier_offsets"], key="key-29", limit=10)
    assert (timestamps(rest), rest["earlier_offsets"]) == ([1029], None)


def test_one_goes_back_through_batches_transactions_and_times_that_go_back(broker: KafkaBroker) -> None:
    broker.create_topic("backwards")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "backwards"})
    producer.init_transactions()
    for value, end in (("kept", producer.commit_transaction), ("void", producer.abort_transaction)):
        producer.begin_transaction()
        for number in range(5):
            producer.produce("backwards", f"{value} {number}", timestamp=9000 - number)
        assert producer.flush(60) == 0
        end()
    path, seen = "/topics/backwards/records", []
    page = browse(broker, path, newest=True, limit=3, partition=0)
    while True:
        assert len(page["records"]) <= 3
        seen += page["records"]
        if page["earlier_offsets"] is None:
            break
        page = browse(broker, path, before=page["earlier_offsets"], limit=3)
    assert sorted(each["offset"] for each in seen) == list(range(12))
    outcomes = {each["offset"]: each["transaction"] for each in seen if each["control"] is None}
    assert [outcomes[offset] for offset in (0, 4, 6, 10)] == ["committed", "committed", "aborted", "aborted"]


def test_it_begins_at_an_offset_a_time_or_in_one_partition(broker: KafkaBroker, numbered: str) -> None:
    path = f"/topics/{numbered}/records"
    assert timestamps(browse(broker, path, partition=1, from_offset=98)) == [1295, 1298]
    assert timestamps(browse(broker, path, from_time=1297)) == [1297, 1298, 1299]
    assert timestamps(browse(broker, path, from_time=5000)) == []


def test_it_looks_for_what_keys_and_values_contain(broker: KafkaBroker, numbered: str) -> None:
    path = f"/topics/{numbered}/records"
    assert timestamps(browse(broker, path, key="key-29")) == [1029, *range(1290, 1300)]
    assert timestamps(browse(broker, path, key="key-29", value="value 299")) == [1299]
    page = browse(broker, path, key="nobody")
    assert (page["records"], page["more"], page["looked_at"]) == ([], False, 300)


def found_at(broker: KafkaBroker, topic: str, **query: Any) -> list[int]:
    return [each["offset"] for each in browse(broker, f"/topics/{topic}/records", **query)["records"]]


def test_it_looks_for_headers_and_for_fields_of_json(broker: KafkaBroker) -> None:
    broker.create_topic("orders-looked-for", config={"max.message.bytes": 4 << 20})
    values = [
        {"order": {"id": 7, "items": [{"sku": "A7"}]}, "paid": True},
        {"order": {"id": "7", "items": []}, "paid": None},
        {"order.id": 7},
        "7",
        "[" * 100_000,
        json.dumps({"order": {"id": 7}, "rest": "x" * (1 << 20)}),  # longer than what is searched
    ]
    headers = [{"trace": "abc"}, {"trace": "b"}, {"Trace": "abc"}, {}, {}, {}]
    texts = [each if isinstance(each, str) else json.dumps(each) for each in values]
    broker.produce(
        "orders-looked-for",
        [NewRecord(text, headers=named) for text, named in zip(texts, headers, strict=True)],
    )
    look = partial(found_at, broker, "orders-looked-for")
    assert look(field="order.id=7") == [0, 1]
    assert look(field="order.items.0.sku=A7") == look(field="paid=true") == [0]
    assert look(field="order.items.-1.sku=A7") == []
    assert look(field="paid=null") == [1]
    assert look(field="paid") == look(field=" paid ") == [0, 1]
    assert look(field="order.id.deeper") == look(field="order.items.9.sku") == []
    assert look(field="order.id=7", value="A7") == look(field="order.id=7", newest=True, value="A7") == [0]
    assert look(header="trace") == [0, 1]
    assert look(header="trace=b") == [0, 1]
    assert look(header="trace=bc", field="paid") == [0]
    assert look(header="other") == []


def test_transactions_say_how_they_ended(broker: KafkaBroker) -> None:
    broker.create_topic("till")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "till"})
    producer.init_transactions()
    for value, end in (("paid", producer.commit_transaction), ("void", producer.abort_transaction), ("later", None)):
        producer.begin_transaction()
        producer.produce("till", value)
        assert producer.flush(60) == 0
        if end is not None:
            end()
    page = browse(broker, "/topics/till/records")
    told = [(each["value"] and each["value"]["text"], each["control"], each["transaction"]) for each in page["records"]]
    assert [each for each in told if each[1] is None] == [
        ("paid", None, "committed"),
        ("void", None, "aborted"),
        ("later", None, "open"),
    ]
    assert [each[1] for each in told if each[1] is not None] == ["COMMIT", "ABORT"]
    assert len(browse(broker, "/topics/till/records", control_records=False)["records"]) == 3
    (row,) = [each for each in browse(broker, "/transactions") if each["transactional_id"] == "till"]
    assert (row["state"], row["partitions"]) == ("Ongoing", {"till": [0]})
    assert row["started_ms"] is not None
    producer.abort_transaction()


def test_a_tombstone_bytes_and_headers_are_told_apart(broker: KafkaBroker) -> None:
    broker.create_topic("odd-bytes")
    binary = base64.b64encode(b"\x00\xff\x01").decode()
    headers = [("a", "1"), ("a", None)]
    broker.produce(
        "odd-bytes", [{"key": "gone"}, {"key": "", "value": "", "headers": headers}, {"value": b"\x00\xff\x01"}]
    )
    gone, empty, third = browse(broker, "/topics/odd-bytes/records")["records"]
    assert (gone["key"]["text"], gone["value"]) == ("gone", None)
    assert (empty["key"]["size"], empty["value"]["text"]) == (0, "")
    values = [(each["name"], each["value"] and each["value"]["text"]) for each in empty["headers"]]
    assert values == [("a", "1"), ("a", None)]
    assert (third["key"], third["value"]["text"], third["value"]["base64"]) == (None, None, binary)


def test_a_long_value_comes_in_pieces(broker: KafkaBroker) -> None:
    broker.create_topic("long", config={"max.message.bytes": 2 * LONG})
    whole = ("ä" * (LONG // 2)).encode()
    broker.produce("long", [{"key": "k", "value": whole.decode()}])
    (record,) = browse(broker, "/topics/long/records", cut_bytes=101)["records"]
    assert (record["value"]["size"], record["value"]["cut"], record["value"]["text"]) == (LONG, True, "ä" * 50)
    path, pieces = "/topics/long/partitions/0/records/0", bytearray()
    while len(pieces) < LONG:
        piece = browse(broker, path, from_byte=len(pieces), max_bytes=1 << 20)
        assert piece["size"] == LONG
        pieces += base64.b64decode(piece["base64"])
    assert pieces == whole
    assert browse(broker, path, part="key")["size"] == 1
    with pytest.raises(ControlError, match="long-0 has no record of offset 7"):
        browse(broker, "/topics/long/partitions/0/records/7")


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"offsets": "0-5"}, "offsets must have the form of next_offsets"),
        ({"before": "5"}, "offsets must have the form of next_offsets"),
        ({"partition": 9}, "topic numbered has partitions 0 to 2, not 9"),
        ({"limit": 0}, "limit must be at least 1"),
        ({"limit": 501}, "limit must be at most 500"),
        ({"from_time": "now"}, "from_time must be an integer"),
    ],
)
def test_a_question_that_makes_no_sense_is_told(
    broker: KafkaBroker, numbered: str, query: dict[str, Any], says: str
) -> None:
    with pytest.raises(ControlError, match=says):
        browse(broker, f"/topics/{numbered}/records", **query)


def test_a_cut_in_the_middle_of_a_letter_is_still_text() -> None:
    found = shown("äb".encode(), 1)
    assert found is not None
    assert (found.size, found.cut, found.text) == (3, True, "")
    whole = shown(b"\xff", 10)
    assert whole is not None
    assert (whole.text, whole.base64, whole.cut) == (None, "/w==", False)


async def rest_of(begun: Coroutine[Any, Any, Scanned], on_turn: Callable[[None], object] = id) -> Scanned:
    while True:
        try:
            on_turn(begun.send(None))
        except StopIteration as end:
            found: Scanned = end.value
            return found


@pytest.mark.parametrize("backwards", [False, True])
def test_records_may_be_deleted_while_they_are_looked_through(tmp_path: Path, backwards: bool) -> None:
    node = SlowBroker(tmp_path)
    node.answered(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1000), 7)
    for _ in range(6):
        data = [PartitionProduceData(0, bytes(batch(b"v" * 300_000)))]  # one of them is a read
        node.answered(ProduceRequest(None, 1, 1000, [TopicProduceData("t", partition_data=data)]), 9)
    partition, budget = node.broker.services.replicas.readable("t", 0), ReadBudget(100, 1 << 30)
    if backwards:
        looking = scan_back(partition, 6, RecordFilter(), 10, 1, budget)
    else:
        looking = scan(partition, 0, RecordFilter(), 10, 1, budget)
    looking.send(None)
    node.answered(DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 4)])], 1000), 2)
    assert [each.offset for each in asyncio.run(rest_of(looking)).records] == [0, 4, 5]


# -- batches that a broker takes and nobody can read


def of_another_length() -> bytes:
    """Return a batch of three records whose second one names a length that is not its own: Kafka takes it too."""
    whole = build_batch([BatchRecord(offset, 1000 + offset, None, b"value") for offset in range(3)])
    payload = bytearray(whole[HEADER_SIZE:])
    payload[len(payload) // 3] += 2
    header = read_header(whole)
    header.attributes |= GZIP
    return bytes(batch_of(header, compress(GZIP, payload)))


def too_large() -> bytes:
    """Return a batch of a record of 130 MiB, which is not more than Kafka's bound for a record."""
    return bytes(build_batch([BatchRecord(0, 1000, None, bytes(130 << 20))], codec=ZSTD))


def produce_batch(broker: KafkaBroker, topic: str, data: bytes) -> None:
    with raw_client(broker) as client:
        asked = ProduceRequest(
            None, -1, 30_000, [TopicProduceData(topic, partition_data=[PartitionProduceData(0, data)])]
        )
        assert client.ask(asked, 9).responses[0].partition_responses[0].error_code == 0


def between(broker: KafkaBroker, topic: str, *batches: bytes) -> None:
    """Make a topic with batches between two readable records."""
    broker.create_topic(topic)
    broker.produce(topic, ["before"])
    for each in batches:
        produce_batch(broker, topic, each)
    broker.produce(topic, ["behind"])


def test_behind_a_batch_that_can_t_be_read_reading_goes_on(broker: KafkaBroker) -> None:
    between(broker, "unreadable", of_another_length(), too_large())
    path = "/topics/unreadable/records"
    for query in ({}, {"newest": True}):
        page = browse(broker, path, **query)
        shown = sorted(page["records"], key=lambda each: each["offset"])
        told = [(each["offset"], (each["value"] or {}).get("text"), each["unreadable"]) for each in shown]
        damage, size = told[2][2], told[3][2]
        assert told == [
            (0, "before", None),
            (1, "value", None),
            (2, None, damage),
            (4, None, size),
            (5, "behind", None),
        ]
        assert damage.startswith("the records from here to offset 3 can't be read: ")
        assert size == "the records from here to offset 4 can't be read: zstd grows beyond 134217728 bytes"
    page = browse(broker, path, from_offset=3, limit=1)
    assert [each["offset"] for each in page["records"]] == [3]
    assert found_at(broker, "unreadable", offsets=page["next_offsets"]) == [4, 5]
    assert found_at(broker, "unreadable", before="0:4", limit=1) == [3]
    with pytest.raises(ControlError, match="the 1 records from offset 4 on can't be read: zstd grows") as caught:
        browse(broker, "/topics/unreadable/partitions/0/records/4")
    assert (caught.value.status, caught.value.code) == (400, "CORRUPT_MESSAGE")


def test_who_reads_or_waits_is_told_of_a_batch_that_can_t_be_read(broker: KafkaBroker) -> None:
    between(broker, "read-whole", of_another_length())
    for read in (
        partial(broker.records, "read-whole"),
        partial(broker.assert_records, "read-whole", ["before"]),
        partial(broker.wait_for_record, "read-whole", value="behind"),
    ):
        with pytest.raises(ControlError, match="the 3 records from offset 1 on can't be read") as caught:
            read()
        assert caught.value.code == "CORRUPT_MESSAGE"
    assert broker.wait_for_records("read-whole", 1)[0].value == "before"
    broker.delete_topic("read-whole")


def test_a_batch_that_can_t_be_read_ends_a_wait_and_no_turn() -> None:
    """The wait on the unreadable batch ends with an error, and a wait for another topic goes on."""
    with KafkaBroker(in_process=True) as broker, ThreadPoolExecutor(2) as threads:
        waits = []
        for number, value in enumerate(("never", "there"), 1):
            broker.create_topic(f"awaited-{value}")
            wait = partial(broker.wait_for_record, f"awaited-{value}", value=value, timeout=60)
            waits.append(threads.submit(wait))
            process: Any = broker._process
            while len(process.running.turns.observers) < number:
                time.sleep(0.01)
        produce_batch(broker, "awaited-never", of_another_length())
        broker.produce("awaited-there", ["there"])
        assert waits[1].result().value == "there"
        with pytest.raises(ControlError, match="can't be read"):
            waits[0].result()
        assert "Traceback" not in broker.log


def test_what_comes_out_of_batches_counts_and_clients_are_served_meanwhile(tmp_path: Path) -> None:
    node = SlowBroker(tmp_path)
    node.answered(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1000), 7)
    for _ in range(3):
        bomb = bytes(build_batch([BatchRecord(0, 0, None, bytes(8 << 20))], codec=ZSTD))
        data = [PartitionProduceData(0, bomb)]
        node.answered(ProduceRequest(None, 1, 1000, [TopicProduceData("t", partition_data=data)]), 9)
    partition, budget = node.broker.services.replicas.readable("t", 0), ReadBudget(100, 9 << 20)
    turns = 0

    def counted(step: None) -> None:
        nonlocal turns
        turns += 1

    found = asyncio.run(rest_of(scan(partition, 0, RecordFilter(), 10, 1, budget), counted))
    assert ([each.offset for each in found.records], found.next_offset, found.at_end) == ([0, 1], 2, False)
    assert turns > 2 * 8  # a step unpacks some hundred KiB


def test_a_page_behind_every_offset_is_followed_by_another(broker: KafkaBroker, numbered: str) -> None:
    page = browse(broker, f"/topics/{numbered}/records", from_offset=2**63 - 1)
    assert browse(broker, f"/topics/{numbered}/records", offsets=page["next_offsets"])["records"] == []
