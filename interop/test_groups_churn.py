"""Consumers that come and go while a producer runs, some by leaving and some by a kill: no record is lost, and in the
end the committed offsets are the ends of the logs.

A run takes a minute for each group with --slow, else three seconds. Assignments are mere bytes to the broker, so the
ordinary run has only one of the groups that differ by their assignor alone.
"""

import random
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from interop.crew import CONSUMER_PROTOCOL, Crew, Kind
from interop.targets import Target, start
from interop.waiting import eventually

SECONDS = 3
SECONDS_SLOW = 60
# Sessions are short, so that killed members leave the group during a test.
CLASSIC = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 300}
PYTHONIC = {key.replace(".", "_"): value for key, value in CLASSIC.items()}
BROKER = {
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
}


def confluent(*assignors: str) -> Kind:
    return Kind("confluent", {**CLASSIC, "partition.assignment.strategy": ",".join(assignors)})


def kafka_python(*assignors: str) -> Kind:
    return Kind("kafka-python", {**PYTHONIC, "partition_assignment_strategy": assignors})


def aiokafka(*assignors: str) -> Kind:
    return Kind("aiokafka", {**PYTHONIC, "partition_assignment_strategy": assignors})


GROUPS = {
    "kafka-python": [kafka_python("range", "roundrobin")],
    "kafka-python-cooperative": [kafka_python("cooperative-sticky")],
    "aiokafka": [aiokafka("roundrobin")],
    "range": [confluent("range")],
    "roundrobin": [confluent("roundrobin")],
    "cooperative": [confluent("cooperative-sticky")],
    # Only roundrobin is known to all three clients.
    "mixed": [confluent("range", "roundrobin"), kafka_python("sticky", "roundrobin"), aiokafka("roundrobin", "range")],
    "cooperative-mixed": [confluent("cooperative-sticky"), kafka_python("cooperative-sticky")],
    "consumer-protocol": [Kind("confluent", CONSUMER_PROTOCOL)],
    "migration": [Kind("confluent", CONSUMER_PROTOCOL), confluent("cooperative-sticky")],
}
LIKE_OTHERS = ("kafka-python-cooperative", "roundrobin")  # cooperative-mixed and range, to the broker


@pytest.fixture(scope="module")
def broker(target_name: str) -> Iterator[Target]:
    with start(target_name, BROKER) as running:
        yield running


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LIKE_OTHERS else []) for name in GROUPS]
)
def test_none_is_lost(name: str, broker: Target, tmp_path: Path, slow: bool) -> None:
    dice = random.Random(name)
    kinds = cycle(GROUPS[name])
    with Crew(broker.bootstrap_servers, name, tmp_path) as crew:
        for _ in range(3):
            crew.start(next(kinds))
        crew.await_shares()
        end = time.monotonic() + (SECONDS_SLOW if slow else SECONDS)
        for go in cycle((crew.leave, crew.kill)):
            if time.monotonic() > end:
                break
            time.sleep(dice.uniform(0.1, 0.8))
            go(dice.choice(crew.members))
            time.sleep(dice.uniform(0.0, 0.4))
            crew.start(next(kinds))
        crew.await_shares()
        crew.finish()
        eventually(crew.described, {})
