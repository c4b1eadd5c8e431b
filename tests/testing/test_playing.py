"""Recordings played and compared in Python, by the names of their files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pykafka_broker.testing import KafkaBroker, KafkaCluster, RemoteBroker, compare_recordings, replay_recording


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
        with pytest.raises(ValueError, match=r"cluster\.jsonl: it is the recording of a cluster: play it on a Kafka"):
            replay_recording(recorded, on=broker)
        with pytest.raises(ValueError, match=r"text\.jsonl: line 2 is no line of a recording"):
            replay_recording(text, on=broker)


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
