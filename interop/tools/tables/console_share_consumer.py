"""kafka-console-share-consumer, and what kafka-console-consumer shows of the state that it leaves behind."""

import re

from confluent_kafka import Producer

from interop.tools.preparing import T0, make_topics, send
from interop.tools.steps import Step, sorted_lines, steps

TOOL = "console-share-consumer"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.assignment.interval.ms": "0",  # or the next member of a group waits for its second heartbeat, 5 s
    "group.share.min.heartbeat.interval.ms": "500",  # so does the first member on a busy machine
    "group.share.heartbeat.interval.ms": "500",
}
_ALL = ("timestamp", "key", "value", "headers", "partition", "offset", "epoch", "delivery")


def prepare(bootstrap: str) -> None:
    make_topics(bootstrap, {"one": 1, "two": 2, "rich": 1, "empty": 1, "txn": 1, "binary": 1})
    send(bootstrap, "one", 5)
    for partition in range(2):
        send(bootstrap, "two", partition + 2, partition)
    producer = Producer({"bootstrap.servers": bootstrap})
    for value, key in ((b"value", b"key"), (None, b"gone"), (b"no key", None)):
        producer.produce("rich", value, key, headers=[("h1", b"v1"), ("h2", None)], timestamp=T0)
        assert producer.flush(60) == 0
    producer.produce("binary", b"\0\0\0\7")
    producer.produce("binary", b"bad")
    assert producer.flush(60) == 0
    moving = Producer({"bootstrap.servers": bootstrap, "transactional.id": "mover"})
    moving.init_transactions(20)
    for value, end in ((b"aborted", moving.abort_transaction), (b"committed", moving.commit_transaction)):
        moving.begin_transaction()
        moving.produce("txn", value)
        moving.flush(60)
        end(20)


def _from_start(*groups: str, **settings: str) -> list[Step]:
    pairs = ",".join(f"{key}={value}" for key, value in {"share.auto.offset.reset": "earliest", **settings}.items())
    return [
        Step("configs", f"--alter --entity-type groups --entity-name {group} --add-config {pairs}") for group in groups
    ]


def _left(group: str) -> Step:
    return Step("share-groups", f"--describe --group {group}", alike=sorted_lines)


def _state(out: str) -> str:
    """Return the lines about one group without epochs, which come from a counter of the whole coordinator."""
    found = [each for each in out.replace("}{", "}\n{").splitlines() if '"groupId":"of-state"' in each]
    return re.sub(r'"stateEpoch":\d+', '"stateEpoch":N', "\n".join(found))


def _shown(*names: str) -> str:
    return " ".join(f"--formatter-property print.{name}=true" for name in names)


_SOON = "--timeout-ms 6000"
_OF = "org.apache.kafka.common.serialization."
_FORMATTER = "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter"
STEPS: list[Step] = [
    *_from_start("g1", "g2", "g3", "g4", "g5", "g6", "of-state", "console-share-consumer"),
    *_from_start("committed", **{"share.isolation.level": "read_committed"}),
    *steps(
        TOOL,
        f"--topic one --group g1 --max-messages 2 {_SOON}",
        f"--topic one --group g1 --max-messages 3 {_SOON} {_shown('delivery', 'offset')}",
        "--topic one --group g1 --timeout-ms 400",
        _left("g1"),
        f"--topic one --group g2 --release --max-messages 2 {_SOON} {_shown('delivery')}",
        f"--topic one --group g2 --reject --max-messages 1 {_SOON} {_shown('delivery')}",
        f"--topic one --group g2 --max-messages 1 {_SOON} {_shown('delivery')}",
        "--topic one --group g2 --release --reject",
        Step(TOOL, f"--topic two --group g3 --max-messages 5 {_SOON}", alike=sorted_lines),
        _left("g3"),
        f"--topic rich --group g4 --max-messages 3 {_SOON} {_shown(*_ALL)}",
        f"--topic binary --group g5 --max-messages 2 {_SOON} --reject-message-on-error "
        f"--value-deserializer {_OF}IntegerDeserializer",
        "--topic binary --group g5 --timeout-ms 400",
        f"--topic txn --group g6 --max-messages 2 {_SOON}",
        f"--topic txn --group committed --max-messages 1 {_SOON}",
        f"--topic one --max-messages 1 {_SOON}",
        "--topic one --command-property group.id=g1 --command-property client.id=me --timeout-ms 100",
        "--topic one --group g1 --command-property group.id=g2 --timeout-ms 100",
        "--topic one --group g1 --consumer-property client.id=me --timeout-ms 100",
        "--topic one --group g1 --consumer-config '{file:client.id=me}' --timeout-ms 100",
        "--topic one --group g1 --command-config '{file:client.id=me}' --timeout-ms 100",
        "--topic one --group g1 --command-property a=b --consumer-property a=b --timeout-ms 100",
        "--topic one --group g1 --command-config '{file:a=b}' --consumer-config '{file:a=b}' --timeout-ms 100",
        "--topic one --group g1 --max-messages 0 --timeout-ms 100",
        "--topic empty --group g1 --timeout-ms 100 --enable-systest-events",
        "--topic missing --group g1 --timeout-ms 100",
        "--topic 'a b' --group g1 --timeout-ms 100",
        "--group g1",
        "",
        "--topic one --topic one",
        "--topic one --group g1 --include one",
        "--topic one --group g1 --from-beginning",
        "--topic one --group g1 --max-messages many",
        "--topic one --group g1 --timeout-ms many",
        "--topic one --group g1 --formatter org.example.Mine --timeout-ms 100",
        "--topic one --group g1 --no-such-flag",
        "{nowhere} --topic one --timeout-ms 100",
        "{nowhere} --bootstrap-server localhost:1 --topic one --timeout-ms 100",
        f"--topic one --group of-state --max-messages 1 {_SOON}",
        Step(
            "console-consumer",
            f"--topic __share_group_state --partition 0 --offset earliest --timeout-ms 500 --formatter {_FORMATTER}",
            alike=_state,
        ),
    ),
]
STEPS += [
    Step("console-share-consumer", each)
    for each in (
        "--",
        "{nowhere}",
    )
]
IN_OUR_WORDS = {
    "",
    "--",
    "--group g1",
    "--topic 'a b' --group g1 --timeout-ms 100",
    "--topic __share_group_state --partition 0 --offset earliest --timeout-ms 500 --formatter org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter",  # noqa: E501
    "--topic binary --group g5 --max-messages 2 --timeout-ms 6000 --reject-message-on-error --value-deserializer org.apache.kafka.common.serialization.IntegerDeserializer",  # noqa: E501
    "--topic one --group g1 --command-config '{file:a=b}' --consumer-config '{file:a=b}' --timeout-ms 100",
    "--topic one --group g1 --command-property a=b --consumer-property a=b --timeout-ms 100",
    "--topic one --group g1 --command-property group.id=g2 --timeout-ms 100",
    "--topic one --group g1 --formatter org.example.Mine --timeout-ms 100",
    "--topic one --group g1 --max-messages 2 --timeout-ms 6000",
    "--topic one --group g1 --max-messages many",
    "--topic one --group g1 --timeout-ms 400",
    "--topic one --group g2 --release --reject",
    "{nowhere}",
}
