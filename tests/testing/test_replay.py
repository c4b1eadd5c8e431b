"""Recordings, and what differs when they are played again."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from pykafka_broker.cli import main
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest
from pykafka_broker.testing import ControlError, KafkaBroker, RemoteBroker, replay_recording
from pykafka_broker.testing.recorded_messages import RecordedMessages
from pykafka_broker.testing.recording import BadRecording, lines_of, read_recording
from pykafka_broker.testing.replay import RecordingPlayer, _Connection
from pykafka_broker.testing.replay_targets import ControlledTarget
from tests.control.api.test_faults import Client


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(in_process=True) as running:
        yield running


@pytest.fixture(scope="module")
def recorded(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of an older topic, a fault, three transactions, and a group that commits."""
    path = tmp_path_factory.mktemp("recorded") / "shop.jsonl"
    broker.create_topic("orders", 2)
    broker.produce("orders", ["a", "b", "c"])
    assert broker.start_recording()["exchanges"] == 0
    broker.faults.add(api="Produce", nth=3, error="NOT_LEADER_OR_FOLLOWER")
    config = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "shop", "transactional.id": "shop"}
    producer = Producer(config)
    producer.init_transactions(20)
    for _ in range(3):
        producer.begin_transaction()
        for number in range(5):
            producer.produce("orders", str(number), key=str(number))
        producer.commit_transaction(20)
    reading = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "billing", **reading})
    consumer.subscribe(["orders"])
    for _ in range(18):
        message = consumer.poll(20)
        assert message is not None
        consumer.commit(message=message, asynchronous=False)
    consumer.close()
    state = broker.save_recording(path)
    assert state["exchanges"] > 40
    assert not state["full"]
    return path


def played(path: Path, **options: Any) -> RecordingPlayer:
    with KafkaBroker(in_process=True, **options) as target, path.open() as file:
        replay = RecordingPlayer(read_recording(file), ControlledTarget(target.control, target.host, target.port))
        asyncio.run(replay.run())
    return replay


def test_a_recording_is_answered_as_it_was(recorded: Path) -> None:
    replay = played(recorded)
    assert list(map(str, replay.differences)) == []
    assert replay.played > 40


def test_another_release_answers_otherwise(recorded: Path) -> None:
    replay = played(recorded, emulate="3.9")
    told = list(map(str, replay.differences))
    assert any("ApiVersions v3: recorded at api_keys" in line for line in told)
    assert len(told) < replay.played / 2


def changed(path: Path, tmp_path: Path, name: str) -> Path:
    """Return the recording with one more fault: the second request of API `name` fails with an authorization error."""
    lines = path.read_text().splitlines()
    calls = [number for number, line in enumerate(lines) if line.startswith('{"call"')]
    call = json.loads(lines[calls[0]])
    call["body"] = json.dumps({"api": name, "nth": 2, "error": "GROUP_AUTHORIZATION_FAILED"})
    lines.insert(calls[0], json.dumps(call))
    other = tmp_path / "changed.jsonl"
    other.write_text("\n".join(lines) + "\n")
    return other


def test_the_first_answer_that_differs_is_told(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = changed(recorded, tmp_path, "OffsetCommit")
    assert main(["replay", str(path)]) == 3
    first, summary = capsys.readouterr().out.splitlines()
    assert "OffsetCommit v" in first
    assert first.endswith("recorded at topics[0].partitions[0].error_code 0, now 30")
    assert summary.endswith("requests played, 1 answered otherwise")
    assert main(["replay", str(recorded)]) == 0
    assert capsys.readouterr().out.endswith("requests played, all answered as recorded\n")


def test_what_a_check_finds_is_told(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(recorded), "--check"]) == 0
    assert main(["replay", str(recorded), "--seen-by", "nobody"]) == 4  # a question without --check is one too
    capsys.readouterr()
    asked = ["--input", "orders", "--output", "billed", "--key", "value"]
    path = tmp_path / "billed.jsonl"
    topic = json.dumps({"state": {"type": "topic", "name": "billed", "partitions": 1}})
    head, *rest = recorded.read_text().splitlines()
    path.write_text("\n".join([head, topic, *rest, ""]))
    assert main(["replay", str(path), "--check", *asked, "--guarantee", "at_least_once"]) == 4
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("lost: ") for line in lines) == 18
    with pytest.raises(SystemExit):
        main(["replay", str(path), "--check", "--to", "127.0.0.1:9"])
    assert "--url is missing" in capsys.readouterr().err
    for number, more in (("0", []), ("-1", ["--page"])):
        with pytest.raises(SystemExit):
            main(["replay", str(path), "--until", number, *more])
        assert f"--until {number}: the first request has the number 1" in capsys.readouterr().err


def test_a_broker_that_runs_may_be_the_target(recorded: Path) -> None:
    with KafkaBroker(in_process=True) as target:
        arguments = ["replay", str(recorded), "--to", f"{target.host}:{target.port}", "--url", str(target.control_url)]
        assert main(arguments) == 0


def test_without_a_control_api_it_says_what_was_left_out(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Topics and records are set up by Kafka's protocol; faults are not, and the requests they met are not compared."""
    with KafkaBroker(in_process=True) as target:
        assert main(["replay", str(recorded), "--to", f"{target.host}:{target.port}"]) == 0
    left_out, summary = capsys.readouterr().out.splitlines()
    assert left_out == (
        "not done there, as it has no control API: add_fault; 1 answer that met a fault is not compared"
    )
    assert summary.endswith("requests played, all answered as recorded")


class Onlooker:
    """A user who looks at the broker, and then presses Enter."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.records: list[str | bytes | None] = []
        self.clients: set[str | None] = set()

    def fileno(self) -> int:
        """Return the standard input of the command, with Enter."""
        told = self._capsys.readouterr().out
        with RemoteBroker(told.split(" requests played: ")[1].split()[0]) as broker:
            self.records = [record.value for record in broker.records("orders", isolation_level="read_uncommitted")]
            self.clients = {each["client_id"] for each in broker.connections()}
        reading, writing = os.pipe()
        os.write(writing, b"\n")
        os.close(writing)
        return reading


def test_the_state_at_a_moment_can_be_looked_at(
    recorded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["replay", str(recorded), "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("control API: POST /faults" in line for line in lines)
    assert any("is closed" in line for line in lines)
    (refused,) = [line for line in lines if "(fault " in line]
    assert "Produce" in refused
    assert "NOT_LEADER_OR_FOLLOWER" in refused
    onlooker = Onlooker(capsys)
    monkeypatch.setattr("sys.stdin", onlooker)
    first = next(line for line in lines if " Produce v" in line)
    assert main(["replay", str(recorded), "--until", first.split()[0], "--keep"]) == 0
    assert set(onlooker.records) >= {"a", "b", "c"}
    assert 3 < len(onlooker.records) < 18
    assert "shop" in onlooker.clients
    summary = capsys.readouterr().out.splitlines()[-1]
    assert summary == f"{first.split()[0]} requests played, all answered as recorded"


def test_a_state_that_can_t_be_made_is_told(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as target:
        target.create_topic("orders")
        assert main(["replay", str(recorded), "--to", f"{target.host}:{target.port}"]) == 1
    assert "the state before the recording can't be made there: " in capsys.readouterr().err


def join(client: Client) -> Any:
    """Join the group as a consumer with timeouts of ten minutes, and return the answer."""
    ten_minutes = 600_000
    protocols = [JoinGroupRequestProtocol("range", b"")]
    return client.ask(JoinGroupRequest("leaving", ten_minutes, ten_minutes, "", None, "consumer", protocols), 3)


def test_a_target_that_is_not_there_is_told(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        assert main(["replay", str(recorded), "--to", f"127.0.0.1:{nobody.getsockname()[1]}"]) == 1
    assert "Connect call failed" in capsys.readouterr().err


def test_a_client_that_has_gone_is_gone_again(tmp_path: Path) -> None:
    """A replay closes connections as recorded, so that the group does not wait for the member that has gone."""
    path = tmp_path / "left.jsonl"
    with KafkaBroker(in_process=True) as broker:  # without clients of earlier tests, which would be in the recording
        broker.start_recording()
        for name in ("first", "second"):
            client = Client(broker, name)
            client.ask(FindCoordinatorRequest("leaving"), 1)
            joined = join(client)
            assert len(joined.members) == 1
            client.ask(SyncGroupRequest("leaving", joined.generation_id, joined.member_id), 1)
            client.close()
            broker.wait_for_connections(name, 0)
            broker.clock.advance(seconds=6)  # a member whose client has gone may stay away for five
        broker.save_recording(path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    asked = {line["connection"] for line in lines if "request" in line}  # others' clients may knock at an old port
    assert len(asked) == 2
    assert {line["closed"] for line in lines if "closed" in line} >= asked
    assert list(map(str, played(path).differences)) == []


def test_passwords_are_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "secured.jsonl"
    with KafkaBroker(security="sasl_plaintext", users={"alice": "wonderland"}, in_process=True) as secured:
        secured.create_topic("orders")
        secured.start_recording()
        producer = Producer(secured.client_config("confluent", user="alice"))
        producer.produce("orders", "paid")
        assert producer.flush(20) == 0
        secured.save_recording(path)
    with path.open() as file:
        frames = [event.request for event in read_recording(file).events]
    assert any(frame[:2] == b"\0\0" for frame in frames)
    assert not any(b"wonderland" in frame for frame in frames)


def test_what_is_not_recorded_is_told(broker: KafkaBroker, tmp_path: Path) -> None:
    with pytest.raises(ControlError, match="nothing is recorded"):
        broker.save_recording(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["no JSON"], "line 1 is no line of a recording"),
        (["{}"], "line 1 is no line of a recording"),
        (['{"recording": 99}'], "recordings of format 99 are not read"),
        (['{"recording": 1}', '{"request": "####"}'], "line 2 is no line of a recording"),
        (['{"recording": 1}', "[1]"], "line 2 is no line of a recording"),
        (['{"recording": 1}', '{"closed": 1, "at": "then"}'], "line 2 is no line of a recording"),
        (['{"recording": 1}', '{"closed": 1, "at": 1}', '{"closed": 1, "at": [2]}'], "line 3 is no line"),
        (['{"recording": 1}', '{"call": 1, "target": 2, "body": 3, "at": 4}'], "line 2 is no line of a recording"),
    ],
)
def test_what_is_no_recording_is_told(lines: list[str], says: str) -> None:
    with pytest.raises(BadRecording, match=says):
        read_recording(lines)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("no recording", "it is neither a recording nor a capture (pcap or pcapng)"),
        ('{"recording": 1}\n{}', "line 2 is no line of a recording"),
        ('{"recording": 1, "topics_then": {}}', "a recording is of no node of a cluster"),
    ],
)
def test_a_file_with_something_else_is_named(
    content: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other"
    path.write_text(content)
    assert main(["replay", str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"pykafka-broker replay: {path}: {says}")


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.jsonl"
    assert main(["replay", str(path)]) == 1
    assert capsys.readouterr().err == f"pykafka-broker replay: {path}: No such file or directory\n"


def test_what_came_of_time_comes_when_as_much_passes(
    broker: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A replay in recorded time repeats a session timeout and a delayed answer; a plain replay does not."""
    path = tmp_path / "silent.jsonl"
    broker.control.call("GET", "/coordinator", query={"group": "silent"})
    broker.start_recording()
    client = Client(broker, "silent")
    client.ask(FindCoordinatorRequest("silent"), 1)
    protocols = [JoinGroupRequestProtocol("range", b"")]
    asked = JoinGroupRequest("silent", 2_000, 2_000, protocol_type="consumer", protocols=protocols)
    member = client.ask(asked, 2).member_id
    client.ask(SyncGroupRequest("silent", 1, member), 1)
    while broker.group("silent")["state"] != "Empty":
        time.sleep(0.05)
    assert client.ask(DescribeGroupsRequest(["silent"]), 0).groups[0].group_state == "Empty"
    with broker.faults.add(api="Heartbeat", delay_ms=200):
        assert client.ask(HeartbeatRequest("silent", 1, member), 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    client.close()
    broker.save_recording(path)
    assert main(["replay", str(path)]) == 3
    assert "groups[0].group_state 'Empty', now 'Stable'" in capsys.readouterr().out
    assert main(["replay", str(path), "--recorded-time", "--all"]) == 0, capsys.readouterr().out
    with KafkaBroker(in_process=True) as other:
        replay = replay_recording(path, on=other, recorded_time=True)
        assert replay.differences == []
        assert not other.clock.frozen
        other.reset()
        assert [each.path for each in replay_recording(path, on=other).differences] == [
            "groups[0].group_state",
            "error_code",
        ]
        other.reset()
        assert replay_recording(path, on=other, until=3).played == 3 < replay.played
    with path.open() as file:
        last = read_recording(file).events[-1].at / 1e6
    with KafkaBroker(in_process=True) as other:  # whose clock can't be moved; what it answers is of a busy machine
        began = time.monotonic()
        assert main(["replay", str(path), "--to", other.bootstrap_servers, "--recorded-time"]) in (0, 3)
        assert time.monotonic() - began >= last


def test_a_transaction_that_had_to_wait_for_the_end_of_the_last_one_need_not_wait(
    recorded: Path, tmp_path: Path
) -> None:
    with recorded.open(encoding="utf-8") as file:
        recording = read_recording(file)
    index, message = next(
        (index, message)
        for index, message in enumerate(map(RecordedMessages, recording.events))
        if message.api_key == ApiKey.ADD_PARTITIONS_TO_TXN
    )
    for topic in message.response.results_by_topic_v3_and_below:
        for each in topic.results_by_partition:
            each.partition_error_code = int(ErrorCode.CONCURRENT_TRANSACTIONS)
    recording.events[index] = message.rewritten()
    path = tmp_path / "waited.jsonl"
    path.write_text("\n".join([*lines_of(recording), ""]), encoding="utf-8")
    with KafkaBroker(in_process=True) as broker:
        assert replay_recording(path, on=broker.bootstrap_servers).differences == []
    (difference,) = replay_recording(path).differences
    assert difference.request.startswith("AddPartitionsToTxn")


def test_a_request_on_a_connection_that_has_ended_has_no_answer() -> None:
    """A closed connection gives None, so that repeating a question until its recorded answer comes can't hang."""

    async def run() -> list[bytes | None]:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            connection = await _Connection.open(*server.sockets[0].getsockname())
            return [await asyncio.wait_for(connection.send(bytes(8)), 30) for _ in range(2)]

    assert asyncio.run(run()) == [None, None]
