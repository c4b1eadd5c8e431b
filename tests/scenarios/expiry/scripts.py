"""Scenarios of offsets that are too old and of groups that lost all members (KIP-211, KIP-496).

Rule: each function is one scenario with a group of its own; read it from top to bottom. Offsets that are to
expire soon are committed with a retention time, a field that OffsetCommit v2-v4 has.
"""

from __future__ import annotations

from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.scenarios.groups.actors import Actor, ClassicMember, ConsumerMember, subscription
from tests.scenarios.groups.stage import Stage
from tests.scenarios.groups.streams_actor import StreamsMember, one_step
from tests.scenarios.scripts import Scripts
from tests.scenarios.share.actors import ShareMember

SCENARIOS = scenario = Scripts[Stage]()
SOON_MS = 1_000
LATER_MS = 4_500  # after the next check for expired offsets


def producer_of(one: Actor) -> tuple[int, int]:
    """Return a transactional producer's id and epoch; add no line to the recording."""
    for _ in range(100):
        one.wire.send(FindCoordinatorRequest(key_type=1, coordinator_keys=[one.group]), 6)
        one.wire.receive()
        one.wire.send(InitProducerIdRequest(one.group, 60_000), 5)
        answer = one.wire.receive()
        if not answer.error_code:
            return answer.producer_id, answer.producer_epoch
        one.stage.world.wait(100)
    raise AssertionError("no transaction coordinator")


@scenario
def offsets_that_end(s: Stage) -> None:
    topic = s.topic("t", 3)
    one = Actor(s, "one")
    one.commit({(topic, 0): 5}, version=2, retention_ms=SOON_MS)
    one.commit({(topic, 1): 6}, version=4, retention_ms=3_600_000)
    one.commit({(topic, 2): 7}, version=3)
    one.fetch(None)
    s.wait(LATER_MS)
    one.fetch(None)
    one.list_groups()
    one.commit({(topic, 1): 6, (topic, 2): 7}, version=3, retention_ms=SOON_MS)
    s.wait(LATER_MS)
    one.fetch(None)
    one.list_groups()
    one.describe()


@scenario
def offsets_that_are_committed_anew(s: Stage) -> None:
    topic = s.topic("t", 2)
    one = Actor(s, "one")
    one.commit({(topic, 0): 5, (topic, 1): 5}, version=3, retention_ms=SOON_MS)
    one.commit({(topic, 0): 6}, version=9)
    s.wait(LATER_MS)
    one.fetch(None)


@scenario
def offsets_of_topics_that_are_read(s: Stage) -> None:
    topic, other = s.topic("t"), s.topic("u")
    one = ClassicMember(s, "one", protocols={"range": subscription([topic])})
    one.enter()
    one.joined()
    one.sync({one.member_id: b""})
    one.commit({(topic, 0): 5, (other, 0): 6}, version=4, retention_ms=SOON_MS)
    s.wait(LATER_MS)
    one.heartbeat()
    one.fetch(None)
    one.leave()
    s.wait(LATER_MS)
    one.fetch(None)
    one.list_groups()


@scenario
def offsets_of_a_group_that_is_not_of_consumers(s: Stage) -> None:
    topic = s.topic("t")
    one = ClassicMember(s, "one", protocol_type="connect", protocols={"default": b""})
    one.enter()
    one.joined()
    one.sync({one.member_id: b""})
    one.commit({(topic, 0): 5}, version=4, retention_ms=SOON_MS)
    s.wait(LATER_MS)
    one.fetch(None)
    one.leave()
    s.wait(LATER_MS)
    one.fetch(None)


@scenario
def empty_groups(s: Stage) -> None:
    topic = s.topic("t")
    classic = ClassicMember(s, "classic", protocols={"range": subscription([topic])}, version=3)
    classic.group = f"{s.group}-classic"
    classic.join()
    classic.sync({classic.member_id: b""})
    classic.leave()
    consumer = ConsumerMember(s, "consumer")
    consumer.group = f"{s.group}-consumer"
    consumer.join(topic)
    consumer.beat(-1)
    streams = StreamsMember(s, "streams", one_step(topic))
    streams.group = f"{s.group}-streams"
    streams.join()
    streams.beat(-1)
    share = ShareMember(s, "share")
    share.group = f"{s.group}-share"
    share.enter(topic)
    share.beat(-1)
    s.wait(LATER_MS)
    share.list_groups()
    share.describe_share(share.group)


@scenario
def empty_consumer_group_with_offsets(s: Stage) -> None:
    topic = s.topic("t")
    one = ConsumerMember(s, "one")
    one.join(topic)
    one.commit({(topic, 0): 5})
    one.beat(-1)
    s.wait(LATER_MS)
    one.list_groups()
    one.delete_offsets({topic: [0]})
    s.wait(LATER_MS)
    one.list_groups()


@scenario
def open_transaction_keeps_the_group(s: Stage) -> None:
    topic = s.topic("t", 2)
    one = Actor(s, "one")
    producer = producer_of(one)
    parts = [TxnOffsetCommitRequestPartition(0, 7)]
    topics = [TxnOffsetCommitRequestTopic(topic, partitions=parts)]
    request = TxnOffsetCommitRequest(s.group, s.group, *producer, topics=topics)
    one.commit({(topic, 0): 5, (topic, 1): 5}, version=3, retention_ms=SOON_MS)
    one.ask(request, 5)
    s.wait(LATER_MS)
    one.fetch(None)
    one.list_groups()
    one.delete_offsets({topic: [0, 1]})
    one.fetch({topic: [0, 1]}, stable=True)
    s.wait(LATER_MS)
    one.list_groups()
