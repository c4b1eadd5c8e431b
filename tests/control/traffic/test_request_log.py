"""The kept part of the traffic, and its bounds.

Entries that were put away come out as they went in.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.control.api.traffic import requests
from pykafka_broker.control.traffic import request_log
from pykafka_broker.control.traffic.exchange import Entry, Exchange, Mark, encoded_response, thinned
from pykafka_broker.control.traffic.request_log import FULL, SEALED_AT, RequestCounts, RequestLog, SealedEntries
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.server.link_codec import encode_request
from tests.control.traffic.known import Cluster

CONNECTION = ConnectionContext(1, "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 50000))


def entry(correlation_id: int, size: int = 0, answer: tuple[bytes] | None = None) -> Entry:
    frame = b"\x00\x12\x00\x00" + correlation_id.to_bytes(4, "big") + b"\xff\xff" + bytes(size)
    return 1000 + correlation_id, CONNECTION, frame, answer, 1


def fill(log: RequestLog, entries: list[Entry]) -> None:
    for each in entries:
        log.note(each)
        if len(log.recent) >= FULL:
            log.seal()


def test_numbers_count_on_when_the_oldest_go() -> None:
    log = RequestLog(most=300)
    fill(log, [entry(number) for number in range(1, 1001)])
    assert 3 <= len(log) < 300 + SEALED_AT
    assert log.last_number == 1000
    last = list(log.since(997))
    assert [(each.number, each.correlation_id) for each in last] == [(998, 998), (999, 999), (1000, 1000)]
    assert list(log.since(1000)) == []
    assert next(log.since()).number == 1000 - len(log) + 1


def test_long_ones_push_out_the_oldest_sooner() -> None:
    log = RequestLog(most=10_000, most_bytes=100_000)
    fill(log, [entry(number, 1000, (bytes(1000),)) for number in range(2 * SEALED_AT + 9)])
    assert len(log) == 9
    assert log.last_number == 2 * SEALED_AT + 9
    fill(log, [entry(number) for number in range(SEALED_AT)])
    assert [each.number for each in log.since()] == [2 * SEALED_AT + 1 + number for number in range(SEALED_AT + 9)]


def test_clients_are_known_by_the_beginning_of_a_bounded_number_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_log, "_MOST_CLIENTS", 2)
    log = RequestLog()
    for each in CONNECTIONS:
        wall, _, frame, answer, took = entry(1, 10_000)
        log.note((wall, each, frame, answer, took))
    log.seal()
    assert log.client_ids().keys() == {1, 2}
    assert max(map(len, log._headers.values())) < 1000


def test_a_mark_belongs_to_one_entry() -> None:
    log = RequestLog()
    log.mark(Mark(1 << 20, 7))
    for number in range(2):
        log.note(entry(number))
        log.seal()
    assert [each.request_bytes for each in log.since()] == [1 << 20, 10]


def test_what_was_forgotten_is_not_numbered_again() -> None:
    log = RequestLog()
    fill(log, [entry(1), entry(2)])
    log.clear()
    assert list(log.since()) == []
    fill(log, [entry(3)])
    assert [each.number for each in log.since()] == [3]


def test_long_pieces_and_files_are_not_kept() -> None:
    class File(bytes):
        def fileno(self) -> int:
            return 1

    pieces = thinned([b"head", bytes(100_000), File(b"ab")])
    assert pieces == (b"head", 100_000, 2)


CONNECTIONS = [ConnectionContext(id, "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 50000 + id)) for id in range(3)]
ENTRIES: list[Entry] = [
    (1000, CONNECTIONS[0], b"short", b"a body", 1),
    (1000, CONNECTIONS[1], b"", None, 0),
    (1 << 42, CONNECTIONS[2], bytes(range(200)), (b"head", 100_000, b"tail"), 1 << 40),
    (1001, CONNECTIONS[0], b"x", (), 3),
]


def put_away(entries: list[Entry], answer_bytes: int = 0) -> SealedEntries:
    return SealedEntries([list(field) for field in zip(*entries, strict=True)], {2: Mark(1 << 20, 7)}, answer_bytes)


def test_entries_come_out_as_they_went_in() -> None:
    found = put_away(ENTRIES)
    assert list(found) == ENTRIES
    assert list(found) == ENTRIES  # as often as one likes
    assert len(found) == 4
    assert found.marks == {2: Mark(1 << 20, 7)}


def test_requests_and_answers_count_with_their_bytes() -> None:
    few = put_away(ENTRIES)
    assert put_away(ENTRIES, 1000).bytes == few.bytes + 1000
    assert put_away([*ENTRIES, (1, CONNECTIONS[0], bytes(5000), None, 1)]).bytes > few.bytes + 5000


def answered(request: Message, response: Message, version: int) -> Entry:
    spec = SPECS[request.API_KEY]
    frame = b"".join(encode_request(request, version, 1, "a client"))[4:]
    return 1000, CONNECTION, frame, tuple(encoded_response(response, spec, version, 1) or ()), 1


def produced(topic: str, error: ErrorCode) -> Entry:
    asked = ProduceRequest(None, 1, 1000, [TopicProduceData(topic, partition_data=[PartitionProduceData(0, b"")])])
    told = [TopicProduceResponse(topic, partition_responses=[PartitionProduceResponse(0, error)])]
    return answered(asked, ProduceResponse(told), 9)


def fetched(topic: str, error: ErrorCode) -> Entry:
    asked = FetchRequest(topics=[FetchTopic(topic, partitions=[FetchPartition(0)])])
    told = [FetchableTopicResponse(topic, partitions=[PartitionData(0, error, records=None if error else b"")])]
    return answered(asked, FetchResponse(responses=told), 12)


def test_names_of_no_topic_have_no_sums_where_nothing_is_answered() -> None:
    """With acks=0 the broker closes the connection, which the log does not show."""
    log = RequestLog()
    counts = RequestCounts(log, Cluster())
    for name in ("none", "orders"):
        wall, connection, frame, _, took = produced(name, ErrorCode.NONE)
        fill(log, [(wall, connection, frame, None, took)])
    counts.catch_up()
    assert counts.topics.keys() == {"orders"}


def test_a_request_whose_beginning_alone_is_kept_counts_without_its_topics() -> None:
    log = RequestLog()
    counts = RequestCounts(log, Cluster())
    wall, connection, frame, answer, took = produced("orders", ErrorCode.NONE)
    log.mark(Mark(1 << 20, None))
    fill(log, [(wall, connection, frame[:-9], answer, took)])
    assert counts.catch_up()
    assert (counts.apis["Produce", 9].request_bytes, counts.topics) == (1 << 20, {})


def test_names_of_no_topic_have_no_sums() -> None:
    """A client that invents names would fill the memory, and the metrics."""
    log = RequestLog()
    counts = RequestCounts(log, Cluster())
    for number in range(100):
        for error in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            fill(log, [produced(f"none-{number}", error), fetched(f"none-{number}", error)])
    fill(log, [produced("orders", ErrorCode.NONE), produced("orders", ErrorCode.NOT_LEADER_OR_FOLLOWER)])
    fill(log, [fetched("orders", ErrorCode.NONE), fetched("orders", ErrorCode.OFFSET_OUT_OF_RANGE)])
    counts.catch_up()
    assert counts.topics.keys() == {"orders"}
    sums = counts.topics["orders"]
    assert (sums.total_produce_requests, sums.failed_produce_requests) == (2, 1)
    assert (sums.total_fetch_requests, sums.failed_fetch_requests) == (2, 1)
    assert counts.apis["Produce", 9].requests == 202


def test_long_answers_are_counted_fewer_at_once() -> None:
    """The first look at the metrics decodes the whole log, in turns between which clients are served."""
    few, many = produced("orders", ErrorCode.NONE), produced("o" * 10_000, ErrorCode.NONE)
    turns = []
    for each in (few, many):
        log = RequestLog()
        fill(log, [each] * 100)
        counts = RequestCounts(log, Cluster())
        turns.append(1)
        while not counts.catch_up(100):
            turns[-1] += 1
        assert counts.apis["Produce", 9].requests == 100
    assert turns[0] == 1
    assert turns[1] > 10


def test_very_long_answers_are_decoded_when_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No client waits until they are decoded: neither for the first count, nor when the log is sealed."""
    log, long = RequestLog(), produced("o" * 20_000, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    fill(log, [long])
    counts = RequestCounts(log, Cluster())
    assert not counts.catch_up(100)
    assert counts.apis == {}
    counts.uncounted[0].decode()
    assert counts.catch_up(100)
    fill(log, [long, long])
    log.seal()
    assert counts.apis["Produce", 9].requests == 1
    monkeypatch.setattr(request_log, "MOST_BYTES", 50_000)
    fill(log, [long])
    log.seal()
    assert counts.apis["Produce", 9].requests == 2  # the oldest, without its error
    assert counts.catch_up()
    assert counts.apis["Produce", 9].requests == 4
    assert counts.errors["Produce", "9", "NOT_LEADER_OR_FOLLOWER"] == 3


def test_a_few_long_answers_are_sealed_at_once() -> None:
    log = RequestLog()
    for number in range(100):
        log.weigh(100_000)
        log.note(entry(number))
    assert len(log.recent) // 5 * 100_000 <= 1 << 19


def test_what_a_client_invents_makes_no_sums() -> None:
    log = RequestLog()
    counts = RequestCounts(log, Cluster())
    for key, version in ((3, 0), (3, 13), (3, 99), (3, 100), (999, 0), (1000, 1), (-1, 7)):
        header = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"
        log.note((1000, CONNECTION, header, None, 1))
    assert counts.catch_up()
    assert {kind: sums.requests for kind, sums in counts.apis.items()} == {
        ("Metadata", 0): 1,
        ("Metadata", 13): 1,
        ("Metadata", -1): 2,
        ("unknown", -1): 3,
    }
    assert {(api, version) for api, version, _ in counts.errors} == {(api, str(at)) for api, at in counts.apis}


def test_a_request_that_is_answered_while_the_log_is_read_is_not_missing() -> None:
    log = RequestLog()
    fill(log, [entry(number) for number in range(200)])  # clients are served after a hundred
    waiting: Any = SimpleNamespace(so_far=lambda: Exchange(entry(4711)))
    log.waiting[1] = waiting
    control: Any = SimpleNamespace(observing=SimpleNamespace(log=log, known=Cluster()))

    async def main() -> list[int]:
        asked = asyncio.create_task(requests(control))
        await asyncio.sleep(0)
        del log.waiting[1]
        fill(log, [entry(4711, answer=(bytes(8),))])
        return [each["correlation_id"] for each in await asked]

    assert asyncio.run(main()) == [*range(200), 4711]
