"""State of streams groups that survives a restart or begins anew; expiry of offsets; deadlines of members."""

from __future__ import annotations

from pykafka_broker.coordinators.streams.group import StreamsMemberState
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import Endpoint
from pykafka_broker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.coordinators.streams.support import Machine, told, word_count

ALL = {"0": [0, 1], "1": [0, 1]}
DAY_MS = 86_400_000


def running(**config: str) -> Machine:
    """Return a word count group whose two members have their final tasks."""
    machine = Machine(**config)
    machine.topic("lines", 2)
    machine.join("one", word_count())
    for topic in machine.missing:
        machine.topic(topic.name, topic.num_partitions)
    machine.beat("one", machine.group().members["one"].epoch)
    machine.join("two", word_count())
    machine.beat("one", 3)
    machine.beat("one", 3, {"0": [0], "1": [0]})
    assert told(machine.beat("two", 4).active_tasks) == {"0": [1], "1": [1]}
    assert machine.group().state_name == "Stable"
    return machine


def test_members_go_on_where_they_were() -> None:
    machine = running()
    machine.restart()
    group = machine.group()
    assert (group.state_name, group.epoch, group.assignment_epoch) == ("Stable", 4, 4)
    answer = machine.beat("one", 4)
    assert (answer.error_code, answer.member_epoch, answer.active_tasks) == (ErrorCode.NONE, 4, None)
    assert machine.group().epoch == 4, "nothing has changed, so nothing begins"


def test_topics_that_came_meanwhile_are_seen_at_the_next_heartbeat() -> None:
    machine = running()
    machine.topics.add("lines", 3)
    machine.restart()
    answer = machine.beat("one", 4)
    [status] = answer.status
    assert status.status_detail == "Existing topic words has different number of partitions: expected 3, found 2"
    assert machine.group().state_name == "NotReady"


def test_a_member_that_has_to_give_back_has_its_time_for_it_again() -> None:
    machine = running()
    machine.join("three", word_count())
    machine.beat("one", 4)
    machine.beat("two", 4)
    [late] = [one for one in machine.group().members.values() if one.state is StreamsMemberState.UNREVOKED_TASKS]
    machine.wait(9_000)
    machine.restart()
    machine.wait(9_000)
    assert late.member_id in machine.group().members
    machine.wait(2_000)
    assert late.member_id not in machine.group().members


def test_sessions_begin_anew() -> None:
    machine = running()
    machine.wait(44_000)
    machine.restart()
    machine.wait(44_000)
    assert len(machine.group().members) == 2
    machine.wait(2_000)
    assert machine.group().state_name == "Empty"


def test_a_shutdown_and_the_endpoints_epoch_are_not_kept() -> None:
    machine = running()
    machine.beat("one", 4, shutdown_application=True, user_endpoint=Endpoint("h", 1))
    machine.restart()
    group = machine.group()
    assert (group.shutdown_member_id, group.endpoint_epoch) == (None, 0)
    assert group.members["one"].endpoint is not None


def test_the_first_members_wait_for_more() -> None:
    machine = Machine(group_streams_initial_rebalance_delay_ms="3000")
    machine.topic("lines", 2)
    machine.topic("words", 2)
    machine.topic("counts", 2)
    first = machine.join("one", word_count())
    assert first.status[0].status_detail == "Assignment delayed due to the configured initial rebalance delay."
    machine.wait(2_900)
    machine.join("two", word_count())
    machine.wait(200)
    shares = [told(machine.beat(name, 1).active_tasks) for name in ("one", "two")]
    assert all(share is not None and {len(tasks) for tasks in share.values()} == {1} for share in shares)


def commit(machine: Machine, member_id: str, epoch: int, topic: str, partition: int) -> ErrorCode:
    partitions = [OffsetCommitRequestPartition(partition, 5)]
    request = OffsetCommitRequest(
        "g", epoch, member_id, None, -1, [OffsetCommitRequestTopic(topic, partitions=partitions)]
    )
    effects = machine.coordinator.offset_requests.commit(request, 9, machine.now)
    reply = machine.run(effects)
    return ErrorCode(reply.topics[0].partitions[0].error_code)


def test_an_epoch_that_is_past_may_commit_what_was_the_members_own_by_then() -> None:
    machine = running()
    machine.beat("one", 4, rack_id="a")  # epoch 5
    assert machine.group().members["one"].epoch == 5
    assert commit(machine, "one", 3, "lines", 0) is ErrorCode.NONE
    assert commit(machine, "one", 2, "words", 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(machine, "one", 3, "words", 0) is ErrorCode.NONE
    assert commit(machine, "one", 4, "words", 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(machine, "one", 4, "counts", 0) is ErrorCode.STALE_MEMBER_EPOCH, "no task reads it"
    assert commit(machine, "one", 6, "words", 0) is ErrorCode.STALE_MEMBER_EPOCH


def test_a_transaction_commits_by_member_epoch_too() -> None:
    machine = running()

    def txn(member_id: str, epoch: int) -> ErrorCode:
        partitions = [TxnOffsetCommitRequestPartition(0, 5)]
        topics = [TxnOffsetCommitRequestTopic("lines", partitions=partitions)]
        request = TxnOffsetCommitRequest("t", "g", 1, 0, epoch, member_id, None, topics)
        effects = machine.coordinator.offset_requests.commit(request, 5, machine.now)
        return ErrorCode(effects.reply.topics[0].partitions[0].error_code)

    assert txn("one", 4) is ErrorCode.NONE
    assert txn("one", 5) is ErrorCode.ILLEGAL_GENERATION
    assert txn("nobody", 4) is ErrorCode.UNKNOWN_MEMBER_ID
    assert txn("", -1) is ErrorCode.NONE


def test_offsets_of_topics_that_are_read_stay_and_an_empty_group_fades_away() -> None:
    machine = running(offsets_retention_minutes="1440")
    machine.restart()  # the rounds of expiry begin when a log has been read
    assert commit(machine, "one", 4, "lines", 0) is ErrorCode.NONE
    for _ in range(2 * DAY_MS // 40_000):
        machine.wait(40_000)
        machine.beat("one", 4)
        machine.beat("two", 4)
    assert machine.coordinator.offsets.committed("g")
    machine.beat("one", -1)
    machine.beat("two", -1)
    machine.wait(2 * DAY_MS)
    assert "g" not in machine.coordinator.groups
