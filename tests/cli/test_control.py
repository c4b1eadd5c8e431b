"""The control API from a shell."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka_broker.cli import main
from pykafka_broker.cli.addresses import URL_VARIABLE
from pykafka_broker.testing import KafkaBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(in_process=True) as broker:
        yield broker


@pytest.fixture
def _url(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URL_VARIABLE, broker.control_url)


@pytest.mark.usefixtures("_url")
def test_an_operation_takes_its_parameters_as_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["control", "create-topic", "made", "--partitions", "3", "--config", '{"retention.ms": 5}']) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["name"], made["partitions"], made["config"]) == ("made", 3, {"retention.ms": "5"})
    assert main(["control", "produce", "made", '[{"value": "v", "partition": 1}]']) == 0
    assert main(["control", "records", "made", "--isolation-level", "read_committed", "--partition", "1"]) == 0
    written, read = capsys.readouterr().out.split("]\n", 1)
    assert json.loads(written + "]") == [{"partition": 1, "offset": 0}]
    assert json.loads(read)["records"][0]["value"] == "v"
    assert main(["control", "delete-topic", "made"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("_url")
@pytest.mark.parametrize("command", ["control requests", "topics --list", "configs"])
def test_a_reader_that_has_seen_enough_is_no_failure(command: str, broker: KafkaBroker) -> None:
    words = [sys.executable, "-m", "pykafka_broker", *command.split()]
    words += ["--bootstrap-server", broker.bootstrap_servers] if command.startswith("topics") else []
    reading, writing = os.pipe()
    os.close(reading)  # as by `| head -0`
    try:
        ended = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False)
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.usefixtures("_url")
def test_what_is_dumped_is_seeded(
    broker: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.reset()
    lines = '{"type":"topic","name":"s","partitions":1,"config":{}}\n{"type":"record","topic":"s","value":"a"}\n'
    (tmp_path / "lines").write_text(lines, encoding="utf-8-sig")  # as editors of Windows write it
    assert main(["seed", str(tmp_path / "lines")]) == 0
    assert json.loads(capsys.readouterr().out) == {"topics": 1, "records": 1, "offsets": 0}
    assert main(["dump"]) == 0
    assert capsys.readouterr().out.startswith('{"type":"topic","name":"s","partitions":1,"config":{}}\n')
    monkeypatch.setattr("sys.stdin", io.StringIO('{"type":"record","topic":"s","value":"b"}'))
    assert main(["seed", "-"]) == 0


@pytest.mark.parametrize("command", ["seed", "dump", "control topics"])
def test_the_usage_line_begins_as_the_command_was_called(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([*command.split(), "--help"])
    assert capsys.readouterr().out.startswith(f"usage: pykafka-broker {command} ")


def test_what_is_refused_is_one_line(
    broker: KafkaBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["control", "topic", "none", "--url", broker.control_url]) == 1
    assert capsys.readouterr().err == "pykafka-broker: there is no topic none\n"
    assert main(["control", "--url", "http://127.0.0.1:1", "topics"]) == 1
    assert capsys.readouterr().err == "pykafka-broker: http://127.0.0.1:1: Connection refused\n"
    assert main(["seed", "no-such-file", "--url", broker.control_url]) == 1
    assert capsys.readouterr().err == "pykafka-broker: no-such-file: No such file or directory\n"
    assert main(["seed", sys.executable, "--url", broker.control_url]) == 1
    assert capsys.readouterr().err.startswith(f"pykafka-broker: {sys.executable}: it is not UTF-8: ")
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    assert main(["control", "topics"]) == 2
    assert "must name the control API" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["control", "create-topic", "t", "--partitions", "three", "--url", "x"])
    assert "three is not JSON; it must be: integer, from 1, to 100000" in capsys.readouterr().err


def test_a_list_of_words_needs_no_json(broker: KafkaBroker, capsys: pytest.CaptureFixture[str]) -> None:
    broker.reset()
    for keep in ("topics", "topics, users", '["topics"]'):
        broker.create_topic("kept", exist_ok=True)
        assert main(["control", "reset", "--keep", keep, "--url", broker.control_url]) == 0
        assert [topic["name"] for topic in broker.topics()] == ["kept"]
    assert main(["control", "reset", "--keep", "topcs", "--url", broker.control_url]) == 1
    assert "topcs can't be kept; what can is acls" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["control", "reset", "--keep", "[topics", "--url", broker.control_url])
    assert "[topics is not JSON; it must be: list of string" in capsys.readouterr().err


def test_the_help_of_an_operation_says_what_each_flag_takes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["control", "--help"])
    listed = " ".join(capsys.readouterr().out.split()).partition(" health ")[2]
    assert listed.startswith("Return whether the process serves ready Return ")  # in the form of all other lists
    with pytest.raises(SystemExit):
        main(["control", "add-fault", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "--drop DROP before, after" in said
    assert "--every EVERY integer, from 1, to 2147483648 (by default 1)" in said
