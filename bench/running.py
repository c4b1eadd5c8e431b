"""One peer as a process: started, watched, ended. Memory and CPU are those of its whole process tree."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import psutil

from bench.peers import Peer, build_load
from interop.guard import Guard
from interop.real_kafka import answers_api_versions, free_port

START_WITHIN_S = 120


class Running:
    """A started peer; `start_s` is the time from the spawn to the first answer."""

    def __init__(self, peer: Peer, settings: Mapping[str, str] | None = None) -> None:
        self.name = peer.name
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.directory = Path(tempfile.mkdtemp(prefix=f"bench-{peer.name}-"))
        self.data = self.directory / peer.data
        self._log = self.directory / "bench.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: Guard | None = None
        self.start_s = 0.0
        try:
            self._command = peer.command(self.directory, self.port, settings or {})
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        begun = time.perf_counter()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        self._guard = Guard(self._process.pid)
        while not answers_api_versions(self.port):
            if self._process.poll() is not None or time.perf_counter() - begun > START_WITHIN_S:
                text = self._log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{self.name} did not start: {text}")
            time.sleep(0.003)
        self.start_s = time.perf_counter() - begun

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._release()

    def kill(self) -> None:
        """Kill the process, without a shutdown."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._release()

    def _release(self) -> None:
        if self._guard is not None:
            self._guard.release()
            self._guard = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def cpu_s(self) -> float:
        """Return the CPU time of all processes, of ended children too."""
        return float(sum(sum(p.cpu_times()[:4]) for p in self._tree()))

    def read_bytes(self) -> int:
        """Return the bytes that the process has read since it began, from the page cache too."""
        return int(self._tree()[0].io_counters().read_chars)

    def memory_mb(self) -> float:
        return float(sum(p.memory_info().rss for p in self._tree())) / 2**20

    def _tree(self) -> list[psutil.Process]:
        top = psutil.Process(self.pid)
        return [top, *top.children(recursive=True)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.stop()
        with contextlib.suppress(OSError):
            shutil.rmtree(self.directory)


class Loaded(Protocol):
    """A broker or a cluster under load."""

    name: str

    @property
    def bootstrap(self) -> str: ...

    def cpu_s(self) -> float: ...


def load(
    run: Loaded, mode: str, topic: str, partitions: int, count: int, size: int, *settings: str
) -> dict[str, float]:
    """Run the load generator once; return its figures and the CPU time of what is under load."""
    before = run.cpu_s()
    command = [build_load(), mode, run.bootstrap, topic, partitions, count, size, *settings]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=320, check=False)
    if done.returncode:
        raise RuntimeError(f"load {mode} on {run.name}: {done.stdout}{done.stderr[-500:]}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures | {"cpu_s_per_gb": (run.cpu_s() - before) / (count * size / 1e9)}
