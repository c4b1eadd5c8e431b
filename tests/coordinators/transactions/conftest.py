"""A transaction coordinator with a log and a hand-moved clock: the work of its host in ten lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import pytest

from pykafka_broker.coordinators.record import CoordinatorRecord, CoordinatorResult
from pykafka_broker.coordinators.transactions.coordinator import (
    Markers,
    ProducerReply,
    TransactionCoordinator,
    TransactionSettings,
)
from pykafka_broker.coordinators.transactions.transaction import TransactionMetadata
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.stored_keys import TRANSACTION_RECORDS
from tests.coordinators.stored import reread

SECOND = 1_000
A: PartitionKey = ("a", 0)


class Driver:
    """A coordinator that appends and replays at once, but writes markers only when told to.

    A test can therefore look at the state between any two steps.
    """

    def __init__(
        self, settings: TransactionSettings | None = None, *, now: int = 1_000_000, first_producer_id: int = 1000
    ) -> None:
        self.settings = settings or TransactionSettings()
        self.now = now
        self.log: list[CoordinatorRecord] = []
        self.written: list[Markers] = []
        self._producer_ids = count(first_producer_id)
        self.coordinator = self._new()

    def _new(self) -> TransactionCoordinator:
        return TransactionCoordinator(self.settings, lambda: next(self._producer_ids), 7, self.now)

    def restart(self) -> None:
        """Start a new coordinator from the log alone, as after a crash."""
        self.coordinator = self._new()
        for record in self.log:
            self.coordinator.replay(record)

    def run(self, effects: CoordinatorResult[Any]) -> object:
        for record in effects.records:
            self.log.append(reread(record, TRANSACTION_RECORDS))
            self.coordinator.replay(record)
        return effects.reply

    def advance(self, milliseconds: int) -> None:
        self.now += milliseconds
        deadline = self.coordinator.next_deadline()
        if deadline is not None and deadline <= self.now:
            self.run(self.coordinator.on_deadline(self.now))

    def init(
        self, name: str = "t", timeout_ms: int = 60 * SECOND, expected: tuple[int, int] | None = None, **flags: bool
    ) -> ProducerReply:
        reply = self.run(self.coordinator.init_producer_id(name, timeout_ms, expected, self.now, **flags))
        assert isinstance(reply, ProducerReply)
        return reply

    def add(
        self, pid: int, epoch: int, partitions: Iterable[PartitionKey] = (A,), name: str = "t", version: int = 2
    ) -> ErrorCode:
        reply = self.run(self.coordinator.add_partitions(name, pid, epoch, frozenset(partitions), version, self.now))
        assert isinstance(reply, ErrorCode)
        return reply

    def end(self, pid: int, epoch: int, commit: bool = True, name: str = "t", version: int = 2) -> ProducerReply:
        reply = self.run(self.coordinator.end_transaction(name, pid, epoch, commit, version, self.now))
        assert isinstance(reply, ProducerReply)
        return reply

    def write_markers(self) -> list[Markers]:
        """Write all markers that are due, and complete their transactions."""
        due = list(self.coordinator.markers_due())
        self.written += due
        for markers in due:
            self.run(self.coordinator.markers_written(markers.transactional_id, self.now))
        return due

    def transaction(self, name: str = "t") -> TransactionMetadata:
        return self.coordinator.transactions[name]


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def make_driver() -> Callable[..., Driver]:
    return Driver
