"""`pykafka-broker advise`: for a broker, for a capture, and for unreadable files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pykafka_broker.cli import main
from pykafka_broker.protocol.messages.offset_commit_request import OffsetCommitRequest
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.testing import KafkaBroker
from tests.broker.support import batch
from tests.cli.test_trace_capture import CLIENT, SERVER, pcap, request, segment


def test_a_broker_says_what_its_clients_should_change(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("orders")
        for name, acks in (("careless", 1), ("careful", -1)):
            config = {"bootstrap.servers": broker.bootstrap_servers, "client.id": name, "acks": acks}
            producer = Producer({**config, "enable.idempotence": acks == -1})
            producer.produce("orders", "paid")
            assert producer.flush(60) == 0
        assert main(["advise", "--url", broker.control_url]) == 0
        told = capsys.readouterr().out
        assert "careless (confluent-kafka-python" in told
        assert "acks: 1 of 1 Produce requests with acks=1" in told
        assert "careful" not in told
        assert main(["advise", "--url", broker.control_url, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found == broker.advice("care*") == broker.advice("careless")
        assert broker.advice("careful") == []
        (acks_advice,) = found
        (shown,) = acks_advice["requests"]
        (request,) = broker.requests(after=shown - 1, limit=1, client_id="careless", api="Produce")
        assert request["number"] == shown


def test_a_capture_says_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "seen.pcap"
    old, new = request(OffsetCommitRequest("g"), 1, 1), request(OffsetCommitRequest("g"), 8, 2)
    path.write_bytes(pcap([(1000.0, segment(CLIENT, SERVER, 1, old + new))]))
    assert main(["advise", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "client",
        "  old-version: 1 OffsetCommit requests of version 1",
        "     gone since Kafka 4.0, which begins with 2 (KIP-896)",
        "     -> update the client; clients of Kafka 2.1 and later ask with newer versions",
        "     requests: 1",
    ]


def test_a_capture_has_connections_and_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "seen.pcap"
    records = TopicProduceData("orders", partition_data=[PartitionProduceData(0, batch(b"paid"))])
    sent = request(ProduceRequest(acks=1, topic_data=[records]), 9, 1)
    path.write_bytes(pcap([(1000 + n, segment((CLIENT[0], 50_000 + n), SERVER, 1, sent)) for n in range(10)]))
    assert main(["advise", str(path), "--json"]) == 0
    found = {each["rule"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["connection-a-record"]["seen"] == "10 of 10 connections were made for one Produce request"
    assert found["acks"]["requests"] == [1, 2, 3]


@pytest.mark.parametrize(("content", "says"), [(b"no capture", "neither pcap nor pcapng"), (None, "No such file")])
def test_what_can_not_be_read_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, says: str
) -> None:
    path = tmp_path / "x.pcap"
    if content is not None:
        path.write_bytes(content)
    assert main(["advise", str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_a_capture_and_a_broker_are_not_asked_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["advise", "seen.pcap", "--url", "http://127.0.0.1:1"])
    assert "leave it out, or the capture" in capsys.readouterr().err
