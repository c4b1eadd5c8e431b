"""Disks that were checked before."""

from __future__ import annotations

from pykafka_broker.testing.simulation.disk import CrashFileSystem


class Seen:
    """The disks that were checked, with the promises of that time: checking the same pair again shows nothing new."""

    def __init__(self) -> None:
        self._disks: set[object] = set()

    def is_new(self, fs: CrashFileSystem, promised: object) -> bool:
        disk = fs.contents(), promised
        known = disk in self._disks
        self._disks.add(disk)
        return not known
