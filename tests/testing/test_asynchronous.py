"""`async with KafkaBroker()`: the loop goes on while the broker's process starts and ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from pykafka_broker.testing import AsyncKafkaBroker, KafkaBroker

TICK_S = 0.005


async def longest_pause(work: Awaitable[object]) -> float:
    """How long, in seconds, the loop did not turn while `work` was awaited."""
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            began = time.perf_counter()
            await asyncio.sleep(TICK_S)
            longest = max(longest, time.perf_counter() - began)

    ticking = asyncio.create_task(tick())
    await work
    ticking.cancel()
    return longest


def test_a_block_has_a_broker_and_ends_it() -> None:
    async def run() -> AsyncKafkaBroker:
        async with KafkaBroker({"num.partitions": 2}) as broker:
            assert broker.running
            assert broker.bootstrap_servers == f"{broker.host}:{broker.port}"
            assert broker.config == {"num.partitions": "2"}
            _, writer = await asyncio.open_connection(broker.host, broker.port)
            writer.close()
            return broker

    broker = asyncio.run(run())
    assert not broker.running
    assert not broker.data_dir.exists()


@pytest.mark.parametrize("method", ["stop", "kill", "restart", "close"])
def test_the_loop_goes_on_meanwhile(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_s = 0.5
    end = KafkaBroker._end

    def slow(self: KafkaBroker, *args: object) -> None:
        time.sleep(slow_s)
        end(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(KafkaBroker, "_end", slow)

    async def run() -> None:
        async with KafkaBroker() as broker:
            pid = broker.pid
            work: Callable[[], Awaitable[object]] = getattr(broker, method)
            assert await longest_pause(work()) < slow_s
            assert broker.running == (method == "restart")
            assert (broker.pid != pid) == (method == "restart")

    asyncio.run(run())


def test_a_start_that_is_cancelled_leaves_no_process() -> None:
    async def run() -> KafkaBroker:
        broker = KafkaBroker()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(broker.__aenter__(), 0.01)
        return broker

    broker = asyncio.run(run())
    assert not broker.running
    assert broker.pid


def test_a_broker_of_a_fixture_can_be_awaited_too() -> None:
    with KafkaBroker() as broker:
        asyncio.run(AsyncKafkaBroker(broker).restart())
        assert broker.running
    assert repr(AsyncKafkaBroker(broker)) == repr(broker)


def test_everything_that_a_broker_can_is_awaited() -> None:
    async def use() -> None:
        async with KafkaBroker() as broker:
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.01)
                    ticks += 1

            ticking = asyncio.create_task(tick())
            await broker.create_topic("t")
            waiting = asyncio.create_task(broker.wait_for_records("t", 1))
            await asyncio.sleep(0.2)
            assert ticks > 2
            await broker.produce("t", ["1"])
            assert [record.value for record in await waiting] == ["1"]
            before = await broker.clock.now()
            assert await broker.clock.advance(minutes=10) >= before + 600_000
            assert broker.control_url.startswith("http://127.0.0.1:")
            assert broker.client_config("aiokafka") == {"bootstrap_servers": broker.bootstrap_servers}
            ticking.cancel()

    asyncio.run(use())
