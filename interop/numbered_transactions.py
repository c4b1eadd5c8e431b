"""Transactions whose outcome is known, for tests that kill the broker. Rule: each writes the next numbers to every
partition of every topic and the next offset of one group; one in three is aborted. What the broker did not answer for
is noted as open: a reader has to see all of it or nothing.
"""

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import count
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from interop.crew import COMES_BACK
from interop.numbered import PARTITIONS, Partitions, check_once_in_order, read_all
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records

RECORDS = 6  # the records of one transaction in each topic
ABORTED_OF = 3
ANSWER_WITHIN_S = 10
STANDS_STILL_S = 30


class NumberedTransactions:
    """A transactional producer in a thread of its own; when it can't go on, the next one takes over its id.

    The next producer also takes over when no transaction ends for long: librdkafka 2.16 forgets its requests to a
    coordinator that has left the cluster (its issue 5511), and then waits for ever, whatever limit a call has.
    """

    def __init__(self, bootstrap: str, topics: Iterable[str], name: str, pause_s: float = 0.002) -> None:
        self._pause_s = pause_s
        self._bootstrap, self._topics, self._name = bootstrap, list(topics), name
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self.open: set[int] = set()
        self.given_up: list[str] = []  # why producers ended, for the report of a failure
        self._stop = threading.Event()
        self._numbers = count()
        self._moved = 0.0
        self._life: threading.Thread | None = None  # the thread of the current producer
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Stop after the transaction that is under way."""
        self._stop.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), f"a transaction never ends; before it: {self.given_up[-3:]}"

    def _producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": self._name,
                "transaction.timeout.ms": 60_000,
                "linger.ms": 1,
                "log_level": 0,
                "reconnect.backoff.ms": 20,
                "retry.backoff.ms": 20,
                **COMES_BACK,
            }
        )

    def _run(self) -> None:
        while not self._stop.is_set():
            self._moved = time.monotonic()
            self._life = life = threading.Thread(target=self._live, daemon=True)
            life.start()
            while self._life is life and life.is_alive():
                time.sleep(0.02)
                if time.monotonic() > self._moved + STANDS_STILL_S:
                    self._life = None
                    self.given_up.append("it stood still")

    @property
    def _counts(self) -> bool:
        return threading.current_thread() is self._life

    def _live(self) -> None:
        """Run one producer from its start to its end."""
        producer = self._producer()
        try:
            producer.init_transactions(ANSWER_WITHIN_S)
            self._serve(producer)
        except KafkaException as error:
            if self._counts:
                self.given_up.append(str(error))
        if self._counts:
            self._life = None  # the next producer begins at once: closing this one may take for ever

    def _serve(self, producer: Producer) -> None:
        group = {"bootstrap.servers": self._bootstrap, "group.id": self._name, "log_level": 0}
        with closing(Consumer(group)) as consumer:
            for number in self._numbers:
                self.open.add(number)
                self._one(producer, consumer, number)
                self._moved = time.monotonic()
                self._stop.wait(self._pause_s)
                if self._stop.is_set() or not self._counts:
                    return

    def _one(self, producer: Producer, consumer: Consumer, number: int) -> None:
        """Do one transaction; raise if the producer can't go on and the transaction stays open."""
        producer.begin_transaction()
        try:
            for place in range(number * RECORDS, (number + 1) * RECORDS):
                for topic in self._topics:
                    producer.produce(topic, b"%d" % place, partition=place % PARTITIONS)
            offset = [TopicPartition(self._topics[0], 0, number)]
            producer.send_offsets_to_transaction(offset, consumer.consumer_group_metadata(), ANSWER_WITHIN_S)
            if number % ABORTED_OF:
                _until_told(producer.commit_transaction)
                self._note(number, self.committed)
                return
            producer.flush(ANSWER_WITHIN_S)  # librdkafka drops unsent records, and then misses their sequence numbers
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        _until_told(producer.abort_transaction)
        self._note(number, self.aborted)

    def _note(self, number: int, outcome: set[int]) -> None:
        if self._counts:
            outcome.add(number)
            self.open.discard(number)

    def check(self) -> None:
        """Check that committed transactions are read, aborted ones are not, and open ones are read whole or not at all.

        A producer that was given up may have left a transaction whose markers are on their way to one partition after
        the other. Until another producer may begin, a reader of one partition after the other may see a part of it.
        """
        assert self.committed, f"no transaction was committed: {self.given_up[-3:]}"
        _until_told(self._producer().init_transactions)
        for topic in self._topics:
            found: Partitions = read_all(self._bootstrap, topic, isolation_level="read_committed")
            check_once_in_order(found)
            places = {number for log in found for _, number in log}
            seen = {place // RECORDS for place in places}
            torn = [number for number in seen if not places.issuperset(places_of(number))]
            assert not torn, f"transactions of which only a part is there: {torn[:5]}"
            lost = self.committed - seen
            assert not lost, f"{len(lost)} of {len(self.committed)} committed transactions are lost: {sorted(lost)[:5]}"
            assert not seen & self.aborted, "a transaction that was aborted is read"
        with closing(Consumer({"bootstrap.servers": self._bootstrap, "group.id": self._name})) as consumer:
            [offset] = consumer.committed([TopicPartition(self._topics[0], 0)], timeout=20)
        last = max(self.committed)
        possible = {last} | {number for number in self.open if number > last}
        assert offset.offset in possible, f"the group's offset is {offset.offset}, and not one of {possible}"


def places_of(number: int) -> range:
    return range(number * RECORDS, (number + 1) * RECORDS)


def _until_told(end: Callable[[float], object]) -> None:
    """Repeat what ends a transaction until the broker has answered: a time-out says nothing about the outcome."""
    while True:
        try:
            end(ANSWER_WITHIN_S)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def check_markers(data_dir: Path, topic: str) -> None:
    """Check the markers in every partition of the topic (`check_markers_in`)."""
    for partition in range(PARTITIONS):
        check_markers_in(data_dir / f"{topic}-{partition}")


def check_markers_in(folder: Path) -> None:
    """Check that each transaction has a marker of its own in each partition.

    Readers do not notice a missing marker as long as the next transaction ends in the same way.
    """
    last = None  # the transaction whose records came last, none behind a marker
    for path in sorted(folder.glob("*.log")):
        for header, batch in iter_batches(path.read_bytes()):
            if header.is_control:
                last = None
                continue
            for record in iter_records(batch, header):
                number = int(bytes(record.value or b"")) // RECORDS
                assert last in (None, number), f"{path}: no marker between transactions {last} and {number}"
                last = number
