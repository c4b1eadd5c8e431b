"""The console tools: lines become records, and records lines or JSON."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka_broker.client.errors import ClientError
from pykafka_broker.protocol.enums import TopicPartition
from pykafka_broker.records.record import BatchRecord
from pykafka_broker.testing import KafkaBroker
from pykafka_broker.tools import console_producer
from pykafka_broker.tools.console_output import Consumed, RecordFormatter
from pykafka_broker.tools.console_producer import LineReader, ParsedLine, lines_of
from pykafka_broker.tools.frame import main


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(in_process=True) as running:
        yield running


def produce(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, data: bytes, *arguments: str) -> int:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    return main("console-producer", ["--bootstrap-server", broker.bootstrap_servers, *arguments])


def test_what_was_sent_and_what_was_read_as_json(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = ("--reader-property", "parse.key=true")
    assert produce(broker, monkeypatch, b"k\tv\nq\t\xff\n", "--topic", "t", *keys, "--json") == 0
    assert json.loads(capsys.readouterr().out) == [{"topic": "t", "partition": 0, "offset": n} for n in (0, 1)]
    where = ("--bootstrap-server", broker.bootstrap_servers, "--topic", "t", "--partition", "0", "--offset", "0")
    assert main("console-consumer", [*where, "--max-messages", "2", "--json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first.pop("timestamp") > 0
    assert first == {
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestamp_type": "CreateTime",
        "leader_epoch": 0,
        "key": "k",
        "value": "v",
        "headers": [],
    }
    assert second["value"] == {"base64": "/w=="}


@pytest.mark.parametrize("mode", ["--enable-systest-events", "--json"])
def test_a_program_behind_a_pipe_has_each_record_at_once(broker: KafkaBroker, mode: str) -> None:
    """The warning about an old flag comes first, though text and bytes take two ways to standard output."""
    topic = f"live{mode}"
    broker.produce(topic, ["one"])
    where = ["--bootstrap-server", broker.bootstrap_servers, "--topic", topic, "--partition", "0"]
    command = [sys.executable, "-m", "pykafka_broker", "console-consumer", *where, "--offset", "earliest", mode]
    buffering = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command += ["--property", "print.offset=true"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=buffering) as consumer:
        assert consumer.stdout is not None
        try:
            if mode != "--json":
                assert consumer.stdout.readline().startswith(b"Option --property is deprecated")
            assert b"one" in consumer.stdout.readline()
            broker.produce(topic, ["two"])
            assert b"two" in consumer.stdout.readline()
        finally:
            consumer.kill()


def test_many_lines_arrive_in_their_order(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [str(n) for n in range(3_000)]
    assert produce(broker, monkeypatch, "\n".join(lines).encode(), "--topic", "many", "--batch-size", "500") == 0
    assert [record.value for record in broker.records("many")] == lines


class InterruptedReader(LineReader):
    """A reader whose tool is cancelled at the second line, as by Ctrl-C."""

    def read(self, text: str) -> ParsedLine:
        task = asyncio.current_task()
        if text == "two" and task is not None:
            task.cancel()
        return super().read(text)


def test_lines_before_an_interruption_are_sent(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_producer, "LineReader", InterruptedReader)
    reading, writing = os.pipe()
    os.write(writing, b"one\ntwo\n")  # and more may come
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        where = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "interrupted"]
        assert main("console-producer", [*where, "--timeout", "60000"]) == 128 + signal.SIGTERM
        os.close(writing)
    assert broker.records("interrupted")[0].value == "one"


def test_what_a_broker_refuses_is_told(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert produce(broker, monkeypatch, b"x\n", "--topic", "a b") == 0
    assert capsys.readouterr().err == "a record for topic a b was not sent: Invalid topics: [a b]\n"
    assert produce(broker, monkeypatch, b"x\n", "--topic", "a b", "--sync") == 1


def test_lines_come_while_others_are_waited_for() -> None:
    came = threading.Semaphore(0)

    async def work() -> list[list[bytes]]:
        reading, writing = os.pipe()
        threading.Thread(target=feed, args=(writing,), daemon=True).start()
        found = []
        with os.fdopen(reading) as stdin:
            async for lines in lines_of(stdin):
                found.append(lines)
                came.release()
        return found

    def feed(writing: int) -> None:
        for part in (b"a\nb", b"c\r"):
            os.write(writing, part)
            came.acquire()  # what comes together is one list
        os.write(writing, b"\nd")
        os.close(writing)

    assert asyncio.run(asyncio.wait_for(work(), 10)) == [[b"a"], [b"bc"], [b"d"]]


def test_a_long_line_is_looked_through_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    class Counting:
        def split(self, data: bytes, end: re.Pattern[bytes] = console_producer._END) -> list[bytes]:
            looked_at.append(len(data))
            return end.split(data)

    monkeypatch.setattr(console_producer, "_END", Counting())
    monkeypatch.setattr(console_producer, "_AT_ONCE", 1000)
    path = tmp_path / "lines"
    path.write_bytes(b"x" * 100_000 + b"\r\n\r\rlast\r")

    async def read() -> list[bytes]:
        with path.open() as stdin:
            return [line async for lines in lines_of(stdin) for line in lines]

    assert asyncio.run(read()) == [b"x" * 100_000, b"", b"", b"last"]
    assert sum(looked_at) <= path.stat().st_size


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"headers.delimiter": ","}, "headers.delimiter and headers.separator may not be equal"),
        ({"null.marker": ":"}, "null.marker and headers.key.separator may not be equal"),
    ],
)
def test_separators_that_could_not_be_told_from_each_other(properties: dict[str, str], says: str) -> None:
    with pytest.raises(ClientError, match=says):
        LineReader(properties)


def test_a_null_marker_is_no_name_of_a_header() -> None:
    reader = LineReader({"parse.headers": "true", "null.marker": "NIL"})
    with pytest.raises(ClientError, match="can't be null"):
        reader.read("NIL:x\tvalue")


def test_headers_are_split_as_java_does() -> None:
    """The rest of a list that ends with separators is empty, and a name without a separator is any name."""
    reader = LineReader({"parse.headers": "true"})
    assert reader.read("a:1,,\tvalue").headers == [("a", b"1")]
    with pytest.raises(ClientError, match="No header key separator"):
        reader.read("\tvalue")
    lenient = LineReader({"parse.headers": "true", "ignore.error": "true", "null.marker": "NIL"})
    assert lenient.read(",,\tvalue").headers == []
    assert lenient.read("a:1,NIL\tvalue").headers == [("a", b"1"), ("NIL", None)]


def test_the_separator_of_headers_is_an_expression() -> None:
    def headers(separator: str) -> object:
        return LineReader({"parse.headers": "true", "headers.separator": separator}).read("a:1|b:2\tv").headers

    assert headers("\\|") == headers("[|]") == [("a", b"1"), ("b", b"2")]
    assert headers(".") == []
    with pytest.raises(ClientError, match=r"headers\.separator [(] makes no sense"):
        headers("(")


def test_a_line_without_a_key_is_told_as_a_whole() -> None:
    reader = LineReader({"parse.headers": "true", "parse.key": "true"})
    with pytest.raises(ClientError, match="No key separator found on line number 1: 'a:1\tvalue'"):
        reader.read("a:1\tvalue")


@pytest.mark.parametrize(
    ("name", "data", "shown"),
    [
        ("BooleanDeserializer", b"\1", b"true"),
        ("ShortDeserializer", b"\xff\xfe", b"-2"),
        ("UUIDDeserializer", b"8c0d0b2e-1111-2222-3333-444455556666", b"8c0d0b2e-1111-2222-3333-444455556666"),
        ("UUIDDeserializer", b"1FFFFFFFFF-12345-a-b-c", b"ffffffff-2345-000a-000b-00000000000c"),
        ("FloatDeserializer", b"\x3f\x80\0\0", b"1.0"),
        ("FloatDeserializer", b"\x40\x48\xf5\xc3", b"3.14"),
        ("FloatDeserializer", b"\x7f\x7f\xff\xff", b"3.4028235E38"),
        ("DoubleDeserializer", b"\x44\x4b\x1a\xe4\xd6\xe2\xef\x50", b"1.0E21"),
    ],
)
def test_what_bytes_mean(name: str, data: bytes, shown: bytes) -> None:
    formatter = RecordFormatter({"value.deserializer": f"org.apache.kafka.common.serialization.{name}"})
    record = BatchRecord(0, 0, None, data)
    assert formatter.text(Consumed(TopicPartition("t", 0), record, 0, 0)) == shown + b"\n"
    record.value = b"not these"
    with pytest.raises(ClientError):
        formatter.text(Consumed(TopicPartition("t", 0), record, 0, 0))


@pytest.mark.parametrize(
    "data", [b"{8c0d0b2e-1111-2222-3333-444455556666}", b"8c0d0b2e111122223333444455556666", b"1-2-3-4-"]
)
def test_forms_of_uuids_that_python_alone_takes_are_refused(data: bytes) -> None:
    with pytest.raises(ClientError, match="Error parsing data into UUID"):
        shown_value(data, deserializer="org.apache.kafka.common.serialization.UUIDDeserializer")


def test_a_record_without_a_timestamp() -> None:
    """Messages of Kafka 0.9 and before, which have no leader epoch either, are of another kind."""
    formatter = RecordFormatter({"print.timestamp": "true", "print.value": "false"})
    record = BatchRecord(0, -1, None, b"v")
    assert formatter.text(Consumed(TopicPartition("t", 0), record, 0, 0)) == b"CreateTime:-1\n"
    assert formatter.text(Consumed(TopicPartition("t", 0), record, 0, -1)) == b"NO_TIMESTAMP\n"


def test_separators_are_the_bytes_of_the_command_line() -> None:
    properties = {"print.key": "true", "key.separator": "\udcff", "line.separator": "\ud800"}
    formatter = RecordFormatter(properties)
    assert formatter.text(Consumed(TopicPartition("t", 0), BatchRecord(0, 0, b"k", b"v"), 0, 0)) == b"k\xffv?"


def test_below_no_records_there_are_none(broker: KafkaBroker, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--bootstrap-server", broker.bootstrap_servers, "--topic", "none", "--partition", "0")
    assert main("console-consumer", [*where, "--max-messages", "-2"]) == 0
    assert capsys.readouterr().err == "Processed a total of 0 messages\n"


def shown_value(value: bytes | None, **properties: str) -> bytes:
    named = {name.replace("_", "."): text for name, text in properties.items()}
    formatter = RecordFormatter({f"value.{name}": text for name, text in named.items()})
    return formatter.text(Consumed(TopicPartition("t", 0), BatchRecord(0, 0, None, value), 0, 0))


def test_deserializers_that_show_no_bytes() -> None:
    assert shown_value(b"abc", deserializer="ByteBufferDeserializer") == b"java.nio.HeapByteBuffer[pos=0 lim=3 cap=3]\n"
    with pytest.raises(ClientError, match="should be null"):
        shown_value(b"abc", deserializer="VoidDeserializer")


@pytest.mark.parametrize(
    ("name", "encoding", "text"),
    [
        ("deserializer_value_deserializer_encoding", "UTF-16", "\u6162"),
        ("deserializer_deserializer_encoding", "UTF-16LE", "\u6261"),
        ("deserializer_deserializer_encoding", "no such encoding", "ab"),
        ("deserializer_deserializer_encoding", "idna", "ab"),
        ("deserializer_key_deserializer_encoding", "UTF-16", "ab"),
    ],
)
def test_a_deserializer_has_properties_of_its_own(name: str, encoding: str, text: str) -> None:
    shown = shown_value(b"ab", deserializer="StringDeserializer", **{name: encoding})
    assert shown == text.encode() + b"\n"
    assert shown_value(None, deserializer="StringDeserializer") == b"null\n"


def test_an_empty_separator_is_found_at_once() -> None:
    reader = LineReader({"parse.key": "true", "key.separator": ""})
    assert reader.read("k\tv")[:2] == (b"", b"k\tv")


async def _read_all(descriptor: int) -> None:
    with os.fdopen(descriptor) as stdin:
        async for _ in lines_of(stdin):
            pass


@pytest.mark.posix("pipes of Windows always wait")
def test_input_that_cannot_be_read_is_an_error() -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    with pytest.raises(ClientError, match="standard input can't be read"):
        asyncio.run(asyncio.wait_for(_read_all(read), 5))
    os.close(write)


def test_a_reader_that_is_left_behind_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    said: list[object] = []
    monkeypatch.setattr(threading, "excepthook", said.append)

    async def read_some() -> None:
        with os.fdopen(read, closefd=False) as stdin:
            async for _ in lines_of(stdin):
                await asyncio.sleep(0.1)  # until the reader waits for somebody to take more
                return  # as Ctrl-C does

    writer = threading.Thread(target=lambda: os.write(write, b"line\n" * 100_000), daemon=True)
    writer.start()
    asyncio.run(read_some())
    for reader in threading.enumerate():  # it may have gone already
        if reader.name == "standard input":
            reader.join(5)
            assert not reader.is_alive()
    assert not said
    os.close(read)
    writer.join(1)
    os.close(write)
