"""`kafka-verifiable-producer`: sends rising numbers and reports each delivery.

Rule: an event is one JSON object on a line, with its time. Names of events and fields are those that Kafka's system
tests read. With `--json` the events become one list.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import count

from pykafka_broker.client.batches import Delivery
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.producer import Producer
from pykafka_broker.client.properties import integer, long
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError
from pykafka_broker.tools.statistics import Events, ThroughputThrottler, text

_LATEST_MS = 2**53  # leaves room for later timestamps


def options(parser: ToolParser) -> None:
    parser.add_connection()
    parser.option("--topic TOPIC", "send records to this topic")
    parser.option("--max-messages NUMBER", "end after this many records; -1: never", type=integer, default=-1)
    parser.option(
        "--throughput RECORDS/S", "at most this many records a second; -1: no limit", type=integer, default=-1
    )
    parser.add_argument(
        "--acks", type=integer, default=-1, choices=(0, 1, -1), help="how many replicas must have a record"
    )
    parser.option("--producer.config FILE", "the same as --command-config", dest="producer_config")
    parser.option("--message-create-time MS", "timestamp of the first record; the others follow", type=long, default=-1)
    parser.option("--value-prefix NUMBER", "put this number and a dot before each value", type=integer)
    parser.option("--repeating-keys NUMBER", "repeat the keys from 0 up to this number", type=integer)


async def run(tool: Tool) -> None:
    options = tool.options
    tool.required("bootstrap_server", "topic")
    if options.message_create_time > _LATEST_MS:
        raise ToolUsageError(f"--message-create-time has to be at most {_LATEST_MS}")
    properties = tool.properties("command_config", "producer_config") | {"acks": str(options.acks), "retries": "0"}
    if options.acks != -1:
        properties["enable.idempotence"] = "false"
    async with Client(options.bootstrap_server, properties) as client:
        sender = _Sender(tool, client)
        try:
            async with Producer(client) as producer:
                await sender.send(producer)
        finally:
            sender.end()


class _Sender:
    def __init__(self, tool: Tool, client: Client) -> None:
        self._options = tool.options
        self._clock = client.clock
        self._events = Events(tool, client)
        self._sent = self._acked = 0
        self._start = client.deadline(0)
        self._throttle = ThroughputThrottler(tool.options.throughput, self._start)

    async def send(self, producer: Producer) -> None:
        options = self._options
        repeating = options.repeating_keys  # 0: never repeat
        self._events.report("startup_complete")
        for number in count() if options.max_messages < 0 else range(options.max_messages):
            value = str(number) if options.value_prefix is None else f"{options.value_prefix}.{number}"
            key = None if repeating is None else str(number % repeating if repeating > 0 else number).encode()
            timestamp = None if options.message_create_time < 0 else options.message_create_time + number
            told = partial(self._delivered, key, value)
            self._sent += 1
            try:
                await producer.send(options.topic, value.encode(), key, timestamp=timestamp, on_delivery=told)
            except ClientError as error:
                self._failed(key, value, error)
            if pause_ms := self._throttle.pause_ms(self._sent, self._clock.tick()):
                await asyncio.sleep(pause_ms / 1000)

    def _delivered(self, key: bytes | None, value: str, delivery: Delivery) -> None:
        if delivery.error is not None:
            self._failed(key, value, delivery.error)
            return
        self._acked += 1
        where = {"offset": delivery.offset, "topic": delivery.topic, "partition": delivery.partition}
        self._events.report("producer_send_success", key=text(key), value=value, **where)

    def _failed(self, key: bytes | None, value: str, error: ClientError) -> None:
        what = {"exception": f"class {error.exception}", "message": str(error)}
        self._events.report("producer_send_error", topic=self._options.topic, key=text(key), value=value, **what)

    def end(self) -> None:
        self._events.report("shutdown_complete")
        elapsed = max(1, self._clock.tick() - self._start)
        self._events.report(
            "tool_data",
            sent=self._sent,
            acked=self._acked,
            target_throughput=self._options.throughput,
            avg_throughput=self._acked * 1000 / elapsed,
        )
