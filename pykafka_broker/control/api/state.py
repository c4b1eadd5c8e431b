"""The whole state of the broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pykafka_broker.control.control import Control
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.schema import ValueLimits
from pykafka_broker.control.state import KEPT

Name = Annotated[str, ValueLimits(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$", says="letters, digits, _, - and .")]


@dataclass
class SnapshotAnswer:
    """A state that was kept. `size_bytes` is the size of its records."""

    name: str
    size_bytes: int


@dataclass
class Image:
    """A copy of the data directories, one of each. It belongs to whoever asked, to start a broker on it and to remove
    it.
    """

    directories: list[str]


def reset(control: Control, keep: list[str] | None = None) -> None:
    """Back to what the broker was before its first client: no topics, records, groups, offsets, transactions, dynamic
    configs, quotas and faults, the clock at the time that it is. Clients stay connected and find it as if all of that
    had been deleted. What is named in `keep` stays: topics (without their records), configs, quotas, acls, users,
    clock, and so on; snapshots stay always.
    """
    known = {*KEPT.values(), *control.state.clearing}
    if unknown := sorted({*(keep or ())} - known):
        raise Problem(400, f"{unknown[0]} can't be kept; what can is {', '.join(sorted(known))}")
    control.state.reset(keep or ())


def snapshots(control: Control) -> list[SnapshotAnswer]:
    """All snapshots by name."""
    return [SnapshotAnswer(name, control.state.size_of(name)) for name in control.state.names()]


def snapshot(control: Control, name: Name) -> SnapshotAnswer:
    """Keep the whole state under a name: topics, records, groups, offsets, transactions that are open, configs. A
    snapshot that has that name is replaced.
    """
    control.state.snapshot(name)
    return SnapshotAnswer(name, control.state.size_of(name))


def restore(control: Control, name: str) -> None:
    """Put the state of a snapshot in the place of what there is. Clients stay connected: what they have seen since is
    gone as if the leader had lost it. The snapshot stays, to be restored again.
    """
    control.state.restore(name)


def delete_snapshot(control: Control, name: str) -> None:
    """Forget a snapshot."""
    control.state.delete(name)


def fork(control: Control) -> Image:
    """Copy the data directories as they are now, for another broker to start on with `log.dirs`."""
    return Image(control.state.image_for_fork())
