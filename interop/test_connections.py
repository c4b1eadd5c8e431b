"""Connections as the broker's settings limit them, and what a client sees of a restart."""

import time
from contextlib import ExitStack
from typing import Any

import pytest

from interop.answers.requests import BY_NAME, create, fetch, fetch_topic, new_topic, produce
from interop.batches import Rec, batch, records
from interop.conftest import NewBroker
from interop.raw import Closed, RawClient, leader_of
from interop.targets import Target
from interop.waiting import eventually
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest

HELLO = ApiVersionsRequest("raw", "1")


def is_served(client: RawClient) -> bool:
    try:
        return bool(client.call(HELLO, 3).error_code == 0)
    except (Closed, ConnectionError):
        return False


def test_idle_connections_are_closed(new_broker: NewBroker) -> None:
    broker = new_broker(connections_max_idle_ms=700)
    with ExitStack() as connections:  # a machine that stalls makes of a busy connection an idle one
        new = (connections.enter_context(RawClient(broker.bootstrap_servers)) for _ in range(5))
        idle = next(filter(is_served, new))
        assert any(stays_open(broker) for _ in range(5))
        assert idle.is_closed_by_broker()


def stays_open(broker: Target) -> bool:
    """Return whether a new connection that is used all the time is there for more than twice the limit."""
    with RawClient(broker.bootstrap_servers) as busy:
        for _ in range(16):
            if not is_served(busy):
                return False
            time.sleep(0.1)
    return True


def test_connections_of_one_address_are_limited(new_broker: NewBroker, target_name: str) -> None:
    broker = new_broker(max_connections_per_ip=12)
    clients = [RawClient(broker.bootstrap_servers) for _ in range(15)]
    admitted = [client for client in clients if is_served(client)]
    if target_name == "pykafka":  # other brokers, too, have connections from this address
        assert len(admitted) == 12
    assert 4 <= len(admitted) <= 12  # in a real Kafka, broker and controller hold some of theirs
    admitted[0].close()
    eventually(lambda: is_admitted(broker), True)  # the broker hears of an end in its own time
    for client in clients:
        client.close()


def is_admitted(broker: Target) -> bool:
    with RawClient(broker.bootstrap_servers) as client:
        return is_served(client)


def test_a_parked_fetch_holds_up_nobody_else(bootstrap: str, topic: str) -> None:
    leader = leader_of(bootstrap, topic)
    with RawClient(leader, timeout_s=200) as waiting, RawClient(leader) as other:
        waiting.send(fetch([fetch_topic(topic)], max_wait_ms=200_000, min_bytes=1), BY_NAME)
        begun = time.monotonic()
        assert is_served(other)
        other.call(produce(topic, batch(b"wake")), BY_NAME)
        [partition] = waiting.receive().responses[0].partitions
        assert [r.value for r in records(partition.records)] == [b"wake"]
        assert time.monotonic() - begun < 100


@pytest.mark.ours_only
def test_a_parked_fetch_makes_way_on_its_own_connection(new_broker: NewBroker) -> None:
    """A waiting Fetch is answered when another request comes behind it on its connection.

    A Fetch may always return less; Kafka lets the requests behind it wait, and Spark with them.
    """
    quick, topic = new_broker(pykafka_strict_parked_fetch="false"), "parked"
    with RawClient(quick.bootstrap_servers) as client:
        assert client.call(create(new_topic(topic, 1))).topics[0].error_code == 0
    with RawClient(leader_of(quick.bootstrap_servers, topic), timeout_s=200) as client:
        begun = time.monotonic()
        client.send(fetch([fetch_topic(topic)], max_wait_ms=200_000, min_bytes=1), BY_NAME)
        client.send(MetadataRequest([]), 12)
        [partition] = client.receive().responses[0].partitions
        assert (partition.error_code, partition.records) in ((0, None), (0, b""))
        assert client.receive().brokers
        assert time.monotonic() - begun < 100


def test_clients_are_told_the_address_that_they_dialled(bootstrap: str) -> None:
    with RawClient(bootstrap) as client:
        brokers = client.call(MetadataRequest([]), 12).brokers
    assert sorted(f"{each.host}:{each.port}" for each in brokers) == sorted(bootstrap.split(","))


def numbered(sequence: int, *values: bytes) -> bytes:
    """Return a batch of an idempotent producer, with the present time: a start drops the state of old producers."""
    now = int(time.time() * 1000)
    return batch(*[Rec(value, None, now) for value in values], producer=(4000, 0, sequence))


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_everything_is_there_after_a_restart(new_broker: NewBroker, ending: str) -> None:
    broker: Any = new_broker()
    with RawClient(broker.bootstrap_servers) as client:
        created = client.call(create(new_topic("kept", 2, configs={"retention.ms": "99999"}))).topics[0]
    with RawClient(leader_of(broker.bootstrap_servers, "kept")) as client:
        client.call(produce("kept", numbered(0, b"a", b"b")), BY_NAME)
    if ending == "kill":
        broker.kill()
    broker.restart()
    with RawClient(leader_of(broker.bootstrap_servers, "kept")) as client:
        [topic] = [t for t in client.call(MetadataRequest(None), 12).topics if t.name == "kept"]
        assert (topic.topic_id, len(topic.partitions)) == (created.topic_id, 2)
        again = client.call(produce("kept", numbered(0, b"a", b"b")), BY_NAME)  # a duplicate
        assert again.responses[0].partition_responses[0].base_offset == 0
        client.call(produce("kept", numbered(2, b"c")), BY_NAME)
        [partition] = client.call(fetch([fetch_topic("kept")]), BY_NAME).responses[0].partitions
        assert [r.value for r in records(partition.records)] == [b"a", b"b", b"c"]
