"""Makes `messages.jsonl.gz`: `python -m interop.record messages`, which gives it folders of jars; needs javac.

Rule: the bytes come from Kafka's classes alone. A case goes to the first release that has its message in its version,
and every case must find one.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from protocol.generator.schema import Message  # noqa: E402
from tests.protocol.values import VARIANTS, messages, values  # noqa: E402

Case = dict[str, Any]
PACKAGES = {
    "clients": "org.apache.kafka.common.message",
    "group-coordinator": "org.apache.kafka.coordinator.group.generated",
    "metadata": "org.apache.kafka.common.metadata",
    "raft": "org.apache.kafka.raft.generated",
    "share-coordinator": "org.apache.kafka.coordinator.share.generated",
    "storage": "org.apache.kafka.server.log.remote.metadata.storage.generated",
    "transaction-coordinator": "org.apache.kafka.coordinator.transaction.generated",
}


def java_class(message: Message) -> str:
    suffix = "Data" if message.kind in ("request", "response", "header") else ""
    return f"{PACKAGES[message.area]}.{message.name}{suffix}"


def cases() -> list[Case]:
    """Every message in every version, in every variant that differs from the others."""
    made: list[Case] = []
    for message in messages().values():
        for version in message.versions:
            for filled in different_values(message, version):
                java = java_class(message)
                made.append(
                    {"id": len(made), "class": java, "name": message.name, "version": version, "values": filled}
                )
    return made


def different_values(message: Message, version: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for variant in VARIANTS:
        filled = values(message, version, variant)
        if filled not in found:
            found.append(filled)
    return found


def answer(todo: list[Case], jars: Path, workdir: str) -> list[Case]:
    """The cases that the release in this folder can encode, with their bytes."""
    classpath = f"{workdir}:{jars}/*"
    subprocess.run(["javac", "-cp", classpath, "-d", workdir, str(HERE / "GoldenBytes.java")], check=True)
    text = "".join(json.dumps(case) + "\n" for case in todo)
    ran = subprocess.run(
        ["java", "-cp", classpath, "GoldenBytes"], input=text.encode(), stdout=subprocess.PIPE, check=True
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


def main(releases: list[Path]) -> None:
    todo = cases()
    done: dict[int, Case] = {}
    for jars in releases:
        with tempfile.TemporaryDirectory() as workdir:
            for case in answer([case for case in todo if case["id"] not in done], jars, workdir):
                done[case["id"]] = case
    lines = []
    for case in todo:
        answered = done[case["id"]]
        kept = {"name": case["name"], "version": case["version"], "bytes": answered["bytes"], "values": case["values"]}
        lines.append(json.dumps(kept, separators=(",", ":"), ensure_ascii=False) + "\n")
    packed = gzip.compress("".join(lines).encode(), 9, mtime=0)
    (HERE / "messages.jsonl.gz").write_bytes(packed)
    print(f"{len(lines)} cases, {len(packed)} bytes")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
