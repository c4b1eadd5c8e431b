"""What a log tells whoever keeps it.

Rule: a log does its own work and asks nobody. What concerns its directory, other threads or other logs it only tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pykafka_broker.log.partition_log import PartitionLog
    from pykafka_broker.log.segment import LogSegment


class LogKeeper(Protocol):
    """Whoever keeps the logs of a directory."""

    def storage_failed(self, log: PartitionLog, error: OSError) -> None:
        """The disk refused a read or a write."""

    def rolled(self, log: PartitionLog) -> None:
        """A segment is complete and can be synced."""

    def must_sync(self, log: PartitionLog) -> None:
        """There is more unsynced than `flush.messages` allows: the high watermark stands still until it is synced."""

    def synced(self, log: PartitionLog) -> None:
        """More of it outlives a power cut."""

    def sync_failed(self, log: PartitionLog, error: OSError) -> None:
        """What is not synced yet can't be counted on."""

    def truncating(self, log: PartitionLog, offset: int) -> None:
        """The log will end at `offset`. If that is its `recovery_point` now, it must be so on disk as well.

        Raises:
            OSError: it could not be written. The log must not be cut.
        """

    def segments_deleted(self, log: PartitionLog, segments: list[LogSegment]) -> None:
        """These segments are renamed; their files are to be removed later."""
