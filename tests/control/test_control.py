"""Requests of Kafka's protocol from inside the process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka_broker.broker.requests.context import NO_CONNECTION
from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.broker.waiting.future import Future
from pykafka_broker.control.control import InProcessClient
from pykafka_broker.control.problems import Problem
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.server.serving import Running
from pykafka_broker.testing import KafkaBroker

PARTITIONS = 5_000  # whose metadata are written in several slices


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(in_process=True) as broker:
        yield broker


class Inside:
    """The client inside the process of a broker, from the thread of a test."""

    def __init__(self, broker: KafkaBroker) -> None:
        process: Any = broker._process
        self._loop: asyncio.AbstractEventLoop = process._loop
        self.running: Running = process.running
        self.client = InProcessClient(self.running)

    def begin(self) -> asyncio.Task[Any]:
        """Return a request that the broker has begun to serve."""

        async def begun() -> asyncio.Task[Any]:
            task = asyncio.ensure_future(self.client.ask(MetadataRequest(topics=None)))
            await asyncio.sleep(0)
            return task

        return asyncio.run_coroutine_threadsafe(begun(), self._loop).result(60)

    def outcome(self, task: asyncio.Task[Any]) -> Any:
        """Return the answer to a request, or raise what has ended it."""

        async def ended() -> Any:
            return await asyncio.wait_for(asyncio.shield(task), 60)

        return asyncio.run_coroutine_threadsafe(ended(), self._loop).result(60)


def test_a_request_that_is_being_served_when_the_broker_is_reset(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("wide", PARTITIONS)
    inside = Inside(broker)
    monkeypatch.setattr(inside.running.server.broker.services.slices, "_later", lambda step: None)  # no further slice
    asked = inside.begin()
    assert not asked.done()
    broker.reset()
    with pytest.raises(Problem, match="Metadata has no answer: the broker was reset"):
        inside.outcome(asked)
    assert inside.outcome(inside.begin()).error_code == 0


class FailingReply(PendingReply):
    __slots__ = ()

    def __init__(self) -> None:
        self.future = Future()

    def pieces(self) -> Any:
        raise ZeroDivisionError("a defect")


def test_a_defect_in_an_answer_that_comes_later(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, reply = Inside(broker), FailingReply()
    assert inside.client._context.id == NO_CONNECTION
    monkeypatch.setattr(inside.client._router, "dispatch", lambda *request: reply)
    asked = inside.begin()
    inside._loop.call_soon_threadsafe(reply.future.complete, None)
    with pytest.raises(ZeroDivisionError):
        inside.outcome(asked)
