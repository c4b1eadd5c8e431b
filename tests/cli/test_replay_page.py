"""The page of a replay, which moves the broker forward and back in time, and the page's requests."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Producer

from pykafka_broker.cli import main
from pykafka_broker.testing import KafkaBroker

RECORDS = 4


class Page:
    """The page of a replay that runs in a thread until `end`."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._input, self._keyboard = os.pipe()
        self._there = threading.Event()
        self._capsys = capsys
        self._told = ""
        self.code: int | None = None
        monkeypatch.setattr("sys.stdin", self)
        self._thread = threading.Thread(target=self._run, args=(path,))
        self._thread.start()
        assert self._there.wait(60)

    def _run(self, path: Path) -> None:
        try:
            self.code = main(["replay", str(path), "--page", "--until", "0"])
        finally:
            self._there.set()

    def fileno(self) -> int:
        """Return the standard input of the command, which asks for it when the page is there."""
        self._told = self._capsys.readouterr().out
        self._there.set()
        return self._input

    def ask(self, method: str, path: str, **headers: str) -> tuple[int, bytes]:
        address = urlsplit(self._told.split(" requests: ")[1].split()[0]).netloc
        connection = http.client.HTTPConnection(address, timeout=60)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, content

    def json(self, method: str, path: str) -> Any:
        status, content = self.ask(method, path)
        assert status == 200, content
        return json.loads(content)

    def end(self) -> None:
        os.write(self._keyboard, b"\n")
        self._thread.join(60)
        for each in (self._keyboard, self._input):
            os.close(each)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "shop.jsonl"
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("orders")
        broker.produce("orders", ["before"])
        broker.start_recording()
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "shop"})
        for number in range(RECORDS):
            producer.produce("orders", str(number))
            assert producer.flush(60) == 0
        broker.create_topic("later")
        broker.save_recording(path)
    return path


@pytest.fixture
def page(recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Page]:
    page = Page(recorded, monkeypatch, capsys)
    yield page
    page.end()
    assert page.code == 0


def records(page: Page) -> list[str]:
    return [each["value"] for each in page.json("GET", "/topics/orders/records")["records"]]


def test_the_broker_is_as_it_was_at_each_moment(page: Page) -> None:
    there = page.json("GET", "/page/timeline")
    assert there["at"] == 0
    assert records(page) == ["before"]
    lines = [page.json("GET", f"/page/timeline/{number}")["line"] for number in range(1, there["requests"] + 1)]
    sent = [number for number, line in enumerate(lines, 1) if " Produce v" in line]
    assert len(sent) == RECORDS
    for count in (3, 1, 4, 2):  # forward and back
        told = page.json("POST", f"/page/timeline/{sent[count - 1]}")
        assert told["request"]["topic_data"][0]["name"] == "orders"
        assert told["response"]["responses"][0]["partition_responses"][0]["base_offset"] == count
        assert told["differs"] is None
        assert records(page) == ["before", *map(str, range(count))]
        assert page.json("GET", "/page/timeline")["at"] == sent[count - 1]
    connected = page.json("GET", "/connections")
    assert {each["client_id"] for each in connected} == {"shop"}
    page.json("POST", "/page/timeline/0")
    assert records(page) == ["before"]
    assert page.json("GET", "/connections") == []


def test_the_page_names_the_line_of_time_and_nobody_else_moves_it(page: Page) -> None:
    status, content = page.ask("GET", "/")
    assert status == 200
    assert b'src="/page/timeline.js"' in content
    assert page.ask("GET", "/page/timeline.js")[0] == 200
    assert page.ask("GET", "/page/timeline/100000")[0] == 404
    assert page.ask("GET", "/page/timeline/x")[0] == 404
    assert page.ask("GET", "/nowhere")[0] == 404
    assert page.ask("POST", "/page/timeline/1", Origin="http://elsewhere.example")[0] == 403
    assert page.ask("GET", "/page/timeline", Host="elsewhere.example")[0] == 403
    assert page.json("GET", "/page/timeline")["at"] == 0


def test_what_does_not_go_together_is_told(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more in (["--check"], ["--to", "127.0.0.1:9"]):
        with pytest.raises(SystemExit):
            main(["replay", str(recorded), "--page", *more])
        assert "--page plays on a broker of its own" in capsys.readouterr().err


@pytest.mark.posix("Windows sends no SIGINT to another process")
def test_ctrl_c_ends_the_page(recorded: Path) -> None:
    command = [sys.executable, "-m", "pykafka_broker", "replay", str(recorded), "--page"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as page:
        assert page.stdout is not None
        assert page.stderr is not None
        try:
            assert b"has the line of time" in page.stdout.readline()
            page.send_signal(signal.SIGINT)
            assert (page.wait(60), page.stderr.read()) == (130, b"")
        finally:
            page.kill()
