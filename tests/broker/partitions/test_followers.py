"""Followers of a partition: which ones count, which may join the ISR, and which have to leave the ISR."""

from __future__ import annotations

from pykafka_broker.broker.partitions.fetch_session import FetchSession, SessionWatch
from pykafka_broker.broker.partitions.partition import FollowerProgress, Followers
from pykafka_broker.cluster.image import PartitionImage

NOW = 1_700_000_000_000
LAG_MS = 30_000
OFFLINE, ONLINE = b"a directory off.", b"a directory on.."


def state(*isr: int, epoch: int = 0) -> PartitionImage:
    return PartitionImage(0, (1, 2, 3), isr, 1, partition_epoch=epoch)


def followers(*isr: int, end: int = 0, fenced: tuple[int, ...] = (), epoch: int = -1) -> Followers:
    def may_join(node_id: int, broker_epoch: int, directory_id: bytes) -> bool:
        return node_id not in fenced and broker_epoch == epoch and directory_id != OFFLINE

    return Followers(1, state(*isr), end, NOW, LAG_MS, may_join)


def fetched(group: Followers, node_id: int, offset: int, end: int, now: int = NOW) -> None:
    follower = group.get(node_id)
    assert follower is not None
    follower.fetched(offset, end, now)
    group.review(end, now)


def test_the_slowest_in_sync_says_what_is_reached() -> None:
    group = followers(1, 2, 3)
    assert group.reached(10) == -1, "nobody has fetched"
    fetched(group, 2, 8, 10)
    fetched(group, 3, 6, 10)
    assert (group.reached(10), group.reached(4)) == (6, 4)


def test_whoever_is_wished_for_counts_before_the_controller_agrees() -> None:
    group = followers(1)
    fetched(group, 2, 5, 10)
    assert (group.reached(10), group.leader_alone_counts) == (10, True)
    group.proposed_isr = (1, 2)
    assert (group.reached(10), group.leader_alone_counts, group.maximal_isr) == (5, False, (1, 2))
    group.follow(state(1, epoch=1), 10, NOW)
    assert (group.reached(10), group.leader_alone_counts, group.proposed_isr) == (10, True, None), "it was refused"


def test_whoever_is_to_leave_counts_until_the_controller_agrees() -> None:
    group = followers(1, 2)
    fetched(group, 2, 5, 10)
    group.proposed_isr = (1,)
    assert group.reached(10) == 5
    group.follow(state(1, epoch=1), 10, NOW + LAG_MS + 1)
    assert group.reached(10) == 10


def test_nobody_has_to_leave_while_a_wish_waits() -> None:
    """A second wish would take the place of the first, which the controller may grant."""
    group = followers(1, 2)
    late = NOW + LAG_MS + 1
    assert group.without_laggards(late, 10) == (1,)
    group.proposed_isr = (1, 2, 3)
    assert group.without_laggards(late, 10) is None


def test_what_is_told_again_takes_no_wish_back() -> None:
    group = followers(1, 2)
    group.proposed_isr = (1,)
    group.follow(state(1, 2), 10, NOW)
    assert group.proposed_isr == (1,)


def test_a_follower_of_a_fenced_broker_holds_nothing_up() -> None:
    group = followers(1, fenced=(2,))
    fetched(group, 2, 10, 10)
    assert (group.reached(12), group.leader_alone_counts) == (12, True)


def test_a_follower_whose_directory_is_offline_holds_nothing_up_and_does_not_come_back() -> None:
    group = followers(1, 2, 3)
    fetched(group, 2, 10, 10)
    fetched(group, 3, 10, 10)
    without = PartitionImage(0, (1, 2, 3), (1, 3), 1, partition_epoch=1, directories=(ONLINE, OFFLINE, ONLINE))
    group.follow(without, 12, NOW)
    fetched(group, 3, 12, 12)
    assert (group.reached(12), group.any_newcomer(10, NOW)) == (12, None)


def test_a_follower_that_has_what_is_required_may_join() -> None:
    group = followers(1)
    fetched(group, 2, 4, 10)
    assert group.with_newcomer(2, 5) is None
    fetched(group, 2, 5, 10)
    assert group.with_newcomer(2, 5) == (1, 2)


def test_nobody_joins_while_a_wish_waits_or_who_may_not() -> None:
    group = followers(1, fenced=(3,))
    fetched(group, 2, 10, 10)
    fetched(group, 3, 10, 10)
    assert group.with_newcomer(3, 0) is None
    group.proposed_isr = (1,)
    assert group.with_newcomer(2, 0) is None


def test_a_broker_joins_with_the_epoch_that_the_metadata_knows() -> None:
    group = followers(1, epoch=4)
    fetched(group, 2, 10, 10)
    assert group.with_newcomer(2, 0) is None
    follower = group.get(2)
    assert follower is not None
    follower.broker_epoch = 4
    assert group.with_newcomer(2, 0) == (1, 2)


def test_a_follower_that_lags_for_too_long_is_to_leave() -> None:
    group = followers(1, 2)
    fetched(group, 2, 2, 2)
    fetched(group, 2, 2, 3, NOW + 1)
    assert group.without_laggards(NOW + LAG_MS, 3) is None
    assert group.without_laggards(NOW + LAG_MS + 2, 3) == (1,)


def test_one_that_was_never_heard_of_leaves_in_its_time() -> None:
    group = followers(1, 2, 3)
    fetched(group, 3, 1, 1)
    assert group.without_laggards(NOW + LAG_MS, 1) is None
    assert group.without_laggards(NOW + LAG_MS + 1, 1) == (1, 3)


def test_a_follower_that_has_all_there_is_stays_however_long_ago_it_fetched() -> None:
    group = followers(1, 2)
    fetched(group, 2, 1, 1)
    assert group.without_laggards(NOW + 100 * LAG_MS, 1) is None


def test_the_low_watermark_is_known_when_all_have_told() -> None:
    group = followers(1, 2)
    assert group.low_watermark(9) is None
    for node_id, start in ((2, 5), (3, 3)):
        follower = group.get(node_id)
        assert follower is not None
        follower.log_start_offset = start
    assert (group.low_watermark(9), group.low_watermark(2)) == (3, 2)


def test_only_the_living_have_a_low_watermark() -> None:
    group = followers(1, 2, fenced=(2,))
    assert group.low_watermark(9) is None
    assert followers(1, 2, fenced=(2, 3)).low_watermark(9) == 9, "there is nobody left to wait for"


def test_a_follower_that_is_always_a_fetch_behind_is_not_slow() -> None:
    follower = FollowerProgress(NOW)
    for turn in range(1, 10):
        follower.fetched(turn * 10 - 10, turn * 10, NOW + turn * 100)
    assert follower.caught_up_ms == NOW + 800


def test_a_follower_that_falls_back_keeps_when_it_had_caught_up() -> None:
    follower = FollowerProgress(NOW)
    follower.fetched(10, 10, NOW + 5)
    follower.fetched(3, 20, NOW + 10)
    assert (follower.caught_up_ms, follower.log_end_offset) == (NOW + 5, 3)


def watched(asked_ms: int) -> tuple[FetchSession, SessionWatch]:
    """Return a session last used at a time, and its watch."""
    session = FetchSession(1, asked_ms, {}, uses_topic_ids=False, privileged=True)
    return session, SessionWatch(session, lambda key: None)


def test_a_follower_without_a_backlog_was_caught_up_as_long_as_it_kept_asking() -> None:
    follower = FollowerProgress(NOW)
    session, watch = watched(NOW + 500)
    follower.tell_to((watch, ("t", 0)))
    follower.fetched(5, 5, NOW + 100)
    follower.tell(6)
    assert follower.caught_up_ms == NOW + 500, "the session has asked since, for any partition"
    assert watch.take() == [("t", 0)]
    session.last_used = NOW + 550
    follower.tell(7)
    assert follower.caught_up_ms == NOW + 500, "a record was missing then"
    follower.fetched(5, 9, NOW + 600)
    caught_up_ms = follower.caught_up_ms
    _, later = watched(NOW + 900)
    follower.tell_to((later, ("t", 0)))
    follower.tell(9)
    assert follower.caught_up_ms == caught_up_ms, "four records are missing"
    assert later.take() == [("t", 0)]


def test_a_session_is_told_that_another_one_has_taken_its_partition() -> None:
    follower = FollowerProgress()
    _, first = watched(NOW)
    _, second = watched(NOW)
    follower.tell_to((first, ("t", 0)))
    follower.tell_to((first, ("t", 0)))
    assert first.take_lost() == [], "the session still has the partition"
    follower.tell_to((second, ("t", 0)))
    assert (first.take_lost(), second.take_lost()) == ([("t", 0)], [])
    follower.tell_to(None)
    assert second.take_lost() == [("t", 0)]
