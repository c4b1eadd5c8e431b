"""Transactions after a crash and a restart of the broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.broker.coordinators import shards
from pykafka_broker.broker.coordinators.coordinator_log import partition_for
from pykafka_broker.broker.coordinators.transaction_markers import write_marker
from pykafka_broker.cluster.topic_names import TRANSACTION_STATE
from pykafka_broker.coordinators.transactions.coordinator import Markers
from pykafka_broker.coordinators.transactions.transaction import TransactionMetadata, transaction_record
from pykafka_broker.errors import ApiError
from pykafka_broker.log.partition_log import AppendInfo, PartitionLog
from pykafka_broker.protocol.errors import ErrorCode
from tests.scenarios.transactions.client import A0, A1, Client
from tests.scenarios.transactions.in_process import InProcess


class Play(Client):
    """A client whose broker can be killed."""

    def __init__(self, directory: Path, **config: str) -> None:
        self.wire = InProcess(directory, **config)
        super().__init__(self.wire, "restart")

    def crash(self) -> None:
        self.wire.crash()

    def said(self) -> list[str]:
        """Return the recorded lines since the last call."""
        lines, self.lines = self.lines, []
        return lines

    def decide(self, commit: bool) -> TransactionMetadata:
        """Write the transaction's outcome but no markers, as if the broker had died right after it."""
        host = self.wire.broker.transactions
        name = self.name("t")
        open_transaction = host.transaction(name)
        assert open_transaction is not None
        decided = open_transaction.prepared(commit, 2, -1, self.wire.now)
        host.shards.append(partition_for(name, 3), [transaction_record(name, decided, 1)])
        return decided


@pytest.fixture
def play(tmp_path: Path) -> Play:
    client = Play(tmp_path)
    client.create_topic()
    return client


def two_partitions(play: Play) -> tuple[int, int]:
    producer = play.init()
    play.produce(producer, 0)
    play.produce(producer, 0, to=A1)
    play.said()
    return producer


def test_an_open_transaction_goes_on(play: Play) -> None:
    producer = two_partitions(play)
    play.crash()
    play.offsets(A0, A1)
    play.produce(producer, 1)
    play.end(producer)
    play.offsets(A0, A1)
    play.describe("t")
    assert play.said() == [
        "a-0 ends at 1, stable up to 0, aborted []",
        "a-1 ends at 1, stable up to 0, aborted []",
        "Produce v12 t P0/0 #1 to a-0 -> NONE 1",
        "EndTxn v5 t P0/0 commit -> NONE P0/1",
        "a-0 ends at 3, stable up to 3, aborted []",
        "a-1 ends at 2, stable up to 2, aborted []",
        "DescribeTransactions t -> CompleteCommit 60000 ms started P0/1 -",
    ]


@pytest.mark.parametrize("commit", [True, False])
def test_an_outcome_without_markers_is_carried_out(play: Play, commit: bool) -> None:
    producer = two_partitions(play)
    play.decide(commit)
    play.crash()
    play.describe("t")
    play.offsets(A0, A1)
    play.end(producer, commit)
    aborted = "" if commit else "P0 from 0"
    assert play.said() == [
        f"DescribeTransactions t -> Complete{'Commit' if commit else 'Abort'} 60000 ms started P0/1 -",
        f"a-0 ends at 2, stable up to 2, aborted [{aborted}]",
        f"a-1 ends at 2, stable up to 2, aborted [{aborted}]",
        f"EndTxn v5 t P0/0 {'commit' if commit else 'abort'} -> NONE P0/1",
    ]


def test_a_marker_that_is_there_may_come_twice(play: Play) -> None:
    two_partitions(play)
    decided = play.decide(False)
    markers = Markers("t", decided.producer_id, decided.producer_epoch, False, decided.partitions, 0, 2)
    write_marker(play.wire.broker.services.node, play.name("a"), 0, markers, lambda *decided: None)
    play.crash()
    play.offsets(A0, A1)
    assert play.said() == [
        "a-0 ends at 3, stable up to 3, aborted [P0 from 0]",
        "a-1 ends at 2, stable up to 2, aborted [P0 from 0]",
    ]


def test_the_end_itself_survives(play: Play) -> None:
    producer = two_partitions(play)
    play.end(producer, False)
    play.said()
    play.crash()
    play.end(producer, False)
    play.describe("t")
    play.producers(A0)
    play.offsets(A0)
    assert play.said() == [
        "EndTxn v5 t P0/0 abort -> NONE P0/1",
        "DescribeTransactions t -> CompleteAbort 60000 ms started P0/1 -",
        "DescribeProducers a-0 -> NONE - [P0/1 #-1 coordinator 0 from -1]",
        "a-0 ends at 2, stable up to 2, aborted [P0 from 0]",
    ]


def test_a_timeout_goes_on_counting(play: Play) -> None:
    producer = two_partitions(play)
    play.crash()
    play.wait(60_001)
    play.describe("t")
    play.produce(producer, 1)
    assert play.said() == [
        "DescribeTransactions t -> CompleteAbort 60000 ms started P0/1 -",
        "Produce v12 t P0/0 #1 to a-0 -> INVALID_PRODUCER_EPOCH -1",
    ]


def test_a_partition_that_was_deleted_needs_no_marker(play: Play) -> None:
    producer = two_partitions(play)
    play.delete_topic()
    play.end(producer)
    play.describe("t")
    assert play.said() == [
        "EndTxn v5 t P0/0 commit -> NONE P0/1",
        "DescribeTransactions t -> CompleteCommit 60000 ms started P0/1 -",
    ]


def test_while_the_log_is_read_there_is_no_coordinator(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = two_partitions(play)
    monkeypatch.setattr(shards, "FIRST_SLICE_BYTES", 1)
    play.crash()
    play.describe("t")
    play.end(producer)
    play.list()
    play.produce(producer, 1)  # the partition knows of its transaction, and asks nobody
    play.wait(0)
    play.end(producer)
    assert play.said() == [
        "DescribeTransactions t -> COORDINATOR_LOAD_IN_PROGRESS",
        "EndTxn v5 t P0/0 commit -> COORDINATOR_LOAD_IN_PROGRESS -1/-1",
        "ListTransactions v2 [] [] -1 None -> COORDINATOR_LOAD_IN_PROGRESS ",
        "Produce v12 t P0/0 #1 to a-0 -> NONE 1",
        "EndTxn v5 t P0/0 commit -> NONE P0/1",
    ]


def test_producer_ids_are_never_handed_out_twice(play: Play) -> None:
    seen = {play.init(None)[0] for _ in range(3)}
    play.crash()
    assert not seen & {play.init(None)[0] for _ in range(3)}


def refuse_appends(monkeypatch: pytest.MonkeyPatch, topic: str, code: ErrorCode, partition: int | None = None) -> None:
    append = PartitionLog.append

    def refusing(log: PartitionLog, *arguments: object, **options: object) -> AppendInfo:
        if log.topic == topic and partition in (None, log.partition):
            raise ApiError(code)
        return append(log, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(PartitionLog, "append", refusing)


def test_a_decision_that_the_disk_refuses_changes_nothing(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = two_partitions(play)
    with monkeypatch.context() as patch:
        refuse_appends(patch, TRANSACTION_STATE, ErrorCode.KAFKA_STORAGE_ERROR)
        play.end(producer)
        play.init("new")
    play.describe("t", "new")
    play.end(producer)
    assert play.said() == [
        "EndTxn v5 t P0/0 commit -> NOT_COORDINATOR -1/-1",
        "InitProducerId v5 new 60000 ms -> NOT_COORDINATOR -1/-1",
        "DescribeTransactions t -> Ongoing 60000 ms started P0/0 a-[0, 1]",
        "DescribeTransactions new -> TRANSACTIONAL_ID_NOT_FOUND",
        "EndTxn v5 t P0/0 commit -> NONE P0/1",
    ]


def test_markers_that_the_disk_refuses_are_written_later(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = two_partitions(play)
    with monkeypatch.context() as patch:
        refuse_appends(patch, play.name("a"), ErrorCode.KAFKA_STORAGE_ERROR)
        play.end(producer)
        play.describe("t")
        play.end(producer)
        play.wait(1_000)
        play.describe("t")
    play.wait(1_000)
    play.describe("t")
    play.offsets(A0, A1)
    assert play.said() == [
        "EndTxn v5 t P0/0 commit -> NONE P0/1",
        "DescribeTransactions t -> PrepareCommit 60000 ms started P0/1 a-[0, 1]",
        "EndTxn v5 t P0/0 commit -> CONCURRENT_TRANSACTIONS -1/-1",
        "DescribeTransactions t -> PrepareCommit 60000 ms started P0/1 a-[0, 1]",
        "DescribeTransactions t -> CompleteCommit 60000 ms started P0/1 -",
        "a-0 ends at 2, stable up to 2, aborted []",
        "a-1 ends at 2, stable up to 2, aborted []",
    ]


@pytest.mark.parametrize("commit", [True, False])
def test_a_partition_that_is_offline_keeps_no_other_undecided(
    play: Play, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    producer = two_partitions(play)
    with monkeypatch.context() as patch:
        refuse_appends(patch, play.name("a"), ErrorCode.KAFKA_STORAGE_ERROR, 0)
        play.end(producer, commit)
        for _ in range(3):
            play.offsets(A0, A1)
            play.describe("t")
            play.wait(1_000)
    play.wait(1_000)
    play.offsets(A0, A1)
    play.describe("t")
    end, aborted = ("Commit", "") if commit else ("Abort", "P0 from 0")
    undecided = [
        "a-0 ends at 1, stable up to 0, aborted []",
        f"a-1 ends at 2, stable up to 2, aborted [{aborted}]",
        f"DescribeTransactions t -> Prepare{end} 60000 ms started P0/1 a-[0]",
    ]
    assert play.said() == [
        f"EndTxn v5 t P0/0 {end.lower()} -> NONE P0/1",
        *undecided * 3,
        f"a-0 ends at 2, stable up to 2, aborted [{aborted}]",
        f"a-1 ends at 2, stable up to 2, aborted [{aborted}]",
        f"DescribeTransactions t -> Complete{end} 60000 ms started P0/1 -",
    ]


@pytest.mark.whole
def test_an_unused_transactional_id_is_forgotten(play: Play) -> None:
    play.init()
    play.said()
    for _ in range(7 * 24 + 1):
        play.wait(3_600_000)
    play.describe("t")
    play.crash()
    play.describe("t")
    assert play.said() == ["DescribeTransactions t -> TRANSACTIONAL_ID_NOT_FOUND"] * 2


def test_a_broker_without_the_topic_is_no_coordinator(tmp_path: Path) -> None:
    client = Play(tmp_path)
    client.delete_topic(TRANSACTION_STATE, internal=True)
    client.init()
    client.end((1, 0))
    client.add((1, 0))
    client.describe("t")
    client.list()
    assert client.said() == [
        "InitProducerId v5 t 60000 ms -> NOT_COORDINATOR -1/-1",
        "EndTxn v5 t P0/0 commit -> NOT_COORDINATOR -1/-1",
        "AddPartitionsToTxn v3 t P0/0 -> ",
        "DescribeTransactions t -> NOT_COORDINATOR",
        "ListTransactions v2 [] [] -1 None -> NONE ",
    ]
