"""Jobs run beside the loop and end on it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from pykafka_broker.server.job_runner import JobRunner


class Recorded:
    """Notes in which thread each part was called."""

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
    """A turn that ends with a call of `after`."""

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
    """Also when the thread has just found that there is none left."""
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
