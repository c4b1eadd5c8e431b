"""The history and its checks over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer

from pykafka_broker.control.api import history
from pykafka_broker.control.history.entries import HistoryFile
from pykafka_broker.control.history.outlines import BatchOutline, Outline, outline_of_row, row_of_outline
from pykafka_broker.control.problems import Problem
from pykafka_broker.testing import ControlError, KafkaBroker
from pykafka_broker.testing.history import rows_of
from tests.control.leaderless import leaderless


@pytest.fixture
def recorded(broker: KafkaBroker) -> Iterator[KafkaBroker]:
    broker.reset()
    broker.history.start()
    yield broker
    broker.history.stop()


def produce(broker: KafkaBroker, topic: str, *keys: str) -> None:
    producer = Producer({**broker.client_config("confluent"), "client.id": "app"})
    for key in keys:
        producer.produce(topic, b"v", key=key.encode())
    assert producer.flush(60) == 0


def test_without_a_history_nothing_is_checked(broker: KafkaBroker) -> None:
    for call in (("GET", "/history"), ("POST", "/check"), ("POST", "/history/clear")):
        with pytest.raises(ControlError, match="no history is written") as refused:
            broker.control.call(*call)
        assert refused.value.status == 409


def test_facts_and_logs_are_lines(recorded: KafkaBroker) -> None:
    recorded.create_topic("lines")
    produce(recorded, "lines", "a", "b")
    head, *rows = rows_of(recorded.control.call("GET", "/history"))
    assert (head["kind"], head["whole"], head["full"]) == ("history", False, False)
    produced = next(each for each in rows if each["kind"] == "produced")
    assert (produced["client"], produced["topic"], produced["offset"], produced["count"]) == ("app", "lines", 0, 2)
    (log,) = (each for each in rows if each["kind"] == "log" and each["topic"] == "lines")
    assert (log["start"], log["end"], len(log["batches"])) == (0, 2, 1)


def test_what_a_test_writes_through_the_control_api_is_written_down(recorded: KafkaBroker) -> None:
    recorded.produce("inside", ["1"])
    rows = rows_of(recorded.control.call("GET", "/history"))
    assert [each["client"] for each in rows if each["kind"] == "produced"] == ["control"]


def test_an_application_is_judged(recorded: KafkaBroker) -> None:
    for topic in ("in", "out"):
        recorded.create_topic(topic)
    produce(recorded, "in", "a", "b")
    produce(recorded, "out", "a")
    body = {"input": "in", "output": "out"}
    (found,) = recorded.control.call("POST", "/check", body)
    assert (found["anomaly"], found["text"]) == ("lost", "in-0@1 has no output")
    assert found["way"][0].startswith("in-0@1 was produced at ")
    assert recorded.control.call("POST", "/check", {**body, "guarantee": "at_most_once"}) == []
    assert recorded.control.call("POST", "/check", {**body, "allow": ["lost"]}) == []
    assert recorded.control.call("POST", "/check") == []


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        ({"input": "in"}, 400, "input and output are given together"),
        ({"output": "out"}, 400, "input and output are given together"),
        ({"order": "key"}, 400, "order is of an application: input and output are missing"),
        ({"guarantee": "at_least_once"}, 400, "guarantee is of an application: input and output are missing"),
        ({"input": "x", "output": "y", "seen_by": "g"}, 400, "seen_by is of the whole history: leave out input and"),
        ({"input": "x", "output": "y", "forbid": ["write cycle"]}, 400, "forbid is of the whole history: leave out"),
        ({"input": "x", "output": "x", "order": "id"}, 400, 'key must be "key", "value"'),
        ({"forbid": ["lost write"]}, 400, "must be"),
        ({"key": "id"}, 400, "key is of an application"),
        ({"input": "nowhere", "output": "nowhere"}, 404, "there is no topic nowhere"),
        ({"guarantee": "maybe"}, 400, "guarantee must be one of"),
        ({"allow": ["lies"]}, 400, "must be one of lost write"),
    ],
)
def test_a_wrong_question_is_refused(recorded: KafkaBroker, body: dict[str, object], status: int, detail: str) -> None:
    with pytest.raises(ControlError, match=detail) as refused:
        recorded.control.call("POST", "/check", body)
    assert refused.value.status == status


@pytest.mark.parametrize("missing", ["in", "out"])
def test_an_application_is_not_judged_by_a_part_of_its_records(missing: str) -> None:
    """Records of a partition without a leader may be lost, or doubled."""
    with KafkaBroker(in_process=True, history=True) as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, partitions=2)
            broker.produce(topic, [{"key": str(index), "partition": index} for index in range(2)])
        body = {"input": "in", "output": "out", "guarantee": "at_most_once"}
        assert broker.control.call("POST", "/check", body) == []
        leaderless(broker, missing, 1)
        with pytest.raises(ControlError, match=f"the records of {missing}-1 can't be read now"):
            broker.control.call("POST", "/check", body)


@pytest.mark.parametrize("count", [0, 1, 2_500])
def test_clients_are_served_while_a_long_log_is_written(count: int) -> None:
    async def write() -> str:
        async def turn() -> None:
            while True:
                turns.append(None)
                await asyncio.sleep(0)

        task = asyncio.create_task(turn())
        line = await history._line(row_of_outline(outline))
        task.cancel()
        return line

    turns: list[None] = []
    batches = [BatchOutline(base, base, 80, 1, -1, -1, -1, base, 0, "") for base in range(count)]
    outline = Outline("orders", 0, 0, count, batches=batches, leader_epoch=3)
    (row,) = rows_of(asyncio.run(write()))
    assert outline_of_row(row) == outline
    assert len(turns) >= count // 1_000


def test_a_reset_begins_a_whole_history(recorded: KafkaBroker) -> None:
    recorded.create_topic("before")
    produce(recorded, "before", "a")
    recorded.reset()
    head, *others = rows_of(recorded.control.call("GET", "/history"))
    assert head["whole"]
    assert [each["topics"] for each in others] == [{}, {}]  # before the logs are read, and afterwards


def test_a_history_is_cleared_and_goes_on(recorded: KafkaBroker) -> None:
    recorded.create_topic("cleared")
    produce(recorded, "cleared", "a")
    recorded.history.clear()
    produce(recorded, "cleared", "b")
    rows = rows_of(recorded.control.call("GET", "/history"))
    assert [each["offset"] for each in rows if each["kind"] == "produced"] == [1]


def test_no_place_for_a_history_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with KafkaBroker(in_process=True) as alone:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
        for start in (alone.history.start, alone.start_recording):
            with pytest.raises(ControlError, match="No such file or directory") as refused:
                start()
            assert refused.value.status == 503


def test_a_history_that_is_cleared_while_it_is_read_is_not_judged(tmp_path: Path) -> None:
    async def read() -> None:
        rows = history._fact_rows(control, file)
        await anext(rows)
        file.clear(whole=True)
        [_ async for _ in rows]

    file = HistoryFile(str(tmp_path / "history"))
    histories = SimpleNamespace(running=True, file=file)
    services = SimpleNamespace(node_id=1, image=SimpleNamespace(topics={}))
    control: Any = SimpleNamespace(services=services, histories=histories)
    with pytest.raises(Problem, match="cleared or stopped while it was read"):
        asyncio.run(read())
