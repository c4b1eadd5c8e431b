"""Kafka Streams with exactly_once_v2: the word count of its examples, killed in the middle, and its broker too."""

import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.conftest import NewBroker
from interop.jars import streams_jars
from interop.java import QUICK_JVM, java_command
from pykafka_broker.config.properties import format_properties

pytestmark = pytest.mark.java

WORDS = ["one", "two", "three", "four", "five", "six", "seven"]
INPUT, OUTPUT = "streams-plaintext-input", "streams-wordcount-output"
PARTITIONS = 2
LINES_PER_ROUND = 400


class WordCount:
    """A process of `WordCountDemo`."""

    def __init__(self, bootstrap: str, directory: Path, more: Mapping[str, str] | None = None) -> None:
        """more: further settings, such as those of security."""
        classpath = os.environ.get("KAFKA_STREAMS_JARS") or str(streams_jars())
        self._properties = directory / "streams.properties"
        settings = {
            "bootstrap.servers": bootstrap,
            "processing.guarantee": "exactly_once_v2",
            "state.dir": directory / "state",
            "commit.interval.ms": 50,
            "session.timeout.ms": 2_000,
            "heartbeat.interval.ms": 300,
            **(more or {}),
        }
        self._properties.write_text(format_properties({key: str(value) for key, value in settings.items()}))
        self._command = java_command(
            *QUICK_JVM,
            *("-Xmx256m", "-cp", f"{classpath}/*"),
            *("org.apache.kafka.streams.examples.wordcount.WordCountDemo", str(self._properties)),
        )
        self._log = directory / "streams.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def log(self) -> str:
        return self._log.read_text()[-3_000:] if self._log.exists() else ""


class Counts:
    """The newest count of each word that a read_committed reader has seen in the output."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed"}
        )
        self._consumer.assign([TopicPartition(OUTPUT, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        self.newest: Counter[str] = Counter()
        self.rises = True

    def read(self) -> None:
        for message in self._consumer.consume(1_000, timeout=0.2):
            if not message.error():
                word, count = (message.key() or b"").decode(), int.from_bytes(message.value() or b"", "big")
                self.rises = self.rises and count > self.newest[word]
                self.newest[word] = count

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def word_count(request: pytest.FixtureRequest) -> Iterator[list[WordCount]]:
    started: list[WordCount] = []
    yield started
    for each in started:
        each.kill()


def test_every_word_is_counted_once(new_broker: NewBroker, tmp_path: Path, word_count: list[WordCount]) -> None:
    broker = new_broker(group_min_session_timeout_ms=500)
    where = broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": where})
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in (INPUT, OUTPUT)]).values():
        future.result(60)
    app = WordCount(where, tmp_path)
    word_count.append(app)
    producer = Producer({"bootstrap.servers": where, "enable.idempotence": True})
    counts = Counts(where)
    dice = random.Random(7)
    expected: Counter[str] = Counter()

    def feed() -> None:
        for _ in range(LINES_PER_ROUND):
            line = dice.choices(WORDS, k=5)
            expected.update(line)
            producer.produce(INPUT, " ".join(line).encode(), partition=dice.randrange(PARTITIONS))
        assert producer.flush(60) == 0

    def await_counts(done: Counter[str], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while counts.newest != done and time.monotonic() < deadline:
            counts.read()

    feed()
    app.start()
    await_counts(expected, 120)
    assert counts.newest == expected, app.log
    for _ in range(2):
        feed()
        time.sleep(dice.uniform(0.02, 0.1))
        app.kill()
        feed()
        app.start()
        await_counts(expected, 120)
        assert counts.newest == expected, app.log
    feed()
    broker.kill()
    broker.restart()
    feed()
    await_counts(expected, 120)
    counts.close()
    assert counts.newest == expected, app.log
    assert counts.rises, "a count came twice or fell back"
