"""A follower that fetches a compacted log knows of transactions what the leader knows."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from pykafka_broker.log.partition_log import Origin, PartitionLog
from pykafka_broker.records.control import AbortedBatches
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records
from tests.log.support import NOW, TOPIC_ID, batch, manager, marker, new_log, topic_config

SEEDS = 12
PRODUCERS = (1, 2, 3)
BACKOFF = 15_000


def compacted(path: Path, random: Random) -> PartitionLog:
    """Return a log of records with and without transactions, cleaned in between."""
    logs = manager(path)
    lag = random.choice([0, 1000, 100_000])
    config = topic_config(
        segment_bytes=400, cleanup_policy=["compact"], min_cleanable_dirty_ratio=0.0, delete_retention_ms=lag
    )
    logs.topic_config = lambda topic: config
    logs.start(NOW)
    log, now = logs.create("t", 0, TOPIC_ID, NOW), NOW
    epochs, begun = dict.fromkeys(PRODUCERS, 0), set[int]()
    for _ in range(120):
        producer_id = random.choice(PRODUCERS)
        step = random.choice(["record", "records", "end", "end", "roll", "clean"])
        if step == "record":
            log.append(batch(keys=[b"%d" % random.randrange(3)]), NOW)
        elif step == "records":
            keys = [b"%d" % random.randrange(3) for _ in range(random.randrange(1, 3))]
            epoch = epochs[producer_id]
            data = batch(len(keys), producer_id=producer_id, epoch=epoch, transactional=True, keys=keys)
            log.append(data, NOW, origin=Origin.COORDINATOR)
            begun.add(producer_id)
        elif step == "end" and producer_id in begun:
            epochs[producer_id] += random.randrange(2)  # as with transactions of version 2
            commit = random.random() < 0.5
            log.append(marker(producer_id, epochs[producer_id], commit=commit), NOW, origin=Origin.COORDINATOR)
            begun.discard(producer_id)
        elif step == "roll":
            log.roll(NOW)
        elif step == "clean":
            logs.flush(log, now)
            now += random.choice([BACKOFF, 10 * BACKOFF])
            logs.on_deadline(now)
    return log


def committed(log: PartitionLog) -> list[tuple[int, bytes | None]]:
    """Return offset and key of what a reader of committed records sees."""
    found, offset, end = [], log.log_start_offset, log.last_stable_offset
    aborted = AbortedBatches(log.aborted_transactions(offset, end))
    while (read := log.read(offset, 1 << 20, end)) is not None:
        for header, data in iter_batches(read.records.read()):
            if header.is_control:
                aborted.ends(header, data)
            elif not aborted.has(header):
                found += [(each.offset, each.key) for each in iter_records(data, header)]
        offset = read.end_offset
    return found


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_follower_of_a_compacted_log_sees_what_its_leader_sees(tmp_path: Path, seed: int) -> None:
    leader = compacted(tmp_path / "leader", Random(seed))
    follower = new_log(tmp_path / "follower")
    while (read := leader.read(follower.log_end_offset, 1 << 20, leader.log_end_offset)) is not None:
        follower.append_fetched(read.records.read(), NOW)
    assert follower.last_stable_offset == leader.last_stable_offset
    assert committed(follower) == committed(leader)
