"""One broker as a process: its collector looks away, jobs run beside the loop, and it leaves when it may."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from pykafka_broker import platform
from pykafka_broker.broker.setup import NO_SETUP
from pykafka_broker.cli.serve import parser, planned
from pykafka_broker.config import BrokerConfig
from pykafka_broker.log import filesystem
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.server.event_loop import new_event_loop
from pykafka_broker.server.serving import Collector, JobRunner, ProcessExtension, Unfenced, serve
from tests.broker.test_many_partitions import TurningBroker, fetch, produce


class Ending:
    """A watcher that ends a broker as soon as it serves."""

    def hand_to(self, stop: Callable[[], object]) -> None:
        self._stop = stop

    def on_ready(self, bound: Sequence[tuple[str, int]]) -> None:
        self._stop()


@pytest.mark.parametrize(
    ("options", "syncs"),
    [
        (["--quick-groups"], True),
        (["--ephemeral"], False),
        (["--ephemeral", "--schema-registry", "0"], False),
        (["--ephemeral", "--control", "0"], False),
    ],
)
def test_data_that_end_with_the_process_are_never_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], syncs: bool
) -> None:
    synced: list[object] = []
    for module, name in ((platform, "sync_data"), (platform, "sync_directory"), (filesystem, "sync_file_system")):
        monkeypatch.setattr(module, name, synced.append)
    plan = planned(parser().parse_args([*options, "--listen", "0"]), str(tmp_path), {}, print)
    ending = Ending()
    with closing(new_event_loop()) as loop:
        work = serve(plan.config, loop, ending.on_ready, ending, plan.setup, plan.beside or ProcessExtension(), None)
        assert not loop.run_until_complete(work)
    assert bool(synced) == syncs


def test_a_start_that_meets_a_taken_port_leaves_no_socket(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        with closing(socket.create_server(("127.0.0.1", 0))) as one:
            free = one.getsockname()[1]
        listeners = [f"PLAINTEXT://127.0.0.1:{free}", f"OTHER://127.0.0.1:{taken.getsockname()[1]}"]
        mapped = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"}
        config = BrokerConfig({"listeners": ",".join(listeners), "log.dirs": str(tmp_path), **mapped})
        ending = Ending()
        gc.disable()
        try:
            with closing(new_event_loop()) as loop, pytest.raises(OSError, match="in use"):
                loop.run_until_complete(
                    serve(config, loop, ending.on_ready, ending, NO_SETUP, ProcessExtension(), None)
                )
            socket.create_server(("127.0.0.1", free)).close()
        finally:
            gc.enable()
    assert not any(tmp_path.iterdir())


class Watched:
    def __init__(self) -> None:
        self.now = 0.0
        self.frozen = 0
        self.collector = Collector(lambda: self.now, self.freeze)

    def freeze(self) -> None:
        self.frozen += 1

    def collection(self, generation: int, seconds: float) -> None:
        self.collector.on_collection("start", {"generation": generation})
        self.now += seconds
        self.collector.on_collection("stop", {"generation": generation})


def test_what_outlives_a_long_full_collection_is_not_looked_at_again() -> None:
    watched = Watched()
    watched.collection(2, 0.009)
    watched.collection(1, 0.5)
    assert watched.frozen == 0
    watched.collection(2, 0.011)
    assert watched.frozen == 1


def test_it_watches_from_the_start_to_the_stop() -> None:
    watched = Watched()
    watched.collector.start()
    assert watched.frozen == 1
    assert watched.collector.on_collection in gc.callbacks
    watched.collector.stop()
    assert watched.collector.on_collection not in gc.callbacks


def test_logs_go_without_a_collection(tmp_path: Path) -> None:
    """Logs of deleted topics leave memory without a garbage collection, which a serving broker hardly ever does."""
    broker = TurningBroker(tmp_path)
    broker.add("t", 40)
    broker.ask(produce(range(40)), 9).answer()
    broker.ask(fetch(range(40)), 12).answer()
    gc.collect()
    gc.disable()
    try:
        before = logs_of("t", tmp_path)
        broker.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
        for _ in range(2):
            broker.now += 70_000
            broker.on_deadline(broker.now)
        assert (before, logs_of("t", tmp_path)) == (40, 0)
    finally:
        gc.enable()


def logs_of(topic: str, path: Path) -> int:
    """Count the logs of this test's broker: the process may still hold logs of other tests."""
    logs = [each for each in gc.get_objects() if isinstance(each, PartitionLog)]
    return sum(each.topic == topic and Path(each.directory).is_relative_to(path) for each in logs)


class Recorded:
    """A job that notes in which thread each of its parts was called."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.calls: list[tuple[str, bool]] = []
        self.failure: OSError | None = None

    def _note(self, name: str) -> None:
        self.calls.append((name, threading.current_thread() is threading.main_thread()))

    def run(self) -> None:
        self._note("run")
        if self.error is not None:
            raise self.error

    def apply(self) -> None:
        self._note("apply")

    def failed(self, error: OSError) -> None:
        self.failure = error
        self._note("failed")


def then(after: Callable[[], object]) -> Callable[[Callable[[], None]], None]:
    """Return a function that runs a step as a turn and then calls `after`."""

    def in_turn(step: Callable[[], None]) -> None:
        step()
        after()

    return in_turn


def outcome_of(job: Recorded) -> list[str]:
    after: list[str] = []

    async def scenario() -> None:
        runner = JobRunner(asyncio.get_running_loop(), 1, then(lambda: after.append("after")))
        runner.submit(job)
        await runner.drain()

    asyncio.run(scenario())
    return after


def test_it_runs_in_a_thread_and_is_applied_on_the_loop() -> None:
    job = Recorded()
    assert outcome_of(job) == ["after"]
    assert job.calls == [("run", False), ("apply", True)]


def test_an_error_of_the_disk_is_the_jobs_own() -> None:
    error = OSError(28, "No space left on device")
    job = Recorded(error)
    assert outcome_of(job) == ["after"]
    assert job.calls == [("run", False), ("failed", True)]
    assert job.failure is error


def test_a_defect_is_logged_and_fails_the_job(caplog: pytest.LogCaptureFixture) -> None:
    job = Recorded(ZeroDivisionError("oops"))
    outcome_of(job)
    assert job.calls[-1] == ("failed", True)
    assert "oops" in str(job.failure)
    assert "ZeroDivisionError" in caplog.text


def test_a_defect_in_applying_one_does_not_keep_the_others(caplog: pytest.LogCaptureFixture) -> None:
    class Unlucky(Recorded):
        def apply(self) -> None:
            raise ZeroDivisionError("oops")

    jobs = [Recorded(), Unlucky(), Recorded()]
    after: list[str] = []

    async def scenario() -> None:
        runner = JobRunner(asyncio.get_running_loop(), 1, then(lambda: after.append("after")))
        for job in jobs:
            runner.submit(job)
        await runner.drain()

    asyncio.run(scenario())
    assert [job.calls[-1] for job in jobs[::2]] == [("apply", True), ("apply", True)]
    assert after
    assert "a defect in Unlucky" in caplog.text


def test_what_ends_while_the_loop_is_busy_is_applied_in_one_go() -> None:
    ended = threading.Semaphore(0)

    class Told(Recorded):
        def run(self) -> None:
            super().run()
            ended.release()

    jobs = [Told() for _ in range(20)]
    after: list[int] = []

    async def scenario() -> None:
        runner = JobRunner(
            asyncio.get_running_loop(), 2, then(lambda: after.append(sum(len(job.calls) == 2 for job in jobs)))
        )
        for job in jobs:
            runner.submit(job)
        await asyncio.sleep(0)  # they are handed over then
        for _ in jobs:
            ended.acquire()  # the loop can do nothing meanwhile
        await runner.drain()

    asyncio.run(scenario())
    assert after[-1] == len(jobs)
    assert len(after) <= 3  # the threads may still be noting down what has ended when the loop looks


def test_one_thread_takes_several_jobs_and_all_threads_work_at_once() -> None:
    together = threading.Barrier(2)
    threads: list[int] = []

    class Meeting(Recorded):
        def run(self) -> None:
            together.wait(10)
            threads.append(threading.get_ident())

    async def scenario() -> None:
        runner = JobRunner(asyncio.get_running_loop(), 2, then(lambda: None))
        for _ in range(6):
            runner.submit(Meeting())
        await runner.drain()

    asyncio.run(scenario())
    assert len(threads) == 6
    assert len(set(threads)) == 2


def test_jobs_that_arise_from_others_never_lie_about() -> None:
    """Jobs that others submit are run, even if the thread has just found that no job is left."""
    left = 3000

    async def scenario() -> None:
        runner = JobRunner(asyncio.get_running_loop(), 2, then(lambda: None))

        class Chain(Recorded):
            def apply(self) -> None:
                nonlocal left
                if left:
                    left -= 1
                    runner.submit(Chain())

        runner.submit(Chain())
        await asyncio.wait_for(runner.drain(), 60)

    asyncio.run(scenario())
    assert left == 0


class World:
    """Stand-in for the broker and the process, as far as `Unfenced` uses them."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.left: list[Callable[[], None]] = []
        self.stopped = asyncio.Event()
        self.startup: Any = self
        self.turns: Any = self
        self.broker: Any = self
        self.unfenced = Unfenced(cast(Any, self), cast(Any, self), self.stopped, self.attend)

    def begin(self) -> None:
        self.calls.append("begin")

    def attend(self) -> None:
        self.calls.append("attend")

    def accept(self) -> None:
        self.calls.append("accept")

    def run(self, step: Callable[[], None]) -> None:
        step()

    def leave(self, left: Callable[[], None]) -> None:
        self.calls.append("leave")
        self.left.append(left)


def test_clients_are_let_in_when_it_is_unfenced() -> None:
    async def play() -> None:
        world = World()
        waiting = asyncio.ensure_future(world.unfenced.wait())
        await asyncio.sleep(0)
        assert (world.calls, waiting.done()) == (["begin"], False)
        world.startup.on_unfenced()
        await waiting
        assert world.calls == ["begin", "attend", "accept"]
        assert not world.unfenced.is_refused

    asyncio.run(play())


def test_a_stop_ends_the_wait() -> None:
    async def play() -> None:
        world = World()
        world.stopped.set()
        await world.unfenced.wait()
        assert world.calls == ["begin"]

    asyncio.run(play())


def test_one_that_is_refused_ends_without_asking_for_leave() -> None:
    async def play() -> None:
        world = World()
        world.startup.on_refused("of another cluster")
        assert (world.stopped.is_set(), world.unfenced.is_refused) == (True, True)
        await world.unfenced.leave()
        assert world.calls == []

    asyncio.run(play())


def test_it_leaves_when_it_may() -> None:
    async def play() -> None:
        world = World()
        leaving = asyncio.ensure_future(world.unfenced.leave())
        await asyncio.sleep(0)
        assert (world.calls, leaving.done()) == (["leave"], False)
        world.left[0]()
        await leaving

    asyncio.run(play())
