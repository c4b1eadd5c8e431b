"""Exactly once: a transactional copy whose every part is killed again and again. Each input is in the output once."""

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.conftest import NewBroker
from interop.copier_process import CopierProcess
from interop.group_view import log_ends
from interop.waiting import eventually

PARTITIONS = 3
RECORDS = 9_000
PAUSE_MS = 30
COPIER_KILLS = 20
BROKER_KILLS = 5


def read(bootstrap: str, isolation_level: str, enough: Callable[[Counter[bytes]], bool]) -> Counter[bytes]:
    """Return the values in the output once there are enough, with those that come in the second after that."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": isolation_level})
    consumer.assign([TopicPartition("output", partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    seen: Counter[bytes] = Counter()
    while not enough(seen):
        seen.update(m.value() or b"" for m in consumer.consume(5_000, timeout=0.2) if not m.error())
    for _ in range(5):
        seen.update(m.value() or b"" for m in consumer.consume(5_000, timeout=0.2) if not m.error())
    consumer.close()
    return seen


def fill(bootstrap: str) -> list[bytes]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in ("input", "output")]).values():
        future.result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    values = [b"%d" % number for number in range(RECORDS)]
    for number, value in enumerate(values):
        producer.produce("input", value, partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    return values


def test_each_input_exactly_once(new_broker: NewBroker, tmp_path: Path) -> None:
    broker = new_broker()
    where = broker.bootstrap_servers
    values = fill(where)
    copier = CopierProcess(where, "input", "output", tmp_path / "copier.log")
    dice = random.Random(4)
    try:
        for turn in range(COPIER_KILLS):
            copier.start(PAUSE_MS)
            await_more(where, copier)
            time.sleep(dice.uniform(0, 0.2))
            if turn % (COPIER_KILLS // BROKER_KILLS) == 3:
                broker.kill()
                broker.restart()
                time.sleep(dice.uniform(0.1, 0.5))
            copier.kill()
        copier.start(0)
        seen = await_copies(where, copier)
    finally:
        copier.kill()
    expected = Counter({b"copy of " + value: 1 for value in values})
    log = copier.log[-3_000:]
    missing, surplus = expected - seen, seen - expected
    assert not missing, f"{len(missing)} inputs are missing, such as {list(missing)[:5]}\n{log}"
    assert not surplus, f"{surplus.total()} copies are too many, such as {list(surplus)[:5]}\n{log}"
    everything = read(where, "read_uncommitted", lambda found: len(found) >= RECORDS)
    assert everything.total() > RECORDS, "no kill came in the middle of a transaction"


def await_more(bootstrap: str, copier: CopierProcess) -> None:
    """Wait until the copier has written something, or may have written all: a kill before its first copy is none."""

    def end() -> int:
        return sum(log_ends(bootstrap, "output", PARTITIONS).values())

    def has_copied() -> bool:
        copier.ensure_running()
        return end() > before

    before = min(end(), RECORDS - 1)
    eventually(has_copied, True)


def await_copies(bootstrap: str, copier: CopierProcess) -> Counter[bytes]:
    deadline = time.monotonic() + 90

    def enough(found: Counter[bytes]) -> bool:
        copier.ensure_running()
        return len(found) >= RECORDS or time.monotonic() > deadline

    return read(bootstrap, "read_committed", enough)
