"""The proxy in front of a real Kafka: its log sees what clients do, its faults meet them, and they stay with it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice

import pytest

from interop.fault_clients import Aiokafka, Client, Confluent, Java, KafkaPython
from interop.java_transactions import JavaClients
from interop.proxied import Proxy
from interop.real_kafka import RealKafka

pytestmark = [pytest.mark.java, pytest.mark.ours_only]
PATIENCE_S = 30.0
ASKED = {"ApiVersions", "Metadata", "FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "Fetch", "OffsetCommit"}


@pytest.fixture(scope="module")
def kafka() -> Iterator[RealKafka]:
    with RealKafka() as behind:
        yield behind


@pytest.fixture
def proxy(kafka: RealKafka) -> Iterator[Proxy]:
    proxy = Proxy(kafka.bootstrap_servers)
    yield proxy
    assert proxy.end() == 0


@pytest.fixture(scope="module")
def java(java: JavaClients) -> Java:
    return Java(java)


def goes_through(proxy: Proxy, kafka: RealKafka, client: Client) -> None:
    """Send a record through the proxy in spite of two refusals, and read it in spite of a lost answer."""
    topic = group = f"proxied-{client.name}"
    # Kafka makes the topic when it is first asked for; another client asks, so that the faults meet a topic.
    KafkaPython().send(kafka.bootstrap_servers, topic, "before")
    refused = proxy.faults.add(api="Produce", topic=topic, error="NOT_LEADER_OR_FOLLOWER", times=2)
    client.send(proxy.address, topic, "one")
    assert refused.hits == 2
    produced = proxy.requests("Produce", topic=topic)
    assert [each["errors"] for each in produced] == [["NOT_LEADER_OR_FOLLOWER"]] * 2 + [[]]

    lost = proxy.faults.add(api="Fetch", topic=topic, drop="before", times=1)
    reader = client.reader(proxy.address, topic, group)
    assert [reader.read(PATIENCE_S) for _ in range(2)] == ["before", "one"]
    reader.commit()
    reader.close()
    assert lost.hits == 1
    assert {each["api"] for each in proxy.requests()} >= ASKED
    assert proxy.requests("OffsetCommit", group=group)[-1]["errors"] == []


@pytest.mark.parametrize("client", [KafkaPython(), Confluent(), Aiokafka()], ids=lambda client: client.name)
def test_a_client_stays_with_the_proxy(proxy: Proxy, kafka: RealKafka, client: Client) -> None:
    goes_through(proxy, kafka, client)


def test_a_java_client_stays_with_the_proxy(proxy: Proxy, kafka: RealKafka, java: Java) -> None:
    goes_through(proxy, kafka, java)


def test_what_clients_ask_a_real_kafka_is_printed(proxy: Proxy, kafka: RealKafka) -> None:
    KafkaPython().send(kafka.bootstrap_servers, "traced", "before")  # a client asks for a new topic again and again
    command = [sys.executable, "-m", "pykafka_broker", "trace", "--url", proxy.control_url, "--api", "Produce,Metadata"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tracing:
        assert tracing.stdout is not None
        seen: list[str] = []
        reader = threading.Thread(target=seen.extend, args=(islice(tracing.stdout, 6),))
        reader.start()
        try:
            end = time.monotonic() + 2 * PATIENCE_S
            while reader.is_alive() and time.monotonic() < end:  # it prints what is answered once it looks
                KafkaPython().send(proxy.address, "traced", "one")
                time.sleep(0.1)
        finally:
            tracing.terminate()
            reader.join()
    assert any(" Produce v" in line and "kafka-python" in line for line in seen), seen
