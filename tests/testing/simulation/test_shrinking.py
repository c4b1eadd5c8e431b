"""Failures of simulated runs: cut down to the faults that are enough, which come again alone."""

from __future__ import annotations

import asyncio

import pytest

from pykafka_broker.testing.simulation import SimulatedCluster, simulate

BLIND_MS = 6_000


async def counts_kills(seed: int, only: list[int] | None = None, most: int = 1) -> list[str]:
    """Run a cluster with kills and broken connections; fail if `most` or more kills came. Return the faults."""
    async with SimulatedCluster(brokers=3, seed=seed) as cluster:
        trouble = cluster.trouble(["kill", "break_connections"], mean_ms=150, only=only)
        await cluster.until(lambda: cluster.now_ms > BLIND_MS)
        killed = [each for each in trouble.came if "kill" in each]
        assert len(killed) < most, killed
        return trouble.came


def note_of(failed: pytest.ExceptionInfo[BaseException]) -> str:
    return next(note for note in failed.value.__notes__ if "enough" in note or "without any" in note)


def test_a_failure_is_cut_down_to_one_fault_which_fails_alone() -> None:
    with pytest.raises(AssertionError) as failed:
        simulate(lambda: counts_kills(4), shrink_runs=30)
    first, line = note_of(failed).splitlines()
    assert first.startswith("1 of ")
    call, _, told = line.partition("  # ")
    assert call.startswith('    cluster.trouble(["kill", "break_connections"], mean_ms=150, only=[')
    assert ": kill n" in told
    only = [int(call.partition("only=[")[2].removesuffix("])"))]
    with pytest.raises(AssertionError) as again:
        simulate(counts_kills(4, only))
    assert told.partition(": ")[2] in str(again.value)


def test_two_faults_are_enough_for_two() -> None:
    with pytest.raises(AssertionError) as failed:
        simulate(lambda: counts_kills(4, most=2), shrink_runs=60)
    assert note_of(failed).startswith("2 of ")


def test_the_others_are_the_same_without_some() -> None:
    async def main(only: range | None) -> list[str]:
        async with SimulatedCluster(brokers=3, seed=5) as cluster:
            trouble = cluster.trouble(["break_connections", "slow_down", "drift"], mean_ms=100, only=only)
            await cluster.until(lambda: cluster.now_ms > BLIND_MS)
            return trouble.came

    whole = simulate(main(None))
    assert simulate(main(range(0, 1000, 2))) == whole[::2]


def test_a_failure_of_its_own_is_told() -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=3, seed=1) as cluster:
            trouble = cluster.trouble(["break_connections"], mean_ms=50)
            await cluster.until(lambda: trouble.came or cluster.now_ms > BLIND_MS)
            raise AssertionError("always")

    with pytest.raises(AssertionError) as failed:
        simulate(main, shrink_runs=5)
    assert note_of(failed) == "the run fails without any fault as well"


@pytest.mark.whole
def test_a_run_that_is_cancelled_is_a_failure_and_takes_no_other_ones_place() -> None:
    async def main(more: type[BaseException], less: type[BaseException]) -> None:
        try:
            await counts_kills(4, most=2)
        except AssertionError:
            raise more from None
        raise less

    with pytest.raises(AssertionError) as failed:
        simulate(lambda: main(AssertionError, asyncio.CancelledError), shrink_runs=60)
    assert note_of(failed).startswith("2 of ")
    with pytest.raises(asyncio.CancelledError) as cancelled:
        simulate(lambda: main(asyncio.CancelledError, AssertionError), shrink_runs=60)
    assert note_of(cancelled).startswith("2 of ")


def test_a_run_without_a_failure_or_without_faults_is_run_once() -> None:
    runs = []

    async def main(fails: bool) -> int:
        runs.append(1)
        if fails:
            raise ValueError("of the test")
        return 7

    assert simulate(lambda: main(False), shrink_runs=5) == 7
    with pytest.raises(ValueError, match="of the test"):
        simulate(lambda: main(True), shrink_runs=5)
    assert len(runs) == 2
    with pytest.raises(TypeError, match="needs a function"):
        simulate(main(False), shrink_runs=5)
