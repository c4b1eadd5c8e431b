"""Huge things end in steps."""

from __future__ import annotations

from pykafka_broker.broker.letting_go import emptied, let_go
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

MANY = 20_000


def commit(topics: int, partitions: int = 1) -> OffsetCommitRequest:
    made = [
        OffsetCommitRequestTopic(f"t{n}", partitions=[OffsetCommitRequestPartition(p) for p in range(partitions)])
        for n in range(topics)
    ]
    return OffsetCommitRequest("g", topics=made)


def test_a_set_and_a_dict_end_in_steps() -> None:
    names = {f"n{number}" for number in range(MANY)}
    numbers = dict.fromkeys(range(MANY))
    assert len([*emptied(names)]) == len([*emptied(numbers)]) == 4
    assert not names
    assert not numbers


def test_few_need_no_step() -> None:
    assert [*emptied({1, 2})] == []
    assert [*let_go([commit(2)])] == []


def test_a_request_ends_in_steps_with_what_is_in_its_lists() -> None:
    of_topics, of_partitions = list(let_go([commit(MANY)])), list(let_go([commit(1, MANY)]))
    assert len(of_topics) >= 4
    assert len(of_partitions) >= 4
    assert [*let_go([])] == []


def test_what_somebody_else_holds_stays_as_it_is() -> None:
    request = commit(MANY)
    assert [*let_go([request])] == []
    assert len(request.topics) == MANY
    topics = request.topics
    through = [request]
    del request
    assert [*let_go(through)] == []
    assert len(topics) == MANY
    through = [commit(1, MANY), commit(1, MANY)]
    kept = through[0].topics[0]
    list(let_go(through))
    assert len(kept.partitions) == MANY
