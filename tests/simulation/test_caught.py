"""The simulation finds what it is there for: each defect that is put in is caught by some of the first seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka_broker.broker.api import produce, short_produce
from pykafka_broker.broker.api.fetch import PartitionReader
from pykafka_broker.broker.coordinators.group_host import GroupHost
from pykafka_broker.broker.partitions.fetch_session import FetchedPartition
from pykafka_broker.broker.partitions.partition import Followers
from pykafka_broker.broker.replication.fetcher import FetchOutcome, FetchPosition, PartitionFetchState, ReplicaFetcher
from pykafka_broker.cluster.partition_change import Election, _Change
from pykafka_broker.cluster.topics import create_partitions
from pykafka_broker.coordinators.groups import offsets
from pykafka_broker.coordinators.groups.consumer import Reconciliation
from pykafka_broker.log import loading, partition_log
from pykafka_broker.log.compaction import cleaner
from pykafka_broker.log.compaction.request import CleanRequest
from pykafka_broker.log.deletion import Deletions
from pykafka_broker.log.log_directory import LogDirectoryError
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.producer_state import ProducerState
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_response import PartitionData
from pykafka_broker.testing.simulation.disk import SimHandle
from pykafka_broker.testing.simulation.faults import (
    Fault,
    break_connections,
    break_disk,
    cut_power,
    kill,
    partition,
    pause,
    stop,
)
from tests.simulation import simulation
from tests.simulation.keeping import BY_TIME, COMPACTED, TRIMMED, TRIMMED_WIDE, Keeping, form_of
from tests.simulation.layouts import ALONE
from tests.simulation.runs import HARMLESS, KILLS, ONCE, SYNCED, run_alone, run_changes, run_cluster, run_groups

pytestmark = pytest.mark.whole

MOST_SEEDS = 25
SETTLE_MS = 30_000  # what is caught may wait that long; healthy runs of these kinds settle within 7 s
Defect = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(autouse=True)
def _short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "SETTLE_MS", SETTLE_MS)


def acknowledges_before_it_is_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimHandle, "sync", lambda *args: None)


def takes_what_comes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerState, "find_duplicate", lambda *args: None)
    monkeypatch.setattr(ProducerState, "check", lambda *args: None)


def hides_no_aborted_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionLog, "aborted_transactions", lambda *args: [])


def shows_open_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionLog, "last_stable_offset", property(lambda self: self.high_watermark))


def appends_unanswered_batches_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    append = produce.Production._append

    def twice(self: Any, *args: Any) -> None:
        for _ in range(2 if self._request.acks == 0 else 1):
            append(self, *args)

    monkeypatch.setattr(produce.Production, "_append", twice)
    monkeypatch.setattr(short_produce, "SINGLE_READERS", {})  # all go the general way


def adds_no_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = "pykafka_broker.cluster.topics.create_partitions"
    monkeypatch.setattr(decide, lambda *args: create_partitions(*args)._replace(records=[]))


def acknowledges_what_the_leader_alone_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Followers, "reached", lambda self, own_end: own_end)


def takes_the_isr_that_it_wishes_for(monkeypatch: pytest.MonkeyPatch) -> None:
    proposed = property(lambda self: self._state.isr if self.proposed_isr is None else self.proposed_isr)
    monkeypatch.setattr(Followers, "maximal_isr", proposed)


def never_cuts_what_the_leader_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionFetchState, "_truncate", lambda *args: FetchOutcome.DONE)


def elects_whoever_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(self: _Change, election: Election) -> int | None:
        return next((broker for broker in self.replicas if self.acceptable(broker)), None)

    monkeypatch.setattr(_Change, "_leader_in_sync", first)


def takes_commits_of_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "_verdict", lambda *args, **named: ErrorCode.NONE)


def gives_what_others_still_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reconciliation, "_is_free", lambda *args: True)


def begins_with_nothing_when_it_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupHost, "_replay", lambda *args, **named: None)


def ends_a_move_before_all_are_in_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    end = _Change.end_reassignment

    def end_at_once(self: _Change) -> None:
        self.isr += [broker for broker in self.adding if broker not in self.isr]
        end(self)

    monkeypatch.setattr(_Change, "end_reassignment", end_at_once)


def leaves_folders_of_deleted_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Deletions, "delete", lambda *args: None)


def believes_dropped_answers_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a defect: a mere move of the log start drops a fetch's answer, whose news is never asked for again."""
    monkeypatch.setattr(FetchPosition, "log_end", property(lambda self: self))
    monkeypatch.setattr(ReplicaFetcher, "_drop", lambda self, key, now: self._changed.setdefault(key))


def cleans_without_the_abort_markers_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    real = cleaner.make_request

    def make_request(*args: Any) -> CleanRequest:
        return real(*args)._replace(aborted_later=[])

    monkeypatch.setattr(cleaner, "make_request", make_request)


def never_begins_inside_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionLog, "_step_back", lambda *args: None)


def believes_old_snapshots_after_beginning_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_log, "forget_snapshots", lambda *args: None)
    monkeypatch.setattr(loading, "remove_strays", lambda *args: None)


def answers_before_commits_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(self: Any) -> None:
        unwritten, self._unwritten = self._unwritten, []
        for each in unwritten:
            self._write(each.shard, (each.record,))  # whatever that says, the answer is as it was

    monkeypatch.setattr(GroupHost, "_write_commits", write)


def hides_no_aborted_transaction_at_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    real = PartitionReader._read

    def read(self: PartitionReader, wanted: FetchedPartition, *args: Any) -> PartitionData:
        data = real(self, wanted, *args)
        if data.aborted_transactions and not self._find(wanted).is_leader:
            data.aborted_transactions = []
        return data

    monkeypatch.setattr(PartitionReader, "_read", read)


FIRST: dict[Defect, int] = {  # a defect that needs much to come together is looked for where it does
    takes_the_isr_that_it_wishes_for: 11,
    never_cuts_what_the_leader_does_not_have: 3,
    elects_whoever_is_there: 3,
    ends_a_move_before_all_are_in_sync: 3,
    believes_old_snapshots_after_beginning_anew: 46,
}


def _is_caught(run_one: Callable[[int], object], first: int = 0) -> bool:
    for seed in range(first, first + MOST_SEEDS):
        try:
            run_one(seed)
        except (AssertionError, LogDirectoryError):
            return True
    return False


@pytest.mark.parametrize(
    ("defect", "settings", "faults"),
    [
        (acknowledges_before_it_is_on_disk, SYNCED, (cut_power,)),
        (takes_what_comes_twice, ALONE, (break_connections, kill)),
        (hides_no_aborted_transaction, ALONE, ()),
        (shows_open_transactions, ALONE, ()),
    ],
)
def test_a_defect_of_one_node(
    monkeypatch: pytest.MonkeyPatch, defect: Defect, settings: dict[str, str], faults: tuple[Fault, ...]
) -> None:
    defect(monkeypatch)
    assert _is_caught(lambda seed: run_alone(seed, settings, (*faults, *HARMLESS)))


@pytest.mark.parametrize(
    "defect",
    [
        acknowledges_what_the_leader_alone_has,
        takes_the_isr_that_it_wishes_for,
        never_cuts_what_the_leader_does_not_have,
        elects_whoever_is_there,
    ],
)
def test_a_defect_of_replication(monkeypatch: pytest.MonkeyPatch, defect: Defect) -> None:
    defect(monkeypatch)
    assert _is_caught(lambda seed: run_cluster(seed, KILLS), FIRST.get(defect, 0))


@pytest.mark.parametrize(
    "defect",
    [
        takes_commits_of_anybody,
        gives_what_others_still_have,
        begins_with_nothing_when_it_takes_over,
    ],
)
def test_a_defect_of_groups(monkeypatch: pytest.MonkeyPatch, defect: Defect) -> None:
    defect(monkeypatch)
    assert _is_caught(lambda seed: run_groups(seed, KILLS), FIRST.get(defect, 0))


@pytest.mark.parametrize("defect", [ends_a_move_before_all_are_in_sync, leaves_folders_of_deleted_topics])
def test_a_defect_of_what_operators_do(monkeypatch: pytest.MonkeyPatch, defect: Defect) -> None:
    defect(monkeypatch)
    assert _is_caught(lambda seed: run_changes(seed, (kill, kill, pause, break_disk)), FIRST.get(defect, 0))


@pytest.mark.parametrize("defect", [appends_unanswered_batches_twice, adds_no_partitions])
def test_a_defect_of_what_only_some_clients_do(monkeypatch: pytest.MonkeyPatch, defect: Defect) -> None:
    defect(monkeypatch)
    assert _is_caught(lambda seed: run_cluster(seed, (), keeping=TRIMMED))


def test_a_defect_of_answers_that_leave_together(monkeypatch: pytest.MonkeyPatch) -> None:
    answers_before_commits_are_written(monkeypatch)
    assert _is_caught(lambda seed: run_alone(seed, ALONE, ONCE, busy=True, keeping=form_of(seed)), 26)


def test_a_defect_of_a_leader_that_loses_its_role_between_answer_and_write(monkeypatch: pytest.MonkeyPatch) -> None:
    answers_before_commits_are_written(monkeypatch)
    faults = (pause, partition, kill)
    assert _is_caught(lambda seed: run_groups(seed, faults, busy=True, sole=True, keeping=form_of(seed)), 5)


def test_a_defect_that_only_readers_of_followers_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    hides_no_aborted_transaction_at_followers(monkeypatch)
    assert _is_caught(lambda seed: run_cluster(seed, (), near=True))


def test_a_defect_of_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    cleans_without_the_abort_markers_behind(monkeypatch)
    assert _is_caught(lambda seed: run_alone(seed, ALONE, KILLS, keeping=COMPACTED), 4)


@pytest.mark.parametrize(
    ("defect", "faults", "keeping"),
    [
        (believes_dropped_answers_known, (), BY_TIME),
        (never_begins_inside_a_batch, (kill, stop, break_connections), TRIMMED),
        (believes_old_snapshots_after_beginning_anew, (stop, stop, kill), TRIMMED_WIDE),
    ],
)
def test_a_defect_of_where_logs_begin(
    monkeypatch: pytest.MonkeyPatch, defect: Defect, faults: tuple[Fault, ...], keeping: Keeping
) -> None:
    defect(monkeypatch)
    assert _is_caught(lambda seed: run_cluster(seed, faults, keeping=keeping), FIRST.get(defect, 0))
