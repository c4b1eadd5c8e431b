"""The recordings of a cluster's nodes, put together."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from struct import error, pack, unpack
from typing import Any

import pytest

from interop.waiting import eventually
from pykafka_broker.cli import main
from pykafka_broker.control.traffic.exchange import is_of_a_broker
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from pykafka_broker.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from pykafka_broker.protocol.runtime import uuid_text
from pykafka_broker.server.link_codec import encode_request
from pykafka_broker.testing import KafkaCluster
from pykafka_broker.testing.cluster_recording import in_effect
from pykafka_broker.testing.recording import Recorded, read_recording

TOPIC_ID = bytes(range(16))
NAMES = {uuid_text(TOPIC_ID): "orders"}
VERSION = 13  # names topics by their ids


def asked(client_id: str = "shop") -> bytes:
    topic = TopicProduceData(topic_id=TOPIC_ID, partition_data=[PartitionProduceData(0, b"")])
    request = ProduceRequest(None, -1, 1000, [topic])
    return b"".join(encode_request(request, VERSION, 1, client_id))[4:]


def produce(at: int, node: int, error: ErrorCode = ErrorCode.NONE, answered: int | None = None) -> Recorded:
    """Return a Produce that reached the node at time `at`, and was answered 5 µs later by default."""
    answer = TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=[PartitionProduceResponse(0, int(error))])
    header = (1).to_bytes(4, "big") + b"\0" * (SPECS[ApiKey.PRODUCE].response_header_version(VERSION))
    body = header + ProduceResponse([answer]).encode(VERSION)
    later = at + 5 if answered is None else answered
    return Recorded.exchange(at, later, node, asked(), body)._replace(node=node)


def move(at: int, leader: int, topic: str = "orders") -> Recorded:
    body = json.dumps({"topic": topic, "partition": 0, "leader": leader})
    return Recorded(at, at, 0, b"", None, ("POST", "/incidents/leader", body), node=100)


def order(*events: Recorded) -> list[Any]:
    """Return the events in order: `move`, or the node of a Produce with the name of its error."""
    told: list[Any] = []
    for each in in_effect(list(events), NAMES):
        refused = (
            each.response is not None and int(ErrorCode.NOT_LEADER_OR_FOLLOWER).to_bytes(2, "big") in each.response
        )
        told.append("move" if each.call is not None else (each.node, refused))
    return told


NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_moves_when_the_old_one_has_learnt_of_it() -> None:
    """Broker 1 serves a request after the controller's decision and refuses the next: the move stands between them."""
    assert order(move(10, 2), produce(20, 1), produce(30, 1, NOT_LEADER), produce(40, 2)) == [
        (1, False),
        "move",
        (1, True),
        (2, False),
    ]


def test_a_leader_moves_when_the_old_one_has_answered_what_waited() -> None:
    """The old leader answers one earlier Produce and refuses another: the move comes right after the answer."""
    refused = produce(9, 1, NOT_LEADER, answered=18)
    events = in_effect([produce(8, 1, answered=15), refused, move(10, 2), produce(20, 2)], NAMES)
    assert [each.at for each in events if each.call is not None] == [16]


def test_a_leader_moves_before_the_new_one_serves() -> None:
    assert order(move(10, 2), produce(20, 2), produce(30, 1)) == ["move", (2, False), (1, False)]


def test_nobody_tells_when_it_has_learnt() -> None:
    assert order(produce(5, 1), move(10, 2), move(12, 3, "others")) == [(1, False), "move", "move"]


def test_leaders_that_move_twice_move_one_after_the_other() -> None:
    events = move(10, 2), produce(20, 2), produce(25, 2), move(30, 1), produce(40, 2), produce(50, 1)
    assert order(*events) == ["move", (2, False), (2, False), (2, False), "move", (1, False)]


def commit(at: int, node: int, error: ErrorCode = ErrorCode.NONE) -> Recorded:
    """Return a commit of a group whose coordinator leads the first partition of `__consumer_offsets`."""
    request = OffsetCommitRequest("billing", topics=[OffsetCommitRequestTopic("orders")])
    partition = OffsetCommitResponsePartition(0, int(error))
    response = OffsetCommitResponse(0, [OffsetCommitResponseTopic("orders", partitions=[partition])])
    frame = b"".join(encode_request(request, 7, 1, "shop"))[4:]
    answer = (1).to_bytes(4, "big") + response.encode(7)
    return Recorded.exchange(at, at + 5, node, frame, answer)._replace(node=node)


def test_a_coordinator_moves_when_the_old_one_has_learnt_of_it() -> None:
    """Broker 1 accepts a commit after the controller's decision: the move comes after that commit."""
    refused = commit(30, 1, ErrorCode.NOT_COORDINATOR)
    given = [move(10, 2, "__consumer_offsets"), commit(20, 1), refused, commit(40, 2)]
    events = in_effect(given, NAMES, {"__consumer_offsets": 1})
    assert [each.at for each in events if each.call is not None] == [26]


@pytest.mark.parametrize(
    ("client_id", "inner"),
    [
        ("broker-2-fetcher-0", True),
        ("broker-1-txn-marker-sender", True),
        ("AddPartitionsManager-client-1", True),
        ("raft-client-3", True),
        ("Persister-client-2", True),
        ("share-dlq-1", True),
        ("broker", False),
        ("shop", False),
        ("my-raft-client-3", False),
    ],
)
def test_links_of_brokers_are_known_by_their_names(client_id: str, inner: bool) -> None:
    assert is_of_a_broker(asked(client_id)) is inner


class Impatient:
    """A client that asks a broker again and again, even before the broker runs. answered: correlation ids."""

    def __init__(self, host: str, port: int) -> None:
        self.answered: list[int] = []
        self._address = host, port
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ended.is_set():
            number += 1
            request = pack(">hhih9s", ApiKey.API_VERSIONS, 0, number, 9, b"impatient")
            try:
                with socket.create_connection(self._address) as client, client.makefile("rb") as answers:
                    client.sendall(pack(">i", len(request)) + request)
                    answers.read(*unpack(">i", answers.read(4)))
            except (OSError, error):
                continue
            self.answered.append(number)

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def test_what_comes_before_the_test_knows_of_a_start_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "early.jsonl"
    with KafkaCluster(2, in_process=True) as cluster:
        cluster.start_recording()
        node = cluster.broker(2)
        node.kill()
        client = Impatient(node.host, node.port)
        try:
            node.start()
            eventually(lambda: bool(client.answered), True)
        finally:
            client.end()
        with pytest.raises(FileNotFoundError):
            cluster.save_recording(tmp_path / "nowhere" / "recording.jsonl")
        cluster.save_recording(path)
    with path.open() as file:
        events = read_recording(file).events
    frames = [each.request for each in events if b"impatient" in each.request]
    assert client.answered
    assert [int.from_bytes(each[4:8], "big") for each in frames] == client.answered
    (start,) = [each.at for each in events if each.call is not None and each.call[1] == "/start"]
    assert start <= min(each.at for each in events if b"impatient" in each.request)
    assert main(["replay", str(path), "--all"]) == 0, capsys.readouterr().out
