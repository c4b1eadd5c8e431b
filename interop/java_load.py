"""Java's own producers, which write to a cluster in the background (`cluster_load`).

Rule: what Java's client can go on from is no failure: it retries by itself for as long as its time-outs say, an
abortable error ends in an abort, and a commit that was not answered is asked for again. Anything else is noted.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from py4j.protocol import Py4JJavaError

from interop.cluster_load import MARKERS_S, PATIENCE_S, PAUSE_S, Writes
from interop.java_transactions import SERIALIZER, JavaClients

_EACH = 3  # records for every partition between two waits for acknowledgements
_GIVEN_UP = ("ProducerFenced", "InvalidProducerEpoch", "OutOfOrderSequence", "Authorization", "UnsupportedVersion")


class JavaLoad(Writes):
    """A load by Java's idempotent producer, with acks=all, to every partition of a topic."""

    def __init__(self, clients: JavaClients, address: str, topic: str, partitions: int, **settings: object) -> None:
        super().__init__(address, topic, partitions)
        patience_ms = int(PATIENCE_S * 1000)
        kept = {"linger.ms": 5, "delivery.timeout.ms": patience_ms, "max.block.ms": patience_ms, **settings}
        properties = clients.properties(
            bootstrap_servers=address, key_serializer=SERIALIZER, value_serializer=SERIALIZER
        )
        for name, value in kept.items():
            properties.put(name, str(value))
        kafka = clients.jvm.org.apache.kafka.clients.producer
        self._record = kafka.ProducerRecord
        self._new_producer = partial(kafka.KafkaProducer, properties)
        self._producer = self._new_producer()

    def _write(self) -> None:
        number = 0
        try:
            while not self._stopped.is_set():
                self._several(number)
                number += 1
                time.sleep(PAUSE_S)
        except Py4JJavaError as error:
            self.failed.append(_told(error))

    def _several(self, number: int) -> None:
        values = [f"{number}-{each}" for each in range(_EACH)]
        self._send(values)
        self._note(values)

    def _send(self, values: list[str]) -> None:
        """Send the values, and wait until all are acknowledged."""
        sent = [
            self._producer.send(self._record(self.topic, partition, None, value))
            for value in values
            for partition in self.done
        ]
        self._producer.flush()
        for future in sent:
            future.get()

    def _note(self, values: list[str]) -> None:
        for written in self.done.values():
            written += [value.encode() for value in values]

    def _finish(self) -> None:
        self._producer.close()


class JavaTransactionalLoad(JavaLoad):
    """A load of transactions by Java's producer over all partitions of a topic; every third is aborted."""

    def __init__(self, clients: JavaClients, address: str, topic: str, partitions: int) -> None:
        whole = {"transactional.id": f"load of {topic}", "transaction.timeout.ms": int(PATIENCE_S * 1000)}
        super().__init__(clients, address, topic, partitions, **whole)
        self.aborted_by_need = 0

    def _write(self) -> None:
        try:
            _until_told(self._producer.initTransactions)
        except Py4JJavaError as error:
            self.failed.append(_told(error))
            return
        super()._write()

    def _several(self, number: int) -> None:
        values = [f"{number}-{each}" for each in range(_EACH)]
        self._producer.beginTransaction()
        try:
            self._send(values)
            if number % 3 != 2:
                _until_told(self._producer.commitTransaction)
                self._note(values)
                return
        except Py4JJavaError as error:
            if any(name in _told(error) for name in _GIVEN_UP):
                raise
            self.aborted_by_need += 1
        _until_told(self._producer.abortTransaction)

    def _finish(self) -> None:
        """Wait until the markers of the last transaction are written: another producer of its id waits for them."""
        super()._finish()
        self._producer = self._new_producer()
        _until_told(self._producer.initTransactions)
        super()._finish()

    def check(self) -> None:
        """Check that the partitions hold exactly the committed values."""
        self._compare("read_committed", MARKERS_S)


def _until_told(end: Any) -> None:
    """End a transaction, again after a time-out, which says nothing about the outcome."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            end()
            return
        except Py4JJavaError as error:
            if "TimeoutException" not in _told(error) or time.monotonic() > deadline:
                raise


def _told(error: Py4JJavaError) -> str:
    return str(error.java_exception.toString())
