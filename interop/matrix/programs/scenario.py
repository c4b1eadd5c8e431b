"""The common parts of the programs for Python's clients. Rule: they run on Python 3.6, which old clients need."""

import os
import sys
import threading
import time
import traceback
from typing import Any, Callable, Dict, List, Optional

COUNT = 100
FIRST_MS = 1_600_000_000_000
WITHIN_S = 40
NOT_SUPPORTED = 77
# The release of Kafka that the broker is, or passes for.
RELEASE = tuple(int(part) for part in os.environ.get("MATRIX_RELEASE", "4.4").split("."))
USER, PASSWORD, CA = (os.environ.get("MATRIX_" + name, "") for name in ("USER", "PASSWORD", "CA"))
VALUES = [b"value %d" % number for number in range(COUNT)]
# Key and value; an empty one is not the same as none.
RECORDS = [(b"key", b"value"), (None, b"no key"), (b"gone", None), (b"empty", b""), (b"\x00\xff", b"\x00" * 100)]
HEADERS = [("one", b"1"), ("one", b"again"), ("empty", b"")]
LARGE = [bytes([65 + number]) * 900_000 for number in range(5)]

Scenario = Callable[[str, str], Optional[str]]


class NotSupported(Exception):
    """The reason why the client can't do what a cell checks. The text stands in the cell."""


def same(found: Any, wanted: Any) -> None:
    if found != wanted:
        raise AssertionError("found %.500r, not %.500r" % (found, wanted))


def until(condition: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
    deadline = time.time() + within_s
    while not condition():
        if time.time() > deadline:
            raise AssertionError("not within %d s: %s" % (within_s, what))
        time.sleep(0.02)


def every_codec(names: List[str], one: Callable[[str], None]) -> str:
    """Run `one` for each codec; return the codecs that work, and why the client lacks the others.

    A failure of a codec that the client has is raised.
    """
    said = []
    for name in names:
        try:
            one(name)
            said.append(name)
        except NotSupported as reason:
            said.append("%s: %s" % (name, reason))
    return ", ".join(said)


class Member(threading.Thread):
    """A member of a group. It polls in a thread of its own and notes how many partitions it has."""

    def __init__(self, make: Callable[[], Any], poll: Callable[[Any], int]) -> None:
        super().__init__(daemon=True)
        self.partitions = -1
        self._make, self._poll, self._ending = make, poll, False
        self.start()

    def run(self) -> None:
        consumer = self._make()
        while not self._ending:
            self.partitions = self._poll(consumer)
        consumer.close()

    def leave(self) -> None:
        self._ending = True
        self.join(WITHIN_S)


def two_members(make: Callable[[], Any], poll: Callable[[Any], int]) -> None:
    """Check that one member has all four partitions, two have two each, and the one that stays has all again."""
    first = Member(make, poll)
    until(lambda: first.partitions == 4, "the first member has four partitions")
    second = Member(make, poll)
    until(lambda: (first.partitions, second.partitions) == (2, 2), "two partitions each")
    first.leave()
    until(lambda: second.partitions == 4, "the second member has four partitions")
    second.leave()


def ask_for_restart() -> None:
    """Ask for a restart of the broker, and return when the broker is back."""
    print("restart", flush=True)
    sys.stdin.readline()


def main(scenarios: Dict[str, Scenario]) -> None:
    """Run the scenario that the arguments name and end the process, whatever threads the client has left."""
    name, bootstrap, topic = sys.argv[1:4]
    status, said = 0, None  # type: int, Optional[str]
    try:
        if name not in scenarios:
            raise NotSupported("the client has nothing of the kind")
        said = scenarios[name](bootstrap, topic)
    except NotSupported as reason:
        status, said = NOT_SUPPORTED, str(reason)
    except BaseException:
        status = 1
        traceback.print_exc()
    if said:
        print(said)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
