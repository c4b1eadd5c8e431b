"""The whole state of a broker in the hands of a test."""

from __future__ import annotations

from collections.abc import Iterable

from pykafka_broker.testing.answers import Snapshot
from pykafka_broker.testing.control_client import in_path, told_to_the_test
from pykafka_broker.testing.handle import Handle

__tracebackhide__ = told_to_the_test

_LONG_S = 600.0


class State(Handle):
    """What a test may do with all that there is at once."""

    def reset(self, keep: Iterable[str] = ()) -> None:
        """Back to what the broker was before its first client: no topics, records, groups, offsets, transactions,
        dynamic configs, quotas and faults, the clock at the time that it is. Clients stay connected. What is named in
        `keep` stays: topics (without their records), configs, quotas, acls, users, clock. Snapshots stay always.
        """
        if isinstance(keep, str):
            raise TypeError(f"keep must be a list of names: keep=[{keep!r}]")
        self.control.call("POST", "/reset", {"keep": list(keep)}, timeout_s=_LONG_S)

    def snapshot(self, name: str) -> Snapshot:
        """Keep the whole state under a name, transactions that are open included. Returns name and size_bytes."""
        taken: Snapshot = self.control.call("POST", _path(name), timeout_s=_LONG_S)
        return taken

    def restore(self, name: str) -> None:
        """All is again as it was when that snapshot was taken. Clients stay connected. It can be restored again."""
        self.control.call("POST", f"{_path(name)}/restore", timeout_s=_LONG_S)

    def snapshots(self) -> list[Snapshot]:
        """Name and size_bytes of each snapshot."""
        found: list[Snapshot] = self.control.call("GET", "/snapshots")
        return found

    def delete_snapshot(self, name: str) -> None:
        """Forget a snapshot."""
        self.control.call("DELETE", _path(name))


def _path(name: str) -> str:
    return f"/snapshots/{in_path(name)}"
