"""The recording of a broker that is killed and started again within it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from confluent_kafka import Producer

from pykafka_broker.cli import main
from pykafka_broker.control.api.recording import recording
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.traffic.recorder import Recorder
from pykafka_broker.testing import ControlError, KafkaBroker

if TYPE_CHECKING:
    from pykafka_broker.control.control import Control

TIMEOUT_S = 60


def events_of(path: Path) -> list[str]:
    return [each["target"] for each in map(json.loads, path.read_text().splitlines()) if each.get("call") == "PROCESS"]


def test_a_broker_that_is_killed_and_started_is_so_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "killed.jsonl"
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("orders")
        broker.start_recording()
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "shop"})
        for number in range(3):
            if number == 1:
                broker.faults.add(api="Produce", nth=1, error="NOT_LEADER_OR_FOLLOWER")
            producer.produce("orders", b"%d" % number)
            assert producer.flush(TIMEOUT_S) == 0
            if number == 0:
                broker.kill()
                broker.start()
            elif number == 1:
                broker.restart()
        with pytest.raises(FileNotFoundError):
            broker.save_recording(tmp_path / "nowhere" / "recording.jsonl")
        broker.save_recording(path)
        with pytest.raises(ControlError, match="nothing is recorded"):
            broker.save_recording(path)
    assert events_of(path) == ["/kill", "/start", "/stop", "/start"]
    assert main(["replay", str(path), "--all"]) == 0, capsys.readouterr().out
    played = int(capsys.readouterr().out.split()[0])
    with KafkaBroker(in_process=True) as other:
        assert main(["replay", str(path), "--to", other.bootstrap_servers]) == 0, capsys.readouterr().out
        told = capsys.readouterr().out.splitlines()[0]
        assert told.startswith("played up to request ")
        assert told.endswith(f" of {played}: then the broker was killed, which can't be done there")
        assert main(["replay", str(path), "--to", other.bootstrap_servers, "--url", other.control_url]) == 1
        assert "the recorded broker was stopped or killed" in capsys.readouterr().err


def test_a_broker_that_ended_by_itself_leaves_the_earlier_part(tmp_path: Path) -> None:
    path = tmp_path / "ended.jsonl"
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("orders")
        broker.start_recording()
        broker.restart()
        broker.break_disk()
        with pytest.raises(ControlError, match="KAFKA_STORAGE_ERROR"):
            broker.produce("orders", ["1"])
        assert broker._process is not None
        broker._process.wait(TIMEOUT_S)
        broker.save_recording(path)
    assert events_of(path) == ["/stop", "/start"]


def test_an_asynchronous_broker_is_recorded_as_well(tmp_path: Path) -> None:
    path = tmp_path / "asynchronous.jsonl"

    async def run() -> None:
        async with KafkaBroker(in_process=True) as broker:
            await broker.create_topic("orders")
            await broker.start_recording()
            await broker.kill()
            await broker.start()
            await broker.produce("orders", ["1"])
            await broker.save_recording(path)

    asyncio.run(run())
    assert events_of(path) == ["/kill", "/start"]
    assert main(["replay", str(path)]) == 0


def test_a_recording_that_is_stopped_while_it_is_read_is_no_whole_one() -> None:
    """Reading ends with an error, since a file that ended there would look like a shorter recording."""
    log = SimpleNamespace(recorder=Recorder({}))
    control = cast("Control", SimpleNamespace(observing=SimpleNamespace(log=log), has_broker=False))

    async def read() -> str:
        answer = await recording(control)
        log.recorder = None
        return await anext(answer.lines)

    with pytest.raises(Problem, match="the recording was stopped while it was read"):
        asyncio.run(read())
