"""The files of the metadata log that no other log has: snapshots and `quorum-state`.

Rule: a snapshot counts if it is whole: every batch sound, a header first and a footer last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from pykafka_broker.log.filesystem import FileSystem, read_file
from pykafka_broker.log.log_directory import METADATA_TOPIC
from pykafka_broker.log.scan import DamagedLog, ScannedBatch, scan
from pykafka_broker.log.tool.decoding import control_type, decode_metadata
from pykafka_broker.log.tool.folders import Folder, base_of
from pykafka_broker.protocol.runtime import DecodeError
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.record import iter_records

QUORUM_STATE = "quorum-state"
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class SnapshotFile(NamedTuple):
    fs: FileSystem
    path: str
    end_offset: int
    epoch: int

    def batches(self) -> Iterator[ScannedBatch]:
        handle = self.fs.open(self.path, writable=False)
        yield from scan(handle, self.path, 0, handle.size(), verify=True)

    def problem(self) -> str | None:
        """Why it can't be used."""
        kinds = [""]
        try:
            for batch in self.batches():
                records = list(iter_records(batch.data, batch.header))
                kinds += [control_type(record.key) if batch.header.is_control else "" for record in records]
        except DamagedLog as damage:
            return f"byte {damage.position}: {damage.reason}"
        except CorruptBatch as error:
            return str(error)
        if kinds[1:2] != ["SnapshotHeader"]:
            return "it has no header"
        return None if kinds[-1] == "SnapshotFooter" else "it has no footer, its end is missing"


def snapshots(fs: FileSystem, folder: str) -> list[SnapshotFile]:
    """Oldest first."""
    found = [match for name in sorted(fs.list_directory(folder)) if (match := _NAME.fullmatch(name))]
    return [SnapshotFile(fs, f"{folder}/{match[0]}", int(match[1]), int(match[2])) for match in found]


def lost_beginning(folder: Folder) -> str | None:
    """Without a snapshot of what was before it, the log can't begin anywhere but at zero."""
    logs = folder.files(".log")
    start = max(base_of(logs[0]) if logs else 0, folder.offsets.log_start_offset)
    found = snapshots(folder.fs, folder.path)
    if not start or any(each.end_offset >= start and each.problem() is None for each in found):
        return None
    return f"begins at offset {start} and has no snapshot of what was before"


def quorum_state(fs: FileSystem, folder: str) -> dict[str, object]:
    """`ValueError` if it is damaged, `FileNotFoundError` if it is missing."""
    try:
        state = json.loads(read_file(fs, f"{folder}/{QUORUM_STATE}"))
    except ValueError:
        raise ValueError("it is no JSON") from None
    if not isinstance(state, dict) or not isinstance(state.get("leaderEpoch"), int):
        raise ValueError("it names no leader epoch")
    return state


def topic_ids(fs: FileSystem, directory: str) -> dict[str, bytes]:
    """The id of each topic, as far as the metadata log in this data directory tells."""
    folder = f"{directory}/{METADATA_TOPIC}-0"
    ids: dict[str, bytes] = {}
    if not fs.exists(folder):
        return ids
    whole = [snapshot for snapshot in snapshots(fs, folder) if snapshot.problem() is None]
    for snapshot in whole[-1:]:
        _learn(snapshot.batches(), ids)
    for name in sorted(fs.list_directory(folder)):
        if name.endswith(".log"):
            handle = fs.open(f"{folder}/{name}", writable=False)
            _learn(scan(handle, name, 0, handle.size(), verify=True), ids)
    return ids


def _learn(batches: Iterator[ScannedBatch], ids: dict[str, bytes]) -> None:
    from pykafka_broker.protocol.stored.topic_record import TopicRecord

    try:
        for batch in batches:
            if batch.header.is_control:
                continue
            for record in iter_records(batch.data, batch.header):
                message, _ = decode_metadata(record.value or b"")
                if isinstance(message, TopicRecord):
                    ids[message.name] = bytes(message.topic_id)
    except (DamagedLog, CorruptBatch, DecodeError):
        return  # what came before it is known
