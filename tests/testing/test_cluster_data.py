"""Records of a cluster by the cluster: whoever leads has them."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Producer

from interop.waiting import eventually
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.server.link_codec import encode_request
from pykafka_broker.testing import BrokerError, ControlError, KafkaBroker, KafkaCluster, Record, WaitTimeout
from pykafka_broker.testing.asynchronous_cluster import AsyncKafkaCluster
from pykafka_broker.testing.cluster_data import listing


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=2, in_process=True) as cluster:
        yield cluster


def led_by_both(cluster: KafkaCluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=4)
    for partition in range(4):
        cluster.move_leader(topic, partition % 2 + 1, partition)


def test_records_go_to_whoever_leads_and_come_from_there(cluster: KafkaCluster) -> None:
    led_by_both(cluster, "orders")
    asked = [{"value": "a", "partition": 3}, ("key", "b"), "c", "d", "e", {"value": 5}]
    places = cluster.produce("orders", asked)
    assert places[0] == (3, 0)
    found = {(record.partition, record.offset): record for record in cluster.records("orders")}
    assert [found[place].value for place in places] == ["a", "b", "c", "d", "e", "5"]
    assert len(found) == 6
    assert [record.value for record in cluster.records("orders", partition=3, limit=1)] == ["a"]
    assert len(cluster.records("orders", limit=4)) == 4
    with KafkaBroker({"num.partitions": 4}, in_process=True) as alone:
        (alone_at,) = alone.produce("orders", [("key", "b")])
    assert places[1][0] == alone_at[0]  # a key has the partition that it has anywhere
    assert cluster.produce("orders", []) == []


def test_what_kafka_refuses_is_told_at_once(cluster: KafkaCluster) -> None:
    cluster.create_topic("small", config={"max.message.bytes": 200})
    begun = time.monotonic()
    with pytest.raises(ControlError, match="MESSAGE_TOO_LARGE"):
        cluster.produce("small", ["x" * 1000])
    with pytest.raises(TypeError, match="must be a list"):
        cluster.produce("small", "one")
    with pytest.raises(ControlError, match="nowhere"):
        cluster.records("nowhere")
    for ask in (
        lambda: cluster.records("small", partition=1),
        lambda: cluster.produce("small", [{"value": "a", "partition": 1}]),
    ):
        with pytest.raises(ControlError, match="topic small has partitions 0 to 0, not 1"):
            ask()
    assert time.monotonic() - begun < 30  # and not the minute of a request's time-out
    assert cluster.records("small") == []


def test_another_leader_is_found_and_records_are_waited_for(cluster: KafkaCluster) -> None:
    cluster.create_topic("moving")
    errors: list[BaseException] = []
    stop = threading.Event()

    def write() -> None:
        try:
            for number in range(10_000):
                if stop.is_set():
                    return
                cluster.produce("moving", [str(number)])
        except BaseException as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for turn in range(4):
            cluster.move_leader("moving", turn % 2 + 1)
            seen = len(cluster.wait_for_records("moving", 20 * (turn + 1)))
            assert seen == 20 * (turn + 1)
    finally:
        stop.set()
        writer.join()
    assert errors == []
    values = [record.value for record in cluster.records("moving")]
    assert values == [str(number) for number in range(len(values))], "each record is there once"
    with pytest.raises(WaitTimeout, match=f"moving has {len(values)} records, expected {len(values) + 1}"):
        cluster.wait_for_records("moving", len(values) + 1, timeout=0.2)


def test_the_records_of_a_topic_that_is_still_to_come_are_waited_for(cluster: KafkaCluster) -> None:
    errors: list[BaseException] = []

    def look() -> None:
        try:
            cluster.assert_records("later", ["1"], timeout=60)
            cluster.assert_contains("later", ["1"], timeout=60)
        except BaseException as error:
            errors.append(error)

    with pytest.raises(ControlError, match="there is no topic later"):
        cluster.assert_records("later", ["1"], timeout=0.1)
    looker = threading.Thread(target=look)
    looker.start()
    cluster.create_topic("later")
    cluster.produce("later", ["1"])
    looker.join()
    assert errors == []


def test_more_requests_are_waited_for_than_are_listed_by_default(cluster: KafkaCluster) -> None:
    n, broker = 1_100, cluster.broker(1)
    frame = b"".join(encode_request(ApiVersionsRequest(), 0, 1, "many"))
    with socket.create_connection((broker.host, broker.port)) as client, client.makefile("rb") as answers:
        client.sendall(frame * n)
        for _ in range(n):
            answers.read(int.from_bytes(answers.read(4), "big"))
        found = cluster.wait_for_request("ApiVersions", client_id="many", n=n, timeout=60)
    assert len(found) == n


def test_offsets_are_reset_to_a_time_behind_an_open_transaction(cluster: KafkaCluster) -> None:
    cluster.create_topic("held")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "holder"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("held", b"open", timestamp=1_000)
    assert producer.flush(30) == 0
    cluster.produce("held", [{"value": "behind", "timestamp": 2_000}])
    for ms, offset in ((1_000, 0), (2_000, 1), (3_000, 2)):
        at = datetime.fromtimestamp(ms / 1000, UTC)
        assert [each["committed"] for each in cluster.reset_offsets("readers", "held", at)] == [offset]
    producer.abort_transaction(30)


def test_settings_of_clients_name_all_brokers(cluster: KafkaCluster) -> None:
    servers = cluster.bootstrap_servers
    assert servers.count(",") == 1
    assert cluster.client_config("confluent")["bootstrap.servers"] == servers
    assert cluster.client_config("kafka-python") == {"bootstrap_servers": servers}
    with pytest.raises(ValueError, match="not known"):
        cluster.client_config("telnet")
    with pytest.raises(BrokerError, match="schema registry"):
        cluster.client_config("schema-registry")


def test_a_write_whose_answer_is_lost_is_repeated_and_there_once(
    cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("gone")
    write = KafkaBroker._write_part
    calls: list[str] = []

    def loses_the_answer(self: KafkaBroker, topic: str, *args: Any) -> Any:
        written = write(self, topic, *args)
        calls.append(topic)
        if len(calls) % 2:
            raise ConnectionResetError("it has gone")
        return written

    monkeypatch.setattr(KafkaBroker, "_write_part", loses_the_answer)
    values = [str(number) for number in range(2_500)]
    assert cluster.produce("gone", values) == [(0, number) for number in range(2_500)]
    assert [record.value for record in cluster.records("gone")] == values
    assert calls == ["gone"] * 6  # three calls, each of them twice
    cluster.seed('{"type": "record", "topic": "gone", "value": "seeded"}' for _ in range(2))
    assert [record.value for record in cluster.records("gone", from_offset=2_500)] == ["seeded", "seeded"]


def test_a_record_whose_leader_changes_before_it_is_committed_is_there_once() -> None:
    with KafkaCluster(brokers=3, in_process=True) as cluster:
        cluster.create_topic("moved")
        cluster.produce("moved", ["first"])
        leader = cluster.leader_of("moved")
        successor, behind = (node for node in (1, 2, 3) if node != leader)
        cluster.clock.freeze()  # the follower that is cut off stays in sync, so nothing is committed without it
        cluster.broker(behind).cut_off([leader])
        writer = threading.Thread(target=cluster.produce, args=("moved", ["second"]))
        writer.start()
        end = 'kafka_log_log_logendoffset{partition="0",topic="moved"} 2'
        eventually(lambda: end in cluster.broker(successor).metrics(), True, 10)
        assert cluster.broker(leader).partition("moved")["high_watermark"] == 1
        cluster.clock.resume()
        cluster.move_leader("moved", successor)
        writer.join(30)
        cluster.assert_records("moved", ["first", "second"], timeout=10)


def test_without_a_controller_a_change_of_a_topic_is_refused_at_once(cluster: KafkaCluster) -> None:
    cluster.create_topic("there")
    cluster.controller.kill()
    try:
        begun = time.monotonic()
        for change in (
            lambda: cluster.create_topic("late"),
            lambda: cluster.alter_config("there", {"retention.ms": 1}),
            lambda: cluster.add_partitions("there", total=2),
            lambda: cluster.delete_topic("there"),
        ):
            with pytest.raises(BrokerError, match="the controller of the cluster is not running"):
                change()
        assert time.monotonic() - begun < 30  # and not the minute of a request's time-out
    finally:
        cluster.controller.start()


def test_what_a_write_has_waited_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka_broker.control.api.records._TIMEOUT_MS", 100)
    with KafkaCluster(brokers=2, in_process=True) as cluster:
        cluster.create_topic("orders")
        leader = cluster.broker(cluster.leader_of("orders"))
        with (
            leader.faults.add(api="Fetch", hang=True),
            pytest.raises(
                ControlError, match=r"^REQUEST_TIMED_OUT: within 100 ms not all replicas in sync, \[\d, \d\]"
            ),
        ):
            leader.produce("orders", ["a"])


def test_a_controller_that_can_t_start_is_told_and_not_waited_for() -> None:
    with pytest.raises(BrokerError, match=r"Invalid value none for configuration num\.io\.threads"):
        KafkaCluster(brokers=2, configs={100: {"num.io.threads": "none"}}, in_process=True).start()


def test_a_wait_for_records_without_a_leader_ends_in_its_own_time() -> None:
    within = r"^after 0\.2 s the records of topic alone are unknown: after 0\.\d s alone-0 has no leader that answers"
    with KafkaCluster(brokers=2, in_process=True) as cluster:
        cluster.create_topic("alone", replication_factor=1)
        cluster.broker(cluster.leader_of("alone")).kill()
        for wait in (
            lambda: cluster.wait_for_records("alone", 1, timeout=0.2),
            lambda: cluster.wait_for_record("alone", timeout=0.2),
            lambda: cluster.assert_records("alone", ["a"], timeout=0.2),
            lambda: cluster.assert_no_more("alone", within_ms=200),
        ):
            with pytest.raises(WaitTimeout, match=within):
                wait()

        async def awaited() -> None:
            await AsyncKafkaCluster.of(cluster).wait_for_records("alone", 1, timeout=0.2)

        with pytest.raises(WaitTimeout, match=within):
            asyncio.run(awaited())


def test_the_text_of_a_failure_marks_records_of_aborted_transactions() -> None:
    record = Record("orders", 0, 5, 1_700_000_000_000, "CreateTime", b"\xff", "paid", (("h", b"\xfe"),), "aborted")
    assert listing([record]) == "\n  0@5 key b'\\xff', value 'paid' (aborted)"
