"""Captures and recordings of proxies: what was there before is made as clients saw it, and offsets begin at 0."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest
from confluent_kafka import Consumer, Producer

from interop.proxied import Proxy
from pykafka_broker.cli import main
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from pykafka_broker.protocol.messages.list_offsets_request import ListOffsetsRequest
from pykafka_broker.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pykafka_broker.protocol.messages.offset_for_leader_epoch_request import OffsetForLeaderEpochRequest
from pykafka_broker.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.compression import ZSTD
from pykafka_broker.records.conversion import build_message_set
from pykafka_broker.records.record import BatchRecord
from pykafka_broker.steps import at_once
from pykafka_broker.testing import KafkaBroker, KafkaCluster, replay_recording
from pykafka_broker.testing.compared_answers import Ids
from pykafka_broker.testing.partial_recordings import by_node, completed
from pykafka_broker.testing.recorded_coordinators import Coordinated
from pykafka_broker.testing.recorded_messages import RecordedMessages
from pykafka_broker.testing.recording import Recorded, Recording, lines_of, read_recording
from tests.cli.test_trace_capture import pcap, segment
from tests.testing.test_recorded_coordinators import exchange

FIN = 0x11
BEFORE = 40


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    """A broker whose topic has records from before each recording."""
    with KafkaBroker(in_process=True) as running:
        running.create_topic("orders")
        running.create_topic("billed")
        running.produce("orders", [(f"order-{number}", "secret") for number in range(BEFORE)])
        yield running


def bill(broker: KafkaBroker, bootstrap_servers: str, group: str) -> None:
    """Run an application that goes on at its group's position, while new orders come."""
    settings = {"bootstrap.servers": bootstrap_servers, "client.id": group}
    reading = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    broker.commit(group, "orders", BEFORE - 3)
    consumer = Consumer({**settings, **reading})
    producer = Producer({**settings, "transactional.id": group})
    producer.init_transactions(20)
    consumer.subscribe(["orders"])
    for number in range(5):
        if number == 3:
            broker.produce("orders", [("late", "secret"), ("later", "secret")])
        order = consumer.poll(20)
        assert order is not None
        assert order.error() is None
        producer.begin_transaction()
        producer.produce("billed", b"paid", key=order.key())
        producer.commit_transaction(20)
        consumer.commit(message=order, asynchronous=False)
    consumer.close()


def as_capture(events: list[Recorded]) -> bytes:
    """Return the events as a capture of tcpdump, in which each broker has an address that no broker advertises."""
    sent: list[tuple[int, int, bool, bytes, int]] = []
    for each in events:
        if each.is_close:
            sent.append((each.at, each.connection, True, b"", each.node))
        elif each.call is None:
            sent.append((each.at, each.connection, True, each.request, each.node))
            if each.response is not None:
                sent.append((each.answered, each.connection, False, each.response, each.node))
    sequences: Counter[tuple[int, bool]] = Counter()
    packets: list[tuple[float, bytes]] = []
    for at, connection, of_client, frame, node in sorted(sent, key=lambda each: each[0]):
        client, server = ("127.0.0.1", 40_000 + connection), (f"10.0.0.{node}", 9092)
        source, target = (client, server) if of_client else (server, client)
        data = len(frame).to_bytes(4, "big") + frame if frame else b""
        made = bytearray(segment(source, target, sequences[connection, of_client], data))
        sequences[connection, of_client] += len(data)
        if not frame:
            made[20 + 13] = FIN
        packets.append((1000 + at / 1e6, bytes(made)))
    return pcap(packets)


def test_a_capture_is_played(broker: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broker.start_recording()
    bill(broker, broker.bootstrap_servers, "captured")
    recorded, capture, masked = (tmp_path / name for name in ("recorded.jsonl", "capture.pcap", "masked.jsonl"))
    broker.save_recording(recorded)
    with recorded.open() as file:
        capture.write_bytes(as_capture(read_recording(file).events))
    code = main(["replay", str(capture), "--all"])
    told = capsys.readouterr().out.splitlines()
    assert code == 0, told
    assert told[0].startswith("a capture tells nothing of what was there before: ")
    assert told[1].endswith("requests played, all answered as recorded")
    assert main(["replay", str(capture), "--masked", str(masked)]) == 0
    assert main(["replay", str(masked), "--all"]) == 0, capsys.readouterr().out


def test_a_proxy_records(broker: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proxy = Proxy(broker.bootstrap_servers)
    try:
        proxy.start_recording()
        bill(broker, proxy.address, "recorded")
        path = tmp_path / "proxy.jsonl"
        proxy.save_recording(path)
    finally:
        assert proxy.end() == 0
    code = main(["replay", str(path), "--all"])
    told = capsys.readouterr().out.splitlines()
    assert code == 0, told
    assert told[0].startswith("a proxy tells nothing of what was there before: ")


# -- of a cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(2, in_process=True) as running:
        running.create_topic("orders", 2)
        for index in (0, 1):
            running.move_leader("orders", index + 1, index)
        running.produce("orders", [{"value": f"before-{number}", "partition": number % 2} for number in range(6)])
        yield running


def buy(cluster: KafkaCluster, bootstrap_servers: str, group: str) -> None:
    """Run an application; half-way, other brokers become its topic's leaders and its group's coordinator."""
    settings = {"bootstrap.servers": bootstrap_servers, "client.id": group}
    reading = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer, producer = Consumer({**settings, **reading}), Producer(settings)
    consumer.subscribe(["orders"])
    for number in range(8):
        if number == 4:
            for index in (0, 1):
                cluster.move_leader("orders", 3 - cluster.leader_of("orders", index), index)
            place = Coordinated(0, group).place(cluster.topic("__consumer_offsets")["partitions"])
            cluster.move_leader(place.topic, 3 - cluster.coordinator(group), place.partition)
        producer.produce("orders", b"paid", partition=number % 2)
        assert producer.flush(60) == 0
        order = consumer.poll(60)
        assert order is not None
        assert order.error() is None
        consumer.commit(message=order, asynchronous=False)
    consumer.close()


def told(path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Play a recording of two brokers, and return the output after its first line."""
    assert main(["replay", str(path), "--list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    for node in (1, 2):
        assert any(" Produce " in line and line.endswith(f"(node {node})") for line in listed)
    assert sum("/incidents/leader" in line for line in listed) == 2
    assert sum("becomes the coordinator of group" in line for line in listed) == 1
    code = main(["replay", str(path), "--all"])
    lines = capsys.readouterr().out.splitlines()
    assert code == 0, lines
    return lines[1:]


def test_a_capture_of_several_brokers_is_played_at_each(
    cluster: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.start_recording()
    buy(cluster, cluster.bootstrap_servers, "captured")
    recorded, capture = (tmp_path / name for name in ("recorded.jsonl", "capture.pcap"))
    cluster.save_recording(recorded)
    with recorded.open() as file:
        capture.write_bytes(as_capture(read_recording(file).events))
    *_, summary = told(capture, capsys)
    assert summary.endswith("requests played, all answered as recorded")
    with KafkaCluster(2, in_process=True) as other:
        code = main(["replay", str(capture), "--all", "--to", other.broker(1).bootstrap_servers])
    assert code == 0, capsys.readouterr()


def test_a_proxy_in_front_of_several_brokers_records_each(
    cluster: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy = Proxy(cluster.broker(1).bootstrap_servers)
    try:
        early = Producer({"bootstrap.servers": proxy.address})  # its connections are there before the recording
        early.list_topics(timeout=60)
        proxy.start_recording()
        early.produce("orders", b"early", partition=0)
        assert early.flush(60) == 0
        buy(cluster, proxy.address, "recorded")
        path = tmp_path / "proxy.jsonl"
        proxy.save_recording(path)
    finally:
        assert proxy.end() == 0
    *_, summary = told(path, capsys)
    assert summary.endswith("requests played, all answered as recorded")


def led_by(leader: int, epoch: int) -> Message:
    brokers = [MetadataResponseBroker(node, "10.0.0.1", 9091 + node) for node in (1, 2)]
    partition = MetadataResponsePartition(0, 0, leader, epoch, [1, 2], [1, 2])
    topic = MetadataResponseTopic(0, "orders", b"t" * 16, partitions=[partition])
    return MetadataResponse(brokers=brokers, topics=[topic])


def test_a_leader_moves_while_its_fetch_waits_and_is_told_late() -> None:
    def asked(connection: int, at: int, answered: int, request: Message, response: Message, version: int) -> Recorded:
        return exchange(request, response, version)._replace(at=at, answered=answered, connection=connection)

    refused = FetchableTopicResponse("orders", partitions=[PartitionData(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)])
    located = ListOffsetsTopicResponse("orders", [ListOffsetsPartitionResponse(0, offset=3)])
    events = [
        asked(1, 0, 1, MetadataRequest(), led_by(1, 5), 12),
        asked(2, 2, 3, MetadataRequest(), led_by(1, 5), 12),
        asked(1, 10, 30, FetchRequest(), FetchResponse(responses=[refused]), 12),
        asked(1, 15, 16, ListOffsetsRequest(), ListOffsetsResponse(topics=[located]), 7),
        asked(2, 18, 19, MetadataRequest(), led_by(1, 5), 12),  # node 2 has not heard of the move when node 1 has
        asked(1, 31, 32, ListOffsetsRequest(), ListOffsetsResponse(), 7),
        asked(2, 40, 41, MetadataRequest(), led_by(1, 5), 12),
        asked(1, 50, 51, MetadataRequest(), led_by(2, 6), 12),
    ]
    recording = Recording([], events, "a capture", servers={1: ("10.0.0.1", 9092), 2: ("10.0.0.1", 9093)})
    played = by_node(recording).events
    (move,) = [each for each in played if each.call is not None]
    assert (move.at, json.loads(move.call[2])["leader"] if move.call else 0) == (20, 2)
    answers = [RecordedMessages(each).response for each in played if each.request[:2] == b"\0\3"]
    assert [each.topics[0].partitions[0].leader_id for each in answers] == [1, 1, 1, 2, 2]


def test_message_sets_that_were_there_before_are_made_and_compared(tmp_path: Path) -> None:
    """A client of Kafka 0.10 reads what was written before the capture, from an offset in the middle."""
    messages = at_once(build_message_set([BatchRecord(7, 1_000, b"k", b"a"), BatchRecord(8, 2_000, None, b"b")], 1))
    broker = MetadataResponseBroker(1, "10.0.0.1", 9092)
    there = MetadataResponseTopic(name="orders", partitions=[MetadataResponsePartition(leader_id=1, isr_nodes=[1])])
    asked = FetchTopic("orders", partitions=[FetchPartition(0, fetch_offset=7, partition_max_bytes=1000)])
    cut = messages + messages[:20]  # as an old broker cuts its answers
    found = FetchableTopicResponse("orders", partitions=[PartitionData(0, high_watermark=9, records=cut)])
    events = [
        exchange(MetadataRequest(), MetadataResponse(brokers=[broker], topics=[there]), 1),
        exchange(FetchRequest(topics=[asked]), FetchResponse(responses=[found]), 2)._replace(at=2, answered=3),
    ]
    path = tmp_path / "old.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines_of(Recording([], events, "a capture"))))
    with KafkaBroker(emulate="2.8", in_process=True) as old:
        replay = replay_recording(path, on=old)
        assert [(each.key, each.value, each.timestamp) for each in old.records("orders")] == [
            ("k", "a", 1_000),
            (None, "b", 2_000),
        ]
    assert [str(each) for each in replay.differences if each.request == "Fetch v2"] == []


def zstd_message(offset: int = 0) -> bytes:
    """Return a message of format v1 under a codec that the format can't carry."""
    message = bytearray(at_once(build_message_set([BatchRecord(offset, 1_000, b"k", b"a")], 1)))
    message[17] = ZSTD
    message[12:16] = crc32(message[16:]).to_bytes(4, "big")
    return bytes(message)


def fetched(records: bytes) -> Recorded:
    data = PartitionData(0, high_watermark=9, records=records)
    asked = FetchTopic("orders", partitions=[FetchPartition(0, fetch_offset=7, partition_max_bytes=1000)])
    answer = FetchResponse(responses=[FetchableTopicResponse("orders", partitions=[data])])
    return exchange(FetchRequest(topics=[asked]), answer, 4)


def cut_batch() -> bytes:
    builder = BatchBuilder(base_offset=7)
    builder.extend([BatchRecord(7, 1_000, None, b"a")])
    return bytes(builder.build()[:-1] + b"\2")  # as many headers are not there


MADE_UP = bytes(at_once(build_message_set([BatchRecord(-7, 1_000, b"k", b"a")], 1)))


@pytest.mark.parametrize("records", [zstd_message(7), MADE_UP, cut_batch()], ids=["zstd", "negative offset", "cut"])
def test_records_that_no_broker_takes_are_played(records: bytes) -> None:
    sent = ProduceRequest(
        None, 1, 1000, [TopicProduceData("orders", partition_data=[PartitionProduceData(0, records)])]
    )
    refused = PartitionProduceResponse(0, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1)
    told = ProduceResponse([TopicProduceResponse("orders", partition_responses=[refused])])
    found = completed(Recording([], [exchange(sent, told, 2), fetched(records)], "a capture"))
    assert [each.request[1] for each in found.events if each.request] == [ApiKey.PRODUCE, ApiKey.FETCH]


def test_ends_of_epochs_that_a_fresh_broker_does_not_have_are_not_compared() -> None:
    def told(end_offset: int) -> bytes:
        end = EpochEndOffset(0, 0, 7, end_offset)
        answer = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult("orders", [end])])
        return exchange(OffsetForLeaderEpochRequest(), answer, 3).response or b""

    request = exchange(OffsetForLeaderEpochRequest(), OffsetForLeaderEpochResponse(), 3).request
    assert list(Ids(of_partial=True).compared(request, told(5), told(-1))) == []
    assert list(Ids().compared(request, told(5), told(-1))) == [("topics[0].partitions[0].end_offset", "5", "-1")]
