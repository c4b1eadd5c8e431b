"""The loop in virtual time: what passes time, what stands still, and connections of any client of asyncio."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import socket
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.server.link_codec import encode_request
from pykafka_broker.testing.simulation import SimulatedCluster, SimulatedLoop, SimulationStalled, simulate
from pykafka_broker.testing.simulation.loop import SimulatedTransport

LONG_S = 3000


def api_versions() -> bytes:
    return bytes(bytearray().join(encode_request(ApiVersionsRequest(), 0, 7, "raw")))


def test_waits_take_no_time() -> None:
    async def main() -> list[float]:
        before = time.time(), time.monotonic(), asyncio.get_running_loop().time()
        await asyncio.sleep(LONG_S)
        after = time.time(), time.monotonic(), asyncio.get_running_loop().time()
        assert time.time_ns() == round(time.time() * 1e9) or abs(time.time_ns() / 1e9 - time.time()) < 1e-3
        assert time.monotonic_ns() == round(time.monotonic() * 1e9)
        return [now - then for then, now in zip(before, after, strict=True)]

    begun = time.perf_counter()
    assert simulate(main()) == pytest.approx([LONG_S] * 3)
    assert time.perf_counter() - begun < LONG_S / 10


def test_timers_come_in_their_order() -> None:
    async def main() -> list[str]:
        came: list[str] = []

        async def after(seconds: float, name: str) -> None:
            await asyncio.sleep(seconds)
            came.append(name)

        await asyncio.gather(after(0.003, "c"), after(0.001, "a"), after(0.002, "b"), after(0.0025, "b and a half"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.sleep(2)
        return came

    assert simulate(main()) == ["a", "b", "b and a half", "c"]


def test_a_busy_loop_passes_time() -> None:
    async def main() -> None:
        until = time.monotonic() + 0.1
        while time.monotonic() < until:  # noqa: ASYNC110  # as a client that never waits
            await asyncio.sleep(0)

    simulate(main())


def test_a_standstill_and_a_long_run_are_told() -> None:
    async def nothing() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(SimulationStalled, match="stands still"):
        simulate(nothing())
    with pytest.raises(SimulationStalled, match="10 virtual seconds"):
        simulate(asyncio.sleep(LONG_S), limit_s=10)


def test_sets_of_futures_are_walked_in_the_order_of_their_making() -> None:
    async def main() -> None:
        tasks = [asyncio.create_task(asyncio.sleep(0), name=str(number)) for number in range(50)]
        done, _ = await asyncio.wait(tasks)
        assert [task.get_name() for task in done] == [str(number) for number in range(50)]
        futures = {asyncio.get_running_loop().create_future() for _ in range(50)}
        assert sorted(futures, key=hash) == list(futures)

    simulate(main())


def test_other_threads_have_the_real_time() -> None:
    async def main() -> None:
        seen: list[float] = []
        thread = threading.Thread(target=lambda: seen.append(time.time()))
        thread.start()
        thread.join()
        assert seen[0] > time.time()

    simulate(main())


def test_work_for_threads_is_done_at_once() -> None:
    def fail() -> None:
        raise KeyError("of the work")

    async def main() -> None:
        assert await asyncio.to_thread(threading.get_ident) == threading.get_ident()
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as executor, pytest.raises(KeyError, match="of the work"):
            await loop.run_in_executor(executor, fail)

    simulate(main())


def test_chance_is_the_seeds_and_garbage_waits() -> None:
    async def main() -> tuple[object, ...]:
        async with SimulatedCluster(brokers=1, seed=3):
            assert not gc.isenabled()
            return random.random(), uuid.uuid4(), os.urandom(8)

    assert gc.isenabled()
    assert simulate(main()) == simulate(main())
    assert gc.isenabled()


# -- connections


def test_any_client_of_asyncio_connects() -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=1):
            reader, writer = await asyncio.open_connection("n1", 9092)
            assert writer.get_extra_info("peername") == ("n1", 9092)
            frame = api_versions()
            writer.write(frame[:3])  # pieces become a frame
            writer.write(frame[3:] + frame)
            await writer.drain()
            for _ in range(2):
                size = int.from_bytes(await reader.readexactly(4), "big")
                assert int.from_bytes((await reader.readexactly(size))[:4], "big") == 7
            writer.close()
            await writer.wait_closed()
            assert writer.transport.is_closing()

    simulate(main())


def test_a_connection_hears_of_a_killed_broker() -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=1) as cluster:
            reader, _ = await asyncio.open_connection("n1", 9092)
            cluster.broker(1).kill()
            with pytest.raises(ConnectionResetError):
                await reader.read()
            with pytest.raises(ConnectionRefusedError, match="n1:9092"):
                await asyncio.open_connection("n1", 9092)
            cluster.broker(1).start()
            await asyncio.open_connection("n1", 9092)

    simulate(main())


def test_a_paused_reader_gets_everything_afterwards() -> None:
    class Gathering(asyncio.Protocol):
        def __init__(self) -> None:
            self.data = b""

        def data_received(self, data: bytes) -> None:
            self.data += data

    async def main() -> None:
        async with SimulatedCluster(brokers=1):
            transport, protocol = await asyncio.get_running_loop().create_connection(Gathering, "n1", 9092)
            transport.pause_reading()
            transport.write(api_versions())
            await asyncio.sleep(1)
            assert (protocol.data, transport.is_reading()) == (b"", False)
            transport.resume_reading()
            await asyncio.sleep(1)
            assert protocol.data[4:8] == (7).to_bytes(4, "big")

    simulate(main())


def test_a_reader_that_pauses_again_at_once_gets_everything_in_order() -> None:
    class Gathering(asyncio.Protocol):
        def __init__(self) -> None:
            self.frames: list[bytes] = []

        def data_received(self, data: bytes) -> None:
            self.frames.append(data)

    async def main() -> None:
        async with SimulatedCluster(brokers=1):
            connected = await asyncio.get_running_loop().create_connection(Gathering, "n1", 9092)
            transport, protocol = cast(SimulatedTransport, connected[0]), connected[1]
            transport.pause_reading()
            transport.on_frame(b"1")
            transport.resume_reading()
            transport.pause_reading()
            transport.on_frame(b"2")
            await asyncio.sleep(1)
            transport.resume_reading()
            await asyncio.sleep(1)
            assert protocol.frames == [b"1", b"2"]

    simulate(main())


@pytest.mark.parametrize(
    ("host", "options", "error"),
    [("elsewhere", {}, socket.gaierror), ("n1", {"ssl": True}, NotImplementedError)],
)
def test_what_it_has_not_is_refused(host: str, options: dict[str, Any], error: type[Exception]) -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=1):
            with pytest.raises(error):
                await asyncio.get_running_loop().create_connection(asyncio.Protocol, host, 9092, **options)

    simulate(main())


def test_a_dial_is_given_up() -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=1) as cluster:
            cluster.cut("app", 1)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await asyncio.open_connection("n1", 9092)
            cluster.heal()
            await asyncio.open_connection("n1", 9092)

    simulate(main())


def test_a_dial_that_is_given_up_as_it_succeeds_leaves_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=1) as cluster:
            loop = cast(SimulatedLoop, asyncio.get_running_loop())
            before, dial = await cluster.broker(1).connections(), loop.network.dial

            def dial_and_cancel(host: Any, address: Any, connected: Any, failed: Any) -> Any:
                def reached(end: Any) -> None:
                    connected(end)
                    dialling.cancel()

                return dial(host, address, reached, failed)

            monkeypatch.setattr(loop.network, "dial", dial_and_cancel)
            dialling = asyncio.ensure_future(loop.create_connection(asyncio.Protocol, "n1", 9092))
            with pytest.raises(asyncio.CancelledError):
                await dialling
            await asyncio.sleep(1)
            assert await cluster.broker(1).connections() == before

    simulate(main())


def test_a_runner_takes_the_loop() -> None:
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(asyncio.sleep(LONG_S))
