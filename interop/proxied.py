"""`pykafka-broker proxy` as a process, in front of whatever broker there is."""

from __future__ import annotations

import os
import subprocess
import sys

from pykafka_broker.testing.remote import RemoteBroker


class Proxy(RemoteBroker):
    """A running proxy; clients connect to `address`."""

    def __init__(self, to: str) -> None:
        command = [sys.executable, "-m", "pykafka_broker", "proxy", "--to", to]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ.copy())
        assert self.process.stdout is not None
        control, listening = (self.process.stdout.readline().split()[-1] for _ in range(2))
        super().__init__(control)
        self.address = listening

    def end(self) -> int:
        self.process.terminate()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(30)
