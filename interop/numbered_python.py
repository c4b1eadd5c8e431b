"""The producers of the pure Python clients, for tests that disturb a broker. Rule: each writes one number after the
other and notes what was acknowledged; a number that the client gave up is not written again, and may be there or not.
"""

import asyncio
import threading
from collections.abc import Callable
from itertools import count
from typing import Any

from interop.numbered import PARTITIONS, Place, check_no_gaps, check_once_in_order, check_places, read_all

ANSWER_WITHIN_S = 60
Send = Callable[[bytes, int], Any]  # value and partition, to something with partition and offset


class NumberedPython:
    """One such producer, in a thread."""

    def __init__(self, bootstrap: str, topic: str, pause_s: float) -> None:
        self._bootstrap, self._topic, self._pause_s = bootstrap, topic, pause_s
        self.acknowledged: dict[int, Place] = {}
        self.given_up: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join(2 * ANSWER_WITHIN_S)
        assert not self._thread.is_alive(), f"{self._topic}: the producer never ends"

    def _run(self) -> None:
        numbers, refused = count(), self._refused()
        while not self._stop.is_set():
            try:
                send, close = self._connect()
            except refused as error:  # the broker is away
                self.given_up.append(repr(error))
                self._stop.wait(0.2)
                continue
            try:
                self._serve(send, numbers)
            except refused as error:
                self.given_up.append(repr(error))
            close()

    def _serve(self, send: Send, numbers: "count[int]") -> None:
        for number in numbers:
            if self._stop.wait(self._pause_s):
                return
            told = send(b"%d" % number, number % PARTITIONS)
            self.acknowledged[number] = told.partition, told.offset

    def _connect(self) -> tuple[Send, Callable[[], object]]:
        """Return how to send, and how to close the client."""
        raise NotImplementedError

    def _refused(self) -> type[BaseException]:
        """Return what the client raises when it gives up."""
        raise NotImplementedError

    def check(self) -> None:
        found = read_all(self._bootstrap, self._topic)
        check_places(found, self.acknowledged)
        check_once_in_order(found)
        check_no_gaps(found)


class NumberedKafkaPython(NumberedPython):
    def _connect(self) -> tuple[Send, Callable[[], object]]:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=self._bootstrap, enable_idempotence=True, max_block_ms=30_000)

        def send(value: bytes, partition: int) -> Any:
            return producer.send(self._topic, value, partition=partition).get(ANSWER_WITHIN_S)

        return send, lambda: producer.close(timeout=5)

    def _refused(self) -> type[BaseException]:
        from kafka.errors import KafkaError

        refused: type[BaseException] = KafkaError
        return refused


class NumberedAiokafka(NumberedPython):
    def _connect(self) -> tuple[Send, Callable[[], object]]:
        from aiokafka import AIOKafkaProducer
        from aiokafka.errors import KafkaError

        loop = asyncio.new_event_loop()

        async def start() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(bootstrap_servers=self._bootstrap, enable_idempotence=True)
            try:
                await producer.start()
            except KafkaError:
                await producer.stop()
                raise
            return producer

        try:
            producer = loop.run_until_complete(start())
        except KafkaError:
            loop.close()
            raise

        def send(value: bytes, partition: int) -> Any:
            return loop.run_until_complete(producer.send_and_wait(self._topic, value, partition=partition))

        def close() -> None:
            loop.run_until_complete(producer.stop())
            loop.close()

        return send, close

    def _refused(self) -> type[BaseException]:
        from aiokafka.errors import KafkaError

        refused: type[BaseException] = KafkaError
        return refused
