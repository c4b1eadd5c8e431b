"""When a fetch answers at once and when it waits, as a real 4.4.0 does it: each row below was asked of one.

Kafka also sends the part of a batch that still fits; whole batches
alone are sent here, but what counts for `min_bytes` is the same.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.api.fetch import FetchAttempt, fetch
from pykafka_broker.broker.waiting.future import Future, Parked
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.fetch_response import FetchResponse
from pykafka_broker.protocol.stored.remove_topic_record import RemoveTopicRecord
from pykafka_broker.records.builder import BatchBuilder
from tests.broker.support import NOW, LightBroker

MB = 1 << 20
NO_SESSION = (0, -1)
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE
ALL_VERSIONS = (4, 6, 7, 11, 12, 13, 15, 17, 18)
UNKNOWN_ID = b"\7" * 16

Spec = tuple[str, int, int, int]  # topic, partition, offset, limit
Told = dict[tuple[str, int], tuple[int, int]]  # error and bytes by topic and partition


def one_record(size: int, **options: Any) -> bytearray:
    builder = BatchBuilder(**options)
    builder.append(b"k", bytes(size), NOW)
    return bytearray(builder.build())


class World:
    """A broker with the topics of the questions."""

    def __init__(self, directory: Path) -> None:
        self.broker = broker = LightBroker(directory)
        self.ids = {
            "big": broker.add("big", 2),  # 6 batches of 300 kB in each partition
            "seg": broker.add("seg", segment_bytes="1048576"),  # the same, three of them in a segment
            "small": broker.add("small"),  # 10 batches of 1,071 bytes
            "idle": broker.add("idle", 2),
        }
        for topic, partition in (("big", 0), ("big", 1), ("seg", 0)):
            for _ in range(6):
                self.append(topic, 300_000, partition)
        for _ in range(10):
            self.append("small", 1000)

    def append(self, topic: str, size: int, partition: int = 0) -> None:
        self.broker.partition(topic, partition).append(one_record(size), self.broker.now)

    def delete(self, topic: str) -> None:
        self.broker.commit_metadata([ApiMessageAndVersion(RemoveTopicRecord(self.ids[topic]), 0)])

    def ask(
        self,
        *specs: Spec,
        least: int = 1,
        most: int = 50 * MB,
        version: int = 12,
        session: tuple[int, int] = NO_SESSION,
    ) -> FetchResponse | Future[FetchResponse]:
        request = FetchRequest(max_wait_ms=500, min_bytes=least, max_bytes=most)
        request.session_id, request.session_epoch = session
        for topic, partition, offset, limit in specs:
            named = FetchTopic(partitions=[FetchPartition(partition, fetch_offset=offset, partition_max_bytes=limit)])
            if version < 13:
                named.topic = topic
            else:
                named.topic_id = self.ids.get(topic, UNKNOWN_ID)
            request.topics.append(named)
        return fetch(self.broker.services, self.broker.context(ApiKey.FETCH, version), request)

    def at_once(self, *specs: Spec, **options: int | tuple[int, int]) -> Told:
        answer = self.ask(*specs, **options)  # type: ignore[arg-type]
        assert isinstance(answer, FetchResponse)
        return self.told(answer)

    def waits(self, *specs: Spec, **options: int | tuple[int, int]) -> Parked:
        parked = self.ask(*specs, **options)  # type: ignore[arg-type]
        assert isinstance(parked, Parked)
        return parked

    def at_deadline(self, *specs: Spec, **options: int | tuple[int, int]) -> Told:
        parked = self.waits(*specs, **options)
        assert parked.poll is not None
        assert parked.expire is not None
        assert parked.poll(self.broker.now) is None
        return self.told(parked.expire(self.broker.now))

    def told(self, answer: FetchResponse) -> Told:
        names = {topic_id: name for name, topic_id in self.ids.items()}
        return {
            (topic.topic or names.get(topic.topic_id, "?"), data.partition_index): (data.error_code, len(data.records))
            for topic in answer.responses
            for data in topic.partitions
        }


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def both(limit: int) -> tuple[Spec, Spec]:
    return ("big", 0, 0, limit), ("big", 1, 0, limit)


ENOUGH: dict[str, tuple[tuple[Spec, ...], int, int]] = {
    "a limit of 1 MB, of which whole batches fill 900 kB": ((("big", 0, 0, MB),), MB, 50 * MB),
    "two partitions up to 1 MB": (both(MB), 2 * MB, 50 * MB),
    "1 MB in all": (both(MB), MB, MB),
    "more wanted than may come": ((("big", 0, 0, 10 * MB),), 5 * MB, MB),
    "350 kB of 350 kB": ((("big", 0, 0, 350_000),), 350_000, 50 * MB),
    "700 kB of two times 400 kB": (both(400_000), 700_000, 50 * MB),
    "800 kB of two times 400 kB": (both(400_000), 800_000, 50 * MB),
    "a batch above the limit": ((("big", 0, 0, 100_000),), 200_000, 50 * MB),
    "a batch above its limit and a part of another": (
        (("big", 0, 0, 100_000), ("big", 1, 0, 590_000)),
        880_000,
        50 * MB,
    ),
    "an older segment": ((("seg", 0, 0, 50 * MB),), 10 * MB, 50 * MB),
    "an older segment, up to a limit": ((("seg", 0, 0, 400_000),), 10 * MB, 50 * MB),
    "an older segment beside an idle partition": ((("idle", 0, 0, MB), ("seg", 0, 0, 50 * MB)), 10 * MB, 50 * MB),
    "small batches, all": ((("small", 0, 0, MB),), 10_000, 50 * MB),
    "small batches up to a limit": ((("small", 0, 0, 5500),), 5400, 50 * MB),
    "small batches from the middle": ((("small", 0, 3, MB),), 7000, 50 * MB),
    "nothing may come, nothing is there": ((("idle", 0, 0, MB),), 1, 0),
    "nothing may come": ((("big", 0, 0, MB),), 1, 0),
    "less than nothing may come": ((("idle", 0, 0, MB),), 1, -1),
    "nothing is wanted": ((("idle", 0, 0, MB),), 0, 50 * MB),
    "no limit but zero": ((("big", 0, 0, 0),), 1, 50 * MB),
    "the second of two with a limit of zero": ((("idle", 0, 0, 0), ("big", 0, 0, 0)), 1, 50 * MB),
}

NOT_ENOUGH: dict[str, tuple[tuple[Spec, ...], int, int]] = {
    "5 MB of a partition that may bring 1 MB": ((("big", 0, 0, MB),), 5 * MB, 50 * MB),
    "10 MB where 1.8 MB are there": ((("big", 0, 0, 50 * MB),), 10 * MB, 50 * MB),
    "the last segment": ((("seg", 0, 5, 50 * MB),), 10 * MB, 50 * MB),
    "1 MB of two times 400 kB": (both(400_000), MB, MB),
    "a byte more than two limits": (both(400_000), 800_001, 50 * MB),
    "a batch above the limit is too little": ((("big", 0, 0, 100_000),), 400_000, 50 * MB),
    "a second batch above its limit does not count beside the first": (both(100_000), 350_000, 50 * MB),
    "a limit of zero": ((("big", 0, 0, 0),), 400_000, 50 * MB),
    "small batches": ((("small", 0, 0, MB),), 20_000, 50 * MB),
}


@pytest.mark.parametrize("name", ENOUGH)
def test_it_answers_at_once_where_enough_is_there(world: World, name: str) -> None:
    specs, least, most = ENOUGH[name]
    told = world.at_once(*specs, least=least, most=most)
    assert len(told) == len(specs)


@pytest.mark.parametrize("name", NOT_ENOUGH)
def test_it_waits_where_there_is_less(world: World, name: str) -> None:
    specs, least, most = NOT_ENOUGH[name]
    assert world.at_deadline(*specs, least=least, most=most)


def test_what_an_open_transaction_holds_back_is_not_there_for_committed_readers(world: World) -> None:
    world.ids["tx"] = world.broker.add("tx")
    world.append("tx", 1000)
    open_batch = one_record(300_000, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    world.broker.partition("tx", 0).append(open_batch, world.broker.now)
    request = FetchRequest(max_wait_ms=500, min_bytes=190_000, isolation_level=1)
    request.topics = [FetchTopic("tx", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=200_000)])]
    assert isinstance(fetch(world.broker.services, world.broker.context(ApiKey.FETCH, 12), request), Parked)
    request.isolation_level = 0
    assert isinstance(fetch(world.broker.services, world.broker.context(ApiKey.FETCH, 12), request), FetchResponse)


def test_a_wait_ends_when_the_limit_is_reached_by_a_part_of_a_batch(world: World) -> None:
    parked = world.waits(("idle", 0, 0, 70_000), least=70_000)
    assert parked.poll is not None
    for _ in range(2):
        world.append("idle", 30_000)
        assert parked.poll(world.broker.now) is None
    world.append("idle", 30_000)
    answer = parked.poll(world.broker.now)
    assert answer is not None
    assert world.told(answer) == {("idle", 0): (0, 2 * 30_073)}


def test_sessions_count_the_same(world: World) -> None:
    full = world.ask(("big", 0, 0, MB), ("idle", 0, 0, MB), least=MB, session=(0, 0))
    assert isinstance(full, FetchResponse)
    assert world.at_once(least=MB, session=(full.session_id, 1))[("big", 0)][0] == 0
    assert world.at_deadline(("big", 0, 3, MB), least=MB, session=(full.session_id, 2)).keys() == {("big", 0)}


def test_compaction_that_took_the_rest_of_a_segment_does_not_make_a_wait_endless(world: World) -> None:
    """Count bytes from the next segment on when the offset lies behind the last batch of a segment."""
    log = world.broker.partition_log("seg", 0)
    first = next(iter(log.segments))
    rest = [place for place in first.batches() if place.base_offset >= 1]
    first.truncate_to(rest[0].base_offset)
    assert log.bytes_between(1, 3) == 0
    assert log.bytes_between(1, 6) == log.bytes_between(3, 6) > 800_000


def test_a_negative_limit_is_an_error_where_something_is_there(world: World) -> None:
    failed = int(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert world.at_once(("big", 0, 0, -1), ("idle", 0, 0, MB)) == {("big", 0): (failed, 0), ("idle", 0): (0, 0)}
    assert world.at_once(("big", 0, 99, -1)) == {("big", 0): (OUT_OF_RANGE, 0)}
    for nothing in (("idle", 0, 0, -1), ("big", 0, 6, -1)):
        assert world.at_deadline(nothing) == {nothing[:2]: (0, 0)}


def strange(version: int) -> tuple[tuple[str, int], int]:
    """Return under which name an unknown topic is told, and the error."""
    return (("gone", 0), UNKNOWN) if version < 13 else (("?", 0), ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize("version", ALL_VERSIONS)
class TestErrors:
    """An unknown topic, partition or id is told with the answer, which waits for the other partitions."""

    def test_beside_an_idle_partition(self, world: World, version: int) -> None:
        gone, idle, code = ("gone", 0, 0, MB), ("idle", 0, 0, MB), strange(version)
        assert world.at_deadline(idle, gone, version=version) == {("idle", 0): (0, 0), code[0]: (code[1], 0)}
        assert world.at_deadline(gone, idle, version=version) == {("idle", 0): (0, 0), code[0]: (code[1], 0)}
        for number in (7, -1):
            told = world.at_deadline(idle, ("idle", number, 0, MB), version=version)
            assert told == {("idle", 0): (0, 0), ("idle", number): (UNKNOWN, 0)}

    def test_alone(self, world: World, version: int) -> None:
        where, code = strange(version)
        assert world.at_once(("gone", 0, 0, MB), version=version) == {where: (code, 0)}
        assert world.at_once(("idle", 7, 0, MB), version=version) == {("idle", 7): (UNKNOWN, 0)}

    def test_beside_records(self, world: World, version: int) -> None:
        where, code = strange(version)
        specs = ("idle", 0, 0, MB), ("gone", 0, 0, MB), ("small", 0, 0, MB)
        told = {("idle", 0): (0, 0), where: (code, 0), ("small", 0): (0, 10_710)}
        assert world.at_once(*specs, version=version) == told
        assert world.at_deadline(*specs, least=MB, version=version) == told

    def test_an_error_of_a_partition_that_is_known_ends_the_wait(self, world: World, version: int) -> None:
        told = world.at_once(("idle", 0, 0, MB), ("idle", 1, 99, MB), version=version)
        assert told == {("idle", 0): (0, 0), ("idle", 1): (OUT_OF_RANGE, 0)}


@pytest.mark.parametrize("version", [version for version in ALL_VERSIONS if version >= 7])
class TestErrorsInSessions:
    """Each answer of the session tells them again."""

    def test_beside_an_idle_partition(self, world: World, version: int) -> None:
        where, code = strange(version)
        specs = ("idle", 0, 0, MB), ("gone", 0, 0, MB), ("idle", 7, 0, MB)
        full = world.waits(*specs, version=version, session=(0, 0))
        assert full.expire is not None
        session = full.expire(world.broker.now).session_id
        errors = {where: (code, 0), ("idle", 7): (UNKNOWN, 0)}
        for epoch in (1, 2):
            assert world.at_deadline(version=version, session=(session, epoch)) == errors
        errors["idle", 8] = (UNKNOWN, 0)
        assert world.at_deadline(("idle", 8, 0, MB), version=version, session=(session, 3)) == errors
        errors["idle", 1] = (OUT_OF_RANGE, 0)
        assert world.at_once(("idle", 1, 99, MB), version=version, session=(session, 4)) == errors
        assert world.at_once(version=version, session=(session, 5)) == errors

    def test_a_session_of_nothing_else(self, world: World, version: int) -> None:
        where, code = strange(version)
        full = world.ask(("gone", 0, 0, MB), version=version, session=(0, 0))
        assert isinstance(full, FetchResponse)
        assert world.at_once(version=version, session=(full.session_id, 1)) == {where: (code, 0)}

    def test_a_topic_that_goes_ends_the_wait_once(self, world: World, version: int) -> None:
        world.ids["d"] = world.broker.add("d")
        full = world.waits(("idle", 0, 0, MB), ("d", 0, 0, MB), version=version, session=(0, 0))
        assert full.expire is not None
        session = full.expire(world.broker.now).session_id
        parked = world.waits(version=version, session=(session, 1))
        world.delete("d")
        assert parked.poll is not None
        answer = parked.poll(world.broker.now)
        assert answer is not None
        assert world.told(answer) == {("d", 0): (UNKNOWN, 0)}
        assert world.at_deadline(version=version, session=(session, 2)) == {("d", 0): (UNKNOWN, 0)}


def test_a_fetch_of_many_partitions_waits_beside_an_unknown_one(world: World) -> None:
    """A fetch of many partitions, which is read in slices, is parked and not looked at over and over again."""
    world.ids["many"] = world.broker.add("many", 200)
    specs = [("many", number, 0, MB) for number in range(200)]
    reply = world.ask(("gone", 0, 0, MB), *specs)
    assert isinstance(reply, Future)
    assert isinstance(reply.result(), Parked)


def test_a_fetch_in_slices_leaves_nothing_to_the_garbage_collector(world: World) -> None:
    gc.collect()
    gc.disable()
    try:
        answer = world.ask(("small", 0, 0, MB), version=3)
        assert isinstance(answer, Future)
        assert answer.done
        del answer
        assert not any(isinstance(each, FetchAttempt) for each in gc.get_objects())
    finally:
        gc.enable()
