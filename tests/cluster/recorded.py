"""The recordings of `recorder/` from a Kafka controller: requests, their answers, and the records written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pykafka_broker.cluster.records import ApiMessageAndVersion, decode_versioned
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.runtime import Message

_LINES = Path(__file__).with_name("kafka_decisions.jsonl")


class Step(NamedTuple):
    """A recorded step; `request` is None where time alone caused the step."""

    section: str
    what: str
    request: Message | None
    answer: Any
    records: list[ApiMessageAndVersion]


def steps(lines: Iterable[str] | None = None) -> Iterator[Step]:
    for line in _LINES.read_text().splitlines() if lines is None else lines:
        said = json.loads(line)
        request = answer = None
        if "api" in said:
            spec, version = SPECS[ApiKey[said["api"]]], said["version"]
            request = spec.request_class().decode(bytes.fromhex(said["request"]), version)
            answer = spec.response_class().decode(bytes.fromhex(said["answer"]), version)
        records = [decode_versioned(bytes.fromhex(record)) for record in said["records"]]
        yield Step(said["section"], said["what"], request, answer, records)
