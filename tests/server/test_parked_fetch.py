"""A fetch that waits, and the next request of its connection."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.server.link_codec import decode_response, encode_request
from pykafka_broker.testing import KafkaBroker

WAIT_MS = 20_000


@pytest.fixture(params=[True, False], ids=["strict", "quick"])
def broker(request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    with KafkaBroker(strict=request.param) as broker:
        broker.create_topic("t")
        yield broker


def fetch(wait_ms: int) -> FetchRequest:
    topics = [FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=1000)])]
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=topics)


def send(client: socket.socket, request: Message, version: int) -> None:
    client.sendall(b"".join(encode_request(request, version, 1, "test")))


def receive(client: socket.socket, request: Message, version: int) -> Any:
    size = int.from_bytes(client.recv(4, socket.MSG_WAITALL), "big")
    return decode_response(memoryview(client.recv(size, socket.MSG_WAITALL)), SPECS[request.API_KEY], version)


def test_the_next_request_waits_only_where_kafka_is_followed(broker: KafkaBroker) -> None:
    waiting, next_one = fetch(WAIT_MS), MetadataRequest([])
    with socket.create_connection((broker.host, broker.port), timeout=30) as client:
        send(client, waiting, 11)
        send(client, next_one, 4)
        if broker.strict:
            client.settimeout(0.5)
            with pytest.raises(TimeoutError):  # the second one has not hurried the first
                client.recv(4, socket.MSG_PEEK)
            client.settimeout(30)
            broker.produce("t", ["there"])
        data = receive(client, waiting, 11).responses[0].partitions[0]
        assert (data.error_code, bool(data.records)) == (0, broker.strict)
        assert receive(client, next_one, 4).brokers[0].port == broker.port
