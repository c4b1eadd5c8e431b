"""Fetch sessions (KIP-227)."""

from __future__ import annotations

import itertools

import pytest

from pykafka_broker.broker.partitions.fetch_session import (
    FetchedPartition,
    FetchSession,
    FetchSessionCache,
    SessionWatch,
)
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode


def cache(slots: int = 2, eviction_ms: int = 1000) -> FetchSessionCache:
    ids = itertools.count(1)
    return FetchSessionCache(slots, eviction_ms, lambda: next(ids))


def partitions(*numbers: int) -> dict[tuple[str, int], FetchedPartition]:
    return {("t", number): FetchedPartition("t", number, 0, 1000) for number in numbers}


def opened(sessions: FetchSessionCache, *numbers: int, now: int = 0) -> FetchSession:
    session = sessions.open(partitions(*numbers), False, now)
    assert session is not None
    return session


def error_of(sessions: FetchSessionCache, session_id: int, epoch: int, ids: bool = False) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        sessions.resume(session_id, epoch, ids, 0)
    return caught.value.code


def test_epochs_count_from_one() -> None:
    sessions = cache()
    session = opened(sessions, 0)
    assert sessions.resume(session.id, 1, False, 5) is session
    assert sessions.resume(session.id, 2, False, 6) is session
    assert session.last_used == 6
    assert error_of(sessions, session.id, 2) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_the_epoch_wraps_to_one() -> None:
    sessions = cache()
    session = opened(sessions, 0)
    session.epoch = 0x7FFFFFFF
    sessions.resume(session.id, 0x7FFFFFFF, False, 0)
    assert session.epoch == 1


def test_an_unknown_session_and_one_of_the_other_kind() -> None:
    sessions = cache()
    assert error_of(sessions, 99, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    session = opened(sessions, 0)
    assert error_of(sessions, session.id, 1, ids=True) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_request_without_partitions_opens_one_too() -> None:
    assert cache().open({}, False, 0) is not None


def test_no_slots_no_sessions() -> None:
    assert cache(slots=0).open(partitions(0), False, 0) is None


def test_a_full_cache_evicts_only_what_is_stale() -> None:
    sessions = cache(slots=2, eviction_ms=1000)
    first = opened(sessions, 0, now=0)
    opened(sessions, 1, now=500)
    assert sessions.open(partitions(2), False, 1000) is None
    assert sessions.open(partitions(2), False, 1001) is not None
    assert error_of(sessions, first.id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_larger_session_takes_the_place_of_an_old_smaller_one_in_use() -> None:
    sessions = cache(slots=1, eviction_ms=1000)
    small = opened(sessions, 0, now=0)
    assert sessions.open(partitions(1, 2), False, 1000) is None, "the small one is not old"
    sessions.resume(small.id, 1, False, 1900)
    assert sessions.open(partitions(1), False, 2000) is None
    assert sessions.open(partitions(1, 2), False, 2000) is not None


def test_a_session_in_use_is_not_the_oldest_any_more() -> None:
    sessions = cache(slots=2, eviction_ms=1000)
    first, second = opened(sessions, 0, now=0), opened(sessions, 1, now=500)
    sessions.resume(first.id, 1, False, 1400)
    assert sessions.open(partitions(2), False, 1501) is not None
    assert error_of(sessions, second.id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.resume(first.id, 2, False, 1501) is first


def test_followers_push_clients_out_and_no_client_a_follower() -> None:
    sessions = cache(slots=1, eviction_ms=1000)
    client = opened(sessions, 0, 1)
    follower = sessions.open(partitions(0), False, 0, privileged=True)
    assert follower is not None
    assert error_of(sessions, client.id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    sessions.resume(follower.id, 1, False, 1900)
    assert sessions.open(partitions(0, 1), False, 2000) is None, "a larger session, and the follower's is old"
    assert sessions.open(partitions(0), False, 2000, privileged=True) is None, "no larger than the other follower's"
    assert sessions.open(partitions(0, 1), False, 2000, privileged=True) is not None


def test_no_two_sessions_have_the_same_id_and_none_has_zero() -> None:
    drawn = iter((7, 7, 0, 8))
    sessions = FetchSessionCache(2, 1000, lambda: next(drawn))
    assert (opened(sessions, 0).id, opened(sessions, 1).id) == (7, 8)
    assert sessions.partitions(7) == [("t", 0)]


def test_the_short_way_is_for_what_resume_would_return() -> None:
    sessions = cache()
    session = opened(sessions, 0)
    assert sessions.continued(session.id, 1, False) is session
    for session_id, epoch, uses_ids in ((session.id, 2, False), (session.id, 1, True), (99, 1, False)):
        assert sessions.continued(session_id, epoch, uses_ids) is None
    assert sessions.resume(session.id, 1, False, 0) is session, "nothing has changed"


def test_update_adds_changes_and_forgets() -> None:
    session = opened(cache(), 0, 1)
    wanted = [(1, 7, 50, 3, 2, 5), (2, 9, 60, -1, -1, -1)]
    session.update([FetchedPartition("t", *each) for each in wanted], [("t", 0), ("t", 5)])
    assert [
        (
            key[1],
            one.fetch_offset,
            one.max_bytes,
            one.current_leader_epoch,
            one.last_fetched_epoch,
            one.log_start_of_replica,
        )
        for key, one in session.partitions.items()
    ] == wanted
    assert session.only_partition is None
    session.update([], [("t", 1)])
    assert session.only_partition is session.partitions["t", 2]
    session.update([], [("t", 2)])
    assert session.only_partition is None


@pytest.mark.parametrize(("before", "after", "again"), [(0, 1, True), (0, -1, False), (-1, 0, False), (1, 1, False)])
def test_what_was_told_is_told_again_under_a_newer_epoch_only(before: int, after: int, again: bool) -> None:
    """A client that stops to tell the leader's epoch hears nothing twice, as Kafka has it."""
    session = opened(cache(), 0)
    one = session.partitions["t", 0]
    one.current_leader_epoch = before
    one.changed(5, 0)
    session.update([FetchedPartition("t", 0, 5, 1000, after)], [])
    assert one.changed(5, 0) is again


def test_a_partition_that_is_asked_for_and_forgotten_is_forgotten() -> None:
    session = opened(cache(), 0, 1)
    session.update([FetchedPartition("t", 1, 7, 50), FetchedPartition("t", 2, 9, 60)], [("t", 1), ("t", 2)])
    assert [key[1] for key in session.partitions] == [0]


def test_what_returned_records_goes_to_the_end() -> None:
    session = opened(cache(), 0, 1, 2)
    session.rotate([("t", 0)])
    assert [key[1] for key in session.partitions] == [1, 2, 0]
    session.rotate([("t", 3), ("t", 1)])
    assert [key[1] for key in session.partitions] == [2, 0, 1], "one was forgotten while its records were read"


def test_a_followers_notes_are_taken_once_and_what_had_no_room_comes_first() -> None:
    watch = SessionWatch(opened(cache(), 0, 1, 2), lambda _: None)
    for number in (0, 1):
        watch.note(("t", number))
    assert watch.take() == [("t", 0), ("t", 1)]
    assert not watch
    watch.note(("t", 2))
    watch.put_back([("t", 1)])
    assert watch.take() == [("t", 1), ("t", 2)]
    watch.lose(("t", 0))
    assert (watch.take_lost(), watch.take_lost()) == ([("t", 0)], [])


def test_a_change_is_told_once_and_again_after_an_error() -> None:
    one = FetchedPartition("t", 0, 0, 1000)
    assert one.changed(5, 0)
    assert not one.changed(5, 0)
    assert one.changed(6, 0)
    assert one.changed(6, 2)
    one.changed(-1, -1)
    assert one.changed(6, 2)


def test_a_withdrawn_answer_is_told_again() -> None:
    sessions = cache()
    session = opened(sessions, 0)
    assert sessions.withdraw(session.id) == 0, "the client does not know the session yet"
    assert error_of(sessions, session.id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    session = opened(sessions, 0)
    sessions.resume(session.id, 1, False, 0)
    partition = session.only_partition
    assert partition is not None
    assert partition.changed(5, 0)
    assert sessions.withdraw(session.id) == session.id
    assert partition.changed(5, 0)
