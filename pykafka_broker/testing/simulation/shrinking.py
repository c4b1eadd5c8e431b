"""Failures of simulated runs, cut down to the few faults that are enough for them.

Rule: each fault of a trouble has a number and a chance of its own, so a run without some of them draws the others as
before. A run is repeated with parts of the faults (`pykafka_broker.testing.chaos.shrunk`); only a failure of the same
kind counts.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")
_FAILURES = (Exception, CancelledError)  # aiokafka's consumer may end with the latter


class SimulatedHit(NamedTuple):
    """A fault that has come: of which trouble of the run, its number there, when and to whom.

    call: the call of `SimulatedCluster.trouble` without its end.
    """

    trouble: int
    number: int
    told: str
    call: str


class ShrunkRun:
    """The faults of one run: `came` are those that have come; only `wanted` may come, if it is not None."""

    def __init__(self, wanted: Iterable[SimulatedHit] | None = None) -> None:
        self.came: list[SimulatedHit] = []
        self._wanted = None if wanted is None else {(each.trouble, each.number) for each in wanted}

    def may_come(self, trouble: int, number: int) -> bool:
        """Return whether a fault is one of those that are wanted."""
        return self._wanted is None or (trouble, number) in self._wanted


def run_and_shrink(run: Callable[[ShrunkRun], T], runs: int) -> T:
    """Return the result of a run. A failure has a note about the faults that are enough for it.

    Args:
        run: simulates with the faults of a `ShrunkRun`.
        runs: the most runs for cutting a failure down.
    """
    from pykafka_broker.testing.chaos import shrunk

    whole, taken = ShrunkRun(), 0
    failure: BaseException
    try:
        return run(whole)
    except _FAILURES as error:
        failure = error
    if not whole.came:
        raise failure

    def fails(wanted: Sequence[SimulatedHit]) -> bool:
        nonlocal failure, taken
        taken += 1
        try:
            run(ShrunkRun(wanted))
        except _FAILURES as error:
            if type(error) is type(failure):
                failure = error
                return True
        return False

    if fails([]):
        told = "the run fails without any fault as well"
    else:
        enough = shrunk(whole.came, fails, runs)
        are = "is" if len(enough) == 1 else "are"
        told = f"{len(enough)} of {len(whole.came)} faults {are} enough ({taken} runs):\n" + _lines(whole.came, enough)
    failure.add_note(told)
    raise failure


def _lines(came: Iterable[SimulatedHit], enough: Sequence[SimulatedHit]) -> str:
    """Return the calls that let only the faults come that are enough."""
    calls = {each.trouble: each.call for each in came}
    lines = []
    for trouble, call in sorted(calls.items()):
        of_call = [each for each in enough if each.trouble == trouble]
        told = "; ".join(each.told for each in of_call) or "none"
        lines.append(f"    {call}, only={[each.number for each in of_call]})  # {told}")
    return "\n".join(lines)
