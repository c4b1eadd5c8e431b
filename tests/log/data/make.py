"""Makes the archives beside this file with a real Apache Kafka 4.4.0: `python make.py DIRECTORY_OF_JARS`.

`kafka.tar.gz` is a data directory after a clean shutdown: several codecs, idempotent and transactional producers,
one transaction left open, and a compacted topic. `compaction.tar.gz` holds folders before and after one round of
Kafka's cleaner.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

HERE = Path(__file__).parent
PORT = 19471
SERVERS: dict[str, Any] = {"bootstrap.servers": f"127.0.0.1:{PORT}"}
BASE = 1_700_000_000_000
SMALL = {"internal.segment.bytes": "16384", "index.interval.bytes": "1024"}
COMPACT = {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}


@contextmanager
def kafka(jars: str, directory: Path, **more: str) -> Iterator[Path]:
    """Run a broker on `directory/logs` and stop it cleanly at the end."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{PORT + 1}",
        "listeners": f"PLAINTEXT://127.0.0.1:{PORT},CONTROLLER://127.0.0.1:{PORT + 1}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(directory / "logs"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
    } | {name.replace("_", "."): value for name, value in more.items()}
    properties = directory / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    java = ["java", "-cp", f"{jars}/*"]
    if not (directory / "logs").exists():
        subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", "-t", "DlucevI8RBOIwwbz5AzpFA", "-c", str(properties)],
            check=True,
        )
    broker = subprocess.Popen([*java, "kafka.Kafka", str(properties)])
    try:
        AdminClient(SERVERS).list_topics(timeout=60)
        yield directory / "logs"
    finally:
        broker.send_signal(signal.SIGTERM)
        broker.wait(60)


def create(config: dict[str, str], *names: str) -> None:
    admin = AdminClient(SERVERS)  # kept until all are there
    for future in admin.create_topics([NewTopic(name, 1, 1, config=config) for name in names]).values():
        future.result()


def producer(**more: object) -> Producer:
    return Producer({**SERVERS, "linger.ms": 0, "enable.idempotence": False, **more})


def transactions(topic: str, rounds: int, size: int, base: int, *, keys: int = 0, leave_open: bool = False) -> None:
    """Run three producers side by side and abort a third of their transactions."""
    producers = [producer(**{"transactional.id": f"t{number}", "enable.idempotence": True}) for number in range(3)]
    for each in producers:
        each.init_transactions()
    for turn in range(rounds):
        for each in producers:
            each.begin_transaction()
        for each in producers:
            for number in range(3):
                key = b"k%d" % random.randrange(keys) if keys else None
                each.produce(topic, key=key, value=random.randbytes(size), timestamp=base + turn * 100 + number)
            each.flush()
        for number, each in enumerate(producers):
            if leave_open and turn == rounds - 1 and number == 2:
                continue
            if (turn + number) % 3 == 0:
                each.abort_transaction()
            else:
                each.commit_transaction()


def data_directory(jars: str, work: Path) -> None:
    with kafka(jars, work, log_cleaner_backoff_ms="500", offsets_topic_num_partitions="1") as logs:
        create(SMALL, "plain", "codecs", "idempotent", "transactions")
        create({**COMPACT, "delete.retention.ms": "100"}, "compacted")
        plain = producer()
        for number in range(80):
            value = random.randbytes(random.randrange(10, 900))
            plain.produce("plain", key=b"k%d" % number, value=value, timestamp=BASE + random.randrange(5000))
            plain.flush()
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            batches = producer(**{"linger.ms": 20, "compression.type": codec})
            for number in range(60):
                batches.produce("codecs", value=b"%d " % number * 20, timestamp=BASE + number, headers={"h": b"1"})
            batches.flush()
        idempotent = producer(**{"enable.idempotence": True})
        for number in range(60):
            idempotent.produce("idempotent", value=random.randbytes(700), timestamp=BASE + number)
            if number % 3 == 0:
                idempotent.flush()
        idempotent.flush()
        transactions("transactions", 8, 400, BASE, leave_open=True)
        for number in range(600):
            maybe = None if number % 50 == 0 else random.randbytes(80)
            plain.produce("compacted", key=b"k%d" % (number % 37), value=maybe, timestamp=BASE + number)
            if number % 5 == 0:
                plain.flush()
        plain.flush()
        time.sleep(8)
    with tarfile.open(HERE / "kafka.tar.gz", "w:gz") as archive:
        for path in sorted(logs.iterdir()):
            archive.add(path, path.name)


def before_and_after(jars: str, work: Path) -> None:
    names = ("tombstones", "zipped", "idempotent", "transactional")
    base = int(time.time() * 1000) - 100_000
    with kafka(jars, work, log_cleaner_backoff_ms="3600000") as logs:
        config = {**COMPACT, "internal.segment.bytes": "8192", "delete.retention.ms": "864000000"}
        create(config, *names)
        plain = producer(**{"linger.ms": 5})
        zipped = producer(**{"linger.ms": 5, "compression.type": "lz4"})
        for number in range(900):
            value = None if number % 9 == 0 else random.randbytes(50)
            zipped.produce("zipped", key=b"k%d" % random.randrange(90), value=value, timestamp=base + number)
            if number < 500:
                value = None if number % 4 == 0 else random.randbytes(60)
                plain.produce("tombstones", key=b"k%d" % random.randrange(60), value=value, timestamp=base + number)
            if number % 10 == 0:
                zipped.flush()
                plain.flush()
        first, second = (producer(**{"linger.ms": 5, "enable.idempotence": True}) for _ in range(2))
        for number in range(300):
            each = first if number < 150 else second
            value = random.randbytes(90)
            each.produce("idempotent", key=b"k%d" % random.randrange(20), value=value, timestamp=base + number)
            if number % 7 == 0:
                each.flush()
        first.flush()
        second.flush()
        for number in range(20):
            plain.produce("idempotent", key=b"k%d" % number, value=b"last" * 200, timestamp=base + 1000 + number)
            plain.flush()
        transactions("transactional", 14, 250, base + 2000, keys=15)
        for name in names:  # so that what matters is not in the active segment
            for number in range(20):
                plain.produce(name, key=b"z%d" % number, value=b"e" * 500, timestamp=base + 90_000 + number)
                plain.flush()
    shutil.copytree(logs, work / "before")
    with kafka(jars, work, log_cleaner_backoff_ms="300"):
        time.sleep(10)
    with tarfile.open(HERE / "compaction.tar.gz", "w:gz") as archive:
        for name in names:
            archive.add(work / "before" / f"{name}-0", f"before/{name}-0")
            for path in sorted((logs / f"{name}-0").iterdir()):
                untouched = work / "before" / f"{name}-0" / path.name
                same = untouched.exists() and untouched.read_bytes() == path.read_bytes()
                if path.suffix in (".log", ".index", ".timeindex", ".txnindex") and not (
                    path.suffix == ".log" and same
                ):
                    archive.add(path, f"after/{name}-0/{path.name}")


if __name__ == "__main__":
    random.seed(7)
    for make in (data_directory, before_and_after):
        with tempfile.TemporaryDirectory() as directory:
            make(sys.argv[1], Path(directory))
