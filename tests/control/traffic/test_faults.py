"""Whom a fault meets, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.control.traffic.exchange import Exchange
from pykafka_broker.control.traffic.faults import Action, Chaos, Match, Rule
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.server.link_codec import encode_request
from tests.control.traffic.known import Cluster


def exchange(request: Message, version: int, client_id: str | None = "client-1") -> Exchange:
    frame = b"".join(encode_request(request, version, 5, client_id))[4:]
    connection = ConnectionContext(3, "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 50000))
    return Exchange((0, connection, frame, None, 0))


PRODUCE = ProduceRequest("x", topic_data=[TopicProduceData("orders", partition_data=[PartitionProduceData(1)])])


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        (Match(), True),
        (Match(api=frozenset({ApiKey.PRODUCE, ApiKey.FETCH})), True),
        (Match(api=frozenset({ApiKey.FETCH})), False),
        (Match(version=9), True),
        (Match(version=8), False),
        (Match(client_id="client-1"), True),
        (Match(client_id="client-*"), True),
        (Match(client_id="client"), False),
        (Match(connection=3), True),
        (Match(connection=4), False),
        (Match(listener="PLAINTEXT"), True),
        (Match(listener="OTHER"), False),
        (Match(topic="orders"), True),
        (Match(topic="ord*", partition=1), True),
        (Match(topic="orders", partition=0), False),
        (Match(partition=1), True),
        (Match(topic="ordersx"), False),
        (Match(transactional_id="x"), True),
        (Match(transactional_id="y"), False),
        (Match(group="g"), False),
    ],
    ids=repr,
)
def test_all_that_is_named_has_to_fit(match: Match, fits: bool) -> None:
    assert Rule(1, match, Action()).fits(exchange(PRODUCE, 9), Cluster()) is fits


@pytest.mark.parametrize(("version", "topics", "fits"), [(0, [], True), (1, [], False), (1, None, True)])
def test_all_topics_are_asked_for_in_other_ways_in_the_first_version(version: int, topics: Any, fits: bool) -> None:
    asked = exchange(MetadataRequest(topics=topics), version)
    assert Rule(1, Match(topic="orders"), Action()).fits(asked, Cluster()) is fits


def test_a_client_without_an_id_has_none() -> None:
    assert not Rule(1, Match(client_id="*"), Action()).fits(exchange(PRODUCE, 9, None), Cluster())


def test_a_group_is_found_in_a_heartbeat() -> None:
    assert Rule(1, Match(group="g"), Action()).fits(exchange(HeartbeatRequest("g", 1, "m"), 4), Cluster())


def chosen(match: Match, of: int = 12) -> list[int]:
    rule = Rule(1, match, Action())
    return [number for number in range(1, of + 1) if rule.chooses()]


def test_every_and_times_choose() -> None:
    assert chosen(Match(times=2)) == [1, 2]
    assert chosen(Match(every=3)) == [3, 6, 9, 12]
    assert chosen(Match(every=3, times=1)) == [3]


def test_a_probability_is_repeatable_by_its_seed() -> None:
    some = chosen(Match(probability=0.5, seed=1), 1000)
    assert 400 < len(some) < 600
    assert chosen(Match(probability=0.5, seed=1), 1000) == some
    assert chosen(Match(probability=0.5, seed=2), 1000) != some
    assert chosen(Match(probability=0.0)) == []


@pytest.mark.parametrize(
    ("api_key", "events"),
    [
        (ApiKey.PRODUCE, {"bump_leader_epoch"}),
        (ApiKey.OFFSET_COMMIT, {"move_coordinator", "expire_member"}),
        (ApiKey.TXN_OFFSET_COMMIT, {"move_coordinator", "expire_member"}),
        (ApiKey.END_TXN, {"move_coordinator"}),
        (ApiKey.METADATA, set()),
    ],
)
def test_chaos_with_events_lets_befall_what_a_request_names(api_key: ApiKey, events: set[str]) -> None:
    def drawn(with_events: bool) -> set[str]:
        actions = [Chaos(1, 0.5, with_events).drawn("client-1", api_key, nth) for nth in range(1, 301)]
        return {each.event for each in actions if each is not None and each.event is not None}

    assert drawn(True) == events
    assert drawn(False) == set()
