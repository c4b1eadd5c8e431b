"""Kafka Streams 4.3 with group.protocol=streams (KIP-1071): the word count of its examples, by two instances that come
and go, and its tool kafka-streams-groups.
"""

import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.conftest import NewBroker
from interop.java_tools import JavaTools
from interop.targets import Target
from interop.test_transactions_streams import INPUT, OUTPUT, PARTITIONS, WORDS, Counts, WordCount
from interop.waiting import eventually
from pykafka_broker.config.properties import format_properties

pytestmark = pytest.mark.java

GROUP = "streams-wordcount"  # the application.id of the example
REPARTITION = f"{GROUP}-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition"
CHANGELOG = f"{GROUP}-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog"
LINES = 300
TIMEOUT_S = 90


class Instance(WordCount):
    """A process of `WordCountDemo` in a streams group, with a port for queries, so that the group has endpoints."""

    def __init__(self, bootstrap: str, directory: Path, port: int, guarantee: str) -> None:
        directory.mkdir()
        super().__init__(bootstrap, directory)
        settings = {
            "bootstrap.servers": bootstrap,
            "group.protocol": "streams",
            "processing.guarantee": guarantee,
            "state.dir": directory / "state",
            "commit.interval.ms": 50,
            "num.stream.threads": 2,
            "application.server": f"localhost:{port}",
        }
        self._properties.write_text(format_properties({key: str(value) for key, value in settings.items()}))

    def stop(self) -> None:
        """Stop the process as an operator does: it leaves the group."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(TIMEOUT_S)


class Application:
    """The input and output of the application, and the counts that are expected by now."""

    def __init__(self, broker: Target) -> None:
        self._where = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": self._where})
        for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in (INPUT, OUTPUT)]).values():
            future.result(20)
        self._producer = Producer({"bootstrap.servers": self._where, "enable.idempotence": True})
        self.counts = Counts(self._where)
        self.expected: Counter[str] = Counter()
        self._dice = random.Random(11)

    def feed(self) -> None:
        for _ in range(LINES):
            line = self._dice.choices(WORDS, k=5)
            self.expected.update(line)
            self._producer.produce(INPUT, " ".join(line).encode(), partition=self._dice.randrange(PARTITIONS))
        assert self._producer.flush(30) == 0

    def await_counts(self) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while self.counts.newest != self.expected and time.monotonic() < deadline:
            self.counts.read()
        assert self.counts.newest == self.expected


@pytest.fixture
def broker(new_broker: NewBroker) -> Target:
    """A broker whose streams groups notice soon that a member is gone, and keep a second copy of each state."""
    return new_broker(
        group_streams_min_session_timeout_ms=500,
        group_streams_session_timeout_ms=6_000,
        group_streams_min_heartbeat_interval_ms=100,
        group_streams_heartbeat_interval_ms=300,
        group_streams_num_standby_replicas=1,
    )


@pytest.fixture
def instances(broker: Target, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[list[Instance]]:
    guarantee = getattr(request, "param", "exactly_once_v2")
    made = [
        Instance(broker.bootstrap_servers, tmp_path / name, 7_000 + number, guarantee)
        for number, name in enumerate(("one", "two"))
    ]
    yield made
    for instance in made:
        instance.kill()


def internal_topics(broker: Target) -> dict[str, int]:
    """Return the number of partitions of each internal topic of the application."""
    topics = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=60).topics
    return {name: len(topic.partitions) for name, topic in topics.items() if name.startswith(f"{GROUP}-KSTREAM")}


def test_instances_come_and_go_and_so_does_the_broker(broker: Target, instances: list[Instance]) -> None:
    one, two = instances
    app = Application(broker)
    app.feed()
    one.start()
    app.await_counts()
    two.start()
    app.feed()
    app.await_counts()
    broker.kill()
    broker.restart()
    app.feed()
    app.await_counts()
    one.stop()
    app.feed()
    app.await_counts()
    one.start()
    app.feed()
    app.await_counts()
    two.kill()
    app.feed()
    app.await_counts()
    app.counts.close()
    assert app.counts.rises, "a count came twice or fell back"


@pytest.mark.parametrize("instances", ["at_least_once"], indirect=True)
def test_seen_by_the_tools(broker: Target, java: JavaTools, instances: list[Instance]) -> None:
    one, two = instances
    app = Application(broker)
    one.start()
    two.start()
    app.feed()
    app.await_counts()
    app.counts.close()

    def said(*arguments: str) -> str:
        done = java.run("kafka-streams-groups", "--bootstrap-server", broker.bootstrap_servers, *arguments)
        assert done.status == 0, done.out + done.err
        return done.out

    def shown(pattern: str, *arguments: str) -> None:
        """Wait until the tool prints this: the group rebalances again whenever an instance is ready for more."""
        eventually(lambda: re.search(pattern, said(*arguments), re.DOTALL) is not None, True, TIMEOUT_S)

    describe = ("--describe", "--group", GROUP)
    shown(GROUP, "--list", "--state", "Stable")
    shown(rf"{GROUP}\s+Stable", "--list", "--state")
    shown("Stable", *describe, "--state")
    shown("(?=.*ACTIVE).*STANDBY", *describe, "--members")
    shown(rf"(?=.*{INPUT}).*{REPARTITION}", *describe)
    assert internal_topics(broker) == {REPARTITION: PARTITIONS, CHANGELOG: PARTITIONS}
    one.stop()
    two.stop()
    eventually(lambda: "Empty" in said("--describe", "--group", GROUP, "--state"), True, TIMEOUT_S)
    scope = ("--reset-offsets", "--group", GROUP, "--input-topic", INPUT)
    assert re.search(rf"{INPUT}\s+[01]\s+0\b", said(*scope, "--to-earliest", "--dry-run"))
    said(*scope, "--to-earliest", "--execute")
    said("--delete-offsets", "--group", GROUP, "--input-topic", INPUT)
    said("--delete", "--group", GROUP, "--delete-all-internal-topics")
    assert GROUP not in said("--list")
    eventually(lambda: internal_topics(broker), {})
