"""What belongs to a whole data directory: `meta.properties`, the offset checkpoints, and whether a broker has it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pykafka_broker.log.checkpoints import (
    LOCK,
    META_PROPERTIES,
    OFFSET_FILES,
    checked_offsets,
    id_bytes,
    is_reserved,
    read_properties,
)
from pykafka_broker.log.filesystem import FileSystem, read_file
from pykafka_broker.log.tool.folders import Row
from pykafka_broker.log.tool.metadata import SnapshotFile

BOOTSTRAP_FILE = "bootstrap.checkpoint"
# A line that is as it was written: an id has 22 characters.
_PROPERTY = re.compile(r"((?:version|node\.id)(?==\d+$)|(?:cluster|directory)\.id(?==[A-Za-z0-9_-]{22}$))=(.+)")
_REQUIRED = ("version", "cluster.id", "node.id")


def in_use(fs: FileSystem, path: str) -> bool:
    """Whether a broker, ours or Kafka, has locked the directory."""
    if not fs.exists(f"{path}/{LOCK}"):
        return False
    try:
        fs.lock(f"{path}/{LOCK}").release()
    except BlockingIOError:
        return True
    except OSError:
        return False  # not ours to lock
    return False


def check_directory(fs: FileSystem, path: str) -> Iterator[Row]:
    problem = properties_problem(fs, path)
    if problem is not None:
        yield {"type": "error", "file": META_PROPERTIES, "problem": problem}
    problem = bootstrap_problem(fs, path)
    if problem is not None:
        yield {"type": "error", "file": BOOTSTRAP_FILE, "problem": problem}
    for name, reason in damaged_checkpoints(fs, path):
        yield {"type": "warning", "file": name, "problem": reason}


def properties_problem(fs: FileSystem, path: str) -> str | None:
    try:
        properties = read_properties(fs, f"{path}/{META_PROPERTIES}")
        missing = [key for key in _REQUIRED if key not in properties]
        if missing:
            return f"does not say {', '.join(missing)}"
        known = properties.get("directory.id")
        if known is not None and is_reserved(id_bytes(known)):
            return f"has the directory.id {known}, which is reserved"
    except FileNotFoundError:
        return "is missing: is this a directory of log.dirs?"
    except ValueError as error:
        return f"is damaged: {error}"
    return None


def bootstrap_problem(fs: FileSystem, path: str) -> str | None:
    """Of what `kafka-storage format` has left for the first start."""
    file = f"{path}/{BOOTSTRAP_FILE}"
    return SnapshotFile(fs, file, 0, 0).problem() if fs.exists(file) else None


def readable_properties(fs: FileSystem, path: str) -> dict[str, str]:
    """What can be made out of a damaged `meta.properties`."""
    text = read_file(fs, f"{path}/{META_PROPERTIES}").decode("ascii", "replace")
    found = {match[1]: match[2] for match in map(_PROPERTY.fullmatch, text.splitlines()) if match}
    return found if found.get("version") == "1" else {}


def damaged_checkpoints(fs: FileSystem, path: str) -> Iterator[tuple[str, str]]:
    """Name and problem; without them a start has more to read."""
    for name in OFFSET_FILES:
        try:
            checked_offsets(fs, f"{path}/{name}")
        except ValueError as error:
            yield name, str(error)
