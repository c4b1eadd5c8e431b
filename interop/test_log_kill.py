"""kill -9 in the middle of load, ten times in a row (five hundred with --slow), while segments roll, old ones go,
others are compacted, transactions commit and abort, and groups read and commit: every acknowledged record, commit and
transaction is there afterwards, once, in order, and the files are in order.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from interop.conftest import NewBroker
from interop.crew import Crew, one_of_each
from interop.numbered import (
    PARTITIONS,
    NumberedProducer,
    Partitions,
    Place,
    check_no_gaps,
    check_once_in_order,
    check_places,
    create,
    key_of,
    read_all,
)
from interop.numbered_offsets import NumberedOffsets
from interop.numbered_transactions import NumberedTransactions, check_markers
from interop.targets import Target
from interop.waiting import eventually
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.tool.verify import verify
from pykafka_broker.testing import BrokerError, KafkaBroker

KILLS = 10
LOAD_S = 0.2
STARTS_KILLED_OF = 10  # one of so many starts is killed too
START_S = 0.4
SESSION_MS = 45_000  # long enough that no member is thrown out while there is no broker
TRANSACTIONS_AWAITED_OF = 2
VERIFIED_OF = 10  # the files are checked once after so many kills
BURST = 10
NEW_PRODUCER_EVERY = 10
ROLLING = {"segment.ms": 100}
TOPICS: dict[str, Mapping[str, object]] = {
    "plain": {},
    "idempotent": {},
    "rolling": ROLLING,
    "retained": {**ROLLING, "retention.bytes": 100_000},
    "compacted": {**ROLLING, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01},
}
BUSY = {  # upkeep every tenth of a second instead of every few minutes, so that kills interrupt it
    "log.retention.check.interval.ms": 50,
    "log.segment.delete.delay.ms": 50,
    "log.cleaner.backoff.ms": 50,
    "log.flush.interval.ms": 500,
    "log.flush.scheduler.interval.ms": 100,
    "log.flush.offset.checkpoint.interval.ms": 100,
    "log.flush.start.offset.checkpoint.interval.ms": 100,
}
TRANSACTIONAL = ["transactions-a", "transactions-b"]
OFFSETS = "offsets"
Acknowledged = dict[str, dict[int, Place]]


def check_retained(found: Partitions, acknowledged: dict[int, Place]) -> None:
    """Check that retention has deleted the oldest records only, and that the rest is complete and in order."""
    check_once_in_order(found)
    check_no_gaps(found)
    first = [log[0][0] for log in found]
    assert max(first) > 0, "nothing was deleted"
    check_places(found, {number: place for number, place in acknowledged.items() if place[1] >= first[place[0]]})


def check_compacted(found: Partitions, acknowledged: dict[int, Place]) -> None:
    """Check that the last record of each key is there, and no record that was not written."""
    check_once_in_order(found)
    last = {key_of(number): number for number in sorted(acknowledged)}
    check_places(found, {number: acknowledged[number] for number in last.values()})
    assert all(acknowledged.get(number) == (p, offset) for p, log in enumerate(found) for offset, number in log)
    assert sum(map(len, found)) < len(acknowledged), "nothing was compacted"


@dataclass
class Tally:
    """The numbers of kills, and of records, transactions and commits that were acknowledged and found again."""

    kills: int = 0
    records: int = 0
    transactions: int = 0
    aborted: int = 0
    commits: int = 0
    read_by_group: int = 0

    def add(self, other: "Tally") -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


class Load:
    """The clients that run while the broker is killed again and again."""

    def __init__(self, broker: Target, files: Path, stack: ExitStack) -> None:
        self._broker, self._where = broker, broker.bootstrap_servers
        create(self._where, {**TOPICS, **{topic: {} for topic in (*TRANSACTIONAL, OFFSETS)}})
        self._acknowledged: Acknowledged = {topic: {} for topic in TOPICS}
        self._next_plain = 0
        self._safe: NumberedProducer | None = None
        self.transactions = NumberedTransactions(self._where, TRANSACTIONAL, "transactions")
        self.offsets = NumberedOffsets(self._where, OFFSETS)
        self.crew = stack.enter_context(Crew(self._where, "crew", files))
        for kind in one_of_each(SESSION_MS):
            self.crew.start(kind)
        self.crew.await_shares()
        for load in (self.transactions, self.offsets):
            load.start()
            stack.callback(load.finish)  # also when the test fails

    def one_kill(self, turn: int) -> None:
        # The first never sends anything twice, so nothing may be there twice; the second goes on after the restart with
        # what was in flight, and the broker must know which of it is there already.
        plain = NumberedProducer(self._where, ["plain"], self._next_plain, burst=BURST, retries=0)
        if self._safe is None or turn % NEW_PRODUCER_EVERY == 0:
            others = [topic for topic in TOPICS if topic != "plain"]
            first = self._safe.sent if self._safe else 0
            self._safe = NumberedProducer(self._where, others, first, burst=BURST, enable_idempotence=True)
        safe = self._safe
        before = len(safe.acknowledged["rolling"])
        plain.resume()
        safe.resume()
        time.sleep(LOAD_S)
        if turn % TRANSACTIONS_AWAITED_OF == 0:
            self._await_transactions()
        self._broker.kill()
        plain.pause()
        safe.pause()
        plain.abandon()
        if turn % VERIFIED_OF == 0:
            check_files(self._broker)
        if turn % STARTS_KILLED_OF == 5:
            kill_a_start(self._broker, random.Random(turn).uniform(0, START_S))
        self._broker.restart()
        self.crew.replace_the_dead()
        safe.finish()
        self._next_plain = plain.sent
        for producer in (plain, safe):
            self._note(producer)
        assert len(safe.acknowledged["rolling"]) > before, "no load came through in this round"

    def _note(self, producer: NumberedProducer) -> None:
        for topic, places in producer.acknowledged.items():
            self._acknowledged[topic] |= places

    def _await_deletion(self, safe: NumberedProducer) -> None:
        """Write on until retention deletes: a slow machine has written little between the kills."""
        safe.resume()
        eventually(lambda: is_trimmed(self._where, "retained"), True)
        safe.pause()
        safe.finish()
        self._note(safe)

    def _await_transactions(self) -> None:
        """Wait until transactions go on: a client waits half a second before it looks for its coordinator again."""
        before = len(self.transactions.committed)
        eventually(lambda: len(self.transactions.committed) > before, True, 120)

    def finish(self, kills: int) -> Tally:
        """Check that everything acknowledged is there, and stop the broker; return the numbers."""
        assert self._safe is not None
        self.transactions.finish()
        self.offsets.finish()
        self.crew.finish(120)
        self._await_deletion(self._safe)
        self.transactions.check()
        self.offsets.check()
        check(self._where, self._acknowledged, self._safe.sent)
        self._broker.stop()
        assert not left_over(self._broker.data_dir), "a temporary file of a killed broker is still there"
        check_files(self._broker)
        if isinstance(self._broker, KafkaBroker):
            for topic in TRANSACTIONAL:
                check_markers(self._broker.data_dir, topic)
        assert self.offsets.commits
        return Tally(
            kills,
            sum(map(len, self._acknowledged.values())),
            len(self.transactions.committed),
            len(self.transactions.aborted),
            self.offsets.commits,
            len(self.crew.seen),
        )


def is_trimmed(where: str, topic: str) -> bool:
    """Return whether the oldest records of any partition are gone."""
    consumer = Consumer({"bootstrap.servers": where, "group.id": "unused"})
    try:
        starts = [consumer.get_watermark_offsets(TopicPartition(topic, each), 20)[0] for each in range(PARTITIONS)]
    finally:
        consumer.close()
    return max(starts) > 0


def kill_a_start(broker: Target, after_s: float) -> None:
    """Kill a starting broker, which may still be recovering from the kill before."""
    if not isinstance(broker, KafkaBroker):
        return

    def kill() -> None:
        if broker.running:
            os.kill(broker.pid, signal.SIGKILL)

    timer = threading.Timer(after_s, kill)
    timer.start()
    with suppress(BrokerError):
        broker.start()
    timer.join()
    broker.kill()


def check_files(broker: Target) -> None:
    """Check that no file of the broker is damaged, except as a start mends by itself, such as a torn end."""
    if isinstance(broker, KafkaBroker):
        damage = [row for row in verify(OsFileSystem(), str(broker.data_dir)) if row["type"] == "error"]
        assert not damage, f"{len(damage)} files are damaged: {damage[:5]}"


def run_and_kill(new_broker: NewBroker, kills: int, files: Path) -> Tally:
    broker = new_broker(**{name.replace(".", "_"): value for name, value in BUSY.items()})
    with ExitStack() as stack:
        load = Load(broker, files, stack)
        for turn in range(kills):
            load.one_kill(turn)
        return load.finish(kills)


def check(where: str, acknowledged: Acknowledged, sent: int) -> None:
    assert acknowledged["plain"], "the plain producer had nothing acknowledged"
    for topic, places in acknowledged.items():
        assert topic == "plain" or len(places) == sent, "an idempotent producer gave records up"
        found = read_all(where, topic)
        if topic == "retained":
            check_retained(found, places)
        elif topic == "compacted":
            check_compacted(found, places)
        else:
            check_places(found, places)
            check_once_in_order(found)
            check_no_gaps(found)


def left_over(data_dir: Path) -> list[str]:
    return [path.name for path in data_dir.rglob("*") if path.suffix in {".tmp", ".cleaned", ".swap"}]


@pytest.mark.one_broker("all groups are asked of it, and its files are looked at; several have their chaos")
@pytest.mark.timeout(7200)
def test_kills_in_the_middle_of_load(new_broker: NewBroker, target_name: str, slow: bool, tmp_path: Path) -> None:
    total = Tally()
    ours = target_name == "pykafka"
    for number in range(25 if slow and ours else 1):
        files = tmp_path / str(number)
        files.mkdir()
        total.add(run_and_kill(new_broker, KILLS if ours else 2, files))
    print(total)
