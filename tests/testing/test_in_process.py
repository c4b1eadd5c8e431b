"""A broker within the process of its test: the face of any other, and a process that stays as it was."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, KafkaProducer

from pykafka_broker.platform import MEMORY_DISK, memory_directory
from pykafka_broker.testing import AsyncKafkaBroker, BrokerError, ControlError, KafkaBroker, NewRecord
from pykafka_broker.testing.in_process import LOGGER, BrokerInProcess

CLEAN = ".kafka_cleanshutdown"
TIMEOUT_S = 60.0


def threads() -> set[threading.Thread]:
    """Return the threads that run; those that other tests have left may end at any time."""
    return set(threading.enumerate())


def values(broker: KafkaBroker, topic: str) -> list[object]:
    return [record.value for record in broker.records(topic)]


def test_a_start_that_is_given_up_as_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, start = KafkaBroker(in_process=True), BrokerInProcess.start

    def given_up(process: BrokerInProcess, loop: asyncio.AbstractEventLoop | None) -> None:
        broker.give_up()
        start(process, loop)

    monkeypatch.setattr(BrokerInProcess, "start", given_up)
    with pytest.raises(BrokerError, match="the start was given up"):
        broker.start()
    assert not broker.running


# -- the face of any broker


def test_synchronous_clients_use_it() -> None:
    with KafkaBroker(in_process=True) as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        producer.send("orders", b"kafka-python").get(TIMEOUT_S)
        producer.close()
        other = Producer(broker.client_config("confluent"))
        other.produce("orders", b"confluent")
        assert other.flush(TIMEOUT_S) == 0
        consumer = KafkaConsumer(
            "orders", bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
        )
        assert [next(consumer).value for _ in range(2)] == [b"kafka-python", b"confluent"]
        consumer.close()


def test_clock_faults_waits_and_state_are_there() -> None:
    with KafkaBroker({"num.partitions": 2}, in_process=True, history=True) as broker:
        assert broker.create_topic("orders", partitions=2)["partitions"] == 2
        broker.produce("orders", [NewRecord("1", partition=0)])
        before = broker.clock.freeze()
        assert broker.clock.advance(hours=1) == before + 3_600_000
        broker.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", times=1)
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, retries=5)
        producer.send("orders", b"2", partition=0).get(TIMEOUT_S)
        producer.close()
        broker.wait_for_records("orders", 2, timeout=TIMEOUT_S)
        broker.snapshot("two")
        broker.reset()
        assert broker.topics() == []
        broker.restore("two")
        assert values(broker, "orders") == ["1", "2"]
        with broker.fork() as fork:
            assert fork.in_process
            fork.produce("orders", ["3"])
            assert values(broker, "orders") == ["1", "2"]
        assert broker.check(empty_ok=True) == []


def test_users_and_a_schema_registry() -> None:
    with KafkaBroker(
        in_process=True, security="sasl_plaintext", users={"alice": "secret"}, schema_registry=True
    ) as broker:
        assert broker.schema_registry_url.startswith("http://127.0.0.1:")
        producer = Producer(broker.client_config("confluent", user="alice"))
        producer.produce("orders", b"1")
        assert producer.flush(TIMEOUT_S) == 0


# -- life


def test_it_is_stopped_and_started_on_its_port_and_data() -> None:
    with KafkaBroker(in_process=True) as broker:
        port = broker.port
        broker.create_topic("orders")
        broker.produce("orders", ["1"])
        broker.stop()
        assert not broker.running
        assert (broker.data_dir / CLEAN).exists()
        broker.start()
        assert broker.port == port
        assert values(broker, "orders") == ["1"]
    assert not broker.data_dir.exists()
    with pytest.raises(BrokerError, match="closed"):
        broker.start()


def test_topics_without_records_have_no_folder_and_outlive_every_end() -> None:
    with KafkaBroker(in_process=True) as broker:
        for name in ("orders", "bills"):
            broker.create_topic(name, partitions=3)
        broker.produce("orders", [NewRecord("1", partition=1)])
        for end in (broker.stop, broker.kill):
            folders = {path.name for path in broker.data_dir.iterdir() if path.is_dir()}
            assert folders == {"__cluster_metadata-0", "orders-1"}
            end()
            broker.start()
            assert {each["name"]: each["partitions"] for each in broker.topics()} == {"orders": 3, "bills": 3}
        broker.snapshot("s")
        broker.reset()
        assert broker.topics() == []
        broker.restore("s")
        broker.produce("bills", [NewRecord("2", partition=2)])
        assert values(broker, "orders") == ["1"]
        assert values(broker, "bills") == ["2"]


def test_a_killed_broker_writes_nothing_more_and_its_clients_are_cut_off() -> None:
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("orders")
        broker.produce("orders", ["1"])
        with socket.create_connection((broker.host, broker.port)) as client:
            client.settimeout(TIMEOUT_S)
            broker.clock.freeze()  # no maintenance between the two looks
            files = {path: path.stat().st_mtime_ns for path in broker.data_dir.rglob("*") if path.is_file()}
            broker.kill()
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""
        assert not broker.running
        assert not (broker.data_dir / CLEAN).exists()
        assert files == {path: path.stat().st_mtime_ns for path in broker.data_dir.rglob("*") if path.is_file()}
        broker.start()
        assert values(broker, "orders") == ["1"]


def test_one_that_does_not_end_in_time_is_told() -> None:
    with KafkaBroker(in_process=True) as broker:
        go_on, running = threading.Event(), cast(Any, broker._process).running
        running.turns.loop.call_soon_threadsafe(go_on.wait)
        try:
            with pytest.raises(BrokerError, match=r"did not end within 0\.1 s of SIGTERM"):
                broker.stop(timeout=0.1)
        finally:
            go_on.set()


def test_nothing_holds_the_state_of_one_that_has_ended() -> None:
    with KafkaBroker(in_process=True) as broker:
        process = broker._process
        assert isinstance(process, BrokerInProcess)
        assert process.running is not None
        state = weakref.ref(process.running.server)
        del process
        broker.restart()
        gc.collect()
        assert state() is None


def test_one_that_is_forgotten_ends() -> None:
    broker = KafkaBroker(in_process=True).start()
    process = broker._process
    assert isinstance(process, BrokerInProcess)
    del broker
    gc.collect()
    assert process.wait(TIMEOUT_S) == 0


def test_a_mistake_is_told_as_a_process_tells_it() -> None:
    broker = KafkaBroker({"log.retention.ms": "soon"}, in_process=True)
    with pytest.raises(BrokerError, match=r"exit code 2\n(.|\n)*log\.retention\.ms"):
        broker.start()
    broker.close()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        other = KafkaBroker(in_process=True, port=taken.getsockname()[1])
        with pytest.raises(BrokerError, match=r"exit code 1\n(.|\n)*cannot start"):
            other.start()
        other.close()


def test_a_start_on_the_loop_of_the_test_begins_no_thread() -> None:
    async def run() -> None:
        before = threads()
        broker = AsyncKafkaBroker(in_process=True)
        await broker.start()
        assert threads() <= before
        with pytest.raises(BrokerError, match="already running"):
            await broker.start()
        assert broker.running
        await broker.close()

    asyncio.run(run())


def test_a_start_on_the_loop_of_the_test_that_fails_or_is_cancelled_leaves_nothing() -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            broker = AsyncKafkaBroker(in_process=True, port=taken.getsockname()[1])
            with pytest.raises(BrokerError, match=r"exit code 1\n(.|\n)*cannot start"):
                await broker.start()
        assert not broker.running
        await broker.start()  # the port is free now
        await broker.close()
        other = AsyncKafkaBroker(in_process=True)
        starting = asyncio.create_task(other.start())
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not other.running
        hasty = AsyncKafkaBroker(in_process=True, start_timeout_s=0)
        with pytest.raises(BrokerError, match="not ready within 0 s"):
            await hasty.start()
        assert not hasty.running

    asyncio.run(run())


def test_there_is_no_process_to_ask_for() -> None:
    with KafkaBroker(in_process=True) as broker:
        with pytest.raises(BrokerError, match="in the process of the test"):
            _ = broker.pid
        assert repr(broker) == f"<KafkaBroker at {broker.bootstrap_servers}, in this process>"


# -- several brokers, and the process


def test_brokers_of_a_process_are_independent() -> None:
    with KafkaBroker(in_process=True) as one, KafkaBroker(in_process=True) as other:
        for broker in (one, other):
            broker.create_topic("orders")
        one.fill_disk()
        one.clock.freeze()
        with pytest.raises(ControlError, match="KAFKA_STORAGE_ERROR"):
            one.produce("orders", ["1"])
        other.produce("orders", ["2"])
        assert not other.clock.frozen
        one.free_disk()
        assert (values(one, "orders"), values(other, "orders")) == ([], ["2"])
        other.create_topic("of-the-other")
        assert "of-the-other" in other.log
        assert "of-the-other" not in one.log


def test_the_process_stays_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    frozen = gc.get_freeze_count()

    def state() -> tuple[object, ...]:
        signals = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        more_frozen = gc.get_freeze_count() > frozen  # the count falls when frozen objects end
        return signals, more_frozen, len(gc.callbacks), LOGGER.level, LOGGER.propagate, LOGGER.handlers[:]

    before = state()
    with KafkaBroker(in_process=True, log_level="debug") as broker:
        broker.create_topic("orders")
        assert "DEBUG" in broker.log
        assert caplog.records == []
        assert before[:3] == state()[:3]
    assert state() == before
    logging.getLogger("pykafka_broker.anything").warning("heard by the test again")
    assert [record.message for record in caplog.records] == ["heard by the test again"]


@pytest.mark.parametrize("kept", [False, True])
def test_only_data_that_are_kept_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool) -> None:
    synced: list[int] = []
    monkeypatch.setattr("pykafka_broker.platform.sync_data", synced.append)
    with KafkaBroker(in_process=True, data_dir=tmp_path if kept else None) as broker:
        broker.create_topic("t")
    assert bool(synced) == kept


@pytest.mark.skipif(memory_directory() is None, reason=f"{MEMORY_DISK} has too little room, or is not there")
@pytest.mark.parametrize("wanted", [True, False])
def test_temporary_data_are_in_memory_where_no_place_is_wanted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wanted: bool
) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    if wanted:
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setattr("tempfile.tempdir", None)
    broker = KafkaBroker(in_process=True)
    assert broker.data_dir.is_relative_to(tmp_path) is wanted  # which may be in memory too
    assert wanted or broker.data_dir.is_relative_to(MEMORY_DISK)
    broker.close()


def test_a_fault_of_an_earlier_process_is_not_taken_for_another_one() -> None:
    """Each process counts its faults from 1."""
    with KafkaBroker(in_process=True) as broker:
        with broker.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER") as fault:
            broker.restart()
            other = broker.faults.add(api="Fetch", error="UNKNOWN_SERVER_ERROR")
            assert other.id == fault.id
            for ask in (fault.describe, fault.remove, lambda: fault.hits, lambda: fault.wait(timeout=0)):
                with pytest.raises(ControlError, match="fault 1 has ended with the process of its broker"):
                    ask()
        assert [each["id"] for each in broker.faults.all()] == [other.id]
        with other:
            broker.kill()
        broker.start()

    async def run() -> None:
        async with KafkaBroker(in_process=True) as broker:
            fault = await broker.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER")
            assert await fault.hits == 0
            await broker.restart()
            other = await broker.faults.add(api="Fetch", error="UNKNOWN_SERVER_ERROR")
            with pytest.raises(ControlError, match="fault 1 has ended with the process of its broker"):
                await fault.remove()
            assert await other.remove() == 0

    asyncio.run(run())


# -- on the loop of the test


def test_a_broker_is_served_by_the_loop_of_the_test() -> None:
    async def run() -> None:
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

        before = threads()
        async with KafkaBroker(in_process=True) as broker:
            assert "pykafka-broker" not in {each.name for each in threads() - before}
            async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
                await producer.send_and_wait("orders", b"1")
            consumer = AIOKafkaConsumer(
                "orders", bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
            )
            async with consumer:
                assert (await consumer.getone()).value == b"1"
            await broker.clock.advance(hours=1)
            await broker.kill()
            await broker.start()
            assert [record.value for record in await broker.records("orders")] == ["1"]
            await broker.restart()
            assert [record.value for record in await broker.records("orders")] == ["1"]

    asyncio.run(run())


def test_a_loop_that_ends_ends_its_brokers() -> None:
    async def run() -> AsyncKafkaBroker:
        return await AsyncKafkaBroker(in_process=True).start()

    broker = asyncio.run(run())
    assert not broker.running


def test_a_broker_that_a_test_has_restarted_outlives_the_loop_of_the_test() -> None:
    async def restart(broker: KafkaBroker) -> None:
        form = AsyncKafkaBroker.of(broker)
        await form.restart()
        await form.stop()
        await form.start()
        broker.topics()  # blocks the loop, which the broker does not need

    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("orders")
        asyncio.run(restart(broker))
        assert broker.running
        broker._make_usable(empty=False)
        assert [each["name"] for each in broker.topics()] == ["orders"]


def test_a_broker_whose_loop_has_ended_starts_in_a_thread() -> None:
    async def run(broker: KafkaBroker) -> None:
        await AsyncKafkaBroker.of(broker).start()

    broker = KafkaBroker(in_process=True)
    asyncio.run(run(broker))
    with broker:
        assert broker.topics() == []


def test_a_wait_that_would_block_the_loop_is_refused() -> None:
    async def run() -> None:
        broker = KafkaBroker(in_process=True)
        async with broker:
            with pytest.raises(BrokerError, match="await"):
                broker.stop()

    asyncio.run(run())


@pytest.mark.skipif(sys.platform == "win32", reason="a loop without readers has the broker in a thread")
def test_several_brokers_share_a_loop() -> None:
    async def run() -> None:
        async with KafkaBroker(in_process=True) as one, KafkaBroker(in_process=True) as other:
            await one.create_topic("orders")
            await one.produce("orders", ["1"])
            assert await other.topics() == []

    asyncio.run(run())


CALLS_OF_A_START = """
import asyncio, cProfile, gc
from pykafka_broker.testing import AsyncKafkaBroker

async def run():
    async with AsyncKafkaBroker(in_process=True):
        pass  # imports
    broker = AsyncKafkaBroker(in_process=True)
    gc.disable()  # finalizers of the first one are not the start's
    profile.enable()
    await broker.start()
    profile.disable()
    await broker.close()

profile = cProfile.Profile()
asyncio.run(run())
print(sum(entry.callcount for entry in profile.getstats()))
"""


def test_a_start_is_short() -> None:
    """A start takes few function calls, counted in a new process: leftovers of earlier tests add hundreds."""
    told = subprocess.run([sys.executable, "-c", CALLS_OF_A_START], capture_output=True, text=True, check=True)
    assert int(told.stdout) < 4000
