"""The catalogue's applications as they run in production: with no fault of their own, and started again after an error.

Rule: an application is a function of a broker and `right`, and has the mistake of its name in
`broken_applications.py`. Without a fault both forms do what they should. Whatever a client raises ends the process; the
supervisor starts another one until the group has committed all orders. A client that should end its process with an
error makes a single attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as PythonError
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as Partition

from interop import broken_applications as broken
from interop.broken_applications import PATIENCE_S, bill, commit
from interop.fault_programs import StepFailed
from pykafka_broker.testing import KafkaBroker

ORDERS = 10
GROUP = "billing"
# A client that has lost a connection waits for seconds by default.
HASTE = {
    **dict.fromkeys(("reconnect_backoff_ms", "reconnect_backoff_max_ms", "retry_backoff_ms"), 1),
    "retry_backoff_max_ms": 10,
    "log_connection_close": False,
}
REFUNDS = 5
SESSION_MS = 15_000  # longer than a client needs to find its coordinator again, shorter than a test waits
BATCH = 4  # no divisor of the number of orders: some are left over
POLL_S = 0.05
_MOST_STARTS = 50
_LOST = {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION}


class Crashed(Exception):
    """The end of an application's process by a crash."""


def committed(broker: KafkaBroker) -> int:
    """Return how many orders the group has committed."""
    is_known = any(each["group_id"] == GROUP for each in broker.groups())
    offsets = broker.group(GROUP)["offsets"] if is_known else []
    return max((each["committed"] or 0 for each in offsets if each["topic"] == "orders"), default=0)


def supervised(broker: KafkaBroker, work: Callable[[int], object], orders: int = ORDERS) -> None:
    """Run processes, each with the number of orders that are left, until all are committed."""
    why: Exception | None = None
    for _ in range(_MOST_STARTS):
        left = orders - committed(broker)
        if left <= 0:
            return
        try:
            work(left)
        except (Crashed, KafkaException, PythonError, StepFailed) as error:
            why = error.with_traceback(None)  # its frames would keep clients alive
    raise AssertionError(f"{committed(broker)} orders are committed after {_MOST_STARTS} starts") from why


def consumer(
    broker: KafkaBroker, name: str, topic: str = "orders", **settings: Any
) -> AbstractContextManager[Consumer]:
    return broken.consumer(broker, name, topic, **HASTE, session_timeout_ms=SESSION_MS, **settings)


def producer(broker: KafkaBroker, name: str, **settings: Any) -> Producer:
    return broken.producer(broker, name, **(HASTE | settings))


def messages(reader: Consumer, most: int) -> Iterator[Message]:
    """Yield messages; what a client says of a broker or topic that is away for the moment is no message."""
    while most:
        message = reader.poll(PATIENCE_S)
        assert message is not None
        if message.error() is None:
            most -= 1
            yield message


def attempt(writer: Producer, key: str | bytes | None, topic: str = "billed") -> bool:
    """Bill an order with a single attempt; return whether the broker has told that it is written."""
    written: list[bool] = []
    writer.produce(topic, b"paid", key=key, on_delivery=lambda error, _: written.append(error is None))
    assert writer.flush(PATIENCE_S) == 0
    return written == [True]


def bill_or_crash(writer: Producer, message: Message) -> None:
    if not attempt(writer, message.key()):
        raise Crashed


def one_attempt(broker: KafkaBroker, name: str = "biller") -> Producer:
    return producer(broker, name, enable_idempotence=False, retries=0)


# -- confluent-kafka


def commits_first(broker: KafkaBroker, right: bool) -> None:
    """Commit offsets before the work is done."""

    def work(left: int) -> None:
        writer = one_attempt(broker)
        with consumer(broker, "reader") as reader:
            for message in messages(reader, left):
                if not right:
                    commit(reader, message)
                bill_or_crash(writer, message)
                if right:
                    commit(reader, message)

    supervised(broker, work)


def retries_without_idempotence(broker: KafkaBroker, right: bool) -> None:
    """Send records again that were stored and not acknowledged."""

    def work(left: int) -> None:
        writer = producer(broker, "biller", enable_idempotence=right)
        with consumer(broker, "reader") as reader:
            for message in messages(reader, left):
                bill(writer, message)
                commit(reader, message)

    supervised(broker, work)


def swallows_errors(broker: KafkaBroker, right: bool) -> None:
    """Ignore delivery reports, and commit the offsets of orders whose bills could not be written."""

    def work(left: int) -> None:
        writer = one_attempt(broker)
        with consumer(broker, "reader") as reader:
            for message in messages(reader, left):
                if not attempt(writer, message.key()) and right:
                    raise Crashed
                commit(reader, message)

    supervised(broker, work)


def reorders(broker: KafkaBroker, right: bool) -> None:
    """Keep several requests under way, and repeat the first of them behind the others."""
    pause = dict.fromkeys(("retry_backoff_ms", "retry_backoff_max_ms"), 100)  # the others must have left by then
    writer = producer(broker, "writer", enable_idempotence=right, batch_num_messages=1, **pause)
    for number in range(5):
        writer.produce("orders", str(number).encode(), key=b"late", partition=0)
    assert writer.flush(PATIENCE_S) == 0


def sell(broker: KafkaBroker) -> None:
    """Write orders in transactions, and abort the transaction of an order that could not be paid."""
    broker.create_topic("payments")
    shop, cashier = producer(broker, "shop", transactional_id="shop"), one_attempt(broker, "cashier")
    shop.init_transactions(PATIENCE_S)
    for number in range(ORDERS):
        shop.begin_transaction()
        shop.produce("orders", b"{}", key=f"sold-{number}", partition=0)
        assert shop.flush(PATIENCE_S) == 0
        if attempt(cashier, f"sold-{number}", "payments"):
            shop.commit_transaction(PATIENCE_S)
        else:
            shop.abort_transaction(PATIENCE_S)


def reads_uncommitted(broker: KafkaBroker, right: bool) -> None:
    """Read the records of an aborted transaction."""
    sell(broker)
    broker.produce("orders", [("last", "{}")])
    level = "read_committed" if right else "read_uncommitted"
    with consumer(broker, "reader", isolation_level=level) as reader:
        while next(messages(reader, 1)).key() != b"last":
            pass


def zombie(broker: KafkaBroker, right: bool) -> None:
    """Go on writing after another process has taken over the work."""

    def work(left: int) -> None:
        names = {"transactional_id": "biller"} if right else {}
        writer = producer(broker, "biller", **names)
        if right:
            writer.init_transactions(PATIENCE_S)
        with consumer(broker, "reader") as reader:
            taken = list(messages(reader, min(5, left)))
            while taken:
                if right:
                    writer.begin_transaction()
                bill(writer, taken[0])
                if not _is_committed(reader, writer if right else None, taken[0]):
                    break
                del taken[0]
        if taken:
            supervised(broker, work)  # another process has the partition
            for message in taken:  # and now the paused process wakes up
                bill(writer, message)

    supervised(broker, work)


def _next(reader: Consumer, message: Message) -> tuple[list[TopicPartition], Any]:
    return [TopicPartition("orders", 0, (message.offset() or 0) + 1)], reader.consumer_group_metadata()


def _is_committed(reader: Consumer, writer: Producer | None, message: Message) -> bool:
    """Commit an order, in the transaction of a writer; return False if the group has lost the reader."""
    while True:
        try:
            if writer is None:
                commit(reader, message)
            else:
                writer.send_offsets_to_transaction(*_next(reader, message))
                writer.commit_transaction(PATIENCE_S)
        except KafkaException as error:
            if error.args[0].code() in _LOST or writer is not None:
                return False
        else:
            return True


def commits_the_end(broker: KafkaBroker, right: bool) -> None:
    """Commit the end of the partition instead of the offset that the work has reached."""

    def work(left: int) -> None:
        writer = one_attempt(broker)
        with consumer(broker, "reader") as reader:
            for message in messages(reader, left):
                bill_or_crash(writer, message)
                if right:
                    commit(reader, message)
                else:
                    _, end = reader.get_watermark_offsets(TopicPartition("orders", 0), cached=True)
                    reader.commit(offsets=[TopicPartition("orders", 0, end)], asynchronous=False)

    supervised(broker, work)


class Batches:
    """Orders that are billed when there are enough of them, or when the partition goes to another member."""

    def __init__(self, broker: KafkaBroker, right: bool) -> None:
        self._right = right
        self._writer = producer(broker, "biller", enable_idempotence=True)
        self._taken: list[Message] = []
        self.read = 0

    def add(self, message: Message | None, reader: Consumer) -> None:
        if message is not None and message.error() is None:
            self._taken.append(message)
            self.read = (message.offset() or 0) + 1
            if len(self._taken) >= BATCH:
                self.bill(reader)

    def bill(self, reader: Consumer) -> None:
        for message in self._taken:
            bill(self._writer, message)
        self._commit(reader)

    def revoked(self, reader: Consumer, _: Any) -> None:
        if self._right:
            self.bill(reader)
        else:
            self._commit(reader)

    def _commit(self, reader: Consumer) -> None:
        taken, self._taken = self._taken, []
        if taken:
            commit(reader, taken[-1])


class Refunds:
    """Another service whose consumer is in the same group; it is started again after an error."""

    def __init__(self, broker: KafkaBroker) -> None:
        for topic in ("refunds", "refunded"):
            broker.create_topic(topic)
        broker.produce("refunds", [(str(number), "{}") for number in range(REFUNDS)])
        self._broker = broker
        self._waiting: list[Message] = []
        self.paid = 0
        self._start()

    def _start(self) -> None:
        self._writer = one_attempt(self._broker, "refunder")
        self._process = consumer(self._broker, "refunds", "refunds")
        self._reader = self._process.__enter__()

    def poll(self) -> bool:
        """Poll as a member of the group does; return whether there is a refund to pay."""
        message = self._reader.poll(POLL_S)
        if message is not None and message.error() is None:
            self._waiting.append(message)
        return bool(self._waiting)

    def pay(self) -> None:
        """Pay a refund; the process ends with an error, and the next one begins."""
        message = self._waiting.pop(0)
        if attempt(self._writer, message.key(), "refunded"):
            self.paid += 1
            commit(self._reader, message)
        else:
            self._waiting.clear()
            self.close()
            self._start()

    def close(self) -> None:
        self._process.__exit__(None, None, None)


def rebalance_listener_forgets(broker: KafkaBroker, right: bool) -> None:
    """Lose work when partitions are revoked, since offsets are committed and the bills are not written."""
    batches, refunds = Batches(broker, right), Refunds(broker)
    while not refunds.poll():
        pass
    with consumer(broker, "reader", heartbeat_interval_ms=50) as reader:
        reader.subscribe(["orders"], on_revoke=batches.revoked)
        while batches.read < ORDERS:
            batches.add(reader.poll(POLL_S), reader)
            refunds.poll()
        while refunds.paid < REFUNDS:
            batches.add(reader.poll(POLL_S), reader)
            if refunds.poll():
                refunds.pay()
        batches.bill(reader)
        refunds.close()


# -- kafka-python


def python_consumer(broker: KafkaBroker, name: str, **settings: Any) -> KafkaConsumer:
    own = {"group_id": GROUP, "client_id": name, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    return KafkaConsumer(**(broker.client_config("kafka-python") | own | {"heartbeat_interval_ms": 50} | settings))


def python_producer(broker: KafkaBroker, name: str, **settings: Any) -> KafkaProducer:
    return KafkaProducer(**broker.client_config("kafka-python"), client_id=name, **settings)


def polled(reader: KafkaConsumer, most_s: float = PATIENCE_S) -> list[Any]:
    return [record for records in reader.poll(most_s * 1000).values() for record in records]


def seeks_back(broker: KafkaBroker, right: bool) -> None:
    """Seek to the beginning after an error, and work again on orders whose offsets are committed."""
    writer = python_producer(broker, "biller", enable_idempotence=False, retries=0)
    reader = python_consumer(broker, "reader")
    reader.subscribe(["orders"])
    done = 0
    while done < ORDERS:
        for record in polled(reader):
            try:
                writer.send("billed", b"paid", key=record.key).get(PATIENCE_S)
            except PythonError:
                if right:
                    reader.seek(Partition("orders", 0), record.offset)
                else:
                    reader.seek_to_beginning()
                break
            done = record.offset + 1
            reader.commit({Partition("orders", 0): OffsetAndMetadata(done, "", -1)})
    reader.close()
    writer.close()


def commits_automatically(broker: KafkaBroker, right: bool) -> None:
    """Let the client commit while work is still under way, and at the close after an error too."""

    def work(left: int) -> None:
        writer = python_producer(broker, "biller", enable_idempotence=False, retries=0)
        reader = python_consumer(broker, "reader", enable_auto_commit=not right)
        reader.subscribe(["orders"])
        try:
            while left:
                for record in polled(reader):
                    writer.send("billed", b"paid", key=record.key).get(PATIENCE_S)
                    left -= 1
                    if right:
                        reader.commit({Partition("orders", 0): OffsetAndMetadata(record.offset + 1, "", -1)})
        finally:
            reader.close()
            writer.close()

    supervised(broker, work)
