"""Ids in the place of a log directory's that name no directory (KIP-858), as Kafka's DirectoryId has them.

Rule: the lowest hundred ids are reserved; no directory has one of them, known here or not.
"""

from __future__ import annotations

MIGRATING = bytes(16)  # the directory was chosen before ids were recorded
UNASSIGNED = (1).to_bytes(16, "big")  # none was chosen yet
LOST = (2).to_bytes(16, "big")  # one that is offline
_LAST_RESERVED = (99).to_bytes(16, "big")


def is_reserved(directory_id: bytes) -> bool:
    return directory_id <= _LAST_RESERVED
