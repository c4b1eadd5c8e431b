"""The topic of the registry is read on in small steps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka_broker.control.problems import Problem
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.produce_request import ProduceRequest
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


class Produced:
    """A topic whose writes are noted; `outcome` is what comes of the next one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[bytes] = []
        self.outcome: BaseException | int = 0
        monkeypatch.setattr(topic, "InProcessClient", lambda running: self)
        services = SimpleNamespace(image=SimpleNamespace(topics={topic.TOPIC: SimpleNamespace(id=b"i" * 16)}))
        services.clock, services.node = SimpleNamespace(wall=0), SimpleNamespace(id=1)
        node = SimpleNamespace(roles=SimpleNamespace(alone=True))
        running: Any = SimpleNamespace(server=SimpleNamespace(broker=SimpleNamespace(services=services, node=node)))
        self.topic = topic.SchemasTopic(running)

    async def ask(self, request: ProduceRequest) -> Any:
        self.batches.append(bytes(request.topic_data[0].partition_data[0].records or b""))
        outcome, self.outcome = self.outcome, 0
        if isinstance(outcome, BaseException):
            raise outcome
        told = SimpleNamespace(error_code=outcome, error_message=None)
        return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[told])])

    async def change(self) -> None:
        async with self.topic.changing():
            await self.topic.write([(b"a change", None)])

    @property
    def written(self) -> list[bool]:
        """Return whether each batch was a change."""
        return [b"a change" in each for each in self.batches]


@pytest.mark.parametrize(
    ("outcome", "is_known"),
    [
        (asyncio.CancelledError(), False),
        (Problem(504, "no answer came"), False),
        (ErrorCode.REQUEST_TIMED_OUT, False),
        (ErrorCode.MESSAGE_TOO_LARGE, True),
        (ErrorCode.NONE, True),
    ],
)
def test_a_change_waits_until_all_before_it_is_known(
    monkeypatch: pytest.MonkeyPatch, outcome: BaseException | int, is_known: bool
) -> None:
    """The records of a change without an outcome may be committed later: its ids would be given a second time."""
    produced = Produced(monkeypatch)

    async def scenario() -> None:
        produced.outcome = outcome
        with suppress(RegistryError, asyncio.CancelledError):
            await produced.change()
        if not is_known:
            produced.outcome = ErrorCode.REQUEST_TIMED_OUT
            with pytest.raises(RegistryError):
                await produced.change()
            assert produced.written == [True, False], "a change that can't be known yet is not made"
        await produced.change()
        await produced.change()
        assert produced.written == ([True, True, True] if is_known else [True, False, False, True, True])

    run(scenario)
