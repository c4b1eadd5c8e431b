"""Copies of data directories, made and laid out while the process runs.

Rule: an image is as a clean shutdown would have left the directory, so that a start on the image recovers nothing.
Complete segments never change and are hard links. Only the active segment of each log is copied; a long one is
completed first. Nothing is synced.

The only reader is in another layer (`control`).
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from pykafka_broker.log import checkpoints
from pykafka_broker.log.filesystem import OsFileSystem, write_file
from pykafka_broker.log.log_directory import DELETE_SUFFIX, LogDirectory, write_clean_marker
from pykafka_broker.log.segment import CLEANED, DELETED, SWAP, segment_name
from pykafka_broker.platform import file_path
from pykafka_broker.protocol.enums import PartitionKey

if TYPE_CHECKING:
    from pykafka_broker.log.manager import LogManager
    from pykafka_broker.log.partition_log import PartitionLog

SNAPSHOTS = "snapshots"  # the folder of a data directory that holds its images
BOOTSTRAP = "bootstrap.checkpoint"
FORMATTED = (checkpoints.META_PROPERTIES, BOOTSTRAP)  # the files of a directory without any records
_ASIDE = f"{SNAPSHOTS}-0."
_COPIED_BYTES = 256 << 10  # a longer active segment is completed, and then needs no copy
_LOG = ".log"
_TEMPORARY = (DELETED, CLEANED, SWAP, checkpoints.MOVED, ".tmp", ".part")
# EINVAL: Windows, on a file system without hard links
_NO_LINK = frozenset({errno.EPERM, errno.EMLINK, errno.EXDEV, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL})
_PIECE_BYTES = 8 << 20


def take_image(manager: LogManager, directory: LogDirectory, target: str) -> None:
    """Make an image of a directory under the new path `target`.

    Raises:
        ApiError, OSError: the image could not be made; `target` may hold a part of it.
    """
    os.makedirs(file_path(target))
    ends: dict[PartitionKey, int] = {}
    manager.cleaner.finish_swaps()
    for key in manager.directory_map.in_directory(directory):
        if manager.is_fresh(*key):
            continue  # an empty log: a start on the image makes it
        path = directory.partition_path(key)
        if manager.cleaner.is_swapping(key):
            raise OSError(errno.ENOSPC, "no room to end a cleaning, without which there is no copy", path)
        log = _completed(manager, key, path)
        if log is not None:
            ends[key] = log.log_end_offset
        _lay_folder(path, f"{target}/{os.path.basename(path)}")
    for name in FORMATTED:
        if os.path.exists(file_path(directory.file(name))):
            _link(directory.file(name), f"{target}/{name}")
    fs = OsFileSystem()
    for name in checkpoints.OFFSET_FILES:
        offsets = manager.maintenance.offsets(directory, name)
        kept = {**offsets, **ends} if name == checkpoints.RECOVERY_POINTS else offsets
        checkpoints.write_offsets(fs, f"{target}/{name}", kept, sync=False)
    if directory.whole:
        write_clean_marker(fs, target, sync=False)


def _completed(manager: LogManager, key: PartitionKey, path: str) -> PartitionLog | None:
    """Return the log of a partition with all files up to date; None if the log was not touched since the start."""
    log = manager.loaded.get(key)
    if log is None:
        last = _last_segment(os.listdir(file_path(path)))
        size = os.path.getsize(file_path(f"{path}/{last}{_LOG}")) if last else 0
        if key in manager.damaged or size <= _COPIED_BYTES:
            return None
        log = manager.get(*key)
    if log.segments.active.size > _COPIED_BYTES:
        log.roll(manager.clock.wall)
    active = log.segments.active
    if active.size or not active.is_complete:  # a preallocated segment, for example
        log.seal()
    return log


def lay_image(image: str, directory: str) -> None:
    """Put the content of an image into an empty directory, with the mark of a restore. The image stays unchanged."""
    write_file(OsFileSystem(), f"{directory}/{checkpoints.RESTORED}", b"", sync=False)
    with os.scandir(file_path(image)) as entries:
        for entry in entries:
            target = f"{directory}/{entry.name}"
            if entry.is_dir():
                _lay_folder(entry.path, target)
            else:
                _link(entry.path, target)


def _lay_folder(source: str, target: str) -> None:
    """Lay the folder of a partition."""
    os.mkdir(file_path(target))
    names = os.listdir(file_path(source))
    last = _last_segment(names)
    written_to = (f"{last}{_LOG}", f"{last}.index", f"{last}.timeindex", f"{last}.txnindex")
    for name in names:
        if name in written_to:
            _copy(f"{source}/{name}", f"{target}/{name}")
        elif not name.endswith(_TEMPORARY):
            _link(f"{source}/{name}", f"{target}/{name}")


def _last_segment(names: Collection[str]) -> str:
    """Return the name of the active segment, without an ending."""
    length = len(segment_name(0))
    return max((name[:length] for name in names if name.endswith(_LOG)), default="")


def _link(source: str, target: str) -> None:
    source, target = file_path(source), file_path(target)
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        _copy(source, target)


def _copy(source: str, target: str) -> None:
    """Copy a file; the system shares the blocks where the file system can."""
    with open(file_path(source), "rb", buffering=0) as old, open(file_path(target), "xb") as new:
        copy = getattr(os, "copy_file_range", None)
        with suppress(OSError):  # not every pair of file systems can
            while copy and copy(old.fileno(), new.fileno(), _PIECE_BYTES):
                pass
        shutil.copyfileobj(old, new, _PIECE_BYTES)  # the rest


def aside_in(directory: str, uuid: bytes) -> str:
    """Return the path of a folder for files put aside.

    Its name is the name of a deleted partition's folder, so that the next start removes what is left.
    """
    return f"{directory}/{_ASIDE}{uuid.hex()}{DELETE_SUFFIX}"


def set_aside(directory: str, aside: str, keep: Collection[str]) -> None:
    """Move a broker's files out of a directory, except for `keep`; all of them, or none where the disk refuses one."""
    os.mkdir(file_path(aside))
    stays = {SNAPSHOTS, checkpoints.LOCK, *keep}
    try:
        for name in os.listdir(file_path(directory)):
            if name not in stays and not name.startswith(_ASIDE):
                try:
                    _rename(f"{directory}/{name}", f"{aside}/{name}")
                except FileNotFoundError:  # a deleted partition that is just being removed
                    continue
    except OSError:
        put_back(aside, directory)
        raise


def put_back(aside: str, directory: str) -> None:
    """Undo `set_aside`."""
    for name in os.listdir(file_path(aside)):
        _rename(f"{aside}/{name}", f"{directory}/{name}")
    os.rmdir(file_path(aside))


def _rename(source: str, target: str) -> None:
    """Rename a file, or a folder whose files may be open: on Windows the files alone can then be renamed."""
    source, target = file_path(source), file_path(target)
    try:
        os.replace(source, target)
    except PermissionError:
        if not os.path.isdir(source):
            raise
        os.mkdir(target)
        _rename_files(source, target)
        os.rmdir(source)


def _rename_files(source: str, target: str) -> None:
    """Move all files of a folder into another one, or none."""
    moved: list[str] = []
    try:
        for name in os.listdir(source):
            os.rename(os.path.join(source, name), os.path.join(target, name))
            moved.append(name)
    except OSError:
        for name in moved:
            os.rename(os.path.join(target, name), os.path.join(source, name))
        os.rmdir(target)
        raise
