"""A share consumer whose fetches are refused asks again with pauses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.share_consumer import ShareConsumer
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_fetch_request import ShareFetchRequest
from pykafka_broker.protocol.messages.share_fetch_response import ShareFetchResponse
from pykafka_broker.testing import KafkaBroker


def test_a_broker_without_room_for_a_session_is_asked_with_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(bootstrap: str) -> list[int]:
        epochs: list[int] = []
        async with Client(bootstrap, {"group.id": "g"}) as client:
            plain = client.ask_once

            async def no_room(request: Any, *rest: Any, **options: Any) -> Any:
                if isinstance(request, ShareFetchRequest):
                    epochs.append(request.share_session_epoch)
                    return ShareFetchResponse(error_code=ErrorCode.SHARE_SESSION_LIMIT_REACHED)
                return await plain(request, *rest, **options)

            monkeypatch.setattr(client, "ask_once", no_room)
            async with ShareConsumer(client, ["t"]) as consumer:
                while not epochs:
                    await consumer.poll(100, 1)
                epochs.clear()
                assert await consumer.poll(1_000, 1) == []
            assert len(epochs) <= 5  # after 100, 200, 400 and 800 ms, a fifth more or less
        return epochs

    with KafkaBroker() as broker:
        broker.create_topic("t", 1)
        epochs = asyncio.run(asyncio.wait_for(work(broker.bootstrap_servers), 30))
    assert set(epochs) == {0}  # no session was opened, so each fetch begins one


def test_a_topic_that_the_asked_broker_does_not_know_yet_is_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(bootstrap: str) -> None:
        async with Client(bootstrap, {"group.id": "g"}) as client:
            plain, asked = client.metadata, list[int]()

            async def behind(*topics: Any, **options: Any) -> Any:
                answer = await plain(*topics, **options)
                asked.append(len(answer.topics))
                answer.topics = answer.topics if len(asked) > 1 else []
                return answer

            monkeypatch.setattr(client, "metadata", behind)
            async with ShareConsumer(client, ["t"]) as consumer:
                while len(asked) < 2:
                    await consumer.poll(100, 1)
                while not await consumer.poll(500, 1):  # a group begins at the end
                    await asyncio.to_thread(broker.produce, "t", ["a"])

    with KafkaBroker() as broker:
        broker.create_topic("t", 1)
        asyncio.run(asyncio.wait_for(work(broker.bootstrap_servers), 20))
