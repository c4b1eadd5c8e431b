"""Placement of replicas: racks take turns, brokers take turns, fenced brokers come last; compared with Kafka's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
from pykafka_broker.cluster.placement import directory_of, drawing, place, shuffled
from pykafka_broker.cluster.records import RecordType
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import UNASSIGNED
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreateTopicsRequest
from tests.cluster.parts import cluster_of, directory
from tests.cluster.recorded import steps
from tests.cluster.support import Cluster


def draws(seed: int = 1) -> Callable[[int], int]:
    """Return a source of draws that are well mixed and the same in every run."""
    numbers = count(seed * 7919)
    return lambda below: (next(numbers) * 2654435761 >> 7) % below


def racked(racks: str, fenced: tuple[int, ...] = ()) -> Cluster:
    """Return brokers in racks: the first letter names the rack of broker 1, and so on; a dot is no rack."""
    cluster = cluster_of(len(racks))
    for broker in cluster.image.brokers.values():
        rack = racks[broker.id - 1]
        broker.rack = None if rack == "." else rack
        broker.fenced = broker.id in fenced
    return cluster


# racks of the brokers, fenced ones, replication factor
LAYOUTS = [
    ("...", (), 2),
    ("....", (), 3),
    ("abb", (), 1),
    ("abb", (), 2),
    ("abb", (), 3),
    ("aabbcc", (), 3),
    ("aabbcc", (2, 3), 3),
    ("....a", (), 2),
    ("....aa", (), 3),
    ("abc", (2,), 2),
    ("abca", (2, 3), 3),
    ("abb", (3,), 3),
    ("abb", (3,), 2),
    ("aaa", (1, 2), 3),
]


@pytest.mark.parametrize(("racks", "fenced", "factor"), LAYOUTS)
def test_racks_take_turns_and_fenced_brokers_come_last(racks: str, fenced: tuple[int, ...], factor: int) -> None:
    cluster = racked(racks, fenced)
    placed = place(cluster.controller, 60, factor, draws())
    check(cluster.image, placed, factor)
    leaders = Counter(replicas[0] for replicas in placed)
    assert set(leaders) == {broker.id for broker in cluster.image.brokers.values() if not broker.fenced}


@pytest.mark.parametrize("section", ["placement", "fenced_racks", "no_racks"])
def test_the_rules_hold_for_what_kafka_placed(section: str) -> None:
    image, checked = MetadataImage(), 0
    for step in (step for step in steps() if step.section == section):
        for record in step.records:
            if record.message.API_KEY not in (RecordType.BEGIN_TRANSACTION, RecordType.END_TRANSACTION):
                image.apply(record.message, MetadataDelta())
        if isinstance(step.request, CreateTopicsRequest) and not step.request.topics[0].assignments:
            for topic in step.request.topics:
                if topic.name in image.topics:
                    partitions = image.topics[topic.name].partitions.values()
                    check(image, [list(partition.replicas) for partition in partitions], topic.replication_factor)
                    checked += 1
    assert checked >= 3


def check(image: MetadataImage, placed: list[list[int]], factor: int) -> None:
    brokers = image.brokers
    racks = {broker.rack for broker in brokers.values()}
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert not brokers[replicas[0]].fenced
        used = Counter(brokers[replica].rack for replica in replicas)
        assert len(used) == min(factor, len(racks))
        for replica in replicas:
            if brokers[replica].fenced:
                rack = brokers[replica].rack
                others = {b.id for b in brokers.values() if b.rack == rack and not b.fenced}
                assert others <= set(replicas), "who is there comes first in its rack"


def test_without_racks_everybody_leads_as_much_and_is_followed_by_many() -> None:
    placed = place(racked("....").controller, 400, 3, draws())
    assert Counter(replicas[0] for replicas in placed) == dict.fromkeys((1, 2, 3, 4), 100)
    followers = {tuple(replicas[1:]) for replicas in placed if replicas[0] == 1}
    assert followers == {(a, b) for a in (2, 3, 4) for b in (2, 3, 4) if a != b}


def test_one_node_alone_has_everything_and_draws_nothing() -> None:
    def draw(below: int) -> int:
        raise AssertionError("nothing is left to chance")

    assert place(cluster_of(1).controller, 3, 1, draw) == [[1], [1], [1]]


def test_who_is_about_to_stop_or_takes_nothing_new_gets_nothing() -> None:
    cluster = racked("...")
    cluster.image.brokers[2].in_controlled_shutdown = True
    assert {each for replicas in place(cluster.controller, 9, 2, draws()) for each in replicas} == {1, 3}
    cluster.image.brokers[2].fenced = True  # it has stopped
    assert {each for replicas in place(cluster.controller, 9, 3, draws()) for each in replicas} == {1, 2, 3}
    cluster.image.brokers[2].fenced = False
    cluster.image.brokers[3].cordoned_log_dirs = cluster.image.brokers[3].log_dirs
    with pytest.raises(ApiError, match="replication factor of 2 cannot be reached because only 1 broker") as refused:
        place(cluster.controller, 1, 2, draws())
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
    cluster.image.brokers[1].fenced = True
    with pytest.raises(ApiError, match="All brokers are currently fenced"):
        place(cluster.controller, 1, 1, draws())


def test_what_is_drawn_comes_from_where_ids_come_from() -> None:
    cluster = cluster_of(3)
    numbers: Iterator[bytes] = iter(number.to_bytes(16, "big") for number in (7, 8, 9))
    cluster.controller.new_uuid = numbers.__next__
    draw = drawing(cluster.controller)
    assert [draw(5), draw(5), draw(5)] == [2, 3, 4]
    assert sorted(shuffled("abcdef", draws())) == list("abcdef")


def test_the_directory_of_a_new_replica() -> None:
    cluster = cluster_of(2)
    assert directory_of(cluster.image, 1) == directory(1)
    cluster.image.brokers[2].log_dirs = (b"x" * 16, b"y" * 16)
    assert directory_of(cluster.image, 2) == directory_of(cluster.image, 9) == UNASSIGNED
