"""A dump seeds a broker that dumps the same again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from pykafka_broker.cli import main
from pykafka_broker.control.answers import Topic
from pykafka_broker.control.api import seeding
from pykafka_broker.control.control import Control
from pykafka_broker.testing import ControlError, KafkaBroker
from tests.control.api.test_browse_records import between, of_another_length
from tests.control.api.test_waits import delete_inside
from tests.control.leaderless import leaderless


def filled(broker: KafkaBroker) -> None:
    broker.create_topic("plain", 2, {"retention.ms": 1_000_000_000_000})
    broker.produce("plain", [{"key": "k", "value": b"\xff", "headers": [("h", b"\x00")]}, ("k", None), "ünï"])
    broker.create_topic("stamped", config={"message.timestamp.type": "LogAppendTime"})
    broker.produce("stamped", ["a"])
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "seeding"})
    producer.init_transactions(60)
    for value, end in (("no", producer.abort_transaction), ("yes", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce("plain", value, partition=0)
        assert producer.flush(60) == 0
        end(60)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader"})
    behind = broker.records("plain", 0)[-1].offset + 1
    consumer.commit(offsets=[TopicPartition("plain", 0, behind, metadata="here")], asynchronous=False)
    consumer.close()


def test_a_dump_seeds_a_broker_that_dumps_the_same(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    with KafkaBroker(in_process=True) as first:
        filled(first)
        dumped = first.dump(path)
        lag = first.lag("reader")
    assert path.read_text() == dumped
    assert '"no"' not in dumped
    with KafkaBroker(in_process=True) as second:
        counts = second.seed(path)
        assert counts == {"topics": 2, "records": 5, "offsets": 1}
        assert second.dump() == dumped
        assert (second.lag("reader"), lag) == (0, 0)  # the marker behind the offset at the first broker is no record


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 3: the line is not JSON"),
        ("[]", "line 3: the line must be an object with a type"),
        ('{"type": "rekord"}', "line 3: the line must be an object with a type"),
        ('{"type": "record"}', "line 3: record.topic is missing"),
        ('{"type": "record", "topic": "seeded-1", "colour": 1}', "line 3: record has no colour"),
        ('{"type": "topic", "name": "seeded-1"}', "line 3: TOPIC_ALREADY_EXISTS"),
        ('{"type": "record", "topic": "seeded-1", "value_base64": "%"}', "line 3: value_base64 is not base64"),
    ],
)
def test_a_line_that_cant_be_taken_is_named_and_earlier_ones_stay(broker: KafkaBroker, line: str, says: str) -> None:
    broker.create_topic("seeded-1", exist_ok=True)
    before = len(broker.records("seeded-1"))
    lines = ['{"type": "record", "topic": "seeded-1", "value": "before"}', "", line]
    with pytest.raises(ControlError) as refused:
        broker.seed(lines)
    assert str(refused.value).startswith(says)
    assert len(broker.records("seeded-1")) == before + 1


def test_records_that_cant_be_written_are_named_by_their_lines(broker: KafkaBroker) -> None:
    record = '{"type": "record", "topic": "seeded-3", "partition": %d}'
    lines = ['{"type": "topic", "name": "seeded-3"}', record % 0, record % 9, '{"type": "topic", "name": "seeded-4"}']
    with pytest.raises(ControlError, match=r"^lines 2 to 3: topic seeded-3 has partitions 0 to 0, not 9$"):
        broker.seed(lines)
    with pytest.raises(ControlError, match=r"^line 1: topic seeded-3 has partitions 0 to 0, not 9$"):
        broker.seed([record % 9, ""])


def test_ten_thousand_lines_come_in_parts_and_go_out_as_one(broker: KafkaBroker) -> None:
    broker.create_topic("seeded-2")
    line = '{"type":"record","topic":"seeded-2","partition":0,"timestamp":7,"value":"%05d"}'
    lines = [line % number for number in range(10_000)]
    assert broker.seed(lines)["records"] == 10_000
    assert [each for each in broker.dump().splitlines() if '"seeded-2"' in each][1:] == lines


def test_a_dump_has_no_deleted_records_and_offsets_count_those_that_are_left() -> None:
    with KafkaBroker(in_process=True) as first:
        first.create_topic("cut")
        first.produce("cut", [str(n) for n in range(10)])
        admin = AdminClient({"bootstrap.servers": first.bootstrap_servers})
        for deleted in admin.delete_records([TopicPartition("cut", 0, 4)]).values():
            deleted.result(60)
        consumer = Consumer({"bootstrap.servers": first.bootstrap_servers, "group.id": "reader"})
        consumer.commit(offsets=[TopicPartition("cut", 0, 7)], asynchronous=False)
        consumer.close()
        dumped = first.dump()
    with KafkaBroker(in_process=True) as second:
        assert second.seed(dumped.splitlines())["records"] == 6
        assert [(each.offset, each.value) for each in second.records("cut")] == [(n, str(n + 4)) for n in range(6)]
        assert second.lag("reader") == 3


def test_a_dump_goes_on_behind_what_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dump leaves out the unreadable rest of a damaged batch, and keeps the lag of groups before and behind it."""
    path = tmp_path / "state.jsonl"
    with KafkaBroker(in_process=True) as first:
        between(first, "damaged", of_another_length())
        for group, offset in (("within", 3), ("behind", 5)):
            first.commit(group, "damaged", offset)
        lines = [json.loads(each) for each in first.dump().splitlines()]
        first.start_recording()
        first.save_recording(path)
    topic, *middle = [each for each in lines if each["type"] != "offset"]
    assert topic["type"] == "topic"
    assert [each.get("value", each["type"]) for each in middle] == ["before", "value", "unreadable", "behind"]
    assert (middle[2]["offset"], "can't be read" in middle[2]["why"]) == (2, True)
    assert main(["replay", str(path)]) == 0, capsys.readouterr()
    with KafkaBroker(in_process=True) as second:
        assert second.seed(map(json.dumps, lines))["records"] == 3
        assert [each.value for each in second.records("damaged")] == ["before", "value", "behind"]
        assert (second.lag("within"), second.lag("behind")) == (1, 0)


ENDS = "a\u2028b\u2029c\x85d\x0be\x1cf\r\ng"  # each ends a line for `str.splitlines`


def test_a_text_with_other_ends_of_lines_is_seeded_and_played_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = tmp_path / "recording.jsonl"
    with KafkaBroker(in_process=True) as first, KafkaBroker(in_process=True) as second:
        first.create_topic("ends")
        first.produce("ends", [ENDS])
        second.seed(first.dump(tmp_path / "dump").split("\n"))
        second.assert_records("ends", [ENDS])
        second.reset()
        second.seed(tmp_path / "dump")
        second.assert_records("ends", [ENDS])
        first.start_recording()
        first.restart()
        first.save_recording(recording)
        second.reset()
        assert main(["replay", str(recording)]) == 0, capsys.readouterr().err
        assert main(["replay", str(recording), "--to", second.bootstrap_servers]) == 0, capsys.readouterr().err
        second.assert_records("ends", [ENDS])


def test_a_dump_goes_on_behind_a_topic_that_is_deleted_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    records = seeding._records

    def deleted(control: Control, described: Topic, *how: Any) -> Iterator[str]:
        for line in records(control, described, *how):
            yield line
            if line and described["name"] == "deleted":
                delete_inside(control, "deleted")

    monkeypatch.setattr(seeding, "_records", deleted)
    with KafkaBroker(in_process=True) as broker:
        for name in ("deleted", "left"):
            broker.create_topic(name, partitions=2)
            broker.produce(name, [{"value": "a", "partition": 0}, {"value": "b", "partition": 1}])
        lines = [json.loads(line) for line in broker.dump().splitlines()]
    assert [(each["topic"], each["value"]) for each in lines if each["type"] == "record"] == [
        ("deleted", "a"),
        ("left", "a"),
        ("left", "b"),
    ]


def test_a_dump_that_can_not_be_made_is_refused_and_not_cut() -> None:
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("apart")
        broker.produce("apart", ["1"])
        leaderless(broker, "apart")
        with pytest.raises(ControlError, match="NOT_LEADER_OR_FOLLOWER"):
            broker.dump()
