"""A read-process-write loop goes on while the brokers of a cluster are killed in turn.

Rule: what went in comes out once. Whoever dies coordinates the group or the transactions now and then, and leads
partitions of the input, of the output and of what the coordinators keep.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.cluster_load import MARKERS_S
from interop.kafka_cluster import OURS, THEIRS, KafkaCluster, Kind
from interop.waiting import eventually

RECORDS, PARTITIONS, AT_ONCE = 240, 3, 10
DOWN_S, UP_S = 7.0, 5.0  # longer than a session
PAUSE_S = 0.5  # between transactions, so that the loop outlasts the kills
LIMIT_S = 150.0
ANSWER_WITHIN_S = 20.0
CONFIG = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "3000",
}


@pytest.fixture(
    params=[
        pytest.param([OURS, OURS, OURS], id="ours"),
        pytest.param([OURS, THEIRS, OURS], id="mixed", marks=pytest.mark.java),
    ]
)
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    kinds: Sequence[Kind] = request.param
    with KafkaCluster(controllers=[OURS], brokers=kinds, config=CONFIG) as cluster:
        yield cluster


def fill(cluster: KafkaCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})  # must outlive the waits for answers
    for each in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in ("in", "out")]).values():
        each.result(30)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce("in", str(number), partition=number % PARTITIONS)
    assert producer.flush(60) == 0


class Loop:
    """A loop that reads, writes, and commits both in one transaction.

    A failed step is repeated from the offsets committed last, and so is a call that never returns: librdkafka may wait
    for ever for a group's coordinator that was missing from the metadata for a while, whatever limit it was given (its
    issues 5511 and 5456).
    """

    def __init__(self, cluster: KafkaCluster) -> None:
        servers = {"bootstrap.servers": cluster.bootstrap_servers}
        self._producer_settings = {**servers, "transactional.id": "loop", "transaction.timeout.ms": 20_000}
        settings = {"group.id": "loop", "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**servers, **settings, "enable.auto.commit": False, "session.timeout.ms": 10_000})
        self._consumer.subscribe(["in"])
        self._producer = self._new_producer()
        self.done = 0

    def _new_producer(self) -> Producer:
        producer = Producer(self._producer_settings)
        producer.init_transactions(60)
        return producer

    def close(self) -> None:
        self._consumer.close()

    def step(self) -> None:
        """Copy some records in one transaction, if there are any now."""
        found = [each for each in self._consumer.consume(AT_ONCE, 1) if each.error() is None]
        if not found:
            return
        try:
            self._producer.begin_transaction()
            for message in found:
                self._producer.produce("out", message.value(), partition=message.partition() or 0)
            behind, group, producer = _behind(found), self._consumer.consumer_group_metadata(), self._producer
            _in_time(lambda: producer.send_offsets_to_transaction(behind, group, ANSWER_WITHIN_S))
            self._producer.commit_transaction(60)
            self.done += len(found)
        except (KafkaException, TimeoutError) as failure:
            self._recover(failure)

    def _recover(self, failure: KafkaException | TimeoutError) -> None:
        if isinstance(failure, KafkaException) and failure.args[0].txn_requires_abort():
            self._producer.abort_transaction(60)
        else:
            self._producer = self._new_producer()
        places = self._consumer.committed([TopicPartition("in", number) for number in range(PARTITIONS)], 60)
        ends = {place.partition: max(place.offset, 0) for place in places}
        self.done = sum(ends.values())  # a commit without an answer may have succeeded
        for place in self._consumer.assignment():
            self._consumer.seek(TopicPartition("in", place.partition, ends[place.partition]))


def _in_time(call: Callable[[], None]) -> None:
    """Run a call with a limit, in a thread of its own.

    Raises the call's exception, or TimeoutError when the call is still running long after it should have returned. The
    call then goes on by itself, and a new producer of the same transactional id fences its producer.
    """
    outcome: Future[None] = Future()

    def run() -> None:
        try:
            call()
            outcome.set_result(None)
        except KafkaException as failure:
            outcome.set_exception(failure)

    threading.Thread(target=run, daemon=True).start()
    outcome.result(ANSWER_WITHIN_S + 5)


def _behind(messages: Sequence[Message]) -> list[TopicPartition]:
    ends = {message.partition(): (message.offset() or 0) + 1 for message in messages}
    return [TopicPartition("in", partition, offset) for partition, offset in ends.items() if partition is not None]


def written(cluster: KafkaCluster) -> list[int]:
    """Return all committed values of the output."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    places = [TopicPartition("out", number, 0) for number in range(PARTITIONS)]
    consumer.assign(places)
    values: list[int] = []
    ended: set[int | None] = set()
    deadline = time.monotonic() + 60
    while len(ended) < PARTITIONS and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            values.append(int(message.value() or b""))
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    consumer.close()
    assert len(ended) == PARTITIONS
    return sorted(values)


def kill_in_turn(cluster: KafkaCluster) -> None:
    """Kill and start one broker after the other, for fixed times.

    A client of librdkafka waits until the coordinator that it has found is back, although another broker coordinates
    the group meanwhile.
    """
    for victim in cluster.brokers:
        victim.kill()
        time.sleep(DOWN_S)
        victim.start()
        time.sleep(UP_S)


def test_what_goes_in_comes_out_once(cluster: KafkaCluster) -> None:
    fill(cluster)
    loop = Loop(cluster)
    with ThreadPoolExecutor(1) as pool:
        killer = pool.submit(kill_in_turn, cluster)
        try:
            deadline = time.monotonic() + LIMIT_S
            while loop.done < RECORDS:
                assert time.monotonic() < deadline, f"{loop.done} of {RECORDS} are done"
                loop.step()
                time.sleep(PAUSE_S)
        finally:
            loop.close()
            killer.result()
    eventually(partial(written, cluster), list(range(RECORDS)), MARKERS_S)  # markers are written after the answer
