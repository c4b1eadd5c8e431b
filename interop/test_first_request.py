"""The first request of all that a broker answers, with its controllers in the same process: a topic can be created."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interop.guard import Guard
from interop.raw import RawClient
from interop.real_kafka import RealKafka, free_port
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest


def ours(directory: Path, port: int) -> list[str]:
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{free_port()}",
        "controller.listener.names": "CONTROLLER",
    }
    overrides = [word for key, value in settings.items() for word in ("--override", f"{key}={value}")]
    return [sys.executable, "-m", "pykafka_broker", "--data-dir", str(directory / "data"), *overrides]


def kafkas(directory: Path, port: int) -> list[str]:
    node = RealKafka(directory=directory, port=port)
    node.format_quickly()
    return node.command


@contextlib.contextmanager
def running(command: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True) as process:
        guard = Guard(process.pid)
        try:
            yield
        finally:
            process.kill()
            process.wait()
            guard.release()


def first_connection(port: int, timeout_s: float = 60) -> RawClient:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return RawClient(f"127.0.0.1:{port}")
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, "nobody listens"
            time.sleep(0.002)


@pytest.mark.parametrize("command_of", [ours, pytest.param(kafkas, marks=pytest.mark.java)])
def test_the_first_request_of_all_creates_a_topic(command_of: Callable[[Path, int], list[str]], tmp_path: Path) -> None:
    port = free_port()
    with running(command_of(tmp_path, port), tmp_path / "broker.log"):
        with first_connection(port) as client:
            answer = client.call(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 10_000), 5)
        assert [(topic.name, topic.error_code) for topic in answer.topics] == [("t", 0)]
