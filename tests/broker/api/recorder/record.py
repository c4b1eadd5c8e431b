"""Records what a real Kafka answers to `requests.txt`: python record.py JARS_DIRECTORY

Needs Java and the jars of Apache Kafka. Each section of the file gets a fresh broker; the answers go to
`../kafka_answers.jsonl`, which the tests compare with.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
PORT = 29092
LOG_DIR = "/tmp/recorded-kafka-logs"
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": f"1@127.0.0.1:{PORT + 1}",
    "listeners": f"PLAINTEXT://127.0.0.1:{PORT},CONTROLLER://127.0.0.1:{PORT + 1}",
    "advertised.listeners": f"PLAINTEXT://127.0.0.1:{PORT}",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": LOG_DIR,
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


def sections() -> Iterator[tuple[dict[str, str], list[str]]]:
    """Yield the settings and the requests of each section."""
    settings: dict[str, str] = {}
    lines: list[str] = []
    for line in (HERE / "requests.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("config "):
            yield settings, lines
            settings, lines = dict(pair.split("=", 1) for pair in line.split()[1:]), []
        elif line.strip() and not line.startswith("#"):
            lines.append(line)
    yield settings, lines


def answers(jars: str, settings: dict[str, str], lines: list[str]) -> list[str]:
    subprocess.run(["rm", "-rf", LOG_DIR], check=True)
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as properties:
        properties.write("".join(f"{key}={value}\n" for key, value in {**SETTINGS, **settings}.items()))
        properties.flush()
        java = ["java", "-cp", f"{jars}/*"]
        storage = [*java, "kafka.tools.StorageTool", "format", "-t", "DlucevI8RBOIwwbz5AzpFA", "-c", properties.name]
        subprocess.run(storage, check=True, capture_output=True)
        kafka = subprocess.Popen(
            [*java, "kafka.Kafka", properties.name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_for_port()
            asked = subprocess.run(
                [*java, "-Dfile.encoding=UTF-8", str(HERE / "Record.java"), str(PORT), LOG_DIR],
                input="\n".join(lines),
                stdout=subprocess.PIPE,
                encoding="utf-8",
                check=True,
            )
            return asked.stdout.splitlines()
        finally:
            kafka.terminate()
            kafka.wait()


def wait_for_port() -> None:
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", PORT)).close()
            break
        except OSError:
            time.sleep(0.3)
    time.sleep(3)  # the broker is unfenced a moment after it listens


def main() -> None:
    with (HERE.parent / "kafka_answers.jsonl").open("w", encoding="utf-8") as out:
        for settings, lines in sections():
            out.write(json.dumps({"settings": settings}) + "\n")
            for row in answers(sys.argv[1], settings, lines):
                out.write(row + "\n")


if __name__ == "__main__":
    main()
