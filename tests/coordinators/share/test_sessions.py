"""Share sessions."""

from __future__ import annotations

import pytest

from pykafka_broker.coordinators.share.sessions import ShareSessions
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

ONE, TWO = ("g", "one"), ("g", "two")
T = b"t" * 16


def test_epochs_count_up_and_wrap() -> None:
    sessions = ShareSessions(10)
    session = sessions.open(ONE, 1)
    assert sessions.use_epoch(ONE, 1) is session
    with pytest.raises(ApiError) as caught:
        sessions.use_epoch(ONE, 1)
    assert caught.value.code is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    session.epoch = 0x7FFFFFFF
    sessions.use_epoch(ONE, 0x7FFFFFFF)
    assert session.epoch == 1


def test_no_more_than_the_limit() -> None:
    sessions = ShareSessions(1)
    sessions.open(ONE, 1)
    with pytest.raises(ApiError) as caught:
        sessions.open(TWO, 2)
    assert caught.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.open(ONE, 1)  # its own place
    sessions.close(ONE)
    sessions.open(TWO, 2)


def test_a_session_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka_broker.coordinators.share.sessions.MOST_PARTITIONS", 2)
    session = ShareSessions(1).open(ONE, 1)
    for partition in (0, 1, 1):
        session.add((T, partition), True)
    with pytest.raises(ApiError) as caught:
        session.add((T, 2), True)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    session.forget((T, 0))
    session.add((T, 2), True)
    assert list(session.partitions) == [(T, 1), (T, 2)]


def test_every_partition_comes_first_in_turn() -> None:
    session = ShareSessions(1).open(ONE, 1)
    for partition in range(3):
        session.add((T, partition), True)
    firsts = set()
    for _ in range(3):
        firsts.add(session.in_turn()[0])
        session.epoch += 1
    assert firsts == {(T, 0), (T, 1), (T, 2)}
    session.forget((T, 1))
    session.forget((T, 9))
    assert set(session.in_turn()) == {(T, 0), (T, 2)}


def test_sessions_of_a_connection() -> None:
    sessions = ShareSessions(10)
    sessions.open(ONE, 1)
    sessions.open(TWO, 2)
    assert sessions.of_connection(2) == [TWO]
