"""The file `quorum-state` beside the metadata log: which epoch this quorum has reached (KIP-595).

Rule: an epoch is on disk before anything is written in it, so that no epoch is ever led twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pykafka_broker.cluster.records import MetadataError
from pykafka_broker.log.filesystem import FileSystem, read_file, write_file
from pykafka_broker.protocol.runtime import ZERO_UUID, uuid_text

FILE_NAME = "quorum-state"
_NOBODY = -1


def read_epoch(fs: FileSystem, path: str) -> int:
    """The last epoch, 0 if there was none yet."""
    try:
        epoch = json.loads(read_file(fs, path))["leaderEpoch"]
    except FileNotFoundError:
        return 0
    except (ValueError, KeyError, TypeError):
        raise MetadataError(f"{path} is damaged: it names no leader epoch") from None
    if not isinstance(epoch, int) or epoch < 0:
        raise MetadataError(f"{path} is damaged: its epoch is {epoch}")
    return epoch


def write_leader(
    fs: FileSystem, path: str, leader_id: int, epoch: int, kraft_version: int, voters: Sequence[int] | None = None
) -> None:
    """Who leads `epoch`, -1 if nobody knows. With kraft.version 0 the voters stand here, the leader alone if there are
    no others; with 1 they stand in the log (KIP-853).
    """
    state: dict[str, Any]
    if kraft_version == 0:
        state = {
            "clusterId": "",
            "leaderId": leader_id,
            "leaderEpoch": epoch,
            "votedId": _NOBODY,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": each} for each in ([leader_id] if voters is None else voters)],
            "data_version": 0,
        }
    else:
        state = {
            "leaderId": leader_id,
            "leaderEpoch": epoch,
            "votedId": _NOBODY,
            "votedDirectoryId": uuid_text(ZERO_UUID),
            "data_version": 1,
        }
    write_file(fs, path, json.dumps(state, separators=(",", ":")).encode())
