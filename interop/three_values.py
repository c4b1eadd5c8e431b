"""Functions in which a client writes three values and reads them back in a group, with any settings.

A test brings the settings; the calls that differ from client to client are here.
"""

import asyncio
import time
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer

from interop.java_transactions import JavaClients

THREE = [b"0", b"1", b"2"]
Values = list[bytes]
_STRING = "org.apache.kafka.common.serialization.String"


def read_by_confluent(config: dict[str, Any], topic: str, within_s: float = 60) -> Values:
    """Return the first three values of a topic, or those that came within the time."""
    consumer = Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: Values = []
    deadline = time.monotonic() + within_s
    while len(values) < 3 and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
    consumer.close()
    return values


def through_aiokafka(config: dict[str, Any], topic: str) -> Values:
    """Write and read the three values; raise the client's own exception if it gives up."""

    async def exchange() -> Values:
        producer = AIOKafkaProducer(**config)
        try:
            await producer.start()
            for value in THREE:
                await producer.send_and_wait(topic, value)
        finally:
            await producer.stop()
        async with AIOKafkaConsumer(topic, **config, group_id=topic, auto_offset_reset="earliest") as consumer:
            return [(await consumer.getone()).value for _ in range(3)]

    return asyncio.run(asyncio.wait_for(exchange(), 60))


def through_java(java: JavaClients, config: dict[str, Any], topic: str) -> Values:
    """Write and read the three values; raise the client's own exception if it gives up."""
    clients = java.jvm.org.apache.kafka.clients
    producer = clients.producer.KafkaProducer(
        java.properties(**config, key_serializer=_STRING + "Serializer", value_serializer=_STRING + "Serializer")
    )
    for value in THREE:
        producer.send(clients.producer.ProducerRecord(topic, value.decode())).get()
    producer.close()
    kinds = {"key_deserializer": _STRING + "Deserializer", "value_deserializer": _STRING + "Deserializer"}
    consumer = clients.consumer.KafkaConsumer(
        java.properties(**config, **kinds, group_id=topic, auto_offset_reset="earliest")
    )
    topics = java.jvm.java.util.ArrayList()
    topics.add(topic)
    consumer.subscribe(topics)
    values: Values = []
    deadline = time.monotonic() + 60
    while len(values) < 3 and time.monotonic() < deadline:
        records = consumer.poll(java.jvm.java.time.Duration.ofMillis(500)).iterator()
        while records.hasNext():
            values.append(records.next().value().encode())
    consumer.close()
    return values
