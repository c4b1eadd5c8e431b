"""Clients of other languages that meet faults: programs in interop/languages that take one step at a time.

Rule: a program answers each step with one line, `done`, `value VALUE`, `none`, or `failed` and the client's own name of
the error.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from threading import Timer

from interop import toolchains
from interop.fault_clients import TIMEOUT_S, Reader

NUMBER = re.compile(r" -?(0x)?[0-9a-f]*\d[0-9a-f]*\b")
_END_S = 120


class StepFailed(Exception):
    """The client's words for a failure, without the numbers in them."""


def told(line: str) -> str | None:
    """Return the value of an answer, None if there is none."""
    kind, _, rest = line.rstrip("\n").partition(" ")
    if kind == "failed":
        raise StepFailed(NUMBER.sub("", rest))
    assert kind in ("done", "value", "none"), line
    return rest if kind == "value" else None


class Program:
    """A client by its name; `build` gives the command that runs it, once it is wanted."""

    def __init__(self, name: str, build: Callable[[], list[str]]) -> None:
        self.name = name
        self._build = build
        self._command: list[str] = []

    def command(self, *arguments: str) -> list[str]:
        self._command = self._command or self._build()
        return [*self._command, *arguments]

    def send(self, bootstrap: str, topic: str, value: str) -> None:
        command = self.command(bootstrap, "send", topic, value)
        done = subprocess.run(command, capture_output=True, text=True, timeout=2 * TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr
        told(done.stdout)

    def reader(self, bootstrap: str, topic: str, group: str) -> Reader:
        return Steps(self.command(bootstrap, "read", topic, group))


class Steps:
    """A running program that takes one step at a time."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def step(self, says: str) -> str | None:
        """Return the value of an answer; a program without an answer is ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        end = Timer(_END_S, self._process.kill)
        end.start()
        try:
            self._process.stdin.write(f"{says}\n")
            self._process.stdin.flush()
            return told(self._process.stdout.readline())
        finally:
            end.cancel()

    def read(self, timeout_s: float) -> str | None:
        return self.step(f"read {int(timeout_s * 1000)}")

    def commit(self) -> None:
        self.step("commit")

    def close(self) -> None:
        """Let the client leave its group; kill a client that can't."""
        try:
            self._process.communicate(timeout=TIMEOUT_S)
        finally:
            self._process.kill()
            self._process.wait()


def franz_go() -> Program:
    return Program("franz-go", lambda: toolchains.go("faults"))


def kafkajs() -> Program:
    return Program("KafkaJS", lambda: toolchains.node("faults.js"))
