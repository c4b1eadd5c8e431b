"""kafka-python before 1.0: SimpleProducer and SimpleConsumer, of which nothing is left today.

Rule: what a release lacks is found by asking it, never by its number.
"""

from typing import Any

import kafka
from kafka import SimpleConsumer, SimpleProducer

from interop.matrix.programs.scenario import COUNT, LARGE, RECORDS, VALUES, every_codec, main, same

CLIENT_TIMEOUT_S = 20


def client(bootstrap: str) -> Any:
    made = getattr(kafka, "SimpleClient", None) or kafka.KafkaClient
    return made(bootstrap, timeout=CLIENT_TIMEOUT_S)


def producer(bootstrap: str, **more: Any) -> Any:
    return SimpleProducer(client(bootstrap), **more)


def send(bootstrap: str, topic: str, values: Any, **more: Any) -> None:
    made = producer(bootstrap, **more)
    for value in values:
        made.send_messages(topic.encode(), value)
    made.stop()


def read(bootstrap: str, topic: str, count: int, **more: Any) -> Any:
    more.setdefault("auto_commit", False)
    reader = SimpleConsumer(client(bootstrap), None, topic, max_buffer_size=None, **more)
    found = [each.message for each in reader.get_messages(count=count, block=True, timeout=20)]
    same(len(found), count)
    return found


def connect(bootstrap: str, topic: str) -> None:
    made = client(bootstrap)
    made.ensure_topic_exists(topic)
    same(set(made.get_partition_ids_for_topic(topic)), {0, 1, 2, 3})


def produce(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, VALUES)
    same([message.value for message in read(bootstrap, topic, COUNT)], VALUES)


def records(bootstrap: str, topic: str) -> None:
    made = client(bootstrap)
    made.load_metadata_for_topics(topic.encode())
    for key, value in RECORDS:
        message = kafka.create_message(value, key)
        made.send_produce_request([kafka.common.ProduceRequest(topic.encode(), 0, [message])])
    same([(message.key, message.value) for message in read(bootstrap, topic, len(RECORDS))], RECORDS)


def codecs(bootstrap: str, topic: str) -> str:
    sent = []  # type: Any
    numbers = {"gzip": kafka.protocol.CODEC_GZIP, "snappy": kafka.protocol.CODEC_SNAPPY}

    def one(name: str) -> None:
        made = client(bootstrap)
        made.load_metadata_for_topics(topic.encode())
        messages = kafka.protocol.create_message_set([(value, None) for value in VALUES], numbers[name])
        made.send_produce_request([kafka.common.ProduceRequest(topic.encode(), 0, messages)])
        sent.extend(VALUES)
        same([message.value for message in read(bootstrap, topic, len(sent))], sent)

    return every_codec(list(numbers), one)


def commit(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, VALUES)
    reader = SimpleConsumer(client(bootstrap), topic, topic, auto_commit=False)
    same([each.message.value for each in reader.get_messages(count=30, block=True, timeout=20)], VALUES[:30])
    reader.commit()
    reader.stop()
    later = SimpleConsumer(client(bootstrap), topic, topic, auto_commit=False)
    same([each.message.value for each in later.get_messages(count=COUNT - 30, block=True, timeout=20)], VALUES[30:])


def large(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, LARGE)
    same([message.value for message in read(bootstrap, topic, len(LARGE))], LARGE)


main({each.__name__: each for each in (connect, produce, records, codecs, commit, large)})
