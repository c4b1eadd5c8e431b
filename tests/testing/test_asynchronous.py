"""The asynchronous form: all is awaited and typed, the loop goes on, and a cancelled call leaves nothing behind."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import psutil
import pytest

from pykafka_broker.testing import (
    AsyncKafkaBroker,
    AsyncKafkaCluster,
    AsyncRemoteBroker,
    BrokerError,
    ControlError,
    KafkaBroker,
    KafkaCluster,
    RemoteBroker,
)
from pykafka_broker.testing.aio.controlled import AsyncBrokerClock
from pykafka_broker.testing.aio.traffic import AsyncFault, AsyncFaults
from pykafka_broker.testing.async_client import in_thread
from pykafka_broker.testing.controlled import BrokerClock
from pykafka_broker.testing.traffic import Fault, Faults


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0.01)


def with_broker(use: Callable[[AsyncKafkaBroker], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario with a broker of its own."""

    async def run() -> None:
        async with AsyncKafkaBroker() as broker:
            await use(broker)

    asyncio.run(run())


# -- life


@pytest.mark.parametrize("maker", [KafkaBroker, AsyncKafkaBroker])
def test_a_block_has_a_broker_and_ends_it(maker: type[KafkaBroker] | type[AsyncKafkaBroker]) -> None:
    async def run() -> AsyncKafkaBroker:
        async with maker({"num.partitions": 2}) as broker:
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
    turned = threading.Event()
    end = KafkaBroker._end

    def slow(self: KafkaBroker, *args: object) -> None:
        assert turned.wait(60), "the loop stands still"
        end(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(KafkaBroker, "_end", slow)

    async def use(broker: AsyncKafkaBroker) -> None:
        pid = broker.pid
        work: Callable[[], Awaitable[object]] = getattr(broker, method)
        asyncio.get_running_loop().call_later(0.1, turned.set)
        await work()
        assert broker.running == (method == "restart")
        assert (broker.pid != pid) == (method == "restart")

    with_broker(use)


def test_a_start_that_is_cancelled_leaves_no_process() -> None:
    async def run() -> KafkaBroker:
        broker = KafkaBroker()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(broker.__aenter__(), 0.01)
        return broker

    broker = asyncio.run(run())
    assert not broker.running
    assert broker.pid


@pytest.mark.parametrize("begins_after_s", [0, 1])
def test_a_start_that_would_not_end_is_cancelled_at_once(monkeypatch: pytest.MonkeyPatch, begins_after_s: int) -> None:
    """Also before there is a process, as on a busy machine."""
    silent = [sys.executable, "-c", "import time; time.sleep(200)"]

    def command(_: KafkaBroker) -> list[str]:
        time.sleep(begins_after_s)
        return silent

    async def run() -> None:
        broker = KafkaBroker(start_timeout_s=200)
        with monkeypatch.context() as patched:
            patched.setattr(KafkaBroker, "_command", command)
            begun = time.monotonic()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(broker.__aenter__(), 0.3)
            assert time.monotonic() - begun < 100
        async with broker as started:
            assert started.running

    asyncio.run(run())


def test_a_broker_that_there_is_has_this_form_too() -> None:
    with KafkaBroker() as broker:
        form = AsyncKafkaBroker.of(broker)
        pid = broker.pid
        asyncio.run(form.restart())
        assert broker.running
        assert form.pid == broker.pid != pid
        assert repr(form) == repr(broker)
        remote = AsyncRemoteBroker(broker.control_url)
        assert remote.client_config("aiokafka") == form.client_config("aiokafka")
        assert remote.bootstrap_servers == broker.bootstrap_servers
        asyncio.run(remote.create_topic("there"))
        assert [each["name"] for each in broker.topics()] == ["there"]


# -- parts


def test_all_parts_of_a_broker_are_awaited() -> None:
    async def use(broker: AsyncKafkaBroker) -> None:
        before = await broker.clock.now()
        assert await broker.clock.advance(minutes=10) >= before + 600_000
        assert not await broker.clock.frozen
        assert broker.control_url.startswith("http://127.0.0.1:")
        assert broker.client_config("aiokafka") == {"bootstrap_servers": broker.bootstrap_servers}
        assert (await broker.listeners)["PLAINTEXT"] == broker.bootstrap_servers
        assert await broker.seed(['{"type": "topic", "name": "seeded"}']) == {"topics": 1, "records": 0, "offsets": 0}
        await broker.snapshot("before")
        await broker.reset()
        assert await broker.topics() == []
        await broker.restore("before")
        assert [each["name"] for each in await broker.topics()] == ["seeded"]

    with_broker(use)


def test_a_fault_is_awaited_or_entered() -> None:
    async def use(broker: AsyncKafkaBroker) -> None:
        fault = await broker.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER")
        assert await fault.hits == 0
        assert (await fault.describe())["api"] == ["Produce"]
        async with broker.faults.add(api=["Fetch"], delay_ms=1) as entered:
            assert [each["id"] for each in await broker.faults.all()] == [fault.id, entered.id]
        assert [each["id"] for each in await broker.faults.all()] == [fault.id]
        with pytest.raises(AssertionError, match="within 10 ms"):
            await fault.wait(timeout=0.01)
        coming = broker.faults.add(api="Fetch", delay_ms=1)
        with pytest.raises(
            AttributeError, match="hits is of the result, which is awaited, or entered with `async with`"
        ):
            _ = cast(Any, coming).hits
        await (await coming).remove()
        assert await fault.remove() == 0
        with pytest.raises(ControlError, match="Fetchh"):
            await broker.faults.add(api="Fetchh")

    with_broker(use)


def test_a_fork_is_entered_or_awaited() -> None:
    async def use(broker: AsyncKafkaBroker) -> None:
        await broker.produce("t", ["1"])
        async with broker.fork() as copy:
            await copy.assert_records("t", ["1"])
            await copy.produce("t", ["2"])
        assert not copy.running
        await broker.assert_records("t", ["1"])
        other = await broker.fork()
        assert await other.clock.now() > 0
        await other.close()

    with_broker(use)


@pytest.mark.parametrize(("kind", "form"), [(KafkaBroker, AsyncKafkaBroker), (KafkaCluster, AsyncKafkaCluster)])
def test_a_fork_that_nobody_waits_for_any_more_is_closed(
    kind: type, form: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on, closed = threading.Event(), threading.Event(), threading.Event()

    def fork(_: object) -> Any:
        begun.set()
        goes_on.wait()
        return SimpleNamespace(close=closed.set)

    async def cancel() -> None:
        async def wait() -> None:
            await form.of(kind()).fork()

        waiting = asyncio.create_task(wait())
        await asyncio.to_thread(begun.wait)
        waiting.cancel()
        goes_on.set()
        await asyncio.wait([waiting])
        assert waiting.cancelled()

    monkeypatch.setattr(kind, "fork", fork)
    asyncio.run(cancel())
    assert closed.is_set()


# -- waits


def test_waits_go_on_beside_the_test_and_use_no_thread() -> None:
    async def use(broker: AsyncKafkaBroker) -> None:
        await broker.create_topic("t")
        before = set(threading.enumerate())  # other tests may have left some
        waiting = [asyncio.create_task(broker.wait_for_records("t", 1)) for _ in range(50)]
        await asyncio.sleep(0.2)
        assert set(threading.enumerate()) <= before
        await broker.produce("t", ["1"])
        assert {record.value for each in await asyncio.gather(*waiting) for record in each} == {"1"}

    with_broker(use)


def test_a_wait_that_is_cancelled_is_gone_at_once_in_the_broker_too() -> None:
    async def use(broker: AsyncKafkaBroker) -> None:
        await broker.create_topic("t")
        process, port = psutil.Process(broker.pid), urlsplit(broker.control_url).port

        def served() -> int:
            return sum(
                each.status == "ESTABLISHED" and each.laddr.port == port for each in process.net_connections("tcp")
            )

        waiting = [asyncio.create_task(broker.wait_for_records("t", 1, timeout=300)) for _ in range(50)]
        await until(lambda: served() >= 50)
        begun = time.monotonic()
        for each in waiting:
            each.cancel()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(each) for each in ended} == {asyncio.CancelledError}
        await until(lambda: served() == 0)
        assert time.monotonic() - begun < 150  # of the 300 s

    with_broker(use)


def test_a_wait_in_vain_and_a_broker_that_is_not_there_are_told_as_ever() -> None:
    async def use(broker: AsyncKafkaBroker) -> None:
        with pytest.raises(AssertionError, match="after 50 ms"):
            await broker.wait_for_group("nobody", timeout=0.05)
        with pytest.raises(ControlError, match="nowhere"):
            await broker.topic("nowhere")
        remote = AsyncRemoteBroker(broker.control_url)
        url = broker.control_url
        await broker.kill()
        with pytest.raises(BrokerError, match="not running"):
            await broker.topics()
        with pytest.raises(ConnectionRefusedError) as refused:
            await remote.topics()
        assert refused.value.filename == url

    with_broker(use)


def test_nothing_is_left_open_on_a_loop_that_ends() -> None:
    code = """if True:
        import asyncio
        from pykafka_broker.testing import AsyncKafkaBroker

        async def run():
            asyncio.get_running_loop().slow_callback_duration = 60  # a busy machine is no fault
            async with AsyncKafkaBroker() as broker:
                waiting = asyncio.create_task(broker.wait_for_group("nobody"))
                await broker.topics()
                waiting.cancel()

        asyncio.run(run())
    """
    ended = subprocess.run([sys.executable, "-W", "error", "-X", "dev", "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


# -- types

GOOD = """
    from pykafka_broker.testing import AsyncKafkaBroker, KafkaBroker, Record

    async def use() -> list[Record]:
        async with AsyncKafkaBroker({"num.partitions": 3}, emulate="2.8") as broker:
            async with broker.faults.add(api="Fetch", delay_ms=10) as fault, broker.fork() as copy:
                hits: int = await fault.hits
                await copy.clock.advance(minutes=hits)
            await (await broker.faults.add(cut=True)).remove()
        async with KafkaBroker() as other:
            return await other.wait_for_records("orders", 1)
"""
BAD = {
    'await broker.wait_for_recordz("t", 1)': 'has no attribute "wait_for_recordz"',
    "await broker.clock.advnce(days=1)": 'has no attribute "advnce"',
    "await broker.clock.advance(eons=1)": 'Unexpected keyword argument "eons"',
    'await broker.create_topic("t", "3")': 'incompatible type "str"',
    'broker.create_topic("t")': "must be used",
    "(await broker.faults.add(cut=True)).hitz": 'has no attribute "hitz"',
    "broker.faults.add(cut=True).remove()": 'has no attribute "remove"',
    "AsyncKafkaBroker(emulate=3)": 'incompatible type "int"',
    "AsyncKafkaBroker(emulat='3')": 'Unexpected keyword argument "emulat"',
    "number: str = await broker.clock.now()": "Incompatible types in assignment",
}


@pytest.mark.whole
def test_mypy_knows_what_is_awaited_and_with_what(tmp_path: Path) -> None:
    lines = ["from pykafka_broker.testing import AsyncKafkaBroker", "async def use(broker: AsyncKafkaBroker) -> None:"]
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(textwrap.dedent(GOOD))
    bad.write_text("\n".join([*lines, *(f"    {line}" for line in BAD)]))
    command = [
        *(sys.executable, "-m", "mypy", "--strict", "--config-file="),
        "--follow-imports=silent",  # what it says of the package is told elsewhere
        "--cache-dir=.mypy_cache/of-a-test",  # a run without a cache takes a minute
        *map(str, (good, bad)),
    ]
    told = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2]).stdout.splitlines()
    assert told[-1].endswith("in 1 file (checked 2 source files)"), told  # which is not the good one
    for number, (line, says) in enumerate(BAD.items(), start=3):
        of_line = [each for each in told if f"bad.py:{number}: " in each]
        assert any(says in each for each in of_line), (line, told)


NOT_ASYNCHRONOUS = {"give_up", "join"}


def parameters(function: Callable[..., Any]) -> list[tuple[object, ...]]:
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


def public(kind: type) -> dict[str, Any]:
    return {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}


def test_both_forms_have_the_same_methods_with_the_same_parameters() -> None:
    forms = [(KafkaBroker, AsyncKafkaBroker), (RemoteBroker, AsyncRemoteBroker)]
    forms += [(BrokerClock, AsyncBrokerClock), (Faults, AsyncFaults), (Fault, AsyncFault)]
    for plain, form in forms:
        others = public(form)
        assert public(plain).keys() - others.keys() <= NOT_ASYNCHRONOUS
        for name, member in public(plain).items():
            if inspect.isfunction(member) and name in others:
                assert parameters(member) == parameters(others[name]), name
    assert parameters(AsyncKafkaBroker.__init__) == parameters(KafkaBroker.__init__)


def test_work_of_a_caller_cancelled_twice_is_undone() -> None:
    begun, go_on, undone = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert go_on.wait(30)

    async def run() -> None:
        task = asyncio.create_task(in_thread(work, undo=undone.set))
        await until(begun.is_set)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert undone.wait(30)
