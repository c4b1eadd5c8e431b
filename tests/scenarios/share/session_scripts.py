"""Share sessions: how they open, go on, close and break.

Rule: each function is one scenario with a group of its own; read it from top to bottom.
"""

from __future__ import annotations

from pykafka_broker.protocol.messages.share_fetch_request import AcknowledgementBatch, FetchPartition, FetchTopic
from tests.scenarios.groups.stage import Stage
from tests.scenarios.scripts import Scripts
from tests.scenarios.share.actors import ACCEPT, RELEASE, ShareAdmin, ShareMember

SCENARIOS = scenario = Scripts[Stage]()


def earliest(s: Stage, partitions: int = 1, *names: str) -> tuple[str, ShareAdmin, list[ShareMember]]:
    """Return a topic, and members of a group that starts at the topic's beginning."""
    topic = s.topic("t", partitions)
    admin = ShareAdmin(s, "admin")
    admin.configure(share_auto_offset_reset="earliest")
    members = [ShareMember(s, name) for name in names]
    for member in members:
        member.enter(topic)
    return topic, admin, members


@scenario
def session_from_open_to_close(s: Stage) -> None:
    topic, admin, (one,) = earliest(s, 2, "one")
    admin.produce(topic, "a", "b")
    one.fetch(topic, (0, 1))
    admin.produce(topic, "c", partition=1)
    one.fetch()
    one.fetch(max_wait_ms=100)
    one.fetch(topic, (5,), max_wait_ms=100)
    one.fetch(max_wait_ms=100)
    one.fetch(forget={topic: [1, 5]}, max_wait_ms=100)
    admin.produce(topic, "d", partition=1)
    one.fetch(max_wait_ms=100)
    one.fetch(epoch=-1)
    one.fetch(epoch=-1)
    one.fetch(topic)


@scenario
def session_epochs(s: Stage) -> None:
    topic, admin, (one,) = earliest(s, 1, "one")
    admin.produce(topic, "a", "b")
    one.fetch(topic, epoch=1)
    one.ack({(topic, 0): [(0, 0, [ACCEPT])]}, epoch=1)
    one.ack({(topic, 0): [(0, 0, [ACCEPT])]}, epoch=0)
    one.ack({}, epoch=-1)
    one.fetch(topic, epoch=0, acks={(topic, 0): [(0, 0, [ACCEPT])]})
    one.fetch(topic, epoch=0)
    one.fetch(epoch=5)
    one.ack({(topic, 0): [(0, 0, [ACCEPT])]}, epoch=5)
    one.ack({(topic, 0): [(0, 0, [ACCEPT])]}, epoch=1)
    one.ack({(topic, 0): [(1, 1, [RELEASE])]}, epoch=1)
    one.ack({(topic, 0): [(1, 1, [RELEASE])]}, epoch=2)
    one.fetch(topic, epoch=0)
    one.fetch(max_wait_ms=100)
    one.fetch(topic, epoch=-1)


@scenario
def session_that_opens_again_keeps_locks(s: Stage) -> None:
    topic, admin, (one, two) = earliest(s, 1, "one", "two")
    admin.produce(topic, "a", "b")
    one.fetch(topic)
    one.fetch(topic, epoch=0, max_wait_ms=100)
    two.fetch(topic, max_wait_ms=100)
    one.ack({(topic, 0): [(0, 0, [ACCEPT])]}, epoch=-1)
    two.fetch()


@scenario
def session_that_breaks(s: Stage) -> None:
    topic, admin, (one, two) = earliest(s, 1, "one", "two")
    admin.produce(topic, "a", "b", "c")
    one.fetch(topic)
    one.ack({(topic, 0): [(1, 1, [ACCEPT])]})
    two.fetch(topic, max_wait_ms=100)
    one.drop()
    two.fetch()
    one.fetch(topic, epoch=2, max_wait_ms=100)


@scenario
def session_of_a_deleted_topic(s: Stage) -> None:
    """A session remembers of each partition whether its topic was known when the partition was added."""
    topic, admin, (one, two) = earliest(s, 1, "one", "two")
    other = s.topic("u")
    two.resubscribe(topic, other)
    deleted = s.topic_id(topic)

    def named(*acks: AcknowledgementBatch) -> list[FetchTopic]:
        return [FetchTopic(deleted, [FetchPartition(0, acknowledgement_batches=list(acks))])]

    admin.produce(topic, "a", "b")
    one.fetch(topic)
    admin.delete_topic(topic)
    one.fetch(max_wait_ms=100)
    one.fetch(topics=named(), max_wait_ms=100)
    one.fetch(topics=named(AcknowledgementBatch(0, 0, [ACCEPT])), max_wait_ms=100)
    two.fetch(topics=named(), max_wait_ms=100)
    two.fetch(max_wait_ms=100)
    two.fetch(topics=named(), max_wait_ms=100)
    admin.produce(other, "c")
    two.fetch(other)
    two.fetch(max_wait_ms=100)
    one.fetch(topics=named(), epoch=0, max_wait_ms=100)
    one.fetch(max_wait_ms=100)
    one.fetch(epoch=-1)


@scenario
def fetches_that_make_no_sense(s: Stage) -> None:
    topic, admin, (one,) = earliest(s, 1, "one")
    admin.produce(topic, "a", "b")
    one.fetch(topic, member_id="")
    one.fetch(topic, member_id=None)
    one.fetch(topic, group_id=None)
    one.fetch(topic, epoch=-2)
    one.fetch(topic, member_id="stranger", max_wait_ms=100)
    one.fetch(topic, (0, 9), epoch=0, max_wait_ms=100)
    one.fetch(topic, epoch=0, max_records=0, max_wait_ms=100)
    one.fetch(topic, epoch=0, max_records=-1, max_wait_ms=100)
    one.fetch(topic, epoch=0, batch_size=0, max_wait_ms=100)
    one.fetch(topic, epoch=0, max_bytes=0, max_wait_ms=100)
    one.fetch(epoch=0, max_wait_ms=100)
    one.fetch(epoch=0, topics=[], max_wait_ms=100)


@scenario
def members_that_are_none(s: Stage) -> None:
    topic, admin, (one,) = earliest(s, 1, "one")
    stranger = ShareMember(s, "stranger")
    admin.produce(topic, "a", "b")
    stranger.fetch(topic)
    one.fetch(topic, max_wait_ms=100)
    one.beat(-1)
    one.fetch(max_wait_ms=100)
