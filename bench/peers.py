"""The brokers under comparison. Rule: each is a command in the foreground that serves a port from an empty directory;
what has to be done once before (building, formatting) is no part of its start.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from interop.real_kafka import RealKafka

HERE = Path(__file__).resolve().parent
BUILT = HERE.parent / ".cache" / "bench"


@dataclass(frozen=True)
class Peer:
    """A name and a function from a directory and a port to the command that serves them."""

    name: str
    command: Callable[[Path, int], list[str]]


def ours(directory: Path, port: int) -> list[str]:
    data = directory / "data"
    return [sys.executable, "-m", "pykafka_broker", "--listen", f"127.0.0.1:{port}", "--data-dir", str(data)]


def kafka(directory: Path, port: int) -> list[str]:
    broker = RealKafka(directory=directory, port=port, heap="1g")
    broker.format()
    return broker.command


def kfake(directory: Path, port: int) -> list[str]:
    return [str(build_kfake()), "-port", str(port), "-dir", str(directory / "data")]


PEERS = {peer.name: peer for peer in (Peer("kafka", kafka), Peer("kfake", kfake), Peer("ours", ours))}


def build_kfake() -> Path:
    binary = BUILT / "kfake"
    if not binary.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        subprocess.run(["go", "build", "-o", str(binary), "."], cwd=HERE / "kfake", check=True)
    return binary


def build_load() -> Path:
    """The load generator, linked against the librdkafka inside confluent-kafka's wheel."""
    binary, source = BUILT / "load", HERE / "load.c"
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        BUILT.mkdir(parents=True, exist_ok=True)
        library = librdkafka()
        subprocess.run(
            ["cc", "-O2", "-o", str(binary), str(source), str(library), f"-Wl,-rpath,{library.parent}"], check=True
        )
    return binary


def librdkafka() -> Path:
    import confluent_kafka

    beside = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    return next(beside.glob("librdkafka*.so*"))


def missing(name: str) -> str | None:
    """Why a peer can't take part on this machine."""
    if name == "kfake" and not (BUILT / "kfake").exists() and shutil.which("go") is None:
        return "no go to build it with"
    return None
