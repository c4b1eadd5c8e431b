"""Dead letters of a share group in a cluster: the topic of letters is led by another node than what the group reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.coordinators import dead_letters
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from pykafka_broker.coordinators.share.dead_letters import EXCEEDED, REJECTED
from pykafka_broker.coordinators.share.state import RecordState, ShareKey
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from pykafka_broker.protocol.messages.share_fetch_request import FetchPartition, FetchTopic, ShareFetchRequest
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records
from tests.broker.neighbourhood import Neighbourhood
from tests.broker.support import batch

GROUP, MEMBER = "g", "one"
LETTERS = "dlq.t"
RELEASE, REJECT = 2, 3
LOCK_MS = 15_000
TRIED_MS = 26_000
ENABLE = {"errors_deadletterqueue_group_enable": "true"}


def neighbourhood(directory: Path, keeper: int = 1, **letters: str) -> Neighbourhood:
    """Make nodes: node 1 leads t with five records, node 2 the topic of letters, `keeper` keeps the share states."""
    nodes = Neighbourhood(
        directory,
        brokers=3,
        pykafka_emulate="4.4",
        group_share_record_lock_duration_ms=str(LOCK_MS),
        group_share_delivery_count_limit="2",
    )
    nodes.add(CONSUMER_OFFSETS, 1)
    nodes.add(SHARE_GROUP_STATE, keeper, replicas=(1, 3))
    nodes.add("t", 1, replicas=(1, 3))
    nodes.add(LETTERS, 2, replicas=(2, 3), **ENABLE, **letters)
    configs = {"errors.deadletterqueue.topic.name": LETTERS, "errors.deadletterqueue.copy.record.enable": "true"}
    nodes.commit(
        1,
        [ApiMessageAndVersion(ConfigRecord(ConfigResourceType.GROUP, GROUP, *each), 0) for each in configs.items()],
    )
    data = [PartitionProduceData(0, bytes(batch(*(b"%d" % number for number in range(5)))))]
    produced = nodes.call(1, ProduceRequest(None, -1, 1000, [TopicProduceData("t", partition_data=data)]), 11)
    assert not produced.responses[0].partition_responses[0].error_code
    begin = AlterShareGroupOffsetsRequestTopic("t", [AlterShareGroupOffsetsRequestPartition(0, 0)])
    assert not nodes.call(1, AlterShareGroupOffsetsRequest(GROUP, [begin]), 0).error_code
    return nodes


def fetch(nodes: Neighbourhood, epoch: int = 0, node: int = 1) -> Any:
    topics = [FetchTopic(nodes[1].image.topics["t"].id, [FetchPartition(0)])] if not epoch else []
    request = ShareFetchRequest(
        GROUP, MEMBER, epoch, 0, 1, max_bytes=1 << 20, max_records=9, batch_size=9, topics=topics
    )
    answer = nodes.call(node, request, 1)
    assert not answer.error_code
    return answer


def acknowledgement(nodes: Neighbourhood, epoch: int, *ranges: tuple[int, int], kind: int) -> ShareAcknowledgeRequest:
    batches = [AcknowledgementBatch(first, last, [kind]) for first, last in ranges]
    topic = AcknowledgeTopic(nodes[1].image.topics["t"].id, [AcknowledgePartition(0, batches)])
    return ShareAcknowledgeRequest(GROUP, MEMBER, epoch, topics=[topic])


def acknowledge(nodes: Neighbourhood, epoch: int, first: int, last: int, kind: int = REJECT) -> None:
    answer = nodes.call(1, acknowledgement(nodes, epoch, (first, last), kind=kind), 1)
    assert not answer.error_code
    assert not answer.responses[0].partitions[0].error_code


def letters(nodes: Neighbourhood, node: int = 2) -> list[tuple[int, bytes | None, str]]:
    """Return the offset, the copied value and the cause of each letter."""
    log, found = nodes.log(node, LETTERS, 0), []
    if log.log_end_offset:
        for header, data in iter_batches(log.read(0, 1 << 20, log.log_end_offset).records.read()):
            for record in iter_records(data, header):
                told = {name: (value or b"").decode() for name, value in record.headers}
                found.append((int(told["__dlq.errors.offset"]), record.value, told["__dlq.errors.message"]))
    return found


def archiving(nodes: Neighbourhood, keeper: int = 1) -> list[int]:
    """Return the offsets of the records that are given up and not yet archived."""
    key = ShareKey(GROUP, nodes[1].image.topics["t"].id, 0)
    found = nodes[keeper].shares.known(key).summary(key)
    assert found is not None
    runs = [range(run.first, run.last + 1) for run in found.runs if run.state == RecordState.ARCHIVING]
    return [offset for run in runs for offset in run]


@pytest.mark.parametrize("keeper", [1, 3])
def test_the_leader_of_the_letters_gets_them(tmp_path: Path, keeper: int) -> None:
    nodes = neighbourhood(tmp_path, keeper)
    fetch(nodes)
    nodes.settle()
    fetch(nodes, 1)
    acknowledge(nodes, 2, 0, 1)
    nodes.settle()
    assert letters(nodes) == [(0, b"0", REJECTED), (1, b"1", REJECTED)]
    assert archiving(nodes, keeper) == []


def test_letters_wait_for_a_leader(tmp_path: Path) -> None:
    nodes = neighbourhood(tmp_path)
    fetch(nodes)
    nodes.network.cut.add(2)
    acknowledge(nodes, 1, 0, 0)
    acknowledge(nodes, 2, 1, 1)
    nodes.wait(1_000)
    assert archiving(nodes) == [0, 1]
    nodes.move(LETTERS, 0, 3)
    nodes.wait(2_000)
    assert letters(nodes, 3) == [(0, b"0", REJECTED), (1, b"1", REJECTED)]
    assert archiving(nodes) == []


def test_a_request_to_a_former_leader_is_not_waited_for(tmp_path: Path) -> None:
    nodes = neighbourhood(tmp_path)
    fetch(nodes)
    nodes.network.deaf.add(2)
    acknowledge(nodes, 1, 0, 0)
    nodes.change(LETTERS, leader=1, isr=[1], replicas=[1])
    nodes.wait(200)
    assert letters(nodes, 1) == [(0, b"0", REJECTED)]
    assert archiving(nodes) == []


def letters_here(directory: Path, isr: list[int], **config: str) -> Neighbourhood:
    """Make nodes where node 1, which leads t, also leads the topic of letters."""
    nodes = neighbourhood(directory)
    nodes.add("dlq.u", 1, replicas=(1, 3), **ENABLE, **config)
    nodes.change("dlq.u", isr=isr)
    own = ConfigRecord(ConfigResourceType.GROUP, GROUP, "errors.deadletterqueue.topic.name", "dlq.u")
    nodes.commit(1, [ApiMessageAndVersion(own, 0)])
    return nodes


def test_letters_have_the_time_of_their_topic(tmp_path: Path) -> None:
    nodes = letters_here(tmp_path, isr=[1], message_timestamp_type="LogAppendTime")
    fetch(nodes)
    acknowledge(nodes, 1, 0, 0)
    log = nodes.log(1, "dlq.u", 0)
    [(header, _)] = iter_batches(log.read(0, 1 << 20, log.log_end_offset).records.read())
    assert header.log_append_time
    assert header.max_timestamp == nodes[1].clock.wall


def test_a_request_has_a_batch_for_each_partition_and_a_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_REQUEST_BYTES", 100)
    nodes = Neighbourhood(tmp_path)
    producer = dead_letters.DeadLetterProducer(nodes[1].whole.node)
    sizes = ((0, 1), (0, 1), (1, 1), (2, 200))
    first, second, other, large = (dead_letters._Batch(("t", index), bytearray(size)) for index, size in sizes)
    assert producer._choose([first, second, other, large]) == ([first, other], [second, large])
    assert producer._choose([large, second]) == ([large], [second])
    first.complete(None)
    assert producer._choose([first, second, other]) == ([second, other], [])


def test_records_are_archived_once_their_letters_are_committed(tmp_path: Path) -> None:
    nodes = letters_here(tmp_path, isr=[1])
    partition = nodes[1].partition("dlq.u", 0)
    partition.append(batch(b"before"), nodes.now)
    assert partition.log.high_watermark == 1
    nodes.change("dlq.u", isr=[1, 3])
    fetch(nodes)
    acknowledge(nodes, 1, 0, 0)
    assert (partition.log.log_end_offset, partition.log.high_watermark) == (2, 1)
    assert archiving(nodes) == [0]
    nodes.change("dlq.u", isr=[1])
    nodes.wait(1_000)
    assert archiving(nodes) == []


def test_letters_wait_for_replicas_in_sync(tmp_path: Path) -> None:
    nodes = letters_here(tmp_path, isr=[1], min_insync_replicas="2")
    log = nodes.log(1, "dlq.u", 0)
    fetch(nodes)
    acknowledge(nodes, 1, 0, 0)
    assert log.log_end_offset == 0
    assert archiving(nodes) == [0]
    nodes.change("dlq.u", isr=[1, 3])
    nodes.wait(2_000)
    assert log.log_end_offset == 1


def test_letters_of_a_partition_that_comes_back_are_written_by_its_new_tenure(tmp_path: Path) -> None:
    """The letter on its way when the partition went may come twice; the letters behind that one come once."""
    nodes = neighbourhood(tmp_path, keeper=3)
    fetch(nodes)
    nodes.settle()
    fetch(nodes, 1)
    nodes.network.cut.add(2)
    for number in range(3):
        acknowledge(nodes, 2 + number, number, number)
        nodes.wait(100)
    nodes.move("t", 0, 3)
    nodes.move("t", 0, 1)
    fetch(nodes)
    nodes.settle()
    fetch(nodes, 1)
    nodes.settle()
    nodes.network.cut.clear()
    nodes.wait(10_000)
    written = [offset for offset, _, _ in letters(nodes)]
    assert set(written) == {0, 1, 2}
    assert written.count(1) == written.count(2) == 1
    assert archiving(nodes, 3) == []


@pytest.mark.parametrize("written", [False, True])
def test_letters_beside_those_that_wait_are_written_too(tmp_path: Path, written: bool) -> None:
    """The leader hears only in its next epoch that more records are given up than one whose letter waits.

    written: the letter does not wait, but its record can't be archived.
    """
    nodes = neighbourhood(tmp_path, keeper=3)
    fetch(nodes)
    nodes.settle()
    fetch(nodes, 1)
    (nodes.network.slow if written else nodes.network.cut).add(2)
    acknowledge(nodes, 2, 1, 1)
    nodes.network.slow.add(3)
    answers = nodes.asked(1, acknowledgement(nodes, 3, (0, 0), (2, 2), kind=REJECT), 1)
    nodes.network.run()
    assert archiving(nodes, 3) == [0, 1, 2]
    if written:
        nodes.network.deliver(1)
    nodes.network.cut.add(3)
    nodes.network.slow.clear()
    nodes.network.lose()
    while not answers:
        nodes.wait(1_000)
    nodes.network.cut.remove(3)
    nodes.change("t", leader=1)
    fetch(nodes)
    nodes.settle()
    fetch(nodes, 1)
    nodes.network.cut.clear()
    nodes.wait(TRIED_MS)
    nodes.wait(TRIED_MS)
    assert sorted(letters(nodes)) == [(offset, b"%d" % offset, REJECTED) for offset in range(3)]
    assert archiving(nodes, 3) == []


def test_another_leader_gets_what_this_one_has_lost(tmp_path: Path) -> None:
    nodes = letters_here(tmp_path, isr=[1, 3])
    nodes[1].partition("dlq.u", 0).append(batch(b"before"), nodes.now)
    fetch(nodes)
    nodes.network.silent.add(3)
    acknowledge(nodes, 1, 0, 0)
    assert archiving(nodes) == [0], "the letter is not committed"
    nodes.change("dlq.u", leader=3, isr=[3])
    nodes.network.silent.clear()
    nodes.wait(1_000)
    assert archiving(nodes) == []
    assert nodes.log(3, "dlq.u", 0).log_end_offset == 1


def test_without_a_leader_the_records_are_archived_some_time(tmp_path: Path) -> None:
    nodes = neighbourhood(tmp_path)
    fetch(nodes)
    nodes.change(LETTERS, leader=-1, isr=[2])
    acknowledge(nodes, 1, 0, 0)
    waited_s = 0
    while archiving(nodes):
        nodes.wait(1_000)
        waited_s += 1
    assert 20 < waited_s < 40
    assert letters(nodes) == []


def test_letters_that_the_leader_refuses_are_lost(tmp_path: Path) -> None:
    nodes = neighbourhood(tmp_path, max_message_bytes="100")
    fetch(nodes)
    acknowledge(nodes, 1, 0, 4)
    nodes.settle()
    assert letters(nodes) == []
    assert archiving(nodes) == []


def test_the_next_leader_writes_what_the_last_one_has_not(tmp_path: Path) -> None:
    nodes = neighbourhood(tmp_path)
    fetch(nodes)
    acknowledge(nodes, 1, 0, 4, RELEASE)
    fetch(nodes, 2)
    nodes.network.silent.add(1)
    acknowledge(nodes, 3, 0, 1)
    acknowledge(nodes, 4, 2, 3, RELEASE)
    assert archiving(nodes) == [0, 1, 2, 3]
    nodes.move("t", 0, 3)
    nodes.move(SHARE_GROUP_STATE, 0, 3)
    nodes.wait(TRIED_MS)
    fetch(nodes, node=3)
    nodes.settle()
    fetch(nodes, 1, node=3)
    nodes.settle()
    assert letters(nodes) == [(offset, b"%d" % offset, EXCEEDED) for offset in range(4)]
    assert archiving(nodes, 3) == []


def test_a_state_that_can_not_be_stored_is_stored_later(tmp_path: Path) -> None:
    nodes = neighbourhood(tmp_path, keeper=3)
    fetch(nodes)
    nodes.settle()
    fetch(nodes, 1)
    nodes.network.slow.add(2)
    acknowledge(nodes, 2, 0, 0)
    nodes.settle()
    nodes.network.cut.add(3)
    nodes.network.slow.clear()
    nodes.network.deliver()
    nodes.settle()
    assert archiving(nodes, 3) == [0]
    nodes.wait(14_000)
    nodes.network.cut.clear()
    for _ in range(4):
        nodes.wait(10_000)
    assert archiving(nodes, 3) == []
    assert letters(nodes) == [(0, b"0", REJECTED)]


def test_records_are_archived_after_the_last_member_has_left(tmp_path: Path) -> None:
    nodes = neighbourhood(tmp_path, keeper=3)
    fetch(nodes)
    nodes.settle()
    fetch(nodes, 1)
    nodes.network.slow.add(2)
    acknowledge(nodes, 2, 0, 0)
    nodes.settle()
    acknowledge(nodes, -1, 1, 1)
    nodes.network.slow.clear()
    nodes.network.deliver()
    nodes.settle()
    nodes.wait(1_000)
    assert archiving(nodes, 3) == []
    assert letters(nodes) == [(0, b"0", REJECTED), (1, b"1", REJECTED)]


def test_letters_of_a_deleted_topic_are_forgotten(tmp_path: Path) -> None:
    nodes = neighbourhood(tmp_path)
    fetch(nodes)
    nodes.network.cut.add(2)
    acknowledge(nodes, 1, 0, 0)
    nodes.remove("t")
    nodes.network.cut.clear()
    for _ in range(5):
        nodes.wait(1_000)
    partitions = nodes[1].shares.partitions
    nodes.wait(60_000)
    assert partitions.next_deadline() is None
