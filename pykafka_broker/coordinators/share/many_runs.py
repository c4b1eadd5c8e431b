"""Writes of very many runs to one share partition.

Rule: what such a write comes to, its bytes and how it lies over what is known, is found in steps before the coordinator
is asked, so that the coordinator's part of it, which can't be cut, is short.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence, Sized

from pykafka_broker.coordinators.share.delivery import StateRun, laid_over
from pykafka_broker.protocol.encoded_list import elements_in_steps
from pykafka_broker.protocol.stored.share_update_value import ShareUpdateValue, StateBatch

_MANY = 1000
_MADE_AT_ONCE = 1000


class KnownRuns(list[StateRun]):
    """`encoded`: as records have them, updates and snapshots alike; empty if that has not been found out.
    `laid`: what they come to if they are laid over `base`, from `start` on.
    """

    __slots__ = ("base", "encoded", "laid", "start")

    def __init__(self, runs: Iterable[StateRun]) -> None:
        super().__init__(runs)
        self.encoded = b""
        self.base: Sequence[StateRun] | None = None
        self.start = 0
        self.laid: KnownRuns | None = None


def are_many(runs: Sized) -> bool:
    """Whether they are worth steps of their own."""
    return len(runs) > _MANY


def encode(runs: KnownRuns) -> Generator[None, None, None]:
    """Find their bytes."""
    encoded: list[bytes] = []
    for start in range(0, len(runs), _MADE_AT_ONCE):
        batches = [StateBatch(*run) for run in runs[start : start + _MADE_AT_ONCE]]
        encoded.append((yield from elements_in_steps(ShareUpdateValue(), 0, "state_batches", batches)))
    runs.encoded = b"".join(encoded)


def laid(runs: Sequence[StateRun], newer: Iterable[StateRun], start_offset: int) -> list[StateRun]:
    """`newer` over `runs`, which may have been found out before."""
    if isinstance(newer, KnownRuns) and newer.laid is not None and newer.base is runs and newer.start == start_offset:
        return newer.laid
    return laid_over(runs, newer, start_offset)


__all__ = ["KnownRuns", "are_many", "encode", "laid"]
