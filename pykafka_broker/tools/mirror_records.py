"""Records of MirrorMaker 2 in its own topics, in its formats: heartbeats, checkpoints, offset syncs; and of Connect,
which keeps its positions.

Rule: what is written here, Java's RemoteClusterUtils can read.
"""

from __future__ import annotations

import json
import struct
from typing import NamedTuple

Pair = tuple[bytes, bytes]


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def heartbeat(source: str, target: str, now: int) -> Pair:
    return _text(source) + _text(target), struct.pack(">hq", 0, now)


def offset_sync(topic: str, partition: int, upstream: int, downstream: int) -> Pair:
    """That this record of the source is that record of the target."""
    return _text(topic) + struct.pack(">i", partition), struct.pack(">qq", upstream, downstream)


def read_offset_sync(key: bytes | None, value: bytes | None) -> tuple[tuple[str, int], tuple[int, int]] | None:
    """Topic and partition, and the two offsets; None for what is none."""
    try:
        (length,) = struct.unpack_from(">h", key or b"")
        topic = (key or b"")[2 : 2 + length].decode()
        (partition,) = struct.unpack_from(">i", key or b"", 2 + length)
        upstream, downstream = struct.unpack(">qq", value or b"")
    except (struct.error, UnicodeDecodeError):
        return None
    return (topic, partition), (upstream, downstream)


class Checkpoint(NamedTuple):
    """A group's offset in the source, and which one that is in the target."""

    group: str
    topic: str
    partition: int
    upstream: int
    downstream: int
    metadata: str = ""


def checkpoint(of: Checkpoint) -> Pair:
    value = struct.pack(">hqq", 0, of.upstream, of.downstream) + _text(of.metadata)
    return _text(of.group) + _text(of.topic) + struct.pack(">i", of.partition), value


def position(source: str, topic: str, partition: int, offset: int) -> Pair:
    """Connect's: the last record that has been mirrored."""
    where = {"cluster": source, "partition": partition, "topic": topic}
    key = json.dumps(["MirrorSourceConnector", where], separators=(",", ":"))
    return key.encode(), json.dumps({"offset": offset}, separators=(",", ":")).encode()


def read_position(key: bytes | None, value: bytes | None, source: str) -> tuple[tuple[str, int], int] | None:
    """The partition, and its offset; None for what is another connector's."""
    try:
        connector, where = json.loads(key or b"")
        if connector != "MirrorSourceConnector" or where["cluster"] != source:
            return None
        return (str(where["topic"]), int(where["partition"])), int(json.loads(value or b"")["offset"])
    except (ValueError, TypeError, KeyError):
        return None
