"""Waits end with what they wait for, and say what was there instead."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPResponse
from typing import Any, cast

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from interop.raw import RawClient
from pykafka_broker.control import control
from pykafka_broker.control.api import metrics, waits
from pykafka_broker.control.reading import FoundRecord, TopicWatch
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.testing import ANY, ControlError, KafkaBroker, NewRecord, RecordsDiffer, WaitTimeout
from tests.control.leaderless import leaderless


def meanwhile(step: Callable[[], object]) -> threading.Thread:
    """Run the step in a thread, 0.2 s after the test has sent its next request."""
    test, sent, patch = threading.current_thread(), threading.Event(), pytest.MonkeyPatch()
    receive = HTTPConnection.getresponse

    def getresponse(connection: HTTPConnection) -> HTTPResponse:
        if threading.current_thread() is test:
            sent.set()
        return receive(connection)

    def later() -> None:
        sent.wait(60)
        patch.undo()
        time.sleep(0.2)
        step()

    patch.setattr(HTTPConnection, "getresponse", getresponse)
    thread = threading.Thread(target=later)
    thread.start()
    return thread


def test_a_wait_for_records_ends_with_the_last_of_them(broker: KafkaBroker) -> None:
    broker.create_topic("awaited", partitions=2)
    broker.produce("awaited", ["1"])
    step = meanwhile(lambda: broker.produce("awaited", ["2", "3"]))
    assert sorted(each.value or "" for each in broker.wait_for_records("awaited", 3)) == ["1", "2", "3"]
    step.join()


def test_what_a_schema_of_the_registry_reads_is_shown_as_read() -> None:
    """An assertion that fails shows keys and values as their schemas read them; others stay bytes."""
    with KafkaBroker(schema_registry=True, in_process=True) as broker:
        registry = SchemaRegistryClient(broker.client_config("schema-registry"))
        for kind, text in (
            ("AVRO", '"int"'),
            ("JSON", "{}"),
            ("PROTOBUF", 'syntax="proto3"; message Order {int32 id=1;}'),
        ):
            registry.register_schema(f"{kind}-value", Schema(text, kind))
        avro, other, json_schema, protobuf, unknown = (
            bytes([0, 0, 0, 0, *rest]) for rest in ((1, 2), (1, 4), (2, 55), (3, 0, 8, 7), (9, 2))
        )
        broker.create_topic("read")
        step = meanwhile(lambda: broker.produce("read", [avro]))
        says = r"topic read got 1 more record .*\n  0@0 key None, value 1 \(AVRO, schema 1\)"
        with pytest.raises(RecordsDiffer, match=says):
            broker.assert_no_more("read", within_ms=30_000)
        step.join()
        broker.produce("read", [(protobuf, json_schema), unknown])
        with pytest.raises(RecordsDiffer) as differ:
            broker.assert_records("read", [other, {"value": json_schema, "key": other}, {"value": 1}])
        assert str(differ.value).splitlines()[1:] == [
            "- value 2 (AVRO, schema 1)",
            "+ 0@0 key None, value 1 (AVRO, schema 1)",
            "- key 2 (AVRO, schema 1), value 7 (JSON, schema 2)",
            '+ 0@1 key {"id": 7} (PROTOBUF, schema 3), value 7 (JSON, schema 2)',
            "- value 1",
            r"+ 0@2 key None, value '\x00\x00\x00\x00\t\x02'",
        ]
        assert differ.value.found[0].value_bytes == avro
        with pytest.raises(
            RecordsDiffer, match=r"(?s)value 1 \(AVRO, schema 1\).*\n\(a dict is compared with values that are"
        ):
            broker.assert_records("read", [{"id": 1}, ANY, ANY])
        with pytest.raises(
            RecordsDiffer, match=r"(?s)missing\n- value 2 \(AVRO, schema 1\)\n.*, value 1 \(AVRO, schema 1\)"
        ):
            broker.assert_contains("read", [other])
        with pytest.raises(
            WaitTimeout, match=r"and none is value 2 \(AVRO, schema 1\)\n  0@0 key None, value 1 \(AVRO"
        ):
            broker.wait_for_record("read", value=other, timeout=0)


def test_a_wait_for_records_of_a_topic_that_is_yet_to_be_made(broker: KafkaBroker) -> None:
    step = meanwhile(lambda: broker.produce("made-later", ["1"]))
    assert [each.value for each in broker.wait_for_records("made-later", 1)] == ["1"]
    step.join()


def test_a_topic_that_was_made_anew_is_counted_anew(broker: KafkaBroker) -> None:
    broker.create_topic("anew")
    broker.produce("anew", ["1", "2"])

    def again() -> None:
        broker.delete_topic("anew")
        broker.create_topic("anew")
        for value in "345":
            broker.produce("anew", [value])

    step = meanwhile(again)
    assert [each.value for each in broker.wait_for_records("anew", 3)] == ["3", "4", "5"]
    step.join()
    with pytest.raises(WaitTimeout, match="topic anew has 3 records, expected 4"):
        broker.wait_for_records("anew", 4, timeout=0)


@pytest.mark.parametrize(
    ("wait", "says"),
    [
        (lambda broker: broker.wait_for_group("none", "Stable", timeout=0.1), "after 100 ms there is no group none"),
        (lambda broker: broker.wait_for_lag("none", timeout=0), "after 0 ms there is no group none"),
        (lambda broker: broker.wait_for_records("qqqq", 1, timeout=0), "after 0 ms there is no topic qqqq$"),
        (
            lambda broker: broker.wait_for_transaction("none", "Ongoing", timeout=0),
            "there is no transactional id none",
        ),
    ],
)
def test_what_does_not_come_is_told(broker: KafkaBroker, wait: Callable[[KafkaBroker], object], says: str) -> None:
    with pytest.raises(WaitTimeout, match=says):
        wait(broker)


def test_a_transaction_is_waited_for(broker: KafkaBroker) -> None:
    broker.create_topic("transacted")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "awaited"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("transacted", "v")
    assert producer.flush(60) == 0
    ongoing = broker.wait_for_transaction("awaited", "Ongoing")
    assert ongoing["partitions"] == ["transacted-0"]
    step = meanwhile(lambda: producer.commit_transaction(60))
    assert broker.wait_for_transaction("awaited", "CompleteCommit")["producer_id"] == ongoing["producer_id"]
    step.join()


def test_records_are_as_they_should_be_or_the_difference_is_told(broker: KafkaBroker) -> None:
    broker.create_topic("asserted")
    broker.produce("asserted", [("k", "1"), ("k", "2"), ("k", "3")])
    assert len(broker.assert_records("asserted", ["1", "2", "3"])) == 3
    broker.assert_records("asserted", [("k", "1"), {"value": "2"}, ("k", b"3")])
    with pytest.raises(RecordsDiffer) as different:
        broker.assert_records("asserted", ["1", "3", "4"])
    assert str(different.value).splitlines() == [
        "topic asserted: 3 records, expected 3 (- missing, + unexpected)",
        "  value '1'",
        "+ 0@1 value '2'",
        "  value '3'",
        "- value '4'",
    ]
    assert different.value.expected == ["1", "3", "4"]
    assert different.value.found == broker.records("asserted")
    with pytest.raises(RecordsDiffer, match="3 records, expected 2"):
        broker.assert_records("asserted", ["1", "2"])
    with pytest.raises(RecordsDiffer, match="- key 'other'"):
        broker.assert_records("asserted", [("k", "1"), ("other", "2"), ("k", "3")])


def test_records_of_several_partitions_have_no_order_among_them(broker: KafkaBroker) -> None:
    broker.create_topic("unordered", partitions=2)
    broker.produce("unordered", [{"value": str(n), "partition": n % 2} for n in range(4)])
    broker.assert_records("unordered", ["1", "0", "3", "2"])
    with pytest.raises(RecordsDiffer) as different:
        broker.assert_records("unordered", ["3", "2", "1", "1"])
    assert str(different.value).splitlines()[1:] == ["- value '1'", "+ 0@0 value '0'"]
    with pytest.raises(RecordsDiffer, match="partition 1 has another order:\n- value '3'\n"):
        broker.assert_records("unordered", ["0", "3", "2", "1"])


def test_a_part_of_a_groups_offsets_is_no_lag() -> None:
    """While the coordinator's log is being read, what was committed last is not known yet."""
    with KafkaBroker(in_process=True) as broker:
        for topic in ("read", "unread"):
            broker.create_topic(topic)
            broker.produce(topic, ["0", "1"])
        broker.commit("reading", "read", 2)
        broker.commit("reading", "unread", 0)
        process: Any = broker._process
        shards = process.running.server.broker.services.groups.shards
        read_on, has_read = shards.read_on, threading.Event()

        def read_one_batch(budget: int) -> None:
            if not has_read.is_set():
                read_on(1)
                has_read.set()

        shards.read_on = read_one_batch
        broker.move_coordinator(group="reading", away_ms=0)
        assert has_read.wait(30)
        with pytest.raises(WaitTimeout, match="the offsets of group reading are still being read"):
            broker.wait_for_lag("reading", timeout=0)
        with pytest.raises(ControlError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            broker.lag("reading")
        shards.read_on = read_on
        assert broker.wait_for_lag("reading", 2) == 2


def test_what_can_not_be_read_is_no_empty_partition() -> None:
    """Assertions fail on a partition without a leader, whose records can't be read, instead of calling it empty."""
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("apart", partitions=2)
        broker.produce("apart", [{"value": str(n), "partition": n} for n in range(2)])
        for partition in range(2):
            broker.commit("behind", "apart", 1, partition)
        leaderless(broker, "apart", 1)
        for in_vain in (
            lambda: broker.assert_records("apart", ["0"]),
            lambda: broker.assert_contains("apart", ["1"]),
            lambda: broker.assert_no_more("apart", within_ms=1),
        ):
            with pytest.raises(ControlError, match="the records of apart-1 can't be read now") as refused:
                in_vain()
            assert refused.value.code == "NOT_LEADER_OR_FOLLOWER"
        with pytest.raises(WaitTimeout, match="apart-1: not known"):
            broker.wait_for_lag("behind", timeout=0)
        with pytest.raises(ControlError, match="apart-1 has no leader: nobody knows what is left in it"):
            broker.lag("behind")


def test_records_of_a_topic_made_anew_are_more(broker: KafkaBroker) -> None:
    broker.create_topic("more-anew")
    broker.produce("more-anew", ["1", "2"])

    def again() -> None:
        broker.delete_topic("more-anew")
        broker.create_topic("more-anew")
        broker.produce("more-anew", ["3"])

    step = meanwhile(again)
    with pytest.raises(RecordsDiffer, match="topic more-anew got 1 more record"):
        broker.assert_no_more("more-anew", within_ms=60_000)
    step.join()


@pytest.mark.parametrize("wrong", [("k", None), None, {"key": "k", "value": None}, NewRecord(None, "k")])
def test_none_is_a_tombstone(broker: KafkaBroker, wrong: Any) -> None:
    broker.create_topic("tombstones", exist_ok=True)
    broker.delete_records("tombstones")
    broker.produce("tombstones", [("k", "still here")])
    with pytest.raises(RecordsDiffer, match=r"- .*value None\n\+ 0@\d+ .*value 'still here'"):
        broker.assert_records("tombstones", [wrong])
    broker.delete_records("tombstones")
    broker.produce("tombstones", [wrong])
    broker.assert_records("tombstones", [wrong])
    broker.assert_contains("tombstones", [wrong])


@pytest.mark.parametrize(
    "expected",
    [[("k", ANY)], [(ANY, "v")], [NewRecord(key="k")], [{"key": "k"}], [ANY], [NewRecord(headers={"h": "1"})]],
)
def test_any_and_what_is_left_out_is_not_compared(broker: KafkaBroker, expected: list[Any]) -> None:
    broker.create_topic("any", exist_ok=True)
    broker.delete_records("any")
    broker.produce("any", [NewRecord("v", "k", headers={"h": "1", "more": "2"})])
    broker.assert_records("any", expected)


def test_json_is_compared_as_json_however_it_was_written(broker: KafkaBroker) -> None:
    order = {"id": 1, "lines": [{"sku": "a", "price": 1.5}], "note": None}
    broker.create_topic("in-json")
    broker.produce("in-json", [("1", json.dumps(order)), ("2", json.dumps(order, indent=2, sort_keys=True))])
    broker.assert_records("in-json", [("1", order), ("2", order)])
    broker.assert_contains("in-json", [("2", order)])
    assert broker.wait_for_record("in-json", value=order, key="2").offset == 1
    with pytest.raises(RecordsDiffer, match=r'\n- value {"id": 2}\n\+ 0@0 value {"id": 1, "lines": '):
        broker.assert_records("in-json", [{"id": 2}, order])


def test_no_number_of_records_is_too_large(broker: KafkaBroker) -> None:
    values = [str(n) for n in range(12_000)]
    broker.create_topic("twelve-thousand")
    broker.produce("twelve-thousand", values)
    assert [each.value for each in broker.wait_for_records("twelve-thousand", 12_000)] == values
    assert [each.value for each in broker.wait_for_records("twelve-thousand", 3)] == values[:3]
    assert [each.value for each in broker.assert_records("twelve-thousand", values)] == values
    broker.assert_contains("twelve-thousand", ["11999"])
    with pytest.raises(RecordsDiffer, match="12000 records, expected 11999") as different:
        broker.assert_records("twelve-thousand", values[:-1])
    assert len(str(different.value)) < 1_000


def test_what_was_not_committed_is_not_counted_and_is_told(broker: KafkaBroker) -> None:
    broker.create_topic("half-committed")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "half"})
    producer.init_transactions(60)
    for value, end in (("aborted", producer.abort_transaction), ("committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce("half-committed", value)
        assert producer.flush(60) == 0
        end(60)
    producer.begin_transaction()
    producer.produce("half-committed", "open")
    assert producer.flush(60) == 0
    broker.produce("half-committed", ["behind"])

    unseen = r"\(not seen with read_committed: 1 aborted, 1 of open transactions, 1 behind an open transaction\)$"
    broker.assert_records("half-committed", ["committed"])
    with pytest.raises(RecordsDiffer, match=unseen):
        broker.assert_records("half-committed", ["committed", "behind"])
    with pytest.raises(RecordsDiffer, match=unseen):
        broker.assert_contains("half-committed", ["aborted"])
    with pytest.raises(WaitTimeout, match=unseen):
        broker.wait_for_records("half-committed", 2, timeout=0)
    with pytest.raises(WaitTimeout, match=unseen):
        broker.wait_for_record("half-committed", value="open", timeout=0)
    everything = "read_uncommitted"
    broker.assert_records("half-committed", ["aborted", "committed", "open", "behind"], isolation_level=everything)
    with pytest.raises(RecordsDiffer) as different:
        broker.assert_records("half-committed", ["committed"], isolation_level=everything)
    assert str(different.value).splitlines()[1:] == [
        "+ 0@0 value 'aborted' (aborted)",
        "  value 'committed'",
        "+ 0@4 value 'open' (of an open transaction)",
        "+ 0@5 value 'behind'",
    ]
    producer.abort_transaction(60)
    broker.assert_records("half-committed", ["committed", "behind"], timeout=60)


def test_a_record_is_waited_for_by_what_is_named_of_it(broker: KafkaBroker) -> None:
    broker.create_topic("watched", 2)
    broker.produce("watched", [("other", "1"), NewRecord("2", "k", {"type": "created"})])

    def later() -> None:
        broker.produce("watched", [("k", None), NewRecord({"n": 3}, "k", {"type": "paid", "trace": b"\xff"})])

    step = meanwhile(later)
    found = broker.wait_for_record("watched", key="k", headers={"type": "paid"})
    assert found.json() == {"n": 3}
    assert broker.wait_for_record("watched", headers=[("trace", b"\xff")]) == found
    assert broker.wait_for_record("watched", value={"n": 3}, partition=found.partition) == found
    assert broker.wait_for_record("watched", key="k", value=None).value is None
    step.join()
    with pytest.raises(WaitTimeout) as late:
        broker.wait_for_record("watched", key="k", value={"n": 4}, timeout=0.05)
    head, *listed = str(late.value).splitlines()
    assert head == "after 50 ms topic watched has 4 records, and none is key 'k', value {\"n\": 4}"
    assert len(listed) == 4
    with pytest.raises(WaitTimeout, match=r"there is no topic watch; did you mean watched\?"):
        broker.wait_for_record("watch", key="k", timeout=0.05)


def test_records_are_found_among_others(broker: KafkaBroker) -> None:
    broker.create_topic("contains", 3)
    broker.produce("contains", [("a", "1"), ("b", "2"), ("c", "3")])
    broker.assert_contains("contains", [("c", "3"), "1"])
    with pytest.raises(RecordsDiffer) as different:
        broker.assert_contains("contains", ["1", "1", ("d", "4")])
    head, *lines = str(different.value).splitlines()
    assert head == "topic contains: 2 of 3 expected records are missing"
    assert lines[:3] == ["- value '1'", "- key 'd', value '4'", "the topic has 3 records"]
    assert different.value.expected == ["1", "1", ("d", "4")]
    assert len(different.value.found) == 3
    step = meanwhile(lambda: (broker.produce("contains", ["4"]), broker.produce("contains", ["5"])))
    broker.assert_contains("contains", ["5", "4"], timeout=10)
    step.join()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"value": 3, "unit": "C"}, r"a record has no unit, only .* write NewRecord\(value={...}\)"),
        (("k", "v", "more"), "a pair of key and value, not 3 in a tuple; an array is a list"),
    ],
)
def test_what_can_not_be_a_record_is_told(broker: KafkaBroker, wrong: Any, says: str) -> None:
    for given in (broker.produce, broker.assert_records, broker.assert_contains):
        with pytest.raises(TypeError, match=says):
            given("any", [wrong])


def test_one_record_is_no_list_of_records(broker: KafkaBroker) -> None:
    for one in ("text", {"key": "k"}, NewRecord("v"), 3, ("17", "apples")):
        with pytest.raises(TypeError, match=r"not a single record: assert_records\('any', \[...\]\)"):
            broker.assert_records("any", one)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"topic must be text, not \['text'\]: assert_records\(topic, records\)"):
        broker.assert_records(cast(Any, ["text"]), "any")


def test_a_time_out_is_a_number_of_seconds(broker: KafkaBroker) -> None:
    with pytest.raises(TypeError, match=r"^timeout must be a number of seconds, not '5'$"):
        broker.wait_for_records("any", 1, timeout="5")  # type: ignore[arg-type]


def test_records_may_have_time_to_come(broker: KafkaBroker) -> None:
    broker.create_topic("coming")
    step = meanwhile(lambda: broker.produce("coming", ["1"]))
    broker.assert_records("coming", ["1"], timeout=10)
    step.join()


def test_nothing_more_comes_or_it_is_shown(broker: KafkaBroker) -> None:
    broker.create_topic("quiet")
    broker.produce("quiet", ["before"])
    broker.assert_no_more("quiet", within_ms=50)
    step = meanwhile(lambda: broker.produce("quiet", ["after"]))
    with pytest.raises(RecordsDiffer, match=r"got 1 more record within 10000 ms\n  0@1 key None, value 'after'"):
        broker.assert_no_more("quiet", within_ms=10_000)
    step.join()


def test_a_topic_that_is_deleted_meanwhile_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, gone, wait = threading.Event(), threading.Event(), control.Control.until

    async def until(self: control.Control, look: Callable[[], Any], timeout_s: float) -> Any:
        if begun.is_set():
            return await wait(self, look, timeout_s)  # of the deletion
        begun.set()
        await asyncio.to_thread(gone.wait)
        return look()

    with KafkaBroker(in_process=True) as broker, ThreadPoolExecutor(1) as pool:
        broker.create_topic("gone")
        monkeypatch.setattr(control.Control, "until", until)
        asserted = pool.submit(broker.assert_no_more, "gone")
        begun.wait()
        broker.delete_topic("gone")
        gone.set()
        with pytest.raises(ControlError, match="there is no topic gone"):
            asserted.result()


def delete_inside(control: control.Control, topic: str) -> None:
    """Delete a topic of a broker in this process, from the broker's own thread."""
    with contextlib.suppress(StopIteration):
        control.inside.ask(DeleteTopicsRequest([DeleteTopicState(topic)], timeout_ms=60_000)).send(None)


class DeletedMeanwhile(TopicWatch):
    """A look at a topic that is deleted after an early record."""

    def records(self) -> Iterator[tuple[int, FoundRecord]]:
        for each in super().records():
            yield each
            if each[1].record.value == b"early":
                delete_inside(self._control, self.topic)


@pytest.fixture
def of_two(monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaBroker]:
    """A broker whose topic has a record in both partitions, and is deleted while the records are looked at."""
    monkeypatch.setattr(waits, "TopicWatch", DeletedMeanwhile)
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("two", partitions=2)
        broker.produce("two", [{"value": "early", "partition": partition} for partition in (0, 1)])
        yield broker


def test_a_wait_that_is_over_tells_its_state_of_a_topic_that_is_deleted_meanwhile(of_two: KafkaBroker) -> None:
    with pytest.raises(WaitTimeout, match="topic two has 2 records, and none is value 'late'"):
        of_two.wait_for_record("two", value="late", timeout=0.1)


def test_records_are_waited_for_while_their_topic_is_deleted(of_two: KafkaBroker) -> None:
    step = meanwhile(lambda: of_two.produce("two", ["late"]))
    of_two.assert_contains("two", ["late"], timeout=10)
    step.join()


def test_the_records_of_a_topic_that_is_deleted_meanwhile_are_not_told_as_all(of_two: KafkaBroker) -> None:
    with pytest.raises(ControlError, match="UNKNOWN_TOPIC_OR_PARTITION: the records of two-1 can't be read now"):
        of_two.assert_records("two", ["early"])


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/assertions/contains", {"records": []}, "records must"),
        ("/assertions/no-more", {"within_ms": 0}, "within_ms must"),
    ],
)
def test_an_assertion_that_could_not_fail_is_refused(
    broker: KafkaBroker, path: str, body: dict[str, Any], says: str
) -> None:
    with pytest.raises(ControlError, match=says) as refused:
        broker.control.call("POST", path, {"topic": "asserted", **body})
    assert refused.value.status == 400


def test_a_wait_whose_client_has_gone_is_given_up(broker: KafkaBroker) -> None:
    body = {"topic": "never", "n": 1, "timeout_ms": 60_000}
    with pytest.raises(TimeoutError):
        broker.control.call("POST", "/waits/records", body, timeout_s=0.2)
    assert broker.control.call("GET", "/healthz") == {"status": "ok"}


def test_a_record_is_waited_for_while_the_broker_is_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reset comes between two of the records that are there when the wait begins."""
    resets = 0

    class Reset(TopicWatch):
        def fresh(self) -> Iterator[tuple[int, FoundRecord]]:
            nonlocal resets
            for each in super().fresh():
                yield each
                if not resets:
                    resets = 1
                    self._control.in_turn(lambda: self._control.state.reset([]))

    monkeypatch.setattr(waits, "TopicWatch", Reset)
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("reset", 2)
        broker.produce("reset", [{"value": "early", "partition": partition} for partition in (0, 0, 1)])
        step = meanwhile(lambda: broker.produce("reset", ["late"]))
        assert broker.wait_for_record("reset", value="late").offset == 0
        step.join()
    assert resets


def test_records_that_come_after_a_snapshot_was_restored_are_seen(broker: KafkaBroker) -> None:
    broker.create_topic("back")
    broker.produce("back", ["1"])
    broker.snapshot("back")
    broker.produce("back", ["2", "3"])

    def restored(*values: str) -> None:
        broker.restore("back")
        for value in values:
            broker.produce("back", [value])

    step = meanwhile(lambda: restored("4"))
    assert broker.wait_for_record("back", value="4").offset == 1
    step.join()
    broker.produce("back", ["5"])
    step = meanwhile(lambda: restored("6", "7", "8"))
    assert [each.value for each in broker.wait_for_records("back", 4)] == ["1", "6", "7", "8"]
    step.join()
    step = meanwhile(lambda: restored("9"))
    with pytest.raises(AssertionError, match="got 1 more record"):
        broker.assert_no_more("back", within_ms=60_000)
    step.join()


class CountedPauses:
    """The module asyncio, with the pauses counted in which other requests are served."""

    pauses = 0

    async def sleep(self, seconds: float) -> None:
        self.pauses += 1
        await asyncio.sleep(seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)


@pytest.mark.parametrize(
    "call",
    [
        lambda broker: broker.wait_for_records("many", 101, timeout=0),
        lambda broker: broker.wait_for_record("many", value="none", timeout=0),
        lambda broker: broker.assert_records("many", []),
        lambda broker: broker.assert_contains("many", ["none"]),
        lambda broker: broker.requests("Metadata"),
        lambda broker: broker.metrics(),
        lambda broker: broker.wait_for_request("Metadata", topic="none", timeout=0),
    ],
    ids=[
        "wait_for_records",
        "wait_for_record",
        "assert_records",
        "assert_contains",
        "requests",
        "metrics",
        "wait_for_request",
    ],
)
def test_clients_are_served_while_much_is_looked_at(
    call: Callable[[KafkaBroker], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = CountedPauses()
    monkeypatch.setattr(control, "asyncio", counted)
    monkeypatch.setattr(waits, "_AT_ONCE", 10)
    monkeypatch.setattr(control, "_EXCHANGES_AT_ONCE", 1)
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("many")
        broker.produce("many", ["v"] * 100)
        with RawClient(broker.bootstrap_servers) as client:
            for _ in range(30):
                client.call(MetadataRequest([]), 9)
        counted.pauses = 0
        with contextlib.suppress(WaitTimeout, RecordsDiffer):
            call(broker)
    assert counted.pauses >= 20  # for its records, and for those that it does not see


def test_clients_are_served_while_lags_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = CountedPauses()
    monkeypatch.setattr(control, "asyncio", counted)
    monkeypatch.setattr(metrics, "_READ_AT_ONCE", 10)
    monkeypatch.setattr(metrics, "_WRITTEN_AT_ONCE", 10)
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("many", partitions=100)
        at = [OffsetCommitRequestPartition(index, 0, committed_metadata="") for index in range(100)]
        with RawClient(broker.bootstrap_servers) as client:
            client.call(FindCoordinatorRequest(coordinator_keys=["readers"]))
            client.call(OffsetCommitRequest("readers", topics=[OffsetCommitRequestTopic("many", partitions=at)]), 8)
        counted.pauses = 0
        told = broker.metrics()
    assert told.count('kafka_consumergroup_lag{consumergroup="readers"') == 100
    assert told.count("# HELP kafka_consumergroup_lag ") == 1
    assert counted.pauses >= 3 * 10  # to read the offsets, and for the lines of both metrics
