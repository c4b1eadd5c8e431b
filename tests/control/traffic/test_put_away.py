"""Entries that were put away come out as they went in."""

from __future__ import annotations

from pykafka_broker.broker.context import ConnectionContext
from pykafka_broker.control.traffic.exchange import Entry, Mark
from pykafka_broker.control.traffic.put_away import PutAway

CONNECTIONS = [ConnectionContext(id, "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 50000 + id)) for id in range(3)]
ENTRIES: list[Entry] = [
    (1000, CONNECTIONS[0], b"short", b"a body", 1),
    (1000, CONNECTIONS[1], b"", None, 0),
    (1 << 42, CONNECTIONS[2], bytes(range(200)), (b"head", 100_000, b"tail"), 1 << 40),
    (1001, CONNECTIONS[0], b"x", (), 3),
]


def put_away(entries: list[Entry], answer_bytes: int = 0) -> PutAway:
    return PutAway([list(field) for field in zip(*entries, strict=True)], {2: Mark(1 << 20, 7)}, answer_bytes)


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
