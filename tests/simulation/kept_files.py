"""Files of this machine, for nodes whose disks the simulation does not keep in memory."""

from __future__ import annotations

from tests.broker.api.real_broker import UnsyncedFileSystem


class KeptFiles(UnsyncedFileSystem):
    """Files that no crash changes."""

    broken: dict[str, int] = {}
    once: set[str] = set()

    def after_crash(self, seed: int | None = None, *, keep: bool = False) -> KeptFiles:
        """Return the files as they were."""
        return self
