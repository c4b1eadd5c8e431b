"""Offsets: transactions, tombstones, expiry, and restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka_broker.coordinators.groups.offsets import OffsetStore
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from pykafka_broker.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest
from pykafka_broker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pykafka_broker.protocol.stored.offset_commit_value import OffsetCommitValue
from tests.coordinators.steps import steps_of

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS  # offsets.retention.minutes


def commit(machine: Any, offset: int, *, group: str = "g", topic: str = "t", retention_ms: int = -1) -> ErrorCode:
    partition = OffsetCommitRequestPartition(0, offset, -1, -1, f"at {offset}")
    topics = [OffsetCommitRequestTopic(topic, partitions=[partition])]
    request = OffsetCommitRequest(group, -1, "", None, retention_ms, topics)
    reply = machine.run(machine.coordinator.offset_requests.commit(request, 4, machine.now))
    return ErrorCode(reply.topics[0].partitions[0].error_code)


def txn_commit(machine: Any, offset: int, producer_id: int, *, group: str = "g", topic: str = "t") -> None:
    topics = [TxnOffsetCommitRequestTopic(topic, partitions=[TxnOffsetCommitRequestPartition(0, offset)])]
    request = TxnOffsetCommitRequest("txn", group, producer_id, 0, topics=topics)
    effects = machine.coordinator.offset_requests.commit(request, 3, machine.now)
    machine.run(effects, producer_id)


def end_transaction(machine: Any, producer_id: int, *, committed: bool) -> None:
    machine.coordinator.offsets.replay_end_txn(producer_id, committed, lambda group: True)


def committed(machine: Any, *, group: str = "g", topic: str = "t", stable: bool = False) -> tuple[int, str, ErrorCode]:
    request = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(topic, partition_indexes=[0])])
    partition = machine.coordinator.offset_requests.fetch(request, stable, 9).topics[0].partitions[0]
    return partition.committed_offset, partition.metadata, ErrorCode(partition.error_code)


@pytest.fixture(autouse=True)
def topics(machine: Any) -> None:
    machine.topic("t")
    machine.topic("u")


def test_offset_of_a_transaction_counts_once_its_marker_is_there(machine: Any) -> None:
    commit(machine, 1)
    txn_commit(machine, 5, producer_id=77)
    assert committed(machine) == (1, "at 1", ErrorCode.NONE)
    assert committed(machine, stable=True) == (-1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
    end_transaction(machine, 77, committed=True)
    assert committed(machine, stable=True)[0] == 5


def test_aborted_transaction_leaves_no_trace(machine: Any) -> None:
    commit(machine, 1)
    txn_commit(machine, 5, producer_id=77)
    end_transaction(machine, 77, committed=False)
    assert committed(machine, stable=True)[0] == 1
    assert not machine.coordinator.offsets.pending("g")


def test_of_two_commits_the_later_record_wins_not_the_later_marker(machine: Any) -> None:
    txn_commit(machine, 5, producer_id=77)
    commit(machine, 9)
    end_transaction(machine, 77, committed=True)
    assert committed(machine)[0] == 9


def test_two_transactions_on_one_partition(machine: Any) -> None:
    txn_commit(machine, 5, producer_id=77)
    txn_commit(machine, 6, producer_id=88)
    end_transaction(machine, 88, committed=True)
    assert committed(machine)[0] == 6
    assert committed(machine, stable=True)[2] is ErrorCode.UNSTABLE_OFFSET_COMMIT
    end_transaction(machine, 77, committed=True)
    assert committed(machine, stable=True)[0] == 6


def test_marker_in_one_log_leaves_the_groups_of_others_alone(machine: Any) -> None:
    txn_commit(machine, 5, producer_id=77, group="g")
    txn_commit(machine, 6, producer_id=77, group="h")
    machine.coordinator.offsets.replay_end_txn(77, True, lambda group: group == "g")
    assert committed(machine, group="g", stable=True)[0] == 5
    assert committed(machine, group="h", stable=True)[2] is ErrorCode.UNSTABLE_OFFSET_COMMIT
    machine.coordinator.offsets.replay_end_txn(77, False, lambda group: group == "h")
    assert committed(machine, group="h")[0] == -1


def test_a_marker_looks_at_the_groups_of_its_transaction_alone(machine: Any) -> None:
    for number in range(50):
        commit(machine, 1, group=f"g{number}")
    txn_commit(machine, 5, producer_id=77, group="g7")
    looked_at: list[str] = []

    def owns(group: str) -> bool:
        looked_at.append(group)
        return True

    machine.coordinator.offsets.replay_end_txn(77, True, owns)
    assert looked_at == ["g7"]
    assert committed(machine, group="g7", stable=True)[0] == 5


def test_pending_offsets_outlive_a_restart(machine: Any) -> None:
    commit(machine, 1)
    txn_commit(machine, 5, producer_id=77)
    machine.restart()
    assert committed(machine)[0] == 1
    assert committed(machine, stable=True)[2] is ErrorCode.UNSTABLE_OFFSET_COMMIT
    end_transaction(machine, 77, committed=True)
    assert committed(machine)[0] == 5


@pytest.mark.parametrize(("letter", "most"), [("a", 4096), ("é", 4096), ("😀", 2048)])
def test_the_length_of_metadata_is_counted_in_javas_characters(machine: Any, letter: str, most: int) -> None:
    def told(metadata: str) -> int:
        partition = OffsetCommitRequestPartition(0, 1, committed_metadata=metadata)
        request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=[partition])])
        reply = machine.run(machine.coordinator.offset_requests.commit(request, 8, machine.now))
        return int(reply.topics[0].partitions[0].error_code)

    assert told(letter * most) == ErrorCode.NONE
    assert told(letter * (most + 1)) == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_what_is_committed_after_the_deletion_of_a_topic_stays(machine: Any) -> None:
    """The topic may have been made anew before the group had its turn."""
    tombstones = machine.coordinator.offset_requests.tombstones
    commit(machine, 1)
    assert [len(tombstones("g", {"t"}, end)) for end in (0, 1)] == [0, 1]
    txn_commit(machine, 5, producer_id=77)
    assert [len(tombstones("g", {"t"}, end)) for end in (1, 2)] == [0, 1]


def test_deleted_group_forgets_what_transactions_have_pending(machine: Any) -> None:
    commit(machine, 1)
    txn_commit(machine, 5, producer_id=77)
    assert machine.run(machine.coordinator.delete_group("g")) is ErrorCode.NONE
    end_transaction(machine, 77, committed=True)
    assert committed(machine)[0] == -1
    machine.restart()
    assert "g" not in machine.coordinator.groups


def test_offsets_of_a_simple_group_expire_a_week_after_their_commit(machine: Any) -> None:
    machine.restart()  # starts the rounds
    commit(machine, 1)
    machine.wait(4 * DAY_MS)
    commit(machine, 2, topic="u")
    machine.wait(WEEK_MS - 4 * DAY_MS + DAY_MS)
    assert committed(machine)[0] == -1
    assert committed(machine, topic="u")[0] == 2
    machine.wait(4 * DAY_MS)
    assert "g" not in machine.coordinator.groups, "a group without members goes with its last offset"


def test_a_retention_of_its_own_is_kept(machine: Any) -> None:
    machine.restart()
    commit(machine, 1, retention_ms=DAY_MS)
    machine.restart()
    machine.wait(DAY_MS - 1_200_000)
    assert committed(machine)[0] == 1
    machine.wait(2_400_000)
    assert committed(machine)[0] == -1


def test_an_offset_expires_with_the_last_millisecond_of_its_retention(machine: Any) -> None:
    commit(machine, 1, retention_ms=1_000)
    expired = [len(machine.coordinator.offset_requests.expired("g", machine.now + ms)[0]) for ms in (999, 1_000)]
    assert expired == [0, 1]


def test_an_offset_of_a_transaction_alone_is_deleted_too(machine: Any) -> None:
    txn_commit(machine, 5, producer_id=77)
    topic = OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0)])
    machine.run(machine.coordinator.offset_requests.delete(OffsetDeleteRequest("g", [topic])))
    end_transaction(machine, 77, committed=True)
    assert committed(machine)[0] == -1


def test_a_deleted_offset_takes_no_other_of_its_transaction_with_it(machine: Any) -> None:
    txn_commit(machine, 5, producer_id=77)
    txn_commit(machine, 6, producer_id=77, topic="u")
    assert machine.coordinator.offset_requests.expired("g", machine.now) == ([], False), "the group stays"
    topic = OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0)])
    machine.run(machine.coordinator.offset_requests.delete(OffsetDeleteRequest("g", [topic])))
    end_transaction(machine, 77, committed=True)
    kept = machine.coordinator.offsets.committed("g")
    assert {name: offsets[0].offset for name, offsets in kept.items()} == {"u": 6}


def test_an_offset_of_an_earlier_topic_of_the_name_is_not_told(machine: Any) -> None:
    before = machine.topics.topics["t"].id
    commit(machine, 5)
    after = machine.topic("t", 1, bytes(15) + b"n")
    machine.topics.topics_by_id[before] = machine.topics.topics["t"]
    for topic_id, offset in ((before, 5), (after, -1)):
        topic = OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0])
        asked = OffsetFetchRequestGroup("g", topics=[topic])
        answer = machine.coordinator.offset_requests.fetch(asked, False, 10)
        assert answer.topics[0].partitions[0].committed_offset == offset


def test_offset_that_a_transaction_may_change_does_not_expire(machine: Any) -> None:
    machine.restart()
    commit(machine, 1)
    txn_commit(machine, 5, producer_id=77)
    machine.wait(2 * WEEK_MS)
    assert committed(machine)[0] == 1


def test_offsets_of_a_topic_that_is_read_are_not_looked_at_one_by_one(machine: Any) -> None:
    machine.topic("t", 500)
    heartbeat = ConsumerGroupHeartbeatRequest("g", "m", 0, None, None, 30_000, None, "t", topic_partitions=[])
    reply = machine.run(machine.coordinator.consumer_heartbeat(heartbeat, machine.caller(1), machine.now))
    steps = []
    for count in (1, 500):
        partitions = [OffsetCommitRequestPartition(at, 5) for at in range(count)]
        topics = [OffsetCommitRequestTopic("t", partitions=partitions)]
        request = OffsetCommitRequest("g", reply.member_epoch, "m", topics=topics)
        machine.run(machine.coordinator.offset_requests.commit(request, 9, machine.now))
        found, taken = steps_of(lambda: machine.coordinator.offset_requests.expired("g", machine.now))
        assert found == ([], False)
        steps.append(taken)
    assert steps[1] <= steps[0]


def test_topics_are_not_compared_with_patterns_one_by_one(machine: Any) -> None:
    names, steps = [f"x{number}" for number in range(100)], []
    for name in names:
        machine.topic(name)
    topics = [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(0)]) for name in names]
    request = OffsetDeleteRequest("g", topics)
    for number in range(100):
        heartbeat = ConsumerGroupHeartbeatRequest("g", f"m{number}", 0, None, None, 30_000, None, f"x{number}")
        heartbeat.topic_partitions = []
        machine.run(machine.coordinator.consumer_heartbeat(heartbeat, machine.caller(1), machine.now))
        if number in (8, 98):
            result, taken = steps_of(lambda: machine.coordinator.offset_requests.delete(request))
            codes = [topic.partitions[0].error_code for topic in result.reply.topics]
            assert codes.count(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC) == number + 1
            steps.append(taken)
    assert steps[1] < 2 * steps[0]


def join_alone(machine: Any, session_ms: int) -> str:
    protocols = [JoinGroupRequestProtocol("range", b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff")]
    request = JoinGroupRequest("g", session_ms, 30_000, "", "static", "consumer", protocols)
    reply = machine.run(machine.coordinator.join(request, machine.caller(5), "token", machine.now))
    sync = SyncGroupRequest("g", reply.generation_id, reply.member_id)
    machine.run(machine.coordinator.sync(sync, "sync", machine.now))
    return str(reply.member_id)


def test_a_group_whose_first_record_is_an_offset_keeps_its_members_over_a_restart(machine: Any) -> None:
    """An administrator may commit before there is a member, and compaction leaves old commits before newer members."""
    commit(machine, 1)
    member_id = join_alone(machine, 30_000)
    machine.restart()
    group = machine.coordinator.groups["g"]
    assert (group.state_name, group.generation, [*group.members]) == ("Stable", 1, [member_id])


def test_retention_of_a_group_starts_when_it_becomes_empty(new_machine: Callable[..., Any]) -> None:
    machine = new_machine(group_max_session_timeout_ms=str(3 * WEEK_MS))
    machine.topic("t")
    machine.restart()
    member_id = join_alone(machine, 3 * WEEK_MS)
    request = OffsetCommitRequest(
        "g",
        1,
        member_id,
        "static",
        -1,
        [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 4)])],
    )
    machine.run(machine.coordinator.offset_requests.commit(request, 9, machine.now))
    machine.wait(2 * WEEK_MS)
    assert committed(machine)[0] == 4, "its topic is read"
    machine.run(machine.coordinator.leave(LeaveGroupRequest("g", members=[MemberIdentity(member_id)]), machine.now))
    machine.wait(WEEK_MS - DAY_MS)
    assert committed(machine)[0] == 4
    machine.wait(2 * DAY_MS)
    assert "g" not in machine.coordinator.groups


def test_offsets_of_a_deleted_topic_go(machine: Any) -> None:
    commit(machine, 1)
    commit(machine, 2, topic="u")
    for effects in machine.coordinator.on_topics_deleted(["t"]):
        machine.run(effects)
    assert committed(machine)[0] == -1
    assert committed(machine, topic="u")[0] == 2
    machine.restart()
    assert committed(machine)[0] == -1


def test_commit_for_a_topic_that_is_not_there_makes_no_group(machine: Any) -> None:
    assert commit(machine, 1, topic="nowhere") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "g" not in machine.coordinator.groups


class Watched(set[str]):
    """The groups of a transaction, with a count of the attempts to remove one."""

    asked = 0

    def discard(self, element: object) -> None:
        Watched.asked += 1
        super().discard(element)


def test_a_group_is_forgotten_without_a_look_at_transactions_of_others() -> None:
    """A node that loses a log forgets thousands of groups, one after the other, in one turn."""
    store, groups = OffsetStore(), 50
    for number in range(groups):
        store.replay(f"g{number}", "t", 0, OffsetCommitValue(5), number, producer_id=number)
        store.replay("all", "t", 0, OffsetCommitValue(5), number, producer_id=number)
    store._transactions = {number: Watched(known) for number, known in store._transactions.items()}
    for number in range(groups):
        store.forget_group(f"g{number}")
    assert Watched.asked == groups
    store.replay_end_txn(7, committed=True, owns=lambda group: True)
    assert store.committed("all")["t"][0].offset == 5
    assert store.committed("g7") == {}
    store.forget_group("all")
    assert not store._transactions
