"""Recordings played and compared in Python, by the names of their files."""

from __future__ import annotations

import asyncio
import inspect
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from pykafka_broker import testing
from pykafka_broker.cli.replay import parser as command
from pykafka_broker.testing import (
    AsyncKafkaBroker,
    AsyncKafkaCluster,
    AsyncRemoteBroker,
    KafkaBroker,
    KafkaCluster,
    RemoteBroker,
    compare_recordings,
    mask_recording,
    recorded_events,
    replay_recording,
)
from pykafka_broker.testing.history import Checks, Questions


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "cluster.jsonl"
    with KafkaCluster(2, in_process=True) as cluster:
        cluster.create_topic("orders")
        cluster.start_recording()
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "shop"})
        producer.produce("orders", b"paid")
        assert producer.flush(60) == 0
        cluster.save_recording(path)
    return path


def test_a_cluster_plays_what_a_cluster_has_recorded(recorded: Path) -> None:
    with KafkaCluster(2, in_process=True) as cluster:
        replay = replay_recording(recorded, on=cluster)
        assert replay.differences == []
        assert replay.played > 1
        cluster.assert_records("orders", ["paid"])


def test_what_is_no_recording_for_a_broker_is_refused(recorded: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.jsonl"
    text.write_text('{"recording":1}\nnothing\n')
    with KafkaBroker(in_process=True) as broker:
        with pytest.raises(ValueError, match="it is the recording of a cluster: play it on a KafkaCluster"):
            replay_recording(recorded, on=broker)
        with pytest.raises(ValueError, match=r"text\.jsonl: line 2 is no line of a recording"):
            replay_recording(text, on=broker)
        text.write_text("a note\n")
        with pytest.raises(
            ValueError, match=r"text\.jsonl: it is neither a recording nor a capture \(pcap or pcapng\)"
        ):
            replay_recording(text, on=broker)
        with pytest.raises(ValueError, match="until must be at least 1, not 0, with which nothing could fail"):
            replay_recording(recorded, on=broker, until=0)
    with pytest.raises(ValueError, match="no recording is named"):
        replay_recording()
    with pytest.raises(ValueError, match="no recording is named"):
        compare_recordings(recorded, [])


def test_a_running_broker_plays_within_an_event_loop_too(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    with KafkaBroker(in_process=True) as broker:
        remote = RemoteBroker(str(broker.control_url))
        remote.start_recording()
        remote.create_topic("orders")
        remote.save_recording(path)

        async def play(on: KafkaBroker | RemoteBroker) -> None:
            broker.reset()
            assert replay_recording(path, on=on).differences == []

        for on in (broker, remote):
            asyncio.run(play(on))
            assert [each["name"] for each in broker.topics()] == ["orders"]


def test_recordings_are_compared_by_their_names(recorded: Path) -> None:
    assert compare_recordings(recorded, str(recorded)) == []
    with pytest.raises(OSError, match=r"no-such\.jsonl"):
        compare_recordings(recorded, recorded.with_name("no-such.jsonl"))


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The recording of a broker alone, with a restart and a kill."""
    path = tmp_path / "shop.jsonl"
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("orders")
        broker.start_recording()
        for end in (broker.stop, broker.kill, None):
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "shop"})
            producer.produce("orders", b"paid")
            assert producer.flush(60) == 0
            if end is not None:
                end()
                broker.start()
        broker.save_recording(path)
    return path


async def buy(broker: AsyncKafkaBroker | AsyncKafkaCluster) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, client_id="shop") as producer:
        await producer.send_and_wait("orders", b"paid")


def test_a_broker_on_the_loop_of_the_test_records_itself_and_plays(shop: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.jsonl"

    async def run() -> None:
        async with AsyncKafkaBroker(in_process=True) as broker:
            await broker.create_topic("orders")
            await broker.start_recording()
            await buy(broker)
            await broker.restart()
            await buy(broker)
            await broker.kill()
            await broker.start()
            await buy(broker)
            await broker.save_recording(own)
        for path in (own, shop):
            async with AsyncKafkaBroker(in_process=True, history=True) as broker:
                replay = await replay_recording(path, on=broker, check=True)
                assert (replay.differences, replay.findings) == ([], [])
                await broker.assert_records("orders", ["paid"] * 3)

    asyncio.run(run())
    assert recorded_events(own)[-1].endswith("is closed")
    assert sum(" broker start" in line for line in recorded_events(own)) == 2
    assert replay_recording(own).differences == []


def test_a_cancelled_play_ends(shop: Path) -> None:
    held = threading.Event()

    async def run() -> None:
        async with AsyncKafkaBroker(in_process=True) as broker:
            playing = asyncio.ensure_future(replay_recording(shop, on=broker, until=1, hold=held.set))
            await asyncio.to_thread(held.wait)
            slow = asyncio.ensure_future(replay_recording(shop, on=broker, recorded_time=True))
            await asyncio.sleep(0)
            slow.cancel()
            for each in (playing, slow):
                await asyncio.wait([each])
            assert slow.cancelled()

    asyncio.run(run())


def test_asynchronous_forms_of_clusters_and_of_running_brokers_play(recorded: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.jsonl"

    async def run() -> None:
        async with AsyncKafkaCluster(2, in_process=True) as cluster:
            assert (await replay_recording(recorded, on=cluster)).differences == []
            await cluster.assert_records("orders", ["paid"])
        async with AsyncKafkaBroker(in_process=True) as broker:
            async with AsyncRemoteBroker(broker.control.url) as remote:
                await remote.start_recording()
                await remote.create_topic("orders")
                await buy(broker)
                await remote.save_recording(own)
                await broker.reset()
                assert (await replay_recording(own, on=remote, check=True)).findings == []
            await broker.assert_records("orders", ["paid"])

    asyncio.run(run())


def test_a_play_makes_its_own_broker_or_cluster(shop: Path, recorded: Path) -> None:
    there: list[object] = []
    replay = replay_recording(shop, until=2, hold=lambda: there.append("held"))
    assert (replay.played, replay.differences, there) == (2, [], ["held"])
    (first, *_) = replay_recording(shop, emulate="3.9").differences
    assert str(first).startswith("request 1, ApiVersions")
    assert replay_recording(recorded).differences == []
    assert replay_recording(recorded, brokers=3).played > 1


def test_a_play_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "lost.jsonl"
    with KafkaBroker(in_process=True) as broker:
        broker.start_recording()
        broker.create_topic("billed")
        broker.produce("orders", ["1", "2"])
        broker.produce("billed", ["1"])
        broker.save_recording(path)
    asked: Questions = {"input": "orders", "output": "billed", "key": "value"}
    assert [each.text for each in replay_recording(path, check=asked).findings] == ["orders-0@1 has no output"]
    assert replay_recording(path, check=True).findings == []
    with KafkaBroker(in_process=True) as broker:
        at = broker.bootstrap_servers
        assert replay_recording(path, on=at).notes == []
        with pytest.raises(TypeError, match="check asks a control API"):
            replay_recording(path, on=at, check=True)
        with pytest.raises(TypeError, match="emulate and brokers are of a broker or cluster that is made for the play"):
            replay_recording(path, on=broker, emulate="3.9")
    with pytest.raises(TypeError, match="on must be a KafkaBroker"):
        replay_recording(path, on=cast(Any, 7))


def test_a_masked_recording_plays(shop: Path, tmp_path: Path) -> None:
    masked = tmp_path / "masked.jsonl"
    mask_recording(shop, to=masked)
    with KafkaBroker(in_process=True) as broker:
        assert replay_recording(masked, on=broker).differences == []
        values = [record.value for record in broker.records("orders")]
    assert len({*values}) == 1
    assert "paid" not in values


def test_python_has_what_the_command_has() -> None:
    by_option = {
        "emulate": "replay_recording(emulate)",
        "to": "replay_recording(on)",
        "url": "replay_recording(on)",  # a RemoteBroker
        "brokers": "replay_recording(brokers)",
        "recorded_time": "replay_recording(recorded_time)",
        "until": "replay_recording(until)",
        "keep": "replay_recording(hold)",
        "check": "replay_recording(check)",
        "recording": "replay_recording(recordings)",
        "list": "recorded_events(recordings)",
        "compare": "compare_recordings(other)",
        "masked": "mask_recording(to)",
    }
    of_people = {"help", "all", "page"}  # Python has all differences, and a page needs somebody who looks at it
    options = {each.dest for each in command()._actions}
    assert options - of_people == by_option.keys() | Questions.__annotations__.keys()
    for told in by_option.values():
        name, argument = told.rstrip(")").split("(")
        assert argument in inspect.signature(getattr(testing, name)).parameters
    asked = inspect.signature(Checks.check).parameters.keys() - {"self", "raises"}
    assert asked == Questions.__annotations__.keys()
