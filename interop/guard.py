"""Processes that must not outlive the process that started them, however that process ends.

Rule: a guarded process has a process group of its own. The guard reads a pipe that only this process holds open: the
pipe closes when this process ends, even by a kill, and then the guard kills the group.
"""

import subprocess

_SCRIPT = 'cat > /dev/null; kill -KILL "-$0"'


class Guard:
    """The guard of the process group with this id, until `release`."""

    def __init__(self, group: int) -> None:
        self._process = subprocess.Popen(
            ["sh", "-c", _SCRIPT, str(group)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def release(self) -> None:
        """End the guard: the group has ended, and another group may soon get its id."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
