"""`python -m bench.turns`: the CPU time of the longest turn of our loop while one giant after the other is served.

Rule: on a machine that others use too, what another client waits says more of them than of us. What our loop can't be
asked during is one turn, and its CPU time is the same on a full machine as on a quiet one (but for the caches). The
broker is the real one, in a process of its own, whose clock notes at each tick how much CPU the turn before it took.
`--where` also says what that turn did: the stack is looked at each millisecond, and what a look finds counts for the
CPU since the one before it.
"""

import argparse
import gc
import mmap
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

from bench.fair_groups import group_giants, prepare
from bench.fairness import ask, giants, make_topics
from bench.peers import Peer
from bench.running import Running
from interop.raw import RawClient
from pykafka_broker.cli import main as broker
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.server.event_loop import SystemClock

_NUMBER = struct.Struct("<d")
_LOOK_S = 0.001
_DEPTH = 7  # of a stack that is told
_TOLD = 6  # stacks of a turn


class Longest:
    """The longest turn in ms, in a file that two processes look at."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_NUMBER.size))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _NUMBER.size)

    @property
    def ms(self) -> float:
        return float(_NUMBER.unpack(self._shared[:])[0])

    @ms.setter
    def ms(self, value: float) -> None:
        self._shared[:] = _NUMBER.pack(value)


class Looks:
    """The stacks of the present turn; those of the longest turn go into a file beside its length."""

    def __init__(self, path: Path) -> None:
        self._told = path.with_suffix(".where")
        self._looked = time.thread_time()
        self._found: Counter[str] = Counter()
        self._collecting = 0.0

    def start(self) -> None:
        signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, _LOOK_S, _LOOK_S)
        gc.callbacks.append(self._collected)

    def _look(self, number: int, frame: FrameType | None) -> None:
        now = time.thread_time()
        stack: list[str] = []
        while frame is not None and len(stack) < _DEPTH:
            stack.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}:{frame.f_lineno}")
            frame = frame.f_back
        self._found[" < ".join(stack)] += int((now - self._looked) * 1e6)
        self._looked = now

    def _collected(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            self._found[f"gc of generation {info['generation']}"] += int((time.thread_time() - self._collecting) * 1e6)

    def end(self, *, tell: bool) -> None:
        """End a turn. tell: it is the longest so far."""
        if tell:
            lines = [f"    {micros / 1000:7.1f} ms {where}" for where, micros in self._found.most_common(_TOLD)]
            self._told.write_text("\n".join(lines))
        self._found.clear()
        self._looked = time.thread_time()


def serve(path: Path, arguments: list[str]) -> int:
    """Run the broker, which notes its longest turn in the file."""
    looks = Looks(path) if path.with_suffix(".where").exists() else None
    longest, begun, tick = Longest(path), time.thread_time(), SystemClock.tick
    if looks is not None:
        looks.start()

    def noting(clock: SystemClock) -> int:
        nonlocal begun
        took = (time.thread_time() - begun) * 1000
        is_longest = took > longest.ms
        if is_longest:
            longest.ms = took
        if looks is not None:
            looks.end(tell=is_longest)
        begun = time.thread_time()
        return tick(clock)

    SystemClock.tick = noting  # type: ignore[method-assign, assignment]
    return broker(arguments)


def command(path: Path) -> Callable[[Path, int, Mapping[str, str]], list[str]]:
    def made(directory: Path, port: int, settings: Mapping[str, str]) -> list[str]:
        head = [sys.executable, "-m", "bench.turns", "--serve", str(path)]
        return [*head, "--listen", f"127.0.0.1:{port}", "--data-dir", str(directory / "data")]

    return made


class Noting(Running):
    """Our broker, whose longest turn is noted. where: whether its stacks are noted, too."""

    def __init__(self, *, where: bool) -> None:
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name) / "longest"
        self.longest, self._looked = Longest(path), path.with_suffix(".where")
        if where:
            self._looked.touch()
        super().__init__(Peer("ours", command(path)))

    def begin(self) -> None:
        """Count turns from now on."""
        noted(self)
        self.longest.ms = 0

    def tell(self, text: str) -> None:
        """Print a line, and what the longest turn did where that is noted."""
        print(text, flush=True)
        if self._looked.exists():
            print(self._looked.read_text(), flush=True)

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


def longest_turns(size: float, wanted: list[str], *, where: bool) -> None:
    """Tell the longest turn of each giant that is wanted, or of all."""
    with Noting(where=where) as run:
        make_topics(run)
        with RawClient(run.bootstrap) as client:
            topic_id = prepare(client)
        frames = giants(size) | group_giants(size, topic_id)
        for name in wanted or frames:
            frame = frames[name]()
            run.begin()
            ask(run.port, frame)
            noted(run)
            run.tell(f"{name:20} {len(frame):>10,} bytes {run.longest.ms:8.1f} ms")


def noted(run: Running) -> None:
    """Let turns pass, so that the last one is noted: each notes the one before it."""
    time.sleep(0.2)
    with RawClient(run.bootstrap) as client:
        for _ in range(2):
            client.call(ApiVersionsRequest("bench", "1"), 3)


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        sys.exit(serve(Path(sys.argv[2]), sys.argv[3:]))
    parser = argparse.ArgumentParser(prog="python -m bench.turns", description=__doc__)
    parser.add_argument("names", nargs="*", help="of giants; all without any")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--where", action="store_true", help="what the longest turn did")
    options = parser.parse_args()
    longest_turns(0.1 if options.quick else 1.0, options.names, where=options.where)


if __name__ == "__main__":
    main()
