"""The whole state of the broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pykafka_broker.control.answers import Snapshot
from pykafka_broker.control.control import Control
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.schema import ValueLimits
from pykafka_broker.control.state import KEPT

Name = Annotated[str, ValueLimits(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$", says="letters, digits, _, - and .")]


@dataclass
class Image:
    """A copy of the data directories, to start a broker on. The caller removes the copy."""

    directories: list[str]


def reset(control: Control, keep: list[str] | None = None) -> None:
    """Go back to the state before the broker's first client: no topics, records, groups, offsets, transactions, dynamic
    configs, quotas and faults, the clock at the system's time. Clients stay connected and find everything deleted.
    Things named in `keep` stay: topics (without their records), configs, quotas, acls, users, clock, and so on;
    snapshots stay always.
    """
    known = {*KEPT.values(), *control.state.clearing}
    if unknown := sorted({*(keep or ())} - known):
        raise Problem(400, f"{unknown[0]} can't be kept; what can is {', '.join(sorted(known))}")
    control.state.reset(keep or ())


def snapshots(control: Control) -> list[Snapshot]:
    """Return all snapshots by name."""
    return [Snapshot(name=name, size_bytes=control.state.size_of(name)) for name in control.state.names()]


def snapshot(control: Control, name: Name) -> Snapshot:
    """Keep the whole state under a name: topics, records, groups, offsets, open transactions, configs. An earlier
    snapshot of that name is replaced.
    """
    control.state.snapshot(name)
    return Snapshot(name=name, size_bytes=control.state.size_of(name))


def restore(control: Control, name: str) -> None:
    """Replace the present state by a snapshot. Clients stay connected: later records are gone as if the leader
    had lost them. The snapshot stays, to be restored again.
    """
    control.state.restore(name)


def delete_snapshot(control: Control, name: str) -> None:
    """Forget a snapshot."""
    control.state.delete(name)


def fork(control: Control) -> Image:
    """Copy the present data directories, for another broker to start on with `log.dirs`."""
    return Image(control.state.image_for_fork())


def write_checkpoints(control: Control) -> None:
    """Write the offsets of the checkpoint files now: log starts, high watermarks and recovery points. Otherwise a kill
    loses what a minute at most has changed of them, records deleted meanwhile come back, as with Kafka.
    """
    logs = control.broker.node.logs
    for directory in logs.directories:
        if directory.online:
            logs.maintenance.write_checkpoints(directory)
