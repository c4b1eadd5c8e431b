"""What befalls a cluster, as methods.

Rule: a method is one operation of the control API and says no more than it.
"""

from __future__ import annotations

from pykafka_broker.testing.answers import LogSize
from pykafka_broker.testing.control_client import told_to_the_test
from pykafka_broker.testing.handle import Handle

__tracebackhide__ = told_to_the_test


class Incidents(Handle):
    """A broker to which something happens."""

    def bump_leader_epoch(self, topic: str, partition: int = 0) -> int:
        """Elect the partition's leader anew, so that its leader epoch grows; returns that."""
        body = {"topic": topic, "partition": partition}
        return int(self.control.call("POST", "/incidents/leader-epoch", body)["leader_epoch"])

    def move_coordinator(
        self, group: str | None = None, transactional_id: str | None = None, away_ms: int = 100
    ) -> None:
        """Take the coordinator of a group or transactional id away for a time of the broker's clock, and bring it back;
        while the clock is frozen this does not wait for that.
        """
        body = {"group": group, "transactional_id": transactional_id, "away_ms": away_ms}
        self.control.call("POST", "/incidents/coordinator", body)

    def expire_member(self, group: str, member: str) -> None:
        """End the session of a member (its member id, group.instance.id or client id)."""
        self.control.call("POST", "/incidents/member", {"group": group, "member": member})

    def compact(self, topic: str) -> list[LogSize]:
        """Compact a topic now, all that it holds; returns what its partitions hold afterwards."""
        found: list[LogSize] = self.control.call("POST", "/incidents/compaction", {"topic": topic})
        return found

    def apply_retention(self, topic: str) -> list[LogSize]:
        """Delete what retention lets go, now; returns what the topic's partitions hold afterwards."""
        found: list[LogSize] = self.control.call("POST", "/incidents/retention", {"topic": topic})
        return found

    def fill_disk(self) -> None:
        """Let no more be written to any disk, until `free_disk`."""
        self.control.call("POST", "/incidents/full-disk")

    def free_disk(self) -> None:
        """Let the disks have room again."""
        self.control.call("DELETE", "/incidents/full-disk")

    def pause(self) -> None:
        """Answer no client any more, as if the process were stopped, until `unpause`."""
        self.control.call("POST", "/incidents/pause")

    def unpause(self) -> None:
        """Go on where `pause` has stopped."""
        self.control.call("DELETE", "/incidents/pause")
