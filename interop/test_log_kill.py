"""kill -9 in the middle of load, fifty times in a row (five hundred with --slow), while segments roll, old ones go, and
others are compacted: every acknowledged record is there afterwards, once, in order.
"""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from interop.conftest import NewBroker
from interop.numbered import (
    NumberedProducer,
    Partitions,
    Place,
    check_no_gaps,
    check_once_in_order,
    check_places,
    create,
    key_of,
    read_all,
)

KILLS = 50
LOAD_S = 0.2
BURST = 10
NEW_PRODUCER_EVERY = 10
ROLLING = {"segment.ms": 100}
TOPICS: dict[str, Mapping[str, object]] = {
    "plain": {},
    "idempotent": {},
    "rolling": ROLLING,
    "retained": {**ROLLING, "retention.bytes": 100_000},
    "compacted": {**ROLLING, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01},
}
BUSY = {  # the upkeep of minutes in tenths of a second, so that kills find it at work
    "log.retention.check.interval.ms": 50,
    "log.segment.delete.delay.ms": 50,
    "log.cleaner.backoff.ms": 50,
    "log.flush.interval.ms": 500,
    "log.flush.scheduler.interval.ms": 100,
    "log.flush.offset.checkpoint.interval.ms": 100,
    "log.flush.start.offset.checkpoint.interval.ms": 100,
}
Acknowledged = dict[str, dict[int, Place]]


def check_retained(found: Partitions, acknowledged: dict[int, Place]) -> None:
    """What is left is the end of what was acknowledged."""
    check_once_in_order(found)
    check_no_gaps(found)
    first = [log[0][0] for log in found]
    assert max(first) > 0, "nothing was deleted"
    check_places(found, {number: place for number, place in acknowledged.items() if place[1] >= first[place[0]]})


def check_compacted(found: Partitions, acknowledged: dict[int, Place]) -> None:
    """The last record of each key is there, and nothing is there that was not written."""
    check_once_in_order(found)
    last = {key_of(number): number for number in sorted(acknowledged)}
    check_places(found, {number: acknowledged[number] for number in last.values()})
    assert all(acknowledged.get(number) == (p, offset) for p, log in enumerate(found) for offset, number in log)
    assert sum(map(len, found)) < len(acknowledged), "nothing was compacted"


def fifty_kills(new_broker: NewBroker, kills: int) -> None:
    broker = new_broker(**{name.replace(".", "_"): value for name, value in BUSY.items()})
    where = broker.bootstrap_servers
    create(where, TOPICS)
    acknowledged: Acknowledged = {topic: {} for topic in TOPICS}
    next_plain = 0
    safe: NumberedProducer | None = None
    for turn in range(kills):
        # The first never sends anything twice, so nothing may be there twice; the second goes on after the restart with
        # what was in flight, and the broker must know which of it is there already.
        plain = NumberedProducer(where, ["plain"], next_plain, burst=BURST, retries=0)
        if safe is None or turn % NEW_PRODUCER_EVERY == 0:
            others = [topic for topic in TOPICS if topic != "plain"]
            first = safe.sent if safe else 0
            safe = NumberedProducer(where, others, first, burst=BURST, enable_idempotence=True)
        before = len(safe.acknowledged["rolling"])
        plain.resume()
        safe.resume()
        time.sleep(LOAD_S)
        broker.kill()
        plain.pause()
        safe.pause()
        plain.abandon()
        broker.restart()
        safe.finish()
        next_plain = plain.sent
        for producer in (plain, safe):
            for topic, places in producer.acknowledged.items():
                acknowledged[topic] |= places
        assert len(safe.acknowledged["rolling"]) > before, "no load came through in this round"
    assert safe is not None
    check(where, acknowledged, safe.sent)
    broker.stop()
    assert not left_over(broker.data_dir), "a temporary file of a killed broker is still there"


def check(where: str, acknowledged: Acknowledged, sent: int) -> None:
    assert acknowledged["plain"], "the plain producer had nothing acknowledged"
    for topic, places in acknowledged.items():
        assert topic == "plain" or len(places) == sent, "an idempotent producer gave records up"
        found = read_all(where, topic)
        if topic == "retained":
            check_retained(found, places)
        elif topic == "compacted":
            check_compacted(found, places)
        else:
            check_places(found, places)
            check_once_in_order(found)
            check_no_gaps(found)


def left_over(data_dir: Path) -> list[str]:
    return [path.name for path in data_dir.rglob("*") if path.suffix in {".tmp", ".cleaned", ".swap"}]


@pytest.mark.timeout(3600)
def test_fifty_kills(new_broker: NewBroker, target_name: str, slow: bool) -> None:
    if target_name != "pykafka":
        fifty_kills(new_broker, 2)
        return
    for _ in range(10 if slow else 1):
        fifty_kills(new_broker, KILLS)
