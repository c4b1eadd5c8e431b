"""Tests of an application on aiokafka: the fixtures of pykafka_broker under pytest-asyncio, in either of its modes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pykafka_broker.testing import AsyncKafkaBroker

pytestmark = pytest.mark.asyncio


async def test_clients_of_the_fixtures(kafka_topic: str, aiokafka_producer: Any, aiokafka_consumer: Any) -> None:
    await aiokafka_producer.send_and_wait(kafka_topic, b"1")
    record = await asyncio.wait_for(aiokafka_consumer.getone(), 60)
    assert record.value == b"1"


async def test_a_cancelled_wait_is_gone_at_once_and_no_thread_is_used(kafka_broker: Any) -> None:
    broker = AsyncKafkaBroker.of(kafka_broker)
    await broker.create_topic("orders")
    loop = asyncio.get_running_loop()
    waiting = asyncio.create_task(broker.wait_for_records("orders", 1, timeout=60))
    await asyncio.sleep(0.2)
    begun = loop.time()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert loop.time() - begun < 30
    assert loop._default_executor is None  # type: ignore[attr-defined]  # asyncio has no public way to ask
