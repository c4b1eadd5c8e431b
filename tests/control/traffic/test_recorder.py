"""Recordings as lines, and their bound."""

from __future__ import annotations

import errno
import json
from base64 import b64decode
from pathlib import Path
from time import perf_counter_ns

import pytest

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.control.traffic.exchange import Exchange
from pykafka_broker.control.traffic.recorder import Recorder
from pykafka_broker.log.filesystem import CachedFile, FileCache, FileSlice, OsFile, OsFileSystem
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.alter_configs_request import AlterableConfig as OldConfig
from pykafka_broker.protocol.messages.alter_configs_request import AlterConfigsRequest
from pykafka_broker.protocol.messages.alter_configs_request import AlterConfigsResource as OldResource
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.runtime import Message, Pieces
from pykafka_broker.server.link_codec import encode_request

CONNECTION = ConnectionContext(7, "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 5000))
HEADER = b"\0\x09\0\0\0\1\0\4shop"


def exchange(api_key: int = ApiKey.HEARTBEAT, body: bytes = b"") -> Exchange:
    """Return an exchange whose request arrives now."""
    return Exchange((0, CONNECTION, api_key.to_bytes(2, "big") + HEADER + body, None, perf_counter_ns()))


def test_lines_are_read_while_it_goes_on() -> None:
    recorder = Recorder({"version": "1"})
    recorder.add_state('{"type":"topic"}')
    first, second = exchange(body=b"\xff\n{"), exchange()
    recorder.add(first, [b"\0\0\0\6ab", b"\n", memoryview(b"\xffcd")])
    assert len(list(recorder.lines())) == 3
    recorder.add(second, None)
    recorder.add_call("POST", "/faults?a=b", '{"x": 1}')
    head, state, one, other, call = map(json.loads, recorder.lines())
    assert head == {"recording": 1, "version": "1", "began_ns": head["began_ns"]}
    assert head["began_ns"] > 0
    assert state == {"state": {"type": "topic"}}
    assert (b64decode(one["request"]), b64decode(one["response"])) == (first.frame, b"ab\n\xffcd")
    assert (one["connection"], other["response"], b64decode(other["request"])) == (7, None, second.frame)
    assert other["answered"] >= one["answered"] > 0
    assert (call["call"], call["target"], call["body"]) == ("POST", "/faults?a=b", '{"x": 1}')
    assert recorder.exchanges == 2


def test_faults_and_closed_connections_are_lines() -> None:
    recorder = Recorder({})
    refused, changed, late = exchange(), exchange(), exchange()
    refused.fault, refused.served = 3, None
    changed.fault, changed.served = 4, b"less"
    late.fault = 5
    for each in (refused, changed, late):
        recorder.add(each, [b"\0\0\0\1a"])
    recorder.add_server(CONNECTION)
    recorder.add_close(7)
    _, first, second, third, server, closed = map(json.loads, recorder.lines())
    assert (first["fault"], first["served"]) == (3, None)
    assert (second["fault"], b64decode(second["served"])) == (4, b"less")
    assert third["fault"] == 5
    assert "served" not in third
    assert server == {"connection": 7, "server": ["127.0.0.1", 9092]}
    assert closed["closed"] == 7
    assert closed["at"] >= third["at"]


def test_what_came_before_it_began_is_left_out() -> None:
    """A request from before the recording is left out, since the log kept only its first bytes."""
    recorder, earlier = Recorder({}), exchange()
    recorder.begin()
    recorder.add(earlier, [b"\0\0\0\1a"])
    recorder.add(exchange(), [b"\0\0\0\1a"])
    assert recorder.exchanges == 1
    (_, line) = map(json.loads, recorder.lines())
    assert line["at"] >= 0


@pytest.mark.parametrize(
    "api_key", [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.ALTER_USER_SCRAM_CREDENTIALS]
)
def test_what_carries_passwords_is_left_out(api_key: int) -> None:
    recorder = Recorder({})
    recorder.add(exchange(api_key, b"secret"), [b"\0\0\0\1a"])
    assert len(list(recorder.lines())) == 1


@pytest.mark.parametrize(
    ("name", "value", "recorded"),
    [
        ("listener.name.ssl.ssl.keystore.password", "secret", False),
        ("sasl.jaas.config", "secret", False),
        ("listener.name.ssl.ssl.keystore.password", None, True),  # taken away
        ("log.retention.ms", "1000", True),
    ],
)
def test_a_changed_config_is_left_out_where_it_is_a_password(name: str, value: str | None, recorded: bool) -> None:
    asked: list[tuple[Message, int]] = [
        (IncrementalAlterConfigsRequest([AlterConfigsResource(4, "1", [AlterableConfig(name, 0, value)])]), 1),
        (AlterConfigsRequest([OldResource(4, "1", [OldConfig(name, value)])]), 2),
    ]
    for request, version in asked:
        recorder = Recorder({})
        frame = b"".join(encode_request(request, version, 1, "a client"))[4:]
        recorder.add(Exchange((0, CONNECTION, frame, None, perf_counter_ns())), [b"\0\0\0\1a"])
        assert len(list(recorder.lines())) == 1 + recorded


@pytest.mark.parametrize("answer", [None, [b"\0\0\x0f\xa0", bytes(4000)]])
def test_it_ends_whole_at_its_most_bytes(answer: Pieces | None) -> None:
    recorder = Recorder({}, most_bytes=5000)
    for _ in range(500):
        recorder.add(exchange(), answer)
    assert recorder.is_full
    assert recorder.size_bytes <= 5000
    lines = [json.loads(line) for line in recorder.lines()]
    assert lines[-1] == {"full": True}
    assert len(lines) == recorder.exchanges + 2 < 150


def bytes_of(recorder: Recorder) -> list[bytes]:
    """Return the answers of a recording."""
    return [b64decode(json.loads(line)["response"]) for line in [*recorder.lines()][1:]]


@pytest.mark.parametrize("most_held", [0, 1])
def test_slices_of_files_stay_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_held: int) -> None:
    """Keep what was recorded, though a log is cut and written on, or deleted, later."""
    monkeypatch.setattr("pykafka_broker.control.traffic.recorder._MOST_HELD_FILES", most_held)
    path = tmp_path / "00.log"
    path.write_bytes(b"0123456789" * 1000)
    recorder = Recorder({})
    file = CachedFile(FileCache(OsFileSystem(), 10), str(path))
    recorder.add(exchange(), [b"\0\0\0\1a"])
    recorder.add(exchange(), [b"\0\0\x13\x8ahe", FileSlice(file, 2, 5000), b"ader"])
    recorder.add(exchange(), [b"\0\0\0\4", FileSlice(file, 9_996, 4)])
    for content in (b"x", b"y"):
        file.own()
        file.handle().truncate(4000)
        file.handle().write_at(content * 6000, 4000)
        recorder.add(exchange(), [b"\0\0\0\4", FileSlice(file, 3998, 4)])
    assert path.read_bytes() == b"0123456789" * 400 + b"y" * 6000
    file.remove()
    recorder.add(exchange(), [b"\0\0\0\1b"])
    whole = b"he" + b"2345678901" * 500 + b"ader"
    assert bytes_of(recorder) == [b"a", whole, b"6789", b"89xx", b"89yy", b"b"]


def test_records_of_a_log_are_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "00.log"
    path.write_bytes(bytes(10_000))
    recorder, file = Recorder({}), CachedFile(FileCache(OsFileSystem(), 10), str(path))
    with monkeypatch.context() as patched:
        patched.setattr(OsFile, "read_at", None)
        for _ in range(1000):
            recorder.add(exchange(), [b"\0\0\x27\x10", FileSlice(file, 0, 10_000)])
    assert recorder.size_bytes > 10_000_000
    assert bytes_of(recorder) == [bytes(10_000)] * 1000


def test_a_full_disk_ends_it_and_no_request(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder({})

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(OsFile, "write_at", full)
    for _ in range(3):
        recorder.add(exchange(), [b"\0\4\0\0", bytes(1 << 18)])
    assert recorder.is_full
    assert [*map(json.loads, recorder.lines())][1:] == [{"full": True}]
    assert "The recording ends here: [Errno 28] No space left on device" in caplog.text


def test_no_descriptor_for_a_segment_ends_it_and_no_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "00.log"
    path.write_bytes(bytes(100))
    recorder, file = Recorder({}), CachedFile(FileCache(OsFileSystem(), 10), str(path))
    recorder.add(exchange(), [b"\0\0\0\1a"])

    def none_left(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("os.dup", none_left)
        recorder.add(exchange(), [b"\0\0\0\x64", FileSlice(file, 0, 100)])
    recorder.add(exchange(), [b"\0\0\0\1b"])
    assert recorder.exchanges == 1
    assert [*map(json.loads, recorder.lines())][2:] == [{"full": True}]


def test_the_state_before_is_not_kept_in_memory() -> None:
    recorder = Recorder({})
    for _ in range(100):
        recorder.add_state(f'"{"x" * 100_000}"')
    assert recorder._unwritten_bytes < 1 << 20
    assert len(list(recorder.lines())) == 101
