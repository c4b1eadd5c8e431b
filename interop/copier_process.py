"""A transactional copy that may be killed and started again. Rule: an error without a remedy ends the process, as it
would end a user's program; the test that started the process starts it anew.
"""

import subprocess
import sys
import time
from pathlib import Path

from interop import ROOT


class CopierProcess:
    """A process of `interop.copier`, one at a time."""

    def __init__(self, bootstrap: str, source: str, sink: str, log: Path) -> None:
        self._command = [sys.executable, "-m", "interop.copier", bootstrap, source, sink, "copier"]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def start(self, pause_ms: int) -> None:
        """Start a copier, and wait until it has the transactional id or has ended."""
        before = self.log.count("ready\n")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([*self._command, str(pause_ms)], cwd=ROOT, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while self.log.count("ready\n") == before and self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ensure_running(self) -> None:
        """Start a copier again that has ended with an error for which it has no remedy, as an operator would."""
        if self._process is None or self._process.poll() is not None:
            self.start(0)
