"""kafka-console-consumer."""

import struct

from confluent_kafka import Producer

from interop.tools.preparing import T0, commit, make_topics, send
from interop.tools.steps import Step, sorted_lines, steps

_ALL = ("timestamp", "key", "value", "headers", "partition", "offset", "epoch")


def prepare(bootstrap: str) -> None:
    make_topics(
        bootstrap, {"one": 1, "three": 3, "empty": 1, "rich": 1, "txn": 1, "other.one": 1, "binary": 1, "floats": 1}
    )
    make_topics(bootstrap, {"append": 1}, {"message.timestamp.type": "LogAppendTime"})
    send(bootstrap, "one", 5)
    send(bootstrap, "append", 1)
    commit(bootstrap, "fixed", {("one", 0): 3})
    send(bootstrap, "other.one", 1)
    for partition in range(3):
        send(bootstrap, "three", partition + 1, partition)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(
        "rich", b"value", b"key", headers=[("h1", b"v1"), ("h2", None), ("h1", b"v\xc3\xa9")], timestamp=T0
    )
    producer.flush(60)
    producer.produce("rich", None, b"gone", timestamp=T0)
    producer.flush(60)
    producer.produce("rich", b"no key", timestamp=T0)
    producer.flush(60)
    for key, value in ((b"\0\0\0\7", b"\0\0\0\0\0\0\1\0"), (b"bad", b"\xff\xfe")):
        producer.produce("binary", value, key, timestamp=T0)
        producer.flush(60)
    for number in (3.14, 1.0, 1e10, -1.5e-5):
        producer.produce("floats", struct.pack(">f", number), timestamp=T0)
    producer.flush(60)
    moving = Producer({"bootstrap.servers": bootstrap, "transactional.id": "mover"})
    moving.init_transactions(20)
    for value, end in ((b"aborted", moving.abort_transaction), (b"committed", moving.commit_transaction)):
        moving.begin_transaction()
        moving.produce("txn", value)
        moving.flush(60)
        end(20)


def _shown(*names: str, flag: str = "--formatter-property") -> str:
    return " ".join(f"{flag} print.{name}=true" for name in names)


def _one_of_each(out: str) -> str:
    """Kafka writes a transaction's states once more when it ends it: kinds of records, whatever their order."""
    return "\n".join(sorted({each for each in out.replace("}{", "}\n{").splitlines() if "Id" in each}))


_NEW = "--command-property group.protocol=consumer"
_ENDS = "--formatter-property line.separator='||'"
_STATES = "--topic __transaction_state --partition 0 --offset earliest"
_GROUPS = "--topic __consumer_offsets --partition 0 --offset earliest"
_RICH = "--topic rich --from-beginning --max-messages 3 --timeout-ms 6000"
_BINARY = "--topic binary --from-beginning --max-messages 2 --timeout-ms 6000"
_OF = "org.apache.kafka.common.serialization."
_FORMAT = "--formatter org.apache.kafka.tools.consumer."
STEPS: list[Step] = steps(
    "console-consumer",
    f"{_GROUPS} --max-messages 1 --timeout-ms 6000 {_FORMAT}OffsetsMessageFormatter",
    f"{_GROUPS} --timeout-ms 400 {_FORMAT}TransactionLogMessageFormatter",
    Step(
        "console-consumer",
        f"{_STATES} --timeout-ms 900 {_FORMAT}TransactionLogMessageFormatter",
        alike=_one_of_each,
    ),
    "--topic one --from-beginning --max-messages 5 --timeout-ms 6000",
    "--topic one --from-beginning --timeout-ms 1500",
    "--topic one --timeout-ms 300",
    "--topic one --from-beginning --max-messages 2 --timeout-ms 6000",
    "--topic one --from-beginning --max-messages 0",
    "--topic one --partition 0 --offset 3 --max-messages 2 --timeout-ms 6000",
    "--topic one --partition 0 --offset earliest --max-messages 1 --timeout-ms 6000",
    "--topic one --partition 0 --offset latest --timeout-ms 300",
    "--topic one --partition 0 --timeout-ms 300",
    "--topic one --partition 0 --from-beginning --max-messages 1 --timeout-ms 6000",
    "--topic one --partition 0 --offset 99 --timeout-ms 400",
    Step("console-consumer", "--topic three --from-beginning --max-messages 6 --timeout-ms 6000", alike=sorted_lines),
    "--topic three --partition 2 --offset 1 --timeout-ms 400",
    Step(
        "console-consumer",
        "--include 't.*e|one' --from-beginning --max-messages 11 --timeout-ms 6000",
        alike=sorted_lines,
    ),
    Step("console-consumer", "--include 'other.one,three' --from-beginning --timeout-ms 500", alike=sorted_lines),
    "--include '[' --from-beginning --timeout-ms 300",
    "--topic one --group g1 --from-beginning --max-messages 2 --timeout-ms 6000",
    "--topic one --group g1 --from-beginning --max-messages 2 --timeout-ms 6000",
    "--topic one --group g1 --max-messages 1 --timeout-ms 6000",
    "--topic one --group g1 --timeout-ms 400",
    f"--topic one --group g2 {_NEW} --from-beginning --max-messages 3 --timeout-ms 6000",
    "--topic one --command-property group.id=g2 " + _NEW + " --max-messages 2 --timeout-ms 6000",
    "--topic one --group g3 --command-property auto.offset.reset=earliest --max-messages 1 --timeout-ms 6000",
    "--topic one --group g4 --command-property auto.offset.reset=none --timeout-ms 3000",
    "--topic one --group g3 --command-property group.id=other --max-messages 1 --timeout-ms 6000",
    "--topic one --from-beginning --command-property auto.offset.reset=latest --max-messages 1 --timeout-ms 6000",
    "--topic one --from-beginning --command-property auto.offset.reset=earliest --max-messages 1 --timeout-ms 6000",
    "--topic txn --from-beginning --max-messages 2 --timeout-ms 6000",
    "--topic txn --from-beginning --isolation-level read_committed --max-messages 1 --timeout-ms 6000",
    "--topic txn --from-beginning --isolation-level read_uncommitted --max-messages 2 --timeout-ms 6000",
    "--topic txn --from-beginning --isolation-level serial --timeout-ms 400",
    *[
        f"--topic txn --from-beginning --timeout-ms 900 {each}"
        for each in (
            "--command-property isolation.level=read_committed",
            "--command-config '{file:isolation.level=read_committed}'",
            "--command-property isolation.level=read_committed --isolation-level read_uncommitted",
            "--command-property isolation.level=read_uncommitted --isolation-level read_committed",
            "--command-property isolation.level=odd",
        )
    ],
    _RICH,
    f"{_RICH} {_shown(*_ALL)}",
    f"{_RICH} {_shown(*_ALL, flag='--property')}",
    *[f"{_RICH} {_shown(name)}" for name in _ALL],
    f"{_RICH} --formatter-property print.value=false",
    f"{_RICH} {_shown('key')} --formatter-property print.value=false",
    f"{_RICH} {_shown('key')} --formatter-property key.separator=' -> '",
    f"{_RICH} {_shown('key', 'headers')} --formatter-property headers.separator=' ; ' {_ENDS}",
    f"{_RICH} {_shown('key', 'headers')} --formatter-property null.literal=NIL",
    f"{_RICH} --formatter-config '{{file:print.key=true\\nkey.separator=/}}'",
    f"{_RICH} --formatter-config '{{file:print.key=true}}' --formatter-property print.key=false",
    f"{_RICH} --formatter-property print.nonsense=true",
    f"{_RICH} --formatter-property print.key",
    f"{_RICH} {_FORMAT}DefaultMessageFormatter {_shown('offset')}",
    f"{_RICH} {_FORMAT}LoggingMessageFormatter",
    f"{_RICH} {_FORMAT}NoOpMessageFormatter",
    f"{_RICH} --formatter org.example.Mine",
    f"--topic append --from-beginning --max-messages 1 --timeout-ms 6000 {_shown('timestamp')}",
    f"{_BINARY} {_shown('key')} --key-deserializer {_OF}IntegerDeserializer --value-deserializer {_OF}LongDeserializer",
    f"{_BINARY} {_shown('key')} --key-deserializer {_OF}IntegerDeserializer --skip-message-on-error",
    Step(
        "console-consumer",
        f"{_BINARY} --value-deserializer {_OF}ByteArrayDeserializer",
        why_not="Java prints the identity of an array, which says nothing",
    ),
    f"{_BINARY} --value-deserializer {_OF}BytesDeserializer",
    f"{_BINARY} --value-deserializer {_OF}DoubleDeserializer",
    f"{_BINARY} {_shown('key')} --key-deserializer {_OF}FloatDeserializer",
    f"--topic floats --from-beginning --max-messages 4 --timeout-ms 6000 --value-deserializer {_OF}FloatDeserializer",
    f"{_BINARY} --value-deserializer {_OF}StringDeserializer",
    f"{_BINARY} --value-deserializer org.example.Mine",
    f"{_RICH} {_shown('headers')} --formatter-property headers.deserializer={_OF}StringDeserializer",
    "",
    "--topic one --include one --timeout-ms 300",
    "--topic one --partition x --timeout-ms 300",
    "--topic one --offset 3 --timeout-ms 300",
    "--partition 0 --offset 3",
    "--include one --partition 0 --timeout-ms 300",
    "--topic one --partition 0 --offset -3 --timeout-ms 300",
    "--topic one --partition 0 --offset now --timeout-ms 300",
    "--topic one --partition 0 --offset 3 --from-beginning --timeout-ms 300",
    "--topic one --partition 9 --offset 0 --timeout-ms 400",
    "--topic one --partition 0 --group g9 --offset 4 --max-messages 1 --timeout-ms 6000",
    "--topic one --partition 0 --offset 99999999999999999999 --timeout-ms 300",
    "--topic one --partition 0_0 --offset 1 --timeout-ms 300",
    "--topic one --max-messages 1_0 --timeout-ms 300",
    "--topic one --max-messages 99999999999 --timeout-ms 300",
    "--topic one --timeout-ms 1_000",
    "--topic '' --timeout-ms 300",
    "--include '' --timeout-ms 300",
    f"{_RICH} --formatter DefaultMessageFormatter",
    "-topic one -from-beginning -max-messages 1 -timeout-ms 6000",
    "--topic one --from-beginning=true --max-messages 1 --timeout-ms 6000",
    "--topic one --from-b --max-messages 1 --timeout-ms 6000",
    "{nowhere} --bootstrap-server no.such.host.invalid:9092 --topic one --timeout-ms 300",
    "--topic one --max-messages many",
    "--topic one --timeout-ms many",
    "--topic one --command-property a=b --consumer-property a=b --timeout-ms 300",
    "--topic one --command-config '{file:a=b}' --consumer.config '{file:a=b}' --timeout-ms 300",
    "--topic one --formatter-property a=b --property a=b --timeout-ms 300",
    "--topic one --command-config /no/such/file --timeout-ms 300",
    "--topic one --consumer.config '{file:auto.offset.reset=earliest}' --max-messages 1 --timeout-ms 6000",
    "--topic one --consumer-property auto.offset.reset=earliest --max-messages 1 --timeout-ms 6000",
    "--topic one --no-such-flag",
    "--topic",
    "--topic one --topic one",
    "--topic 'a b' --timeout-ms 300",
    "--topic missing --timeout-ms 400",
    "--topic one --from-beginning --max-messages 1 --timeout-ms 6000 --enable-systest-events",
    "--topic one --from-beginning --max-messages 1 --timeout-ms 6000 extra",
    "{nowhere} --topic one --timeout-ms 300",
    "{nowhere} --bootstrap-server nowhere --topic one",
    "{nowhere} --bootstrap-server localhost:1 --topic one --timeout-ms 300",
)
SETTINGS = {"log.retention.ms": "-1", "offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
_VOID = f"{_OF}VoidDeserializer"
_BUFFER = f"{_OF}ByteBufferDeserializer"
STEPS += steps(
    "console-consumer",
    f"{_BINARY} --value-deserializer {_VOID}",
    f"{_BINARY} {_shown('key')} --key-deserializer {_VOID}",
    f"{_BINARY} --value-deserializer {_BUFFER}",
    f"{_BINARY} --value-deserializer {_OF}UUIDDeserializer",
    f"{_BINARY} --value-deserializer {_OF}ShortDeserializer",
    f"{_BINARY} --value-deserializer {_OF}BooleanDeserializer",
    f"{_BINARY} --value-deserializer {_OF}ListDeserializer",
    f"{_RICH} --value-deserializer {_OF}StringDeserializer --formatter-property "
    "value.deserializer.value.deserializer.encoding=UTF-16",
    f"{_RICH} {_shown('key')} --key-deserializer {_OF}StringDeserializer --formatter-property "
    "key.deserializer.key.deserializer.encoding=ISO-8859-1",
    f"{_RICH} --value-deserializer {_OF}StringDeserializer --formatter-property "
    "value.deserializer.value.deserializer.encoding=nothing",
    f"{_RICH} --value-deserializer {_OF}StringDeserializer --formatter-property "
    "value.deserializer.deserializer.encoding=UTF-16LE",
    "--topic one --from-beginning --from-beginning --max-messages 1 --timeout-ms 6000",
    "--topic one --from-beginning --max-messages 0 --timeout-ms 6000",
    "--topic one --from-beginning --max-messages -1 --timeout-ms 2000",
    "--topic one --offset",
    "--topic one --partition -1 --offset 0 --timeout-ms 300",
    "--topic one --isolation-level nothing --timeout-ms 300",
    "--include '[' --timeout-ms 300",
    "--topic one --command-property a --timeout-ms 300",
    "--topic one --command-property group.protocol=nothing --timeout-ms 300",
    "--topic one --command-property security.protocol=NONE --timeout-ms 300",
)
IN_OUR_WORDS = {
    "",
    "--include '' --timeout-ms 300",
    "--include '[' --from-beginning --timeout-ms 300",
    "--include '[' --timeout-ms 300",
    "--partition 0 --offset 3",
    "--topic '' --timeout-ms 300",
    "--topic 'a b' --timeout-ms 300",
    "--topic binary --from-beginning --max-messages 2 --timeout-ms 6000 --formatter-property print.key=true --key-deserializer org.apache.kafka.common.serialization.FloatDeserializer",  # noqa: E501
    "--topic binary --from-beginning --max-messages 2 --timeout-ms 6000 --formatter-property print.key=true --key-deserializer org.apache.kafka.common.serialization.IntegerDeserializer --skip-message-on-error",  # noqa: E501
    "--topic binary --from-beginning --max-messages 2 --timeout-ms 6000 --value-deserializer org.apache.kafka.common.serialization.BooleanDeserializer",  # noqa: E501
    "--topic binary --from-beginning --max-messages 2 --timeout-ms 6000 --value-deserializer org.apache.kafka.common.serialization.DoubleDeserializer",  # noqa: E501
    "--topic binary --from-beginning --max-messages 2 --timeout-ms 6000 --value-deserializer org.apache.kafka.common.serialization.ListDeserializer",  # noqa: E501
    "--topic binary --from-beginning --max-messages 2 --timeout-ms 6000 --value-deserializer org.example.Mine",
    "--topic one --command-config '{file:a=b}' --consumer.config '{file:a=b}' --timeout-ms 300",
    "--topic one --command-property a=b --consumer-property a=b --timeout-ms 300",
    "--topic one --command-property group.protocol=nothing --timeout-ms 300",
    "--topic one --command-property security.protocol=NONE --timeout-ms 300",
    "--topic one --formatter-property a=b --property a=b --timeout-ms 300",
    "--topic one --group g3 --command-property group.id=other --max-messages 1 --timeout-ms 6000",
    "--topic one --group g4 --command-property auto.offset.reset=none --timeout-ms 3000",
    "--topic one --include one --timeout-ms 300",
    "--topic one --isolation-level nothing --timeout-ms 300",
    "--topic one --max-messages 1_0 --timeout-ms 300",
    "--topic one --max-messages 99999999999 --timeout-ms 300",
    "--topic one --max-messages many",
    "--topic one --partition 0 --group g9 --offset 4 --max-messages 1 --timeout-ms 6000",
    "--topic one --partition 0 --offset 3 --from-beginning --timeout-ms 300",
    "--topic rich --from-beginning --max-messages 3 --timeout-ms 6000 --formatter DefaultMessageFormatter",
    "--topic rich --from-beginning --max-messages 3 --timeout-ms 6000 --formatter org.example.Mine",
    "--topic rich --from-beginning --max-messages 3 --timeout-ms 6000 --value-deserializer org.apache.kafka.common.serialization.StringDeserializer --formatter-property value.deserializer.value.deserializer.encoding=nothing",  # noqa: E501
    "--topic txn --from-beginning --isolation-level serial --timeout-ms 400",
    "--topic txn --from-beginning --timeout-ms 900 --command-property isolation.level=odd",
    "{nowhere} --bootstrap-server no.such.host.invalid:9092 --topic one --timeout-ms 300",
    "{nowhere} --bootstrap-server nowhere --topic one",
}
