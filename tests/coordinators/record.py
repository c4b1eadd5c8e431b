"""Records what Kafka writes about groups: python -m tests.coordinators.record

Rule: the groups are those of scenarios (`tests/scenarios/groups`), and one that subscribes to a regular expression,
which Kafka resolves at a time of its own; they stand one after the other, their records in the order of
`__consumer_offsets`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from interop.real_kafka import RealKafka
from interop.waiting import eventually
from pykafka_broker.coordinators.record import CoordinatorRecord, decode
from pykafka_broker.protocol.stored.group_metadata_key import GroupMetadataKey
from pykafka_broker.protocol.stored.offset_commit_key import OffsetCommitKey
from pykafka_broker.protocol.stored_keys import GROUP_RECORDS
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records
from tests.scenarios.groups.actors import ConsumerMember
from tests.scenarios.groups.scripts import SCENARIOS
from tests.scenarios.groups.settings import CONFIG
from tests.scenarios.groups.sockets import SocketWorld
from tests.scenarios.groups.stage import Stage

HERE = Path(__file__).parent
GROUPS = (
    "second-member-comes-and-goes",
    "simple-group-in-every-version",
    "consumer-offsets",
    "upgrade-and-downgrade",
)
STREAMS = (  # the last one deletes its group
    "streams-standby-tasks",
    "streams-tasks-move-twice",
    "streams-static-member",
    "streams-alone",
)
BY_EXPRESSION = "consumer-of-a-regular-expression"
Row = tuple[CoordinatorRecord, str, str | None]


def record() -> None:
    with RealKafka(CONFIG) as kafka:
        for name in (*GROUPS, BY_EXPRESSION, *STREAMS):
            stage = Stage(SocketWorld(("127.0.0.1", kafka.port), name))
            stage.ready()
            SCENARIOS.get(name, _subscribe_to_an_expression)(stage)
        kafka.stop()
        rows = list(_stored(kafka.data_dir))
    groups = [(type(each.key).__name__, key, value) for each, key, value in _of(rows, (*GROUPS, BY_EXPRESSION))]
    _write(HERE / "kafka_records.json", groups)
    _write(HERE / "streams" / "kafka_records.json", [(key, value) for _, key, value in _of(rows, STREAMS)])


def _subscribe_to_an_expression(stage: Stage) -> None:
    member = ConsumerMember(stage, "one")
    topic = stage.topic("t", 2)
    joined = member.join(subscribed_topic_regex=f"{topic}|other")
    eventually(lambda: bool((member.beat().assignment or joined.assignment).topic_partitions), True)


def _stored(data_dir: Path) -> Iterator[Row]:
    for path in sorted(data_dir.glob("__consumer_offsets-*/*.log")):
        for header, batch in iter_batches(path.read_bytes()):
            for each in () if header.is_control else iter_records(batch, header):
                pair = bytes(each.key or b""), None if each.value is None else bytes(each.value)
                record = decode(*pair, GROUP_RECORDS)
                if record is not None:
                    yield record, pair[0].hex(), None if pair[1] is None else pair[1].hex()


def _of(rows: Iterable[Row], names: Iterable[str]) -> list[Row]:
    """Return the records of groups, one group after the other."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        key: Any = row[0].key
        group = key.group if isinstance(key, GroupMetadataKey | OffsetCommitKey) else key.group_id
        found.setdefault(group, []).append(row)
    return [row for name in names for row in found[name]]


def _write(path: Path, rows: Iterable[object]) -> None:
    path.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    record()
