"""Every answer of the administrative APIs beside the one that a real 4.4.0 broker gave (recorder/record.py).

Compared is what was decoded, without what can't be the same: ids, offsets, times, disk space. Where we differ on
purpose the reason stands in DIFFERENT, and the answer is tested in the module of its handler.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.runtime import ZERO_UUID, Fields
from tests.broker.api.real_broker import RealBroker

ANSWERS = Path(__file__).with_name("kafka_answers.jsonl")
RECORDED_LOG_DIR = "/tmp/recorded-kafka-logs"

# The beginning of a request, and why our answer is another one.
DIFFERENT = {
    "Metadata 4 {topics:[{name:'auto1'}": "a topic that we create is in the same answer, Kafka's comes with the next",
    "Metadata 9 {topics:[{name:'__share_group_state'}": "the same",
    "Metadata 12 {topics:[{topicId:'AAAAAAAAAAAAAAAAAAAAAA',name:null}": "INVALID_REQUEST, where Kafka fails",
    "CreatePartitions 2 {topics:[{name:'a1',count:20000": "POLICY_VIOLATION, where Kafka fails",
    "IncrementalAlterConfigs 1 {validateOnly:true,resources:[{resourceType:2,resourceName:'a1',configs:[{name:"
    "'cleanup.policy',configOperation:7": "INVALID_REQUEST, where Kafka fails",
    "AlterPartitionReassignments 0 {timeoutMs:1000,topics:[]}": "no message is null here as everywhere else",
    "DescribeConfigs 4 {resources:[{resourceType:4,resourceName:'2'": "our messages say what is wrong",
    "DescribeConfigs 4 {resources:[{resourceType:8": "the loggers are Python's",
}

# Fields whose values depend on the run.
_VARYING = {
    "api_keys": "we serve older versions too",
    "cluster_id": "",
    "finalized_features_epoch": "",
    "high_watermark": "",
    "log_end_offset": "",
    "last_fetch_timestamp": "",
    "last_caught_up_timestamp": "",
    "leader_epoch": "",
    "total_bytes": "",
    "usable_bytes": "",
    "nodes": "where the controller listens",
}
# Lists whose order says something.
_ORDERED = ("synonyms", "replica_nodes", "isr_nodes")


def sections() -> Iterator[tuple[dict[str, str], list[dict[str, Any]]]]:
    settings: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    for line in ANSWERS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "settings" in row:
            if rows:
                yield settings, rows
            settings, rows = row["settings"], []
        else:
            rows.append(row)
    yield settings, rows


def plain(value: Any, name: str = "") -> Any:
    """Return a message as dictionaries and lists that can be compared."""
    if isinstance(value, Fields):
        return {field: plain(getattr(value, field), field) for field in value.__match_args__ if field not in _VARYING}
    if isinstance(value, list):
        values = [plain(item, name) for item in value]
        return values if name in _ORDERED else sorted(values, key=repr)
    if isinstance(value, bytes):
        return "none" if value == ZERO_UUID else "an id"
    return value


class TopicIds:
    """Our topic ids, by the ids that the recorded broker gave to the same names."""

    def __init__(self) -> None:
        self.ours: dict[bytes, bytes] = {}

    def learn(self, recorded: Any, ours: Any) -> None:
        theirs, mine = dict(self._named(recorded)), dict(self._named(ours))
        self.ours.update((theirs[name], mine[name]) for name in theirs if name in mine)

    def _named(self, value: Any) -> Iterator[tuple[str, bytes]]:
        if isinstance(value, list):
            for item in value:
                yield from self._named(item)
        elif isinstance(value, Fields):
            topic_id = getattr(value, "topic_id", ZERO_UUID)
            if topic_id != ZERO_UUID and getattr(value, "name", None):
                yield value.name, topic_id  # type: ignore[attr-defined]
            for field in value.__match_args__:
                yield from self._named(getattr(value, field))

    def replace(self, body: bytes) -> bytes:
        for theirs, mine in self.ours.items():
            body = body.replace(theirs, mine)
        return body


def compare(broker: RealBroker, rows: list[dict[str, Any]]) -> list[str]:
    """Repeat recorded requests and describe each answer that differs from Kafka's."""
    problems = []
    ids = TopicIds()
    for row in rows:
        api_key, version = ApiKey(row["key"]), row["version"]
        body = ids.replace(bytes.fromhex(row["request"]))
        request_class, response_class = SPECS[api_key].request_class(), SPECS[api_key].response_class()
        if api_key is ApiKey.REMOVE_RAFT_VOTER:
            asked: Any = request_class.decode(body, version)
            asked.cluster_id = broker.broker.cluster_id
            body = asked.encode(version)
        if api_key is ApiKey.ALTER_REPLICA_LOG_DIRS:
            request: Any = request_class.decode(body, version)
            for directory in request.dirs:
                directory.path = directory.path.replace(RECORDED_LOG_DIR, str(broker.directory))
            body = request.encode(version)
        try:
            answer = broker.answer_to(api_key, version, body)
        except FrameError as error:
            problems.append(f"{row['text']}\n  {error}")
            continue
        recorded = response_class.decode(bytes.fromhex(row["answer"]), row["answer_version"])
        ours = response_class.decode(answer, row["answer_version"])
        ids.learn(recorded, ours)
        if any(row["text"].startswith(beginning) for beginning in DIFFERENT):
            continue
        left, right = plain(recorded), plain(ours)
        for path, theirs, mine in differences(left, right):
            theirs = theirs.replace(RECORDED_LOG_DIR, str(broker.directory))
            if theirs != mine:
                problems.append(f"{row['text']}\n  at {path}\n  Kafka: {theirs}\n  we:    {mine}")
    return problems


def differences(left: Any, right: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield the path and both texts of each difference between two plain values."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in left:
            yield from differences(left[key], right[key], f"{path}.{key}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (theirs, mine) in enumerate(zip(left, right, strict=True)):
            yield from differences(theirs, mine, f"{path}[{number}]")
    elif left != right:
        yield path, repr(left), repr(right)


@pytest.mark.parametrize("number", range(len(list(sections()))))
def test_answers_are_those_of_kafka(number: int, tmp_path: Path) -> None:
    settings, rows = list(sections())[number]
    broker = RealBroker(tmp_path, **settings)
    problems = compare(broker, rows)
    broker.stop()
    assert not problems, "\n".join([f"{len(problems)} differences in {len(rows)} answers", *problems])
