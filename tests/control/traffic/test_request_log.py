"""What is kept of the traffic, and how much."""

from __future__ import annotations

from pykafka_broker.broker.context import ConnectionContext
from pykafka_broker.control.traffic.exchange import Entry, thinned
from pykafka_broker.control.traffic.request_log import FULL, SEALED_AT, RequestLog

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
