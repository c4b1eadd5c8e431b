"""A proxy in front of a broker: clients stay on it, and meet its log and its faults."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer

from interop.proxied import Proxy
from pykafka_broker.cli.proxy import only_known_versions, replace
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from pykafka_broker.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from pykafka_broker.protocol.messages.metadata_response import MetadataResponse, MetadataResponseBroker
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.server.link_codec import encode_request
from pykafka_broker.testing import ControlError, KafkaBroker
from tests.control.api.test_faults import Client

MOST_SENT = 64 << 20
BLOCKED_S = 1.0
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def behind() -> Iterator[KafkaBroker]:
    with KafkaBroker({"num.partitions": 1}, in_process=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def proxy(behind: KafkaBroker) -> Iterator[Proxy]:
    proxy = Proxy(behind.bootstrap_servers)
    yield proxy
    assert proxy.end() == 0


@pytest.fixture(autouse=True)
def no_fault_is_left(proxy: Proxy) -> Iterator[None]:
    proxy.clear_requests()
    yield
    proxy.faults.clear()


def test_clients_stay_on_the_proxy(behind: KafkaBroker, proxy: Proxy) -> None:
    behind.create_topic("through")
    producer = KafkaProducer(bootstrap_servers=proxy.address, client_id="producer")
    producer.send("through", b"one").get(20)
    producer.close()
    consumer = KafkaConsumer(
        "through",
        bootstrap_servers=proxy.address,
        group_id="through",
        client_id="consumer",
        auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
    )
    assert next(consumer).value == b"one"
    consumer.commit()
    consumer.close()
    seen = {each["api"] for each in proxy.requests()}
    assert {"ApiVersions", "Metadata", "Produce", "FindCoordinator", "JoinGroup", "Fetch", "OffsetCommit"} <= seen
    assert behind.lag("through") == 0
    elsewhere = [each for each in behind.requests(client_id="consumer") if each["api"] == "JoinGroup"]
    assert len(elsewhere) == len(proxy.requests("JoinGroup", client_id="consumer"))
    assert proxy.requests("Fetch", topic="through")


def test_faults_of_the_proxy_meet_clients_of_the_broker_behind(behind: KafkaBroker, proxy: Proxy) -> None:
    behind.create_topic("disturbed", partitions=2)
    producer = KafkaProducer(bootstrap_servers=proxy.address, acks="all", retry_backoff_ms=50)
    refused = proxy.faults.add(api="Produce", topic="disturbed", error="NOT_LEADER_OR_FOLLOWER", times=2)
    assert producer.send("disturbed", b"a", partition=0).get(20).offset == 0
    assert refused.hits == 2
    lost = proxy.faults.add(api="Produce", topic="disturbed", partition=1, drop="after", times=1)
    producer.send("disturbed", b"b", partition=1).get(20)
    assert lost.hits == 1
    assert [each.value for each in behind.records("disturbed", 0)] == ["a"]
    assert {each.value for each in behind.records("disturbed", 1)} == {"b"}
    slow = proxy.faults.add(api="Produce", delay_ms=200, times=1)
    began = time.monotonic()
    producer.send("disturbed", b"c", partition=0).get(20)
    assert time.monotonic() - began >= 0.2
    assert slow.hits == 1
    producer.close()


def test_what_needs_a_broker_is_not_there(proxy: Proxy) -> None:
    with pytest.raises(ControlError, match="a proxy has no operation"):
        proxy.create_topic("none")
    assert proxy.control.call("GET", "/healthz") == {"status": "ok"}


def test_a_broker_that_is_not_there_ends_the_connection(proxy: Proxy) -> None:
    nowhere = Proxy("127.0.0.1:1")
    try:
        host, _, port = nowhere.address.rpartition(":")
        address: Any = SimpleNamespace(host=host, port=int(port))
        client = Client(address, "lost")
        assert client.ask(ApiVersionsRequest("test", "1.0"), 3) is None
        client.close()
        assert [each["response_bytes"] for each in nowhere.requests()] == [None]
    finally:
        assert nowhere.end() == 0


@pytest.mark.parametrize("to", ["nowhere", "host:port", "host:99999"])
def test_an_address_that_is_none_is_told(to: str) -> None:
    command = [sys.executable, "-m", "pykafka_broker", "proxy", "--to", to]
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ.copy(), check=False)
    told = "it must be HOST:PORT or PORT (127.0.0.1), with a port up to 65535"
    assert (ended.returncode, ended.stderr) == (2, f"pykafka-broker proxy: --to {to}: {told}\n")


def test_addresses_are_replaced_wherever_they_stand() -> None:
    def other(address: tuple[str, int]) -> tuple[str, int]:
        return "proxy", address[1] + 1

    metadata = MetadataResponse(brokers=[MetadataResponseBroker(1, "a", 9092), MetadataResponseBroker(2, "b", 9092)])
    assert replace(metadata, other)
    assert {(each.host, each.port) for each in metadata.brokers} == {("proxy", 9093)}
    old = FindCoordinatorResponse(host="a", port=9092)
    assert replace(old, other)
    assert (old.host, old.port) == ("proxy", 9093)
    missing = FindCoordinatorResponse(coordinators=[Coordinator("k", -1, "", -1, error_code=15)])
    assert not replace(missing, other)


def test_versions_that_nobody_here_can_read_are_left_out() -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(0, 0, 99), ApiVersion(18, 0, 1), ApiVersion(999, 0, 1)])
    only_known_versions(response)
    assert [(each.api_key, each.max_version) for each in response.api_keys] == [(0, 13), (18, 1)]


def test_a_producer_without_answers_waits_for_a_slow_broker() -> None:
    """The broker reads nothing until the producer is blocked; then all requests arrive whole."""
    partition = PartitionProduceData(0, bytes(1 << 20))
    request = ProduceRequest(None, acks=0, topic_data=[TopicProduceData("orders", partition_data=[partition])])
    frame = b"".join(encode_request(request, 7, 1, "shop"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy = Proxy(f"127.0.0.1:{server.getsockname()[1]}")
        host, _, port = proxy.address.rpartition(":")
        sent = bytearray()
        with socket.create_connection((host, int(port))) as client:
            client.settimeout(BLOCKED_S)
            with suppress(TimeoutError):
                while len(sent) < MOST_SENT:
                    rest = frame[len(sent) % len(frame) :]
                    sent += rest[: client.send(rest)]
            assert len(sent) < MOST_SENT
            broker, _ = server.accept()
            with broker:
                broker.settimeout(TIMEOUT_S)
                whole = len(sent) // len(frame) * len(frame)
                arrived = bytearray()
                while len(arrived) < whole:
                    arrived += broker.recv(1 << 20)
                assert arrived == sent[:whole]
        assert proxy.end() == 0


def test_a_client_is_not_left_waiting_for_a_host_that_can_not_be() -> None:
    proxy = Proxy(f"{'x' * 64}:9092")
    host, _, port = proxy.address.rpartition(":")
    with socket.create_connection((host, int(port))) as client:
        client.settimeout(TIMEOUT_S)
        client.sendall(b"".join(encode_request(ApiVersionsRequest(), 0, 1, "shop")))
        assert client.recv(1) == b""
    assert proxy.end() == 0
