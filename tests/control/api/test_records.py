"""Records written and read without a client, and as clients see them."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import math
import re
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.router import PendingReply, Router
from pykafka_broker.broker.waiting.future import Future
from pykafka_broker.control.api import records
from pykafka_broker.control.control import Control
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.runtime import Pieces
from pykafka_broker.testing import ControlError, KafkaBroker, NewRecord, Record, WaitTimeout
from pykafka_broker.testing.control_client import ControlClient
from pykafka_broker.testing.record import to_each, to_expectation, to_request

BYTES = b"\xff\x00"


def test_what_is_written_is_read_again(broker: KafkaBroker) -> None:
    broker.create_topic("written", partitions=2)
    places = broker.produce(
        "written",
        [
            {"key": "k", "value": "text", "partition": 0, "timestamp": 1234, "headers": [("h", "1"), ("h", BYTES)]},
            {"key": BYTES, "value": {"a": [1, None]}, "partition": 1},
            {"value": None, "key": "k", "partition": 0},
        ],
    )
    assert places == [(0, 0), (1, 0), (0, 1)]
    first, second, third = broker.records("written")
    assert first == Record("written", 0, 0, 1234, "CreateTime", "k", "text", (("h", "1"), ("h", BYTES)))
    assert (second.value, third.key, third.key_bytes) == (None, BYTES, BYTES)
    assert third.json() == {"a": [1, None]}
    assert third["value"] == third.value == '{"a":[1,null]}'


def test_a_call_that_is_repeated_with_its_producer_is_carried_out_once(broker: KafkaBroker) -> None:
    broker.create_topic("once", partitions=2)
    producer = broker.control.call("POST", "/producers")
    records = [{"value": "a", "partition": 0}, {"value": "b", "partition": 1}, {"value": "c", "partition": 0}]
    first = broker.control.call("POST", "/topics/once/records", {"records": records, "producer": producer})
    again = broker.control.call("POST", "/topics/once/records", {"records": records, "producer": producer})
    assert first == again
    following = {"records": records[:1], "producer": {**producer, "sequences": {"0": 2}}}
    too_far = {"records": records[:1], "producer": {**producer, "sequences": {"0": 7}}}
    assert broker.control.call("POST", "/topics/once/records", following) == [{"partition": 0, "offset": 2}]
    assert [each.value for each in broker.records("once")] == ["a", "c", "a", "b"]
    with pytest.raises(ControlError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        broker.control.call("POST", "/topics/once/records", too_far)
    assert broker.control.call("POST", "/producers")["producer_id"] > producer["producer_id"]


def test_values_alone_and_pairs_are_records(broker: KafkaBroker) -> None:
    broker.create_topic("short")
    broker.produce("short", ["a", b"b", ("k", "c"), {"json": True}, 5])
    assert [(each.key, each.value) for each in broker.records("short")] == [
        (None, "a"),
        (None, "b"),
        ("k", "c"),
        (None, '{"json":true}'),
        (None, "5"),
    ]


def test_records_without_a_key_take_turns_and_keys_have_their_partition(broker: KafkaBroker) -> None:
    broker.create_topic("spread", partitions=3)
    assert [partition for partition, _ in broker.produce("spread", range(6))] == [0, 1, 2, 0, 1, 2]
    assert len({partition for partition, _ in broker.produce("spread", [("same", n) for n in range(5)])}) == 1


def test_clients_read_what_was_written(broker: KafkaBroker) -> None:
    broker.create_topic("for-clients")
    broker.produce("for-clients", [{"key": "k", "value": "v", "headers": {"h": "1"}, "timestamp": 99}])
    with_client = KafkaConsumer(
        "for-clients", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", group_id=None
    )
    record = next(iter(with_client))
    with_client.close()
    assert (record.key, record.value, record.headers, record.timestamp) == (b"k", b"v", [("h", b"1")], 99)


def test_thousands_are_written_and_read_page_by_page(broker: KafkaBroker) -> None:
    broker.create_topic("many", partitions=2)
    broker.produce("many", (str(n) for n in range(5_001)))
    assert sorted(int(each.value or 0) for each in broker.records("many")) == list(range(5_001))
    assert [each.offset for each in broker.records("many", partition=1, from_offset=2_498)] == [2_498, 2_499]
    assert len(broker.records("many", limit=1_500)) == 1_500


def test_records_of_a_key_are_found_wherever_they_are(broker: KafkaBroker) -> None:
    broker.create_topic("keyed", partitions=2)
    broker.produce("keyed", [(f"k{n % 7_000}", str(n)) for n in range(14_001)])
    broker.produce("keyed", [(b"\xff", "bytes"), {"value": "other partition", "key": "k1", "partition": 0}])
    assert sorted(str(each.value) for each in broker.records("keyed", key="k0")) == ["0", "14000", "7000"]
    assert len(broker.records("keyed", key="k1")) == 3
    assert len(broker.records("keyed", key="k0", limit=2)) == 2
    assert [each.value for each in broker.records("keyed", key=b"\xff")] == ["bytes"]
    assert broker.records("keyed", key="none") == []


def test_records_are_deleted_in_front_of_an_offset(broker: KafkaBroker) -> None:
    broker.create_topic("shortened", partitions=2)
    broker.produce("shortened", [{"value": str(n), "partition": n % 2} for n in range(10)])
    assert broker.delete_records("shortened", before_offset=3, partition=1) == {1: 3}
    assert broker.delete_records("shortened", before_offset=1) == {0: 1, 1: 3}
    assert broker.delete_records("shortened") == {0: 5, 1: 5}
    with pytest.raises(ControlError, match="OFFSET_OUT_OF_RANGE: shortened-0: offset 6"):
        broker.delete_records("shortened", before_offset=6)
    with pytest.raises(ControlError, match="topic shortened has partitions 0 to 1, not 2"):
        broker.delete_records("shortened", partition=2)


def test_a_record_says_which_of_its_fields_are_written(broker: KafkaBroker) -> None:
    reading = {"value": 3, "unit": "C", "timestamp": 99}
    broker.create_topic("readings")
    broker.produce("readings", [NewRecord(reading, headers={"h": "1"}, timestamp=5), NewRecord(key="gone")])
    first, second = broker.records("readings")
    assert (first.json(), first.key, first.headers, first.timestamp) == (reading, None, (("h", "1"),), 5)
    assert (second.key, second.value) == ("gone", None)


def test_of_an_aborted_transaction_only_uncommitted_readers_see_anything(broker: KafkaBroker) -> None:
    broker.create_topic("in-transactions")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "records-test"})
    producer.init_transactions(60)
    for value, end in (("aborted", producer.abort_transaction), ("committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce("in-transactions", value)
        assert producer.flush(60) == 0
        end(60)
    producer.begin_transaction()
    producer.produce("in-transactions", "open")
    assert producer.flush(60) == 0
    committed = [(each.value, each.transaction) for each in broker.records("in-transactions")]
    read = broker.records("in-transactions", isolation_level="read_uncommitted")
    values = [(each.value, each.transaction) for each in read]
    assert values == [("aborted", "aborted"), ("committed", "committed"), ("open", "open")]
    assert committed == [("committed", "committed")]
    producer.abort_transaction(60)


def test_an_earlier_transaction_of_a_producer_with_an_open_one_is_told_from_it(broker: KafkaBroker) -> None:
    """A third producer keeps the last stable offset below both."""
    topic = "two-of-one-producer"
    broker.create_topic(topic)
    holding, producer = (
        Producer({**broker.client_config("confluent"), "transactional.id": f"{topic}-{number}"}) for number in range(2)
    )
    for each in (holding, producer):
        each.init_transactions(30)
        each.begin_transaction()
        each.produce(topic, "first", partition=0)
        assert each.flush(30) == 0
    producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, "second", partition=0)
    assert producer.flush(30) == 0
    found = broker.records(topic, isolation_level="read_uncommitted")
    assert [(each.value, each.transaction) for each in found] == [
        *(("first", "open"), ("first", "committed")),
        ("second", "open"),
    ]
    for each in (holding, producer):
        each.abort_transaction(30)
    found = broker.records(topic, isolation_level="read_uncommitted")
    assert [each.transaction for each in found] == ["aborted", "committed", "aborted"]


def test_what_cant_be_written_is_told(broker: KafkaBroker) -> None:
    broker.create_topic("narrow", config={"max.message.bytes": 200, "cleanup.policy": "compact"})
    with pytest.raises(ControlError, match="MESSAGE_TOO_LARGE"):
        broker.produce("narrow", [("k", "x" * 1_000)])
    with pytest.raises(ControlError, match="INVALID_RECORD"):
        broker.produce("narrow", ["without a key"])
    with pytest.raises(ControlError, match="topic narrow has partitions 0 to 0, not 3"):
        broker.produce("narrow", [{"key": "k", "value": "v", "partition": 3}])
    with pytest.raises(ControlError, match="there is no topic nowhere"):
        broker.records("nowhere")
    with pytest.raises(TypeError, match="a record has no colour"):
        broker.produce("narrow", [{"value": "v", "colour": "red"}])


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"value": "a", "value_base64": "YQ=="}, "both value and value_base64 are given"),
        ({"value_base64": "?"}, "value_base64 is not base64"),
        ({"value": "a", "timestamp": -5}, r"records\[0\].timestamp must be at least 0"),
    ],
)
def test_what_is_no_record_is_told(broker: KafkaBroker, record: dict[str, Any], says: str) -> None:
    with pytest.raises(ControlError, match=says):
        broker.control.call("POST", "/topics/any/records", {"records": [record]})


def test_a_record_that_was_read_can_be_written_again() -> None:
    read = Record("t", 1, 5, 99, "CreateTime", BYTES, "v", (("h", BYTES),))
    assert to_request(read) == {
        "key_base64": "/wA=",
        "value": "v",
        "timestamp": 99,
        "headers": [{"name": "h", "value_base64": "/wA="}],
    }


@dataclasses.dataclass
class Order:
    id: int = 1


class Colour(enum.Enum):
    RED = 1


class Model:
    def model_dump(self, mode: str) -> None: ...

    def __repr__(self) -> str:
        return "Model()"


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (
            datetime(2026, 1, 2),
            "value is datetime.datetime(2026, 1, 2, 0, 0): JSON has no datetime; pass its isoformat()",
        ),
        ((UUID(int=1), "v"), f"key is {UUID(int=1)!r}: JSON has no UUID; pass str() of it"),
        ({"value": {"of": [1, Decimal(1)]}}, "value['of'][1] is Decimal('1'): JSON has no Decimal; pass str() of it"),
        ({"raw": b"1"}, "value['raw'] is b'1': JSON has no bytes; pass its text, or base64 of it"),
        ({"age": timedelta(1)}, f"value['age'] is {timedelta(1)!r}: JSON has no timedelta; pass its total_seconds()"),
        ({1}, "value is {1}: JSON has no set; pass sorted() of it"),
        (Order(), "value is Order(id=1): JSON has no Order; pass dataclasses.asdict() of it"),
        (Colour.RED, "value is <Colour.RED: 1>: JSON has no Colour; pass its value"),
        (Model(), "value is Model(): JSON has no Model; pass its model_dump(mode='json')"),
        ({}.keys(), "value is dict_keys([]): JSON has no dict_keys; pass list() of it"),
        (1j, "value is 1j: JSON has no complex; pass text, bytes, a number, a list or a dict"),
        ({(1, 2): 3}, "value has the name (1, 2): in JSON names are text"),
        ({"n": math.nan}, "value['n'] is nan: JSON has no such number; pass None or text"),
        (NewRecord("v", headers={"h": {1}}), "header h is {1}: JSON has no set; pass sorted() of it"),
        (
            NewRecord("v", timestamp=datetime(2026, 1, 2)),
            "timestamp is datetime.datetime(2026, 1, 2, 0, 0) without a time",
        ),
        (
            {"value": "v", "timestamp": 1.5},
            "timestamp must be epoch milliseconds as an int, or a datetime with a time zone",
        ),
        ({"value": "v", "partition": "0"}, "partition must be an integer, not '0'"),
    ],
    ids=repr,
)
def test_what_json_has_not_is_told_with_what_to_pass_instead(record: Any, says: str) -> None:
    for form in (to_request, to_expectation):
        with pytest.raises((TypeError, ValueError), match=f"^{re.escape(f'records[1]: {says}')}"):
            to_each(form, ["right", record])


def test_a_timestamp_may_be_a_datetime_with_a_zone() -> None:
    time = datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=timezone(timedelta(hours=1)))
    assert to_request(NewRecord("v", timestamp=time)) == {"value": "v", "timestamp": 1_767_319_445_678}


@pytest.mark.parametrize("records", ["text", b"bytes", {"value": "1"}], ids=repr)
def test_one_record_alone_is_not_taken_for_several(broker: KafkaBroker, records: Any) -> None:
    with pytest.raises(TypeError, match="records must be a list, not a single record"):
        broker.produce("alone", records)


def test_three_in_a_tuple_are_no_pair(broker: KafkaBroker) -> None:
    with pytest.raises(TypeError, match="a pair of key and value, not 3"):
        broker.produce("alone", [("key", "value", "header")])


def delete_records(broker: KafkaBroker, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        deleted.result(60)


def test_deleted_records_do_not_come_back_where_the_log_starts_within_their_batch(broker: KafkaBroker) -> None:
    broker.create_topic("cut")
    assert broker.produce("cut", [str(n) for n in range(10)])[-1] == (0, 9), "one batch"
    delete_records(broker, "cut", 4)
    left = [str(n) for n in range(4, 10)]
    assert [each.value for each in broker.records("cut")] == left
    assert [each.value for each in broker.records("cut", 0, 2)] == left
    assert [each.value for each in broker.records("cut", isolation_level="read_committed")] == left
    assert [each.value for each in broker.wait_for_records("cut", 6)] == left
    with pytest.raises(WaitTimeout, match="has 6 records, expected 7"):
        broker.wait_for_records("cut", 7, timeout=0)
    broker.produce("cut", ["10"])
    assert [each.value for each in broker.wait_for_records("cut", 7)] == [*left, "10"]


def test_a_page_with_much_content_has_fewer_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_MOST_BYTES_AT_ONCE", 4000)
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("heavy")
        broker.produce("heavy", ["x" * 1500] * 5)
        page = broker.control.call("GET", "/topics/heavy/records")
        assert [each["offset"] for each in page["records"]] == [0, 1, 2]
        assert (page["next_offsets"], page["more"]) == ({"0": 3}, True)
        assert [each.offset for each in broker.records("heavy")] == [0, 1, 2, 3, 4]
        assert [each.offset for each in broker.wait_for_records("heavy", 5)] == [0, 1, 2, 3, 4]


def test_a_topic_that_is_deleted_while_records_are_written_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def was_there(control: Control, topic: str) -> int:
        return 1

    monkeypatch.setattr(records, "_partitions", was_there)
    with KafkaBroker(in_process=True) as broker, pytest.raises(ControlError, match="there is no topic gone") as caught:
        broker.produce("gone", ["v"])
    assert caught.value.status == 404


def test_records_of_a_compacted_topic_are_not_deleted(broker: KafkaBroker) -> None:
    broker.create_topic("kept", config={"cleanup.policy": "compact"})
    with pytest.raises(ControlError, match=r"^POLICY_VIOLATION: kept-0$"):
        broker.delete_records("kept")
    with pytest.raises(ControlError, match=r"^POLICY_VIOLATION: kept-0: offset 0$"):
        broker.delete_records("kept", 0)


def test_what_comes_after_an_offset_within_a_batch_counts(broker: KafkaBroker) -> None:
    broker.create_topic("within")
    broker.produce("within", [str(n) for n in range(10)])
    assert [each.value for each in broker.records("within", 0, 7)] == ["7", "8", "9"]


@pytest.mark.parametrize("waits", [False, True])
def test_a_request_whose_connection_would_be_closed_is_a_503(waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closing(PendingReply):
        def __init__(self) -> None:
            self.future = Future()

        def pieces(self) -> Pieces:
            raise FrameError("closed")

    def dispatch(router: Router, connection: ConnectionContext, frame: memoryview) -> PendingReply:
        if not waits:
            raise FrameError("closed")
        asyncio.get_running_loop().call_soon(reply.future.complete, None)
        return reply

    reply = Closing()
    with KafkaBroker(in_process=True) as broker:
        monkeypatch.setattr(Router, "dispatch", dispatch)
        with pytest.raises(ControlError, match=r"^Metadata has no answer: closed$") as refused:
            ControlClient(broker.control_url).call("GET", "/topics", timeout_s=5)
        monkeypatch.undo()
    assert refused.value.status == 503
