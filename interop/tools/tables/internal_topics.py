"""kafka-console-consumer with the formatters of Kafka's own topics, on records of every kind and version.

The records are written into ordinary topics, so that nothing depends on what a broker writes into its own and when.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import suppress
from struct import pack
from typing import Any

from confluent_kafka import Producer

from interop.tools.preparing import T0, make_topics
from interop.tools.steps import Step, steps
from pykafka_broker.protocol.runtime import EncodeError
from pykafka_broker.protocol.specs import RecordSpec
from pykafka_broker.protocol.stored.transaction_log_key import TransactionLogKey
from pykafka_broker.protocol.stored.transaction_log_value import TransactionLogValue
from pykafka_broker.protocol.stored_keys import GROUP_RECORDS, SHARE_RECORDS, TRANSACTION_RECORDS

_TOPICS: Mapping[str, dict[int, RecordSpec]] = {
    "groups": GROUP_RECORDS,
    "transactions": TRANSACTION_RECORDS,
    "shares": SHARE_RECORDS,
}
SETTINGS = {  # the first member of a share group waits for all of this
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.assignment.interval.ms": "0",
}
_SHARE_STATE = "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter"
_UUID = bytes(range(16))
_OFFSET_KEY = pack(">h", 1) + GROUP_RECORDS[1].key_class()().encode(0)
_ODD: Mapping[str, tuple[bytes | None, bytes | None]] = {  # each has a topic of its own, as some end the script
    "no-key": (None, b"value"),
    "empty-key": (b"", b"value"),
    "short-key": (b"\0", b"value"),
    "cut-key": (_OFFSET_KEY[:-1], b"value"),
    "unknown-kind": (pack(">h", 77) + b"rest", b"value"),
    "empty-value": (_OFFSET_KEY, b""),
    "short-value": (_OFFSET_KEY, b"\0"),
    "cut-value": (_OFFSET_KEY, b"\0\3\0\0"),
    "unknown-version": (_OFFSET_KEY, pack(">h", 99) + b"rest"),
}


_STATES = (*range(8), 99, -1)


def prepare(bootstrap: str) -> None:
    make_topics(bootstrap, dict.fromkeys((*_TOPICS, *_ODD, "states"), 1))
    producer = Producer({"bootstrap.servers": bootstrap})
    for topic, specs in _TOPICS.items():
        for key, value in _records(specs):
            producer.produce(topic, value, key, partition=0, timestamp=T0)
    for state in _STATES:
        value = pack(">h", 1) + TransactionLogValue(transaction_status=state).encode(1)
        producer.produce("states", value, pack(">h", 0) + TransactionLogKey("id").encode(0), partition=0, timestamp=T0)
    for topic, odd in _ODD.items():
        producer.produce(topic, odd[1], odd[0], partition=0, timestamp=T0)
    assert producer.flush(60) == 0


def _records(specs: Mapping[int, RecordSpec]) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield records of each kind: a tombstone, and in each version one of defaults and one with all fields filled."""
    for kind, spec in specs.items():
        key = pack(">h", kind) + _filled(spec.key_class()).encode(0)
        yield key, None
        of = spec.value_class()
        for version in range(of.MIN_VERSION, of.MAX_VERSION + 1):
            yield key, pack(">h", version) + of().encode(version)
            with suppress(EncodeError):  # a version that lacks one of the fields can't carry its value
                yield key, pack(">h", version) + _filled(of).encode(version)


def _filled(kind: type[Any]) -> Any:
    names = vars(inspect.getmodule(kind))
    return kind(**{name: _sample(name, str(each.annotation), names) for name, each in _fields(kind).items()})


def _fields(kind: type[Any]) -> dict[str, inspect.Parameter]:
    return {name: each for name, each in inspect.signature(kind).parameters.items() if name != "self"}


def _sample(name: str, annotation: str, names: Mapping[str, Any]) -> Any:
    wanted = annotation.removesuffix(" | None")
    if wanted.startswith("list["):
        return [_sample(name, wanted[len("list[") : -1], names)]
    samples = {"str": f'the {name} \u00e9"', "int": 7, "bool": True, "float": 0.5, "bytes": _UUID}
    return samples[wanted] if wanted in samples else _filled(names[wanted])


def _read(topic: str, formatter: str, flags: str = "") -> str:
    """Return the arguments that read a whole topic with one of Kafka's formatters."""
    count = sum(1 for _ in _records(_TOPICS[topic])) if topic in _TOPICS else len(_STATES) if topic == "states" else 1
    of = f"--formatter org.apache.kafka.tools.consumer.{formatter}"
    return f"--topic {topic} --partition 0 --offset earliest --max-messages {count} --timeout-ms 6000 {of} {flags}"


STEPS: list[Step] = steps(
    "console-consumer",
    _read("groups", "OffsetsMessageFormatter"),
    _read("groups", "GroupMetadataMessageFormatter"),
    _read("groups", "ShareGroupMessageFormatter"),
    _read("transactions", "TransactionLogMessageFormatter"),
    _read("states", "TransactionLogMessageFormatter"),
    _read("shares", "group.share.ShareGroupStateMessageFormatter"),
    *[_read(each, "OffsetsMessageFormatter") for each in _ODD],
    *[_read(each, "ShareGroupMessageFormatter") for each in _ODD],
    _read("cut-value", "OffsetsMessageFormatter", "--skip-message-on-error"),
    _read("cut-key", "OffsetsMessageFormatter", "--skip-message-on-error"),
    Step(
        "console-consumer", _read("groups", "CoordinatorRecordMessageFormatter"), why_not="Java's words, and its help"
    ),
    Step("configs", "--alter --entity-type groups --entity-name g --add-config share.auto.offset.reset=earliest"),
    Step(
        "console-share-consumer",
        f"--topic shares --group g --max-messages 6 --timeout-ms 15000 --formatter {_SHARE_STATE}",
    ),
)
IN_OUR_WORDS = {
    "--topic cut-key --partition 0 --offset earliest --max-messages 1 --timeout-ms 6000 --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter ",  # noqa: E501
    "--topic cut-key --partition 0 --offset earliest --max-messages 1 --timeout-ms 6000 --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter --skip-message-on-error",  # noqa: E501
    "--topic cut-key --partition 0 --offset earliest --max-messages 1 --timeout-ms 6000 --formatter org.apache.kafka.tools.consumer.ShareGroupMessageFormatter ",  # noqa: E501
    "--topic cut-value --partition 0 --offset earliest --max-messages 1 --timeout-ms 6000 --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter ",  # noqa: E501
    "--topic cut-value --partition 0 --offset earliest --max-messages 1 --timeout-ms 6000 --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter --skip-message-on-error",  # noqa: E501
    "--topic cut-value --partition 0 --offset earliest --max-messages 1 --timeout-ms 6000 --formatter org.apache.kafka.tools.consumer.ShareGroupMessageFormatter ",  # noqa: E501
    "--topic empty-key --partition 0 --offset earliest --max-messages 1 --timeout-ms 6000 --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter ",  # noqa: E501
    "--topic empty-key --partition 0 --offset earliest --max-messages 1 --timeout-ms 6000 --formatter org.apache.kafka.tools.consumer.ShareGroupMessageFormatter ",  # noqa: E501
    "--topic empty-value --partition 0 --offset earliest --max-messages 1 --timeout-ms 6000 --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter ",  # noqa: E501
    "--topic empty-value --partition 0 --offset earliest --max-messages 1 --timeout-ms 6000 --formatter org.apache.kafka.tools.consumer.ShareGroupMessageFormatter ",  # noqa: E501
    "--topic short-key --partition 0 --offset earliest --max-messages 1 --timeout-ms 6000 --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter ",  # noqa: E501
    "--topic short-key --partition 0 --offset earliest --max-messages 1 --timeout-ms 6000 --formatter org.apache.kafka.tools.consumer.ShareGroupMessageFormatter ",  # noqa: E501
    "--topic short-value --partition 0 --offset earliest --max-messages 1 --timeout-ms 6000 --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter ",  # noqa: E501
    "--topic short-value --partition 0 --offset earliest --max-messages 1 --timeout-ms 6000 --formatter org.apache.kafka.tools.consumer.ShareGroupMessageFormatter ",  # noqa: E501
    "--topic unknown-version --partition 0 --offset earliest --max-messages 1 --timeout-ms 6000 --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter ",  # noqa: E501
    "--topic unknown-version --partition 0 --offset earliest --max-messages 1 --timeout-ms 6000 --formatter org.apache.kafka.tools.consumer.ShareGroupMessageFormatter ",  # noqa: E501
}
