"""Records of share groups: how they are acquired, acknowledged, renewed and given back.

Rule: each function is one scenario with a group of its own; read it from top to bottom.
"""

from __future__ import annotations

from tests.scenarios.groups.stage import Stage
from tests.scenarios.scripts import Scripts
from tests.scenarios.share.actors import ACCEPT, GAP, REJECT, RELEASE, RENEW
from tests.scenarios.share.session_scripts import earliest

SCENARIOS = scenario = Scripts[Stage]()


@scenario
def every_kind_of_acknowledgement(s: Stage) -> None:
    topic, admin, (one, two) = earliest(s, 1, "one", "two")
    admin.produce(topic, *"abcdef")
    one.fetch(topic)
    two.fetch(topic, max_wait_ms=100)
    one.ack({(topic, 0): [(0, 0, [ACCEPT]), (1, 2, [RELEASE])]})
    admin.offsets()
    two.fetch()
    one.ack({(topic, 0): [(3, 4, [REJECT, RELEASE])]})
    one.fetch(acks={(topic, 0): [(5, 5, [ACCEPT])]})
    two.ack({(topic, 0): [(1, 2, [ACCEPT, ACCEPT])]})
    admin.offsets()
    one.fetch(acks={(topic, 0): [(4, 4, [GAP])]}, max_wait_ms=100)
    admin.offsets()


@scenario
def acknowledgements_that_are_refused(s: Stage) -> None:
    topic, admin, (one, two) = earliest(s, 1, "one", "two")
    admin.produce(topic, *"abcd")
    admin.produce(topic, *"ef")
    one.fetch(topic, max_records=1)
    two.fetch(topic)
    t = (topic, 0)
    one.ack({t: [(4, 4, [ACCEPT])]})
    one.ack({t: [(3, 4, [ACCEPT])]})
    one.ack({t: [(0, 9, [ACCEPT])]})
    one.ack({t: [(8, 9, [ACCEPT])]})
    one.ack({t: [(1, 0, [ACCEPT])]})
    one.ack({t: [(2, 2, [ACCEPT]), (1, 1, [ACCEPT])]})
    one.ack({t: [(0, 2, [ACCEPT, ACCEPT])]})
    one.ack({t: [(0, 2, [])]})
    one.ack({t: [(0, 0, [9])]})
    one.ack({t: [(0, 0, [-1])]})
    one.ack({t: [(0, 0, [RENEW])]})
    one.ack({t: [(0, 0, [RENEW])]}, version=1)
    one.ack({(topic, 7): [(0, 0, [ACCEPT])]})
    one.ack({t: []})
    one.ack({t: [(0, 1, [ACCEPT]), (1, 1, [ACCEPT])]})
    one.ack({t: [(0, 0, [ACCEPT])]})
    one.ack({t: [(0, 0, [ACCEPT])]})
    one.ack({t: [(0, 1, [ACCEPT])]})
    one.ack({t: [(1, 1, [ACCEPT]), (4, 4, [ACCEPT])]})
    one.ack({t: [(1, 1, [RELEASE]), (2, 2, [RELEASE])]})
    one.ack({t: [(1, 1, [ACCEPT])]})
    one.fetch(acks={t: [(1, 1, [ACCEPT])]})
    one.fetch(acks={t: [(2, 1, [ACCEPT])]}, max_wait_ms=100)
    two.fetch(acks={t: [(5, 5, [ACCEPT])]}, max_wait_ms=100)
    admin.offsets()


@scenario
def locks_that_end(s: Stage) -> None:
    topic, admin, (one, two) = earliest(s, 1, "one", "two")
    admin.produce(topic, *"abc")
    one.fetch(topic)
    two.send_fetch(topic, max_wait_ms=5000)
    s.wait(1000)
    two.waits()
    s.wait(1500)
    two.fetched()
    one.ack({(topic, 0): [(0, 0, [ACCEPT])]})
    two.ack({(topic, 0): [(0, 2, [ACCEPT, GAP, ACCEPT])]})
    two.ack({(topic, 0): [(0, 0, [ACCEPT])]})
    admin.offsets()


@scenario
def renewed_locks(s: Stage) -> None:
    topic, admin, (one, two) = earliest(s, 1, "one", "two")
    admin.produce(topic, *"abc")
    one.fetch(topic)
    s.wait(1200)
    one.ack({(topic, 0): [(0, 1, [RENEW])]}, is_renew_ack=True)
    one.ack({(topic, 0): [(0, 0, [RENEW])]}, is_renew_ack=False)
    one.ack({(topic, 0): [(0, 0, [ACCEPT])]}, is_renew_ack=True)
    s.wait(1200)
    two.fetch(topic)
    one.fetch(
        acks={(topic, 0): [(1, 1, [RENEW])]},
        is_renew_ack=True,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=0,
        max_records=0,
    )
    one.fetch(acks={(topic, 0): [(1, 1, [RENEW])]}, is_renew_ack=True)
    s.wait(1200)
    one.ack({(topic, 0): [(1, 1, [ACCEPT])]})
    admin.offsets()
    admin.configure(share_renew_acknowledge_enable="false")
    two.ack({(topic, 0): [(2, 2, [RENEW])]}, is_renew_ack=True)


@scenario
def deliveries_are_counted(s: Stage) -> None:
    topic, admin, (one, two) = earliest(s, 1, "one", "two")
    admin.produce(topic, *"ab")
    one.fetch(topic)
    for _ in range(4):
        one.ack({(topic, 0): [(0, 0, [RELEASE])]})
        one.fetch()
        one.ack({(topic, 0): [(1, 1, [RENEW])]}, is_renew_ack=True)
    one.ack({(topic, 0): [(0, 0, [RELEASE])]})
    admin.offsets()
    one.fetch(max_wait_ms=100)
    one.ack({(topic, 0): [(0, 0, [ACCEPT])]})
    one.ack({(topic, 0): [(1, 1, [RELEASE])]})
    two.fetch(topic)


@scenario
def poison_is_delivered_alone(s: Stage) -> None:
    topic, admin, (one,) = earliest(s, 1, "one")
    admin.produce(topic, *"abcdefgh")
    one.fetch(topic)
    for _ in range(4):
        one.ack({(topic, 0): [(0, 7, [RELEASE])]})
        answer = one.fetch()
        if answer.responses[0].partitions[0].acquired_records[-1].last_offset < 7:
            break
    one.fetch()
    one.fetch(max_wait_ms=100)
    one.ack({(topic, 0): [(0, 7, [RELEASE])]})
    one.fetch()
    one.fetch()
    one.ack({(topic, 0): [(0, 1, [RELEASE])]})
    one.fetch()
    for _ in range(3):
        one.fetch()
    admin.offsets()


@scenario
def limits_of_a_fetch(s: Stage) -> None:
    topic, admin, (one, two) = earliest(s, 1, "one", "two")
    for batch in ("abc", "def", "ghi", "jkl"):
        admin.produce(topic, *batch)
    one.fetch(topic, max_records=1)
    one.fetch(max_records=4)
    two.fetch(topic, max_records=2, share_acquire_mode=1)
    two.fetch(max_records=5, share_acquire_mode=1, max_wait_ms=100)
    one.ack({(topic, 0): [(0, 8, [RELEASE])]})
    two.fetch(max_records=2, share_acquire_mode=1)
    two.fetch(max_records=2)
    two.fetch(max_records=2, max_bytes=1)


@scenario
def batches_of_a_fetch(s: Stage) -> None:
    topic, admin, (one,) = earliest(s, 1, "one")
    for batch in ("abc", "defg", "hi"):
        admin.produce(topic, *batch)
    one.fetch(topic, max_bytes=1)
    one.fetch(batch_size=2)
    one.ack({(topic, 0): [(0, 2, [RELEASE, ACCEPT, RELEASE])]})
    one.fetch()
    one.fetch(max_wait_ms=100)


@scenario
def records_that_come_late(s: Stage) -> None:
    topic, admin, (one, two) = earliest(s, 1, "one", "two")
    one.send_fetch(topic, max_wait_ms=3000)
    s.wait(500)
    one.waits()
    admin.produce(topic, "a")
    one.fetched()
    two.send_fetch(topic, max_wait_ms=3000)
    s.wait(500)
    two.waits()
    one.ack({(topic, 0): [(0, 0, [RELEASE])]})
    two.fetched()


@scenario
def latest_is_the_default(s: Stage) -> None:
    from tests.scenarios.share.actors import ShareAdmin, ShareMember

    topic = s.topic("t")
    admin, one = ShareAdmin(s, "admin"), ShareMember(s, "one")
    admin.produce(topic, "old")
    one.enter(topic)
    admin.offsets()
    one.fetch(topic, max_wait_ms=200)
    admin.offsets()
    admin.produce(topic, "new")
    one.fetch()
    admin.offsets()
    one.ack({(topic, 0): [(1, 1, [ACCEPT])]})
    admin.offsets()
    admin.offsets(version=0)


@scenario
def start_of_the_log_moves(s: Stage) -> None:
    topic, admin, (one,) = earliest(s, 1, "one")
    admin.produce(topic, *"abcd")
    admin.produce(topic, *"efgh")
    one.fetch(topic, max_records=1)
    admin.delete_records(topic, 2)
    one.ack({(topic, 0): [(0, 3, [ACCEPT, ACCEPT, ACCEPT, RELEASE])]})
    one.fetch()
    admin.offsets()
    admin.delete_records(topic, 6)
    one.fetch(max_wait_ms=100)
    one.ack({(topic, 0): [(3, 7, [ACCEPT])]})
    admin.offsets()


@scenario
def locks_are_limited(s: Stage) -> None:
    topic, admin, (one, two) = earliest(s, 1, "one", "two")
    admin.configure(share_partition_max_record_locks="100")
    for _ in range(15):
        admin.produce(topic, *"0123456789")
    one.fetch(topic, max_records=95)
    one.fetch(max_wait_ms=100)
    two.fetch(topic, max_wait_ms=100)
    one.ack({(topic, 0): [(50, 59, [ACCEPT])]})
    two.fetch(max_wait_ms=100)
    one.ack({(topic, 0): [(0, 9, [ACCEPT])]})
    two.fetch(max_wait_ms=100)


@scenario
def locks_of_a_member_that_leaves(s: Stage) -> None:
    topic, admin, (one, two) = earliest(s, 1, "one", "two")
    admin.produce(topic, *"ab")
    one.fetch(topic)
    one.beat(-1)
    two.fetch(topic, max_wait_ms=100)
    one.ack({(topic, 0): [(0, 0, [ACCEPT])]})
    s.wait(2_200)
    two.fetch(max_wait_ms=100)


@scenario
def fewer_deliveries_are_allowed_than_there_were(s: Stage) -> None:
    topic, admin, (one,) = earliest(s, 1, "one")
    admin.configure(share_delivery_count_limit="5")
    admin.produce(topic, *"ab")
    one.fetch(topic)
    for _ in range(2):
        one.ack({(topic, 0): [(0, 1, [RELEASE])]})
        one.fetch()
    admin.configure(share_delivery_count_limit="2")
    one.ack({(topic, 0): [(0, 1, [RELEASE])]})
    one.fetch(max_wait_ms=100)
    admin.offsets({topic: [0]})


@scenario
def locks_of_another_length(s: Stage) -> None:
    topic, admin, (one, two) = earliest(s, 1, "one", "two")
    admin.produce(topic, *"ab")
    one.fetch(topic, max_records=1, batch_size=1)
    admin.configure(share_record_lock_duration_ms="5000")
    admin.produce(topic, "c")
    one.fetch(max_wait_ms=100)
    s.wait(2_500)
    two.fetch(topic, max_wait_ms=100)
    one.ack({(topic, 0): [(2, 2, [ACCEPT])]})
    admin.offsets({topic: [0]})


@scenario
def acknowledgements_after_the_session_was_opened_anew(s: Stage) -> None:
    topic, admin, (one,) = earliest(s, 2, "one")
    admin.produce(topic, *"ab")
    one.fetch(topic)
    one.fetch(topic, (1,), epoch=0, max_wait_ms=100)
    one.ack({(topic, 0): [(0, 0, [ACCEPT])]})
    one.fetch(acks={(topic, 0): [(1, 1, [RELEASE])]}, max_wait_ms=100)
    one.fetch(forget={topic: [0]}, acks={(topic, 0): [(1, 1, [ACCEPT])]}, max_wait_ms=100)
    admin.offsets({topic: [0]})
