"""Sessions of brokers with their controller."""

from __future__ import annotations

from pykafka_broker.cluster.sessions import Sessions
from tests.cluster.support import Cluster

TIMEOUT = 9_000


def sessions_of(cluster: Cluster, now: int = 0) -> Sessions:
    sessions = Sessions(TIMEOUT, node_id=1)
    sessions.follow(cluster.image, list(cluster.image.brokers), now)
    return sessions


def test_a_new_controller_gives_everybody_a_session() -> None:
    sessions = sessions_of(Cluster(brokers=3), now=100)
    assert sessions.next_deadline() == 100 + TIMEOUT
    assert sessions.run_out(100 + TIMEOUT - 1) == []
    assert sessions.run_out(100 + TIMEOUT) == [2, 3]  # 1 is the controller's own node


def test_whoever_is_heard_of_has_its_time_anew() -> None:
    sessions = sessions_of(Cluster(brokers=3))
    sessions.contact(2, 12, 0, 5_000)
    assert sessions.run_out(TIMEOUT) == [3]
    assert sessions.next_deadline() == TIMEOUT
    sessions.put_off(3, TIMEOUT)
    assert sessions.next_deadline() == 5_000 + TIMEOUT


def test_all_may_have_their_time_anew() -> None:
    sessions = sessions_of(Cluster(brokers=3))
    sessions.begin_anew(5_000)
    assert (sessions.run_out(TIMEOUT), sessions.next_deadline()) == ([], 5_000 + TIMEOUT)


def test_a_fenced_broker_is_not_watched_but_keeps_its_id_while_it_is_heard_of() -> None:
    cluster = Cluster(brokers=2)
    sessions = sessions_of(cluster)
    cluster.image.brokers[2].fenced = True
    sessions.follow(cluster.image, [2], 10)
    assert sessions.next_deadline() is None
    assert sessions.is_running(2, 12, TIMEOUT - 1)
    assert not sessions.is_running(2, 12, TIMEOUT)
    assert not sessions.is_running(2, 11, 10)


def test_one_that_is_unregistered_is_forgotten() -> None:
    cluster = Cluster(brokers=2)
    sessions = sessions_of(cluster)
    del cluster.image.brokers[2]
    sessions.follow(cluster.image, [2], 10)
    assert sessions.next_deadline() is None
    assert not sessions.is_running(2, 12, 10)


def test_all_that_serve_must_have_seen_an_offset() -> None:
    cluster = Cluster(brokers=4)
    sessions = sessions_of(cluster)
    cluster.image.brokers[4].in_controlled_shutdown = True
    assert not sessions.all_have_seen(cluster.image, 20)
    sessions.contact(2, 12, 20, 1)
    sessions.contact(3, 13, 19, 1)
    assert not sessions.all_have_seen(cluster.image, 20)
    sessions.contact(3, 13, 20, 2)
    assert sessions.all_have_seen(cluster.image, 20)
