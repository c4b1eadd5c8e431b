"""The log under load: recovery after kill -9, finding a place, compaction, group commit.

Rule: a figure counts only if the files say the same. So recovery compares what was not synced with what was read,
compaction what is left with what should be, and everything that is compared is in the page cache for every peer.
"""

import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from bench.peers import build_load
from bench.running import Running
from interop.answers.requests import BY_NAME, LATEST, MAX_TIMESTAMP, fetch, fetch_topic, list_offsets, produce
from interop.batches import batch
from interop.raw import RawClient, framed, request_bytes
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.produce_response import ProduceResponse

Figures = dict[str, float]

RECORD_BYTES = 1024
# Batches of 16 KB, Java's default, from every run: how large librdkafka makes them depends on how fast the broker is.
EVEN_BATCHES = ("linger.ms=5", "acks=all", "batch.num.messages=16")
RECOVERY_PARTITIONS = 100
RECOVER_WITHIN_S = 300.0
CLEAN_WITHIN_S = 300.0
COMPACTED_SEGMENT_BYTES = 100 << 20
# The cleaner looks for work at once, so that no part of its ordinary 15 seconds of rest is measured.
COMPACTION_SETTINGS = {"log.cleaner.backoff.ms": "100"}
COMMITTERS = 50
PRODUCE_VERSION = 9
LIST_OFFSETS_VERSION = 7


def create(run: Running, topic: str, partitions: int = 1, **config: object) -> None:
    """Create a topic with settings; underscores stand for the dots of their names."""
    wanted = NewTopic(topic, partitions, 1, config={key.replace("_", "."): str(value) for key, value in config.items()})
    client = admin(run)  # its requests end with it
    client.create_topics([wanted])[topic].result(120)
    deadline = time.monotonic() + 60
    while end_offsets(run, topic, partitions) is None:  # a real Kafka's broker catches up with its controller
        if time.monotonic() > deadline:
            raise RuntimeError(f"{topic} was made and is not there")
        time.sleep(0.05)


def admin(run: Running) -> AdminClient:
    return AdminClient({"bootstrap.servers": run.bootstrap, "log_level": 0})


def load(run: Running, mode: str, topic: str, partitions: int, count: int) -> None:
    command = [build_load(), mode, run.bootstrap, topic, partitions, count, RECORD_BYTES, *EVEN_BATCHES]
    subprocess.run([str(part) for part in command], capture_output=True, timeout=600, check=True)


def end_offsets(run: Running, topic: str, partitions: int) -> list[int] | None:
    """Return the end of each partition; None while the broker can't tell every end."""
    asked = [ListOffsetsPartition(number, -1, LATEST) for number in range(partitions)]
    try:
        with RawClient(run.bootstrap, timeout_s=RECOVER_WITHIN_S) as client:
            request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, asked)])
            found = client.call(request, LIST_OFFSETS_VERSION).topics[0].partitions
    except OSError:
        return None
    if any(each.error_code for each in found):
        return None
    return [each.offset for each in sorted(found, key=lambda each: each.partition_index)]


def checkpoint(path: Path) -> dict[tuple[str, int], int]:
    """Read a file of offsets, Kafka's or ours: a version, a count, then topic, partition and offset in each line."""
    with contextlib.suppress(FileNotFoundError):
        rows = [line.split() for line in path.read_text().splitlines()[2:]]
        return {(topic, int(partition)): int(offset) for topic, partition, offset in rows}
    return {}


def settle(folder: Path) -> None:
    """Sync all files, and read all logs into the page cache."""
    os.sync()
    for path in sorted(folder.rglob("*.log")):
        with path.open("rb", buffering=0) as file:
            while file.read(4 << 20):
                pass


# -- recovery


def recovery(run: Running, records: int) -> Figures:
    """Measure a start after kill -9 until every partition tells its end, and a start after a clean shutdown."""
    create(run, "recovery", RECOVERY_PARTITIONS)
    load(run, "produce", "recovery", RECOVERY_PARTITIONS, records)
    ends = end_offsets(run, "recovery", RECOVERY_PARTITIONS)
    if ends is None or sum(ends) != records:
        raise RuntimeError(f"{ends} are not {records} records")
    run.kill()
    synced = checkpoint(run.data / "recovery-point-offset-checkpoint")
    unsynced = sum(end - synced.get(("recovery", number), 0) for number, end in enumerate(ends))
    crashed_s, read_bytes = _start(run, ends)
    cpu_s = run.cpu_s()
    run.stop()
    clean_s, clean_bytes = _start(run, ends)
    if read_bytes - clean_bytes < unsynced * RECORD_BYTES:
        raise RuntimeError(f"read {read_bytes - clean_bytes} bytes to recover {unsynced} records")
    return {
        "recovery_s": crashed_s,
        "recovery_clean_s": clean_s,
        "recovery_added_s": crashed_s - clean_s,
        "recovery_cpu_s": cpu_s,
        "recovery_unsynced_gb": unsynced * RECORD_BYTES / 1e9,
        "recovery_read_gb": (read_bytes - clean_bytes) / 1e9,
    }


def _start(run: Running, ends: list[int]) -> tuple[float, int]:
    """Start; return the seconds until every partition is there again, and the bytes read for it."""
    settle(run.data)
    begun = time.perf_counter()
    run.start()
    while (found := end_offsets(run, "recovery", len(ends))) != ends:
        if time.perf_counter() - begun > RECOVER_WITHIN_S:
            raise RuntimeError(f"recovered {found}, not {ends}")
        time.sleep(0.01)
    return time.perf_counter() - begun, run.read_bytes()


# -- finding a place


def position(run: Running, small: int, large: int, rounds: int) -> Figures:
    """Measure a fetch by offset, and one by time (ListOffsets and then a fetch), in a small and a large log in turns.

    A second small log shows what the difference between two logs of the same size is: nothing but noise. The records
    have times of their own, since a search by time takes longer the more records share a millisecond.
    """
    logs = {"large": large, "small": small, "twin": small}
    for name, count in logs.items():
        create(run, name)
        load(run, "dated", name, 1, count)
    settle(run.data)
    times: dict[str, list[float]] = {f"{what}_{name}": [] for what in ("offset", "time") for name in logs}
    with RawClient(run.bootstrap, timeout_s=60) as client:
        places = {name: _places(client, name, count, rounds) for name, count in logs.items()}
        for number in range(rounds):
            for name in logs:
                offset, timestamp = places[name][number]
                for what, where in (("offset", offset), ("time", timestamp)):
                    begun = time.perf_counter()
                    if what == "time":
                        where = _offset_at(client, name, where)
                    _fetch(client, name, where)
                    times[f"{what}_{name}"].append(time.perf_counter() - begun)
    warm = rounds // 10
    ms = {key: statistics.median(values[warm:]) * 1e3 for key, values in times.items()}
    figures = {f"{key}_ms": value for key, value in ms.items() if not key.endswith("twin")}
    for what in ("offset", "time"):
        figures[f"{what}_large_ratio"] = ms[f"{what}_large"] / ms[f"{what}_small"]
        figures[f"{what}_twin_ratio"] = ms[f"{what}_twin"] / ms[f"{what}_small"]
    return figures


def _places(client: RawClient, topic: str, count: int, rounds: int) -> list[tuple[int, int]]:
    """Return offsets and timestamps all over the log, the same ones for every peer as far as they can be."""
    first, last = (_timestamp(client, topic, asked) for asked in (0, MAX_TIMESTAMP))
    chance = random.Random(count)
    return [(chance.randrange(count), chance.randint(first, last)) for _ in range(rounds)]


def _timestamp(client: RawClient, topic: str, asked: int) -> int:
    return int(_listed(client, topic, asked).timestamp)


def _offset_at(client: RawClient, topic: str, timestamp: int) -> int:
    return int(_listed(client, topic, timestamp).offset)


def _listed(client: RawClient, topic: str, asked: int) -> Any:
    found = client.call(list_offsets(topic, asked), LIST_OFFSETS_VERSION).topics[0].partitions[0]
    if found.error_code or found.offset < 0:
        raise RuntimeError(f"ListOffsets {asked} of {topic}: error {found.error_code}, offset {found.offset}")
    return found


def _fetch(client: RawClient, topic: str, offset: int) -> None:
    """Fetch one batch."""
    found = client.call(fetch([fetch_topic(topic, offset)], max_bytes=1), BY_NAME).responses[0].partitions[0]
    if found.error_code or not len(found.records or b""):
        raise RuntimeError(f"fetch at {offset} of {topic}: error {found.error_code}")


# -- compaction


def compaction(run: Running, records: int, idle_records: int) -> Figures:
    """Measure the compaction of keys that occur twice each, with another topic's producer beside it."""
    create(run, "beside")
    config: dict[str, Any] = {
        "cleanup_policy": "compact",
        "min_cleanable_dirty_ratio": "0.01",
        "segment_bytes": COMPACTED_SEGMENT_BYTES,
    }
    create(run, "compacted", **config, min_compaction_lag_ms=86_400_000)
    load(run, "keyed", "compacted", 1, records)
    settle(run.data)
    dirty = _closed_segments(run)
    before = _latency(run, idle_records)
    idle_mb = run.memory_mb()
    with _watched(run) as memory, _latency_beside(run) as during:
        begun = time.perf_counter()
        _alter(run, "compacted", "min.compaction.lag.ms", "0")
        active = max(dirty)
        while checkpoint(run.data / "cleaner-offset-checkpoint").get(("compacted", 0), 0) < active:
            if time.perf_counter() - begun > CLEAN_WITHIN_S:
                raise RuntimeError("the cleaner did not come to the end of the log")
            time.sleep(0.02)
        spent = time.perf_counter() - begun
    after = _latency(run, idle_records)
    dirty_bytes = sum(size for base, size in dirty.items() if base != active)
    left = sum(size for base, size in _closed_segments(run).items() if base < active)
    if not 0.45 < left / dirty_bytes < 0.65:
        raise RuntimeError(f"{left} of {dirty_bytes} bytes are left")
    idle_p99 = statistics.mean((before, after))
    return {
        "compaction_mb_s": dirty_bytes / spent / 1e6,
        "compaction_mb": max(memory) - idle_mb,
        "compaction_peak_mb": max(memory),
        "compaction_p99_idle_ms": idle_p99,
        "compaction_p99_ms": during[0],
        "compaction_p99_ratio": during[0] / idle_p99,
    }


def _closed_segments(run: Running) -> dict[int, int]:
    """Return the sizes of segments by base offset, the active one among them."""
    return {int(path.stem): path.stat().st_size for path in (run.data / "compacted-0").glob("*.log")}


def _alter(run: Running, topic: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = admin(run)
    for future in client.incremental_alter_configs([resource]).values():
        future.result(30)


def _latency_command(run: Running, count: int) -> list[str]:
    words = [build_load(), "latency", run.bootstrap, "beside", 1, count, 100, "linger.ms=0", "acks=all"]
    return [str(word) for word in words]


def _latency(run: Running, count: int) -> float:
    """Return the p99 in milliseconds of one record in flight."""
    done = subprocess.run(_latency_command(run, count), capture_output=True, timeout=300, check=True)
    return float(json.loads(done.stdout)["p99_ms"])


@contextlib.contextmanager
def _latency_beside(run: Running) -> Iterator[list[float]]:
    """Append the p99 of the block to the list, when the block is over."""
    found: list[float] = []
    worker = subprocess.Popen(_latency_command(run, 10_000_000), stdout=subprocess.PIPE)
    try:
        time.sleep(0.5)  # it is connected and warm by then
        yield found
        worker.send_signal(signal.SIGTERM)
        output, _ = worker.communicate(timeout=30)
        found.append(float(json.loads(output)["p99_ms"]))
    finally:
        worker.kill()
        worker.wait()


@contextlib.contextmanager
def _watched(run: Running) -> Iterator[list[float]]:
    """Gather the memory of the whole process tree five times a second."""
    over = threading.Event()
    found = [run.memory_mb()]

    def watch() -> None:
        while not over.wait(0.2):
            with contextlib.suppress(psutil.Error):  # a process that has just ended
                found.append(run.memory_mb())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


# -- group commit


def group_commit(run: Running, commits: int) -> Figures:
    """Measure fifty connections with one synced record in flight each: into one partition, then into one each."""
    create(run, "together", flush_messages=1)
    create(run, "apart", COMMITTERS, flush_messages=1)
    return {
        "group_commit_per_s": commits_per_s(run, "together", 1, commits),
        "group_commit_apart_per_s": commits_per_s(run, "apart", COMMITTERS, commits),
    }


def commits_per_s(run: Running, topic: str, partitions: int, commits: int) -> float:
    """Return the records a second of fifty connections with one record in flight each."""
    data = batch(b"x" * 100)
    requests = [produce(topic, data, partition=number % partitions) for number in range(COMMITTERS)]
    frames = [framed(request_bytes(request, PRODUCE_VERSION)) for request in requests]
    clients = [RawClient(run.bootstrap, timeout_s=60) for _ in frames]
    answers = []
    rounds = max(2, commits // len(frames))
    begun = time.perf_counter()
    for client, frame in zip(clients, frames, strict=True):
        client.send_bytes(frame)
    for number in range(rounds):
        for client, frame in zip(clients, frames, strict=True):
            answers.append(client.receive_frame())
            if number < rounds - 1:
                client.send_bytes(frame)
    spent = time.perf_counter() - begun
    for client in clients:
        client.close()
    for answer in answers:
        found = ProduceResponse.decode(answer[5:], PRODUCE_VERSION).responses[0].partition_responses[0]
        if found.error_code:
            raise RuntimeError(f"error {found.error_code}")
    return len(answers) / spent
