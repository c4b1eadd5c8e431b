"""Processes that must not outlive the one that has started them, however it ends.

Rule: what is guarded has a process group of its own. The guard reads a pipe that nobody else holds open: it ends with
this process, also where that is killed, and then the group is killed too.
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
        """End the guard: the group has ended, and its id may soon be somebody else's."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
