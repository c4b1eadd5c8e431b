"""A second client that measures its own small requests, and the broker's memory, while a first one asks for much.

Rule: a wait is told in the CPU time that the broker spent meanwhile, as a usual machine would have spent it: neither a
busy machine nor a slow one changes anything.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.giants import Giant
from interop.processes import cpu_seconds, process_at, resident_mb
from interop.raw import Closed, RawClient, framed
from interop.waiting import eventually
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest

PAUSE_S = 0.002
USUAL_LOOP_S = 0.006  # CPU time of the loop in `slowness` on the machine that the bounds of waits are meant for


def slowness() -> float:
    """Return how many times slower than the usual machine this one is, 1 at least."""
    return max(1.0, min(_loop_s() for _ in range(5)) / USUAL_LOOP_S)


def _loop_s() -> float:
    begun, total = time.thread_time(), 0
    for number in range(200_000):
        total += number
    return time.thread_time() - begun


class Witness:
    """A thread that asks for the API versions all the time, over a connection of its own.

    waits_s: how much CPU time a usual machine's broker would have spent while each request waited for its answer.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._client = RawClient(bootstrap_servers, 300)
        self._pid = process_at(bootstrap_servers).pid
        self._slowness = slowness()
        self._stop = threading.Event()
        self._threads = ThreadPoolExecutor(1)
        self.waits_s: list[float] = []

    def _run(self) -> None:
        while not self._stop.wait(PAUSE_S):
            begin = cpu_seconds(self._pid)
            self._client.call(ApiVersionsRequest("witness", "1"), 3)
            self.waits_s.append((cpu_seconds(self._pid) - begin) / self._slowness)

    def __enter__(self) -> Self:
        self._asking = self._threads.submit(self._run)
        eventually(lambda: bool(self.waits_s) or self._asking.done(), True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        with self._threads, self._client:
            self._asking.result()  # or what ended the thread


@dataclass(frozen=True)
class Seen:
    """The cost of one giant: the longest wait of the witness, the memory that it took, and its outcome."""

    name: str
    worst_s: float
    peak_mb: float
    took_s: float
    end: str

    def __str__(self) -> str:
        end = f"{self.end} after {self.took_s:.1f} s"
        return f"{self.name}: others wait {self.worst_s:.2f} s, {self.peak_mb:.0f} MB, {end}"


def send_giant(bootstrap_servers: str, giant: Giant, answer_within_s: float = 60) -> Seen:
    """Send a giant and await its answer or the end of its connection; a broker may park it longer than that."""
    process = process_at(bootstrap_servers)
    peak = Path(f"/proc/{process.pid}")
    (peak / "clear_refs").write_text("5")  # the peak of the memory is measured anew
    before = resident_mb(process)
    with RawClient(bootstrap_servers, answer_within_s) as client, Witness(bootstrap_servers) as witness:
        begin = time.monotonic()
        end = _end_of(client, giant)
        took = time.monotonic() - begin
    [line] = [line for line in (peak / "status").read_text().splitlines() if line.startswith("VmHWM")]
    return Seen(giant.name, max(witness.waits_s), int(line.split()[1]) / 1024 - before, took, end)


def _end_of(client: RawClient, giant: Giant) -> str:
    try:
        client.send_bytes(framed(giant.body))
        client.receive_frame()
    except (Closed, ConnectionError):
        return "hung up"
    except TimeoutError:
        return "silent"
    return "answered"
