"""Partitions are shared out as Java's assignors do it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.membership import (
    ClassicMembership,
    ConsumerMembership,
    GroupSettings,
    Subscriber,
    assign_range,
    assign_round_robin,
)
from pykafka_broker.protocol.enums import TopicPartition

BOTH = frozenset({"a", "b"})
MEMBERS = [Subscriber("m2", BOTH), Subscriber("m1", BOTH), Subscriber("m3", frozenset({"b"}), instance_id="x")]


def texts(found: dict[str, list[TopicPartition]]) -> dict[str, list[str]]:
    return {member: [str(each) for each in held] for member, held in found.items()}


def test_ranges_of_each_topic() -> None:
    assert texts(assign_range(MEMBERS, {"a": 3, "b": 4})) == {
        "m3": ["b-0", "b-1"],
        "m1": ["a-0", "a-1", "b-2"],
        "m2": ["a-2", "b-3"],
    }


def test_one_partition_after_the_other() -> None:
    assert texts(assign_round_robin(MEMBERS, {"a": 3, "b": 2, "unwanted": 1})) == {
        "m3": ["b-1"],
        "m1": ["a-0", "a-2"],
        "m2": ["a-1", "b-0"],
    }


class Listener:
    async def revoke(self, partitions: Iterable[TopicPartition]) -> None: ...

    async def assign(self, partitions: Iterable[TopicPartition]) -> None: ...

    def lose(self) -> None: ...


async def no_topics() -> dict[str, int]:
    return {}


@pytest.mark.parametrize("kind", [ClassicMembership, ConsumerMembership])
def test_a_member_leaves_without_a_look_for_the_coordinator(kind: type[ClassicMembership | ConsumerMembership]) -> None:
    """Kafka's consumer ends at once where no broker is there; a client without a loop would fail to ask."""
    member = kind(Client("127.0.0.1:1"), GroupSettings({"group.id": "g"}), no_topics, Listener())
    member.member_id, member.generation = "member", 1
    asyncio.run(member.leave())
