"""kcat, a command that is librdkafka. Rule: nothing is asked of it that its manual does not offer."""

import json
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from interop.matrix.programs.scenario import (
    CA,
    COUNT,
    HEADERS,
    LARGE,
    PASSWORD,
    RECORDS,
    USER,
    VALUES,
    NotSupported,
    ask_for_restart,
    main,
    same,
    until,
)

SECURE = [
    *("-X", "security.protocol=SASL_SSL", "-X", "sasl.mechanisms=SCRAM-SHA-512", "-X", "ssl.ca.location=" + CA),
    *("-X", "sasl.username=" + USER, "-X", "sasl.password=" + PASSWORD),
]
FORMAT = "%K %S %h\n%k%s"  # lengths are -1 for none
# It takes its input in portions, whole ones before the end: what has no end of line yet makes it send what has.
UNENDED = b"x" * 200_000
UNCOMMITTED = ("-X", "isolation.level=read_uncommitted")
EARLIEST = ("-X", "auto.offset.reset=earliest")


class Found(NamedTuple):
    key: Any
    value: Any
    headers: str


def command(bootstrap: str, *words: str) -> Any:
    if shutil.which("kcat") is None:
        raise NotSupported("not run here: kcat is not on this machine")
    return ["kcat", "-b", bootstrap, *words]


def run(bootstrap: str, *words: str, given: bytes = b"") -> bytes:
    done = subprocess.run(command(bootstrap, *words), input=given, capture_output=True, timeout=40, check=False)
    said = done.stderr.decode(errors="replace")
    if "No such configuration property" in said:
        raise NotSupported(said.strip().splitlines()[-1].partition("ERROR: ")[2] or said)
    if done.returncode != 0:
        raise AssertionError("kcat %s: %s" % (words, said.strip()))
    return done.stdout


def send(bootstrap: str, topic: str, values: Any, *more: str) -> None:
    """A line for each record; what is in several files keeps its order within each."""
    run(bootstrap, "-P", "-t", topic, "-p", "0", *more, given=b"".join(value + b"\n" for value in values))


def read(bootstrap: str, topic: str, count: int, *more: str) -> Any:
    words = ["-C", "-q", "-t", topic, "-p", "0", "-o", "beginning", "-c", str(count), "-f", FORMAT]
    return parsed(run(bootstrap, *words, *more))


def parsed(said: bytes) -> Any:
    found = []
    while said:
        line, _, said = said.partition(b"\n")
        key, value, headers = line.decode().split(" ", 2)
        parts = []
        for size in (int(key), int(value)):
            parts.append(None if size < 0 else said[:size])
            said = said[max(size, 0) :]
        found.append(Found(parts[0], parts[1], headers))
    return found


def values_of(found: Any) -> Any:
    return [each.value for each in found]


def connect(bootstrap: str, topic: str) -> None:
    said = json.loads(run(bootstrap, "-L", "-J", "-t", topic))
    same(len(said["topics"][0]["partitions"]), 4)


def produce(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, VALUES)
    same(values_of(read(bootstrap, topic, COUNT)), VALUES)


def records(bootstrap: str, topic: str) -> None:
    """A record in each run, as whether what is empty is none (`-Z`) is said for a run."""
    for key, value in RECORDS:
        how = [*(["-Z"] if value is None else []), *(["-K", ":"] if key is not None else [])]
        send(bootstrap, topic, [(b"" if key is None else key + b":") + (value or b"")], *how)
    same([(each.key, each.value) for each in read(bootstrap, topic, len(RECORDS))], RECORDS)


def headers(bootstrap: str, topic: str) -> None:
    wanted = ["%s=%s" % (name, value.decode()) for name, value in HEADERS]
    send(bootstrap, topic, [b"v"], *[word for each in wanted for word in ("-H", each)])
    same(read(bootstrap, topic, 1)[0].headers, ",".join(wanted))


def timestamps(bootstrap: str, topic: str) -> None:
    raise NotSupported("the client lets nobody give a timestamp")


def codecs(bootstrap: str, topic: str) -> str:
    names = ["gzip", "snappy", "lz4", "zstd"]
    for name in names:
        send(bootstrap, topic, VALUES, "-z", name)
    same(values_of(read(bootstrap, topic, COUNT * len(names))), VALUES * len(names))
    return ", ".join(names)


def idempotent(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, VALUES, "-X", "enable.idempotence=true")
    same(values_of(read(bootstrap, topic, COUNT)), VALUES)


def _ends_at(bootstrap: str, topic: str, offset: int) -> bool:
    return _end_of(bootstrap, topic) == offset


def transactions(bootstrap: str, topic: str) -> None:
    """A run is a transaction: the end of its input commits it, a signal aborts it."""
    how = ["-P", "-t", topic, "-p", "0", "-X", "transactional.id=" + topic]
    for number in range(4):
        pair = b"%d\n" % number * 2
        if not number % 2:
            run(bootstrap, *how, given=pair)
            continue
        with subprocess.Popen(command(bootstrap, *how), stdin=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
            assert writer.stdin is not None
            writer.stdin.write(pair + UNENDED)
            writer.stdin.flush()
            until(partial(_ends_at, bootstrap, topic, 3 * number + 2), "both records")
            writer.send_signal(signal.SIGTERM)
            writer.stdin.close()
            assert writer.wait(30) is not None
    every = ["0", "0", "1", "1", "2", "2", "3", "3"]
    found = read(bootstrap, topic, 8, *UNCOMMITTED)
    same([each.value.decode() for each in found], every)
    found = read(bootstrap, topic, 4, "-X", "isolation.level=read_committed")
    same([each.value.decode() for each in found], ["0", "0", "2", "2"])


def _end_of(bootstrap: str, topic: str) -> int:
    return _offset(bootstrap, topic, -1)


def _offset(bootstrap: str, topic: str, at: int) -> int:
    said = run(bootstrap, "-Q", *UNCOMMITTED, "-t", "%s:0:%d" % (topic, at)).decode()
    return int(said.rpartition("offset ")[2])


class Member:
    """A consumer of a group in a process of its own; which partitions it has, it says on standard error."""

    def __init__(self, bootstrap: str, topic: str, *more: str) -> None:
        words = command(bootstrap, "-u", "-E", "-G", topic, *EARLIEST, *more, topic)
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)
        self.partitions = -1
        self.lines: list[str] = []
        self.said = ""
        for listen in (self._records, self._news):
            threading.Thread(target=listen, daemon=True).start()

    def _records(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def _news(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if "rebalanced" in line:
                self.partitions = len(re.findall(r"\[\d+\]", line)) if "assigned" in line else 0

    def leave(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


def group(bootstrap: str, topic: str) -> None:
    _group(bootstrap, topic, "-X", "heartbeat.interval.ms=300", "-X", "session.timeout.ms=10000")


def next_group(bootstrap: str, topic: str) -> None:
    run(bootstrap, "-L", "-t", topic, "-X", "group.protocol=consumer")  # says so if it knows of none
    _group(bootstrap, topic, "-X", "group.protocol=consumer")


def _group(bootstrap: str, topic: str, *more: str) -> None:
    first = Member(bootstrap, topic, *more)
    until(lambda: first.partitions == 4, "the first member has four partitions")
    second = Member(bootstrap, topic, *more)
    until(lambda: (first.partitions, second.partitions) == (2, 2), "two partitions each")
    first.leave()
    until(lambda: second.partitions == 4, "the second member has four partitions")
    second.leave()


def commit(bootstrap: str, topic: str) -> None:
    """It commits what it has printed when it ends."""
    send(bootstrap, topic, VALUES)
    how = ["-q", *EARLIEST]
    said = run(bootstrap, *how, "-c", "30", "-G", topic, topic)
    same(said.splitlines(), VALUES[:30])
    same(run(bootstrap, *how, "-c", str(COUNT - 30), "-G", topic, topic).splitlines(), VALUES[30:])


def seek(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, VALUES[:5])
    time.sleep(0.05)
    between_ms = int(time.time() * 1000)
    time.sleep(0.05)
    send(bootstrap, topic, VALUES[5:10])
    same([_offset(bootstrap, topic, at) for at in (between_ms, -2, -1)], [5, 0, 10])
    same(values_of(read(bootstrap, topic, 5, "-o", "s@%d" % between_ms)), VALUES[5:10])


def admin(bootstrap: str, topic: str) -> None:
    raise NotSupported("the client has no administration")


def large(bootstrap: str, topic: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, str(number)) for number in range(len(LARGE))]
        for file, value in zip(files, LARGE, strict=True):
            file.write_bytes(value)
        run(bootstrap, "-P", "-t", topic, "-p", "0", *map(str, files))
    same(values_of(read(bootstrap, topic, len(LARGE))), LARGE)


def security(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, VALUES, *SECURE)
    same(values_of(read(bootstrap, topic, COUNT, *SECURE)), VALUES)


def restart(bootstrap: str, topic: str) -> None:
    """With `-E`, without which it ends at the first error."""
    words = command(bootstrap, "-P", "-E", "-u", "-t", topic, "-p", "0")
    with subprocess.Popen(words, stdin=subprocess.PIPE) as writer:
        assert writer.stdin is not None

        def write(values: Any) -> None:
            assert writer.stdin is not None
            writer.stdin.write(b"".join(value + b"\n" for value in values) + UNENDED)
            writer.stdin.flush()

        reader = Member(bootstrap, topic, "-X", "session.timeout.ms=10000")
        write(VALUES[:50])
        until(lambda: len(reader.lines) == 50, "half of the records")
        ask_for_restart()
        write([b"", *VALUES[50:]])
        writer.stdin.close()
        same(writer.wait(40), 0)
    wanted = {value.decode() for value in VALUES}
    until(lambda: wanted.issubset(reader.lines), "all records, " + reader.said[-200:])
    reader.leave()


main(
    {
        each.__name__: each
        for each in (
            connect, produce, records, headers, timestamps, codecs, idempotent, transactions, group, next_group,
            commit, seek, admin, large, security, restart,
        )
    }
)  # fmt: skip
