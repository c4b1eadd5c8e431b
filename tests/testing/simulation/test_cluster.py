"""A cluster in the loop of a test: a real client works on it, faults come, and a seed is repeated frame for frame."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from bench.simulation import work_through_a_kill
from pykafka_broker.config.broker import ConfigErrors
from pykafka_broker.control.traffic.exchange import decoded_response
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.releases.release import release
from pykafka_broker.server.link_codec import encode_request
from pykafka_broker.testing import BrokerError, ControlError, WaitTimeout
from pykafka_broker.testing.simulation import SimulatedCluster, SimulationStalled, simulate
from pykafka_broker.testing.simulation.cluster import KINDS
from pykafka_broker.testing.simulation.layout import CONTROLLER_ID
from pykafka_broker.testing.trouble import KINDS as TROUBLES

ROOT = Path(__file__).resolve().parents[3]
LIMIT_S = 300.0


def traced(seed: int) -> str:
    return simulate(work_through_a_kill(seed), limit_s=LIMIT_S).trace


async def produced(cluster: SimulatedCluster, count: int) -> list[bytes]:
    """Produce records and return what a consumer reads."""
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=True) as producer:
        for number in range(count):
            await producer.send_and_wait("orders", b"%d" % number)
    async with AIOKafkaConsumer(
        "orders", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        return [(await consumer.getone()).value for _ in range(count)]


# -- a seed


def test_a_seed_is_repeated_frame_for_frame() -> None:
    assert traced(7) == traced(7)
    assert traced(7) != traced(8)


async def several_topics(seed: int) -> SimulatedCluster:
    """Produce to the partitions of three topics in transactions, through a kill, and read them with a group of two."""
    async with SimulatedCluster(brokers=3, seed=seed) as cluster:
        names = [f"topic-{letter}" for letter in "abc"]
        for name in names:
            await cluster.create_topic(name, partitions=3)
        address = cluster.bootstrap_servers
        async with AIOKafkaProducer(bootstrap_servers=address, transactional_id="several") as producer:
            for number in range(12):
                async with producer.transaction():
                    for name in names:
                        await producer.send(name, b"%d" % number, partition=number % 3)
                if number == 5:
                    cluster.leader(names[0]).kill()
        await cluster.calm()
        settings = {"bootstrap_servers": address, "group_id": "group", "auto_offset_reset": "earliest"}
        consumers = [AIOKafkaConsumer(*names, **settings, isolation_level="read_committed") for _ in range(2)]
        for consumer in consumers:
            await consumer.start()
        left = 36
        while left > 0:
            for consumer in consumers:
                left -= sum(map(len, (await consumer.getmany(timeout_ms=100)).values()))
        for consumer in consumers:
            await consumer.stop()
        return cluster


@pytest.mark.whole
def test_other_processes_repeat_it_whatever_their_hashes() -> None:
    code = (
        "from pykafka_broker.testing.simulation import simulate\n"
        "from tests.testing.simulation.test_cluster import several_topics\n"
        f"print(simulate(several_topics(7), limit_s={LIMIT_S}).trace)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=200,
            check=True,
        )
        for hash_seed in "12"
    ]
    assert "Produce" in runs[0].stdout
    assert runs[0].stdout == runs[1].stdout


@pytest.mark.parametrize("seed", range(3))
def test_what_was_acknowledged_outlives_a_killed_leader(seed: int) -> None:
    assert "Produce" in simulate(work_through_a_kill(seed), limit_s=LIMIT_S).trace


# -- the cluster


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_client_works_on_it(brokers: int) -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=brokers, seed=1) as cluster:
            await cluster.create_topic("orders", partitions=1, config={"retention.ms": 1000})
            assert await produced(cluster, 3) == [b"0", b"1", b"2"]
            assert cluster.leader("orders") in cluster.brokers
            assert [node.id for node in cluster.brokers] == list(range(1, brokers + 1))
            assert cluster.controller.id == (1 if brokers == 1 else CONTROLLER_ID)

    simulate(main(), limit_s=LIMIT_S)


@pytest.mark.parametrize("seed", range(4))
def test_a_consumer_stops_whose_coordinator_was_killed(seed: int) -> None:
    """A consumer without automatic commits stops while its coordinator is dead.

    With automatic commits aiokafka 0.14 hangs, here as with a real Kafka: stop() ends the search for a coordinator, and
    then tries to commit for ever. If a fetch pauses after an error, stop() raises CancelledError, as in a third of
    these seeds.
    """

    async def main() -> None:
        slow = {"broker.session.timeout.ms": 3000}  # so that for a while there is no coordinator
        async with SimulatedCluster(brokers=3, seed=seed, config=slow) as cluster:
            await cluster.create_topic("orders", partitions=3)
            settings = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": "g", "enable_auto_commit": False}
            consumers = [AIOKafkaConsumer("orders", **settings) for _ in range(2)]
            for consumer in consumers:
                await consumer.start()
            cluster.broker(consumers[0]._coordinator.coordinator_id).kill()
            await cluster.until(lambda: consumers[0]._coordinator.coordinator_id is None)
            for consumer in consumers:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait_for(consumer.stop(), 60)

    simulate(main(), limit_s=LIMIT_S)


def test_faults_by_hand() -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=3, seed=2) as cluster:
            await cluster.create_topic("orders")
            leader = cluster.leader("orders").id
            cluster.isolate(leader)
            await cluster.until(lambda: cluster.leader("orders").id != leader)
            cluster.heal()
            second = cluster.leader("orders")
            second.pause()
            await cluster.until(lambda: cluster.leader("orders") is not second)
            second.go_on()
            third = cluster.broker(1)
            third.stop()
            await cluster.until(lambda: not third.running)
            cluster.slow(2, 100)
            cluster.break_connections(3)
            await cluster.calm()
            assert await produced(cluster, 3) == [b"0", b"1", b"2"]

    simulate(main(), limit_s=LIMIT_S)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_trouble_by_the_seed(kind: str) -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=3, seed=5) as cluster:
            await cluster.create_topic("orders", config={"min.insync.replicas": 2})
            trouble = cluster.trouble([kind], mean_ms=300)
            await cluster.until(lambda: trouble.came)
            await cluster.calm()
            assert kind in trouble.came[0]
            assert await produced(cluster, 2) == [b"0", b"1"]

    simulate(main(), limit_s=LIMIT_S)


@pytest.mark.parametrize("kind", [*TROUBLES, "cut_power"])
def test_one_trouble_by_its_name(kind: str) -> None:
    """Trouble comes some time after the first request of a client, and ends."""

    async def main() -> None:
        async with SimulatedCluster(brokers=3, seed=4) as cluster:
            await cluster.create_topic("orders", config={"min.insync.replicas": 2})
            await cluster.coordinator("billing")
            broker = cluster.leader("orders").id % 3 + 1
            topic = "orders" if kind == "move_leader" else None
            group = "billing" if kind == "move_coordinator" else None
            trouble = cluster.befall(kind, broker, after_ms=300, for_ms=700, topic=topic, group=group)
            await asyncio.sleep(2)
            assert not trouble.came  # no client has asked
            assert await produced(cluster, 1) == [b"0"]
            await trouble.wait()
            assert [each.kind for each in trouble.came] == [kind]
            if kind == "move_leader":
                await cluster.until(lambda: cluster.leader("orders").id == broker)
            elif kind == "move_coordinator":
                await cluster.until(lambda: cluster.leader("__consumer_offsets").id == broker)
            await cluster.until(cluster._all_serve)
            await cluster.wait_for_isr("orders", size=3, timeout=60)
            assert await produced(cluster, 2) == [b"0", b"0"]

    simulate(main(), limit_s=LIMIT_S)


def test_a_trouble_at_a_request() -> None:
    """The request waits until the broker has gone, so its client hears of a lost connection."""

    async def main() -> list[str]:
        async with SimulatedCluster(brokers=3, seed=4) as cluster:
            await cluster.create_topic("orders", config={"min.insync.replicas": 2})
            leader = cluster.leader("orders")
            trouble = cluster.befall("kill", leader.id, at={"api": "Produce", "nth": 3}, for_ms=5000)
            async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
                for number in range(4):
                    await producer.send_and_wait("orders", b"%d" % number)
                    assert bool(trouble.came) is (number >= 2)
            assert not leader.running
            await cluster.calm()
            assert leader.running
            return [str(each.value) for each in await cluster.records("orders")]

    assert simulate(main(), limit_s=LIMIT_S) == ["0", "1", "2", "3"]


def test_a_trouble_at_a_request_that_never_comes_is_told() -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=2, seed=4) as cluster:
            await cluster.create_topic("orders")
            cluster.befall("kill", 1, at={"api": "OffsetCommit", "group": "typo"})
            assert await produced(cluster, 1) == [b"0"]
            with pytest.raises(WaitTimeout, match="a trouble never came: kill of broker 1: no request that"):
                await cluster.calm()

    simulate(main(), limit_s=LIMIT_S)


def test_a_trouble_comes_as_soon_as_it_can() -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=3, seed=4) as cluster:
            await cluster.create_topic("orders")
            trouble = cluster.befall("move_leader", 1, topic="later")
            assert await produced(cluster, 1) == [b"0"]
            with pytest.raises(WaitTimeout, match="move_leader of later-0 to broker 1: there is no topic later"):
                await trouble.wait(timeout=1)
            await cluster.create_topic("later")
            await trouble.wait()
            await cluster.until(lambda: cluster.leader("later").id == 1)
            await cluster.calm()

    simulate(main(), limit_s=LIMIT_S)


@pytest.mark.parametrize("is_calmed", [True, False])
@pytest.mark.parametrize(
    ("kind", "given", "error", "text"),
    [
        ("move_leader", {"topic": "none"}, WaitTimeout, "never came: move_leader of none-0 to broker 2: there is no"),
        ("kill", {"at": {"api": "Produc"}}, ControlError, "no API Produc"),
        ("move_leader", {"topic": "none", "at": {"api": "Produce"}}, WaitTimeout, "never came: move_leader of none-0"),
    ],
)
def test_a_trouble_that_never_could_come_fails_the_test(
    kind: str, given: dict[str, Any], error: type[Exception], text: str, is_calmed: bool
) -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=3, seed=4) as cluster:
            await cluster.create_topic("orders")
            trouble = cluster.befall(kind, 2, **given)
            assert await produced(cluster, 1) == [b"0"]
            assert not trouble.came
            if is_calmed:
                with pytest.raises(error, match=text):
                    await cluster.calm()
                assert await produced(cluster, 1) == [b"0"]

    if is_calmed:
        simulate(main(), limit_s=LIMIT_S)
        return
    with pytest.raises(error, match=text) as failed:
        simulate(main(), limit_s=LIMIT_S)
    assert "seed=4" in failed.value.__notes__[-1]


def test_a_failure_of_the_test_goes_before_a_trouble_that_never_came() -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=3, seed=4) as cluster:
            await cluster.create_topic("orders")
            cluster.befall("move_leader", 2, topic="none")
            assert await produced(cluster, 1) == [b"0"]
            raise ValueError("of the test")

    with pytest.raises(ValueError, match="of the test") as failed:
        simulate(main(), limit_s=LIMIT_S)
    assert "a trouble never came" in failed.value.__notes__[0]


def test_a_frame_that_makes_no_sense_fails_the_block() -> None:
    async def main(fails: bool) -> None:
        async with SimulatedCluster(brokers=1, seed=4):
            reader, writer = await asyncio.open_connection("n1", 9092)
            writer.write(b"\0\0\0\x0a" + b"\x7f" * 10)
            with pytest.raises(ConnectionError):
                await reader.read()
            assert not fails

    with pytest.raises(BrokerError, match=r"^n1 refused a frame of app: API key 32639 is unknown\b") as raised:
        simulate(main(fails=False), limit_s=LIMIT_S)
    assert "seed=4" in raised.value.__notes__[0]
    with pytest.raises(AssertionError) as failed:
        simulate(main(fails=True), limit_s=LIMIT_S)
    assert failed.value.__notes__[0] == "n1 refused a frame of app: API key 32639 is unknown"


def test_a_question_that_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=3, seed=4) as cluster:
            cluster.isolate(1)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await cluster.create_topic("orders")
            await asyncio.sleep(10)

    simulate(main(), limit_s=LIMIT_S)
    assert "a defect" not in caplog.text


def test_a_broker_that_is_cut_off_need_not_know_a_topic() -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=3, seed=4) as cluster:
            cluster.isolate(3)
            await cluster.create_topic("orders", replication_factor=2)
            await cluster.delete_topic("orders")
            assert await cluster.topics() == await cluster.broker(3).topics() == []

    simulate(main(), limit_s=30)


def test_racks_and_a_release() -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=3, racks=["a", "b", "a"], emulate="2.8") as cluster:
            await cluster.create_topic("orders", partitions=4, replication_factor=2)
            for index in range(4):
                replicas = (await cluster.partition("orders", index))["replicas"]
                assert 2 in replicas  # of each partition one is in the rack that has a single broker
            assert await produced(cluster, 2) == [b"0", b"1"]
            answer = await spoken(cluster, ApiVersionsRequest("test", "1"), 3)
            offered = {each.api_key: each.max_version for each in answer.api_keys}
            assert ApiKey.CONSUMER_GROUP_HEARTBEAT not in offered
            assert offered[ApiKey.PRODUCE] == release("2.8").apis[ApiKey.PRODUCE][1]
            metadata = await spoken(cluster, MetadataRequest([]), 9)
            assert [each.rack for each in sorted(metadata.brokers, key=lambda each: each.node_id)] == ["a", "b", "a"]

    async def spoken(cluster: SimulatedCluster, request: Message, version: int) -> Any:
        reader, writer = await asyncio.open_connection("n1", 9092)
        writer.write(b"".join(encode_request(request, version, 1, "test")))
        frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        writer.close()
        return decoded_response(frame, SPECS[request.API_KEY], version)

    simulate(main(), limit_s=LIMIT_S)


@pytest.mark.parametrize("hash_seed", [None, "7"])
def test_a_failure_tells_how_to_repeat_it(hash_seed: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    if hash_seed is not None:
        monkeypatch.setenv("PYTHONHASHSEED", hash_seed)

    async def main() -> None:
        async with SimulatedCluster(brokers=1, seed=9):
            raise ValueError("of the test")

    with pytest.raises(ValueError, match="of the test") as failed:
        simulate(main())
    assert failed.value.__notes__[0].startswith("simulated with SimulatedCluster(brokers=1, seed=9)")
    assert ("PYTHONHASHSEED" in failed.value.__notes__[0]) is (hash_seed is None)


def test_nothing_is_left_of_it() -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=1):
            random.random()

    before = random.getstate(), time.time, time.monotonic, os.urandom
    real = time.time()
    simulate(main())
    assert (random.getstate(), time.time, time.monotonic, os.urandom) == before
    assert time.time() >= real


def test_a_broken_disk_is_of_its_cluster_alone() -> None:
    """Clusters of one layout begin with copies of the same formatted disk."""

    async def main(breaks: bool) -> None:
        async with SimulatedCluster(brokers=2) as cluster:
            if breaks:
                cluster.broker(1).break_disk()
            else:
                await cluster.create_topic("orders")
                assert await produced(cluster, 1) == [b"0"]

    simulate(main(True))
    simulate(main(False))


# -- what is refused


def test_mistakes_are_told() -> None:
    async def elsewhere() -> None:
        async with SimulatedCluster():
            pass

    with pytest.raises(BrokerError, match="SimulatedLoop"):
        asyncio.run(elsewhere())
    with pytest.raises(ValueError, match="at least one"):
        SimulatedCluster(brokers=0)
    with pytest.raises(ValueError, match="unknown config"):
        SimulatedCluster(config={"log.retension.ms": 1})
    with pytest.raises(ValueError, match="2 racks for 3 brokers"):
        SimulatedCluster(racks=["a", "b"])
    with pytest.raises(ValueError, match=r"0\.1"):
        SimulatedCluster(emulate="0.1")

    async def main() -> None:
        async with SimulatedCluster(brokers=1) as cluster:
            with pytest.raises(BrokerError, match="a cluster already"):
                await SimulatedCluster().__aenter__()
            with pytest.raises(ValueError, match="no broker 2"):
                cluster.broker(2)
            with pytest.raises(ValueError, match="no machine"):
                cluster.cut("app", "elsewhere")
            with pytest.raises(ValueError, match="no trouble flood"):
                cluster.trouble(["flood"])
            with pytest.raises(ValueError, match="no trouble flood: there are kill, "):
                cluster.befall("flood", 1)
            with pytest.raises(WaitTimeout, match="after 2 virtual seconds"):
                await cluster.until(lambda: False, timeout=2)
            await cluster.until(lambda: True, timeout=0)
            with pytest.raises(BrokerError, match="no topic orders"):
                cluster.leader("orders")
            with pytest.raises(ControlError, match="INVALID_TOPIC"):
                await cluster.create_topic("a/b")

    simulate(main())


def test_a_test_that_waits_for_ever_ends() -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=1):
            await asyncio.get_running_loop().create_future()

    with pytest.raises(SimulationStalled, match="5 virtual seconds"):
        simulate(main(), limit_s=5)


def test_a_cluster_that_can_t_start_leaves_the_chance_of_the_test_as_it_was() -> None:
    async def main() -> None:
        before = random.getstate()
        with pytest.raises(ConfigErrors) as failed:
            async with SimulatedCluster(brokers=1, seed=3, config={"num.partitions": "many"}):
                raise AssertionError("it does not start")
        assert random.getstate() == before
        assert "seed=3" in failed.value.__notes__[0]

    simulate(main())


def test_the_coordinator_moves_of_a_group_that_nobody_has_asked_for() -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=3, seed=4) as cluster:
            await cluster.create_topic("orders")
            trouble = cluster.befall("move_coordinator", 2, group="billing")
            assert await produced(cluster, 1) == [b"0"]
            await trouble.wait()
            assert await cluster.coordinator("billing") == 2

    simulate(main(), limit_s=LIMIT_S)
