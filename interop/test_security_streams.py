"""Kafka Streams under ACLs: with the ACLs of its documentation it runs, and without one it ends with the reason."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from interop.secured_targets import SecuredTarget, secured
from interop.test_transactions_streams import INPUT, OUTPUT, WordCount
from pykafka_broker.config.properties import format_properties
from pykafka_broker.testing import KafkaBroker

pytestmark = pytest.mark.java

APPLICATION = "streams-wordcount"  # the example's application.id: of its group, its topics and its transactions
NEEDED = [
    f"streams may read and describe topic {INPUT}",
    f"streams may write and describe topic {OUTPUT}",
    f"streams may all topic {APPLICATION}-KSTREAM*",
    f"streams may read, describe and delete group {APPLICATION}",
    f"streams may write and describe transactional-id {APPLICATION}-*",
    "streams may describe and idempotent-write cluster",
]


CONFIG = {"group.min.session.timeout.ms": "500"}  # the application's sessions are short


@pytest.fixture
def started() -> Iterator[list[WordCount]]:
    apps: list[WordCount] = []
    yield apps
    for app in apps:
        app.kill()


def run(broker: SecuredTarget, directory: Path, started: list[WordCount]) -> WordCount:
    config = broker.client_config("java", "streams")
    escaped = dict(line.split("=", 1) for line in format_properties(config).splitlines())
    app = WordCount(escaped.pop("bootstrap.servers"), directory, escaped)
    started.append(app)
    producer = Producer(broker.client_config("confluent", "admin"))
    producer.produce(INPUT, b"one two one")
    producer.produce(OUTPUT, b"\0" * 8)  # it is not for the application to make it
    assert producer.flush(60) == 0
    app.start()
    return app


def test_word_count_runs_with_the_rights_it_needs(target_name: str, tmp_path: Path, started: list[WordCount]) -> None:
    acls = [*NEEDED, "admin may do anything"]
    with secured(target_name, "sasl_ssl", CONFIG, users=["admin", "streams"], acls=acls) as broker:
        app = run(broker, tmp_path, started)
        consumer = Consumer(
            broker.client_config("confluent", "admin") | {"group.id": "reader", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([OUTPUT])
        counts: Counter[str] = Counter()
        deadline = time.monotonic() + 120
        while counts != Counter(one=2, two=1) and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None and message.key():
                counts[(message.key() or b"").decode()] = int.from_bytes(message.value() or b"", "big")
        consumer.close()
        assert counts == Counter(one=2, two=1), app.log


@pytest.mark.ours_only
def test_it_is_told_which_topic_it_may_not_read(tmp_path: Path, started: list[WordCount]) -> None:
    rights = [each for each in NEEDED if INPUT not in each]
    acls = [*rights, f"streams may describe topic {INPUT}", "admin may do anything"]
    with KafkaBroker(CONFIG, security="sasl_plaintext", users=["admin", "streams"], acls=acls) as broker:
        run(broker, tmp_path, started)
        broker.wait_for_request(topic=INPUT, principal="User:streams", error="TOPIC_AUTHORIZATION_FAILED", timeout=120)
        assert "Principal = User:streams is Denied operation = READ" in broker.log
