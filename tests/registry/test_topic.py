"""The topic of the registry is read on in small steps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.registry import records, topic
from pykafka_broker.registry.problems import RegistryError
from pykafka_broker.registry.records import Schema, Version
from tests.server.support import run


class Written:
    """A topic with a record for each subject, in one batch; the record at offset `damaged` can't be read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        self.count = count
        self.damaged: int | None = None
        self.begun: list[int] = []
        monkeypatch.setattr(topic, "InProcessClient", lambda running: None)
        monkeypatch.setattr(topic, "records_from", self._records_from)
        monkeypatch.setattr(topic, "end_of", lambda partition, isolation_level: self.count)
        services = SimpleNamespace(image=SimpleNamespace(topics={topic.TOPIC: SimpleNamespace(id=b"i")}))
        services.replicas = SimpleNamespace(readable=lambda name, index: None)
        running: Any = SimpleNamespace(server=SimpleNamespace(broker=SimpleNamespace(services=services)))
        self.topic = topic.SchemasTopic(running)

    def _records_from(self, partition: object, offset: int, isolation_level: str) -> Iterator[Any]:
        self.begun.append(offset)
        for each in range(offset, self.count):
            if each == self.damaged:
                raise ApiError(ErrorCode.CORRUPT_MESSAGE)
            version = Version(f"s{each}", 1, each + 1, Schema("AVRO", '"int"'))
            key, value = records.schema_key(f"s{each}", 1), records.schema_value(version)
            yield SimpleNamespace(record=SimpleNamespace(offset=each, key=key, value=value, timestamp=0))


def test_very_many_new_records_are_read_with_others_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written(monkeypatch, 1_000)

    async def scenario() -> None:
        seen: list[int] = []
        reading = asyncio.create_task(written.topic.read_on())
        while not reading.done():
            await asyncio.sleep(0)
            seen.append(len(written.topic._state.subjects()))
        assert list(dict.fromkeys(seen)) == [200, 400, 600, 800, 1_000]
        assert written.begun == [0], "a batch is decoded once"
        written.count += 100
        assert len(written.topic.state().subjects()) == 1_100
        assert written.begun == [0, 1_000]

    run(scenario)


def test_an_answer_in_the_middle_has_all_records(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written(monkeypatch, 500)

    async def scenario() -> None:
        reading = asyncio.create_task(written.topic.read_on())
        await asyncio.sleep(0)
        assert len(written.topic.state().subjects()) == 500
        await reading
        assert written.begun == [0]

    run(scenario)


def test_what_can_not_be_read_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written(monkeypatch, 10)
    written.damaged = 5
    for _ in range(2):
        with pytest.raises(RegistryError):
            written.topic.state()
    written.damaged = None
    assert len(written.topic.state().subjects()) == 10
    assert written.begun == [0, 5, 5]
