"""The brokers under comparison. Rule: each is a command in the foreground that serves a port from an empty directory;
what has to be done once before (building, formatting) is no part of its start.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from interop.real_kafka import RealKafka

HERE = Path(__file__).resolve().parent
BUILT = HERE.parent / ".cache" / "bench"


@dataclass(frozen=True)
class Peer:
    """A broker under comparison.

    command: from a directory, a port and settings to the command that serves them.
    data: the folder in that directory where its logs are.
    """

    name: str
    command: Callable[[Path, int, Mapping[str, str]], list[str]]
    data: str = "data"


KAFKAS_JVM = ("-server", "-XX:+UseG1GC")  # as Kafka's own scripts start it


def ours(directory: Path, port: int, settings: Mapping[str, str]) -> list[str]:
    data = directory / "data"
    command = [sys.executable, "-m", "pykafka_broker", "--listen", f"127.0.0.1:{port}", "--data-dir", str(data)]
    return [*command, *(word for key, value in settings.items() for word in ("--override", f"{key}={value}"))]


def kafka(directory: Path, port: int, settings: Mapping[str, str]) -> list[str]:
    broker = RealKafka(settings, directory=directory, port=port, heap="1g", jvm=KAFKAS_JVM)
    broker.format()
    return broker.command


def kfake(directory: Path, port: int, settings: Mapping[str, str]) -> list[str]:
    return [str(build_kfake()), "-port", str(port), "-dir", str(directory / "data")]


PEERS = {peer.name: peer for peer in (Peer("kafka", kafka, "logs"), Peer("kfake", kfake), Peer("ours", ours))}


def build_kfake() -> Path:
    binary = BUILT / "kfake"
    if not binary.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        subprocess.run(["go", "build", "-o", str(binary), "."], cwd=HERE / "kfake", check=True)
    return binary


def build_load() -> Path:
    """Build the load generator, linked against the librdkafka inside confluent-kafka's wheel."""
    library = librdkafka()
    return _compiled("load", str(library), f"-Wl,-rpath,{library.parent}")


def build_requests() -> Path:
    """Build the generator of small requests."""
    return _compiled("requests")


@cache  # once a run: librdkafka may have moved since the last one
def _compiled(name: str, *libraries: str) -> Path:
    binary = BUILT / name
    BUILT.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-O2", "-o", str(binary), str(HERE / f"{name}.c"), *libraries], check=True)
    return binary


def librdkafka() -> Path:
    import confluent_kafka

    beside = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    return next(beside.glob("librdkafka*.so*"))


def missing(name: str) -> str | None:
    """Return why a peer can't take part on this machine, or None."""
    if name == "kfake" and not (BUILT / "kfake").exists() and shutil.which("go") is None:
        return "no go to build it with"
    return None
