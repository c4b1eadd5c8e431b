"""Which coordinator speaks for a transactional id, and how it comes to know what it knows.

Rule: one coordinator for each partition of `__transaction_state`. What a start finds is read a slice at a time beside
the requests; a transactional id whose partition is still being read answers COORDINATOR_LOAD_IN_PROGRESS. Of each
transactional id only the newest record is decoded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pykafka_broker.broker.coordinator_log import (
    coordinator_log,
    hold_answer,
    partition_for,
    read_batches,
    read_slice,
)
from pykafka_broker.cluster.topic_names import TRANSACTION_STATE
from pykafka_broker.coordinators.transactions import Settings, TransactionCoordinator
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.record import iter_records

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker
    from pykafka_broker.cluster.image import MetadataDelta

TRANSACTION_VERSION = "transaction.version"  # the feature (KIP-890)
# How much of the logs is read before the first request may come, and between requests after that.
FIRST_SLICE_BYTES = 4 << 20
SLICE_BYTES = 1 << 19

OnLoaded = Callable[[int, TransactionCoordinator, int], None]


class TransactionShards:
    """The coordinators of this node, by partition. `on_loaded` hears of each with its partition and the time."""

    def __init__(self, broker: Broker, on_loaded: OnLoaded) -> None:
        self._broker = broker
        self._on_loaded = on_loaded
        self._loaded: dict[int, TransactionCoordinator] = {}
        self._loading: dict[int, Iterator[int]] = {}
        self._settings = _settings(broker)
        broker.metadata.subscribe(self._on_metadata)

    def _on_metadata(self, delta: MetadataDelta, now: int) -> None:
        if any(topic.name == TRANSACTION_STATE for topic in delta.deleted):
            self._loaded.clear()
            self._loading.clear()
        if TRANSACTION_VERSION in delta.features:
            self._settings = _settings(self._broker)
            for coordinator in self._loaded.values():
                coordinator.settings = self._settings

    # -- which

    @property
    def _partitions(self) -> list[int]:
        topic, node_id = self._broker.image.topics.get(TRANSACTION_STATE), self._broker.node_id
        return [] if topic is None else [each.partition for each in topic.partitions.values() if each.leader == node_id]

    def find(self, transactional_id: str, now: int) -> tuple[int, TransactionCoordinator]:
        """The partition and its coordinator; ApiError if this node can't speak for the transactional id."""
        topic = self._broker.image.topics.get(TRANSACTION_STATE)
        if topic is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        partition = partition_for(transactional_id, len(topic.partitions))
        coordinator = self._coordinator(partition, now)
        hold_answer(self._broker, self._broker.partition_log(TRANSACTION_STATE, partition), now)
        return partition, coordinator

    def _coordinator(self, partition: int, now: int) -> TransactionCoordinator:
        found = self._loaded.get(partition)
        if found is None:
            if partition not in self._loading:
                self._begin(partition, now)
            found = self._loaded.get(partition)
        if found is None:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return found

    def speaks(self, partition: int, coordinator: TransactionCoordinator) -> bool:
        """Whether this is still the coordinator of that partition."""
        return self._loaded.get(partition) is coordinator

    def all(self, now: int) -> list[TransactionCoordinator]:
        """Every coordinator of this node; ApiError as long as one is being loaded."""
        return [self._coordinator(partition, now) for partition in self._partitions]

    def loaded(self) -> list[tuple[int, TransactionCoordinator]]:
        return list(self._loaded.items())

    # -- load

    @property
    def loading(self) -> bool:
        return bool(self._loading)

    def start(self, now: int) -> None:
        """Begin to read what is there."""
        for partition in self._partitions:
            with contextlib.suppress(ApiError):  # its directory is offline; asked for it will be tried again
                if coordinator_log(self._broker, TRANSACTION_STATE, partition).log_end_offset:
                    self._begin(partition, now)
        self.read_on(FIRST_SLICE_BYTES)

    def _begin(self, partition: int, now: int) -> None:
        log = coordinator_log(self._broker, TRANSACTION_STATE, partition)
        load = self._load(partition, now)
        if log.log_start_offset < log.log_end_offset:
            self._loading[partition] = load
        else:
            for _ in load:
                pass

    def _load(self, partition: int, now: int) -> Iterator[int]:
        """Read batch after batch; yields the size of each."""
        log = coordinator_log(self._broker, TRANSACTION_STATE, partition)
        newest: dict[bytes, bytes | None] = {}
        for header, batch in read_batches(log):
            if not header.is_control:
                for record in iter_records(batch, header):
                    if record.key is not None:
                        newest[record.key] = record.value
            yield header.size
        coordinator = TransactionCoordinator(
            self._settings, self._broker.metadata.producer_ids.next_id, log.leader_epoch, now
        )
        for key, value in newest.items():
            coordinator.replay(key, value)
        self._loaded[partition] = coordinator
        self._on_loaded(partition, coordinator, now)

    def read_on(self, budget: int = SLICE_BYTES) -> None:
        """Read another slice of what is being loaded."""
        read_slice(self._loading, budget)


def _settings(broker: Broker) -> Settings:
    config = broker.config
    return Settings(
        max_timeout_ms=config.transaction_max_timeout_ms,
        transactional_id_expiration_ms=config.transactional_id_expiration_ms,
        abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
        expiration_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        two_phase_commit=config.transaction_two_phase_commit_enable,
        transaction_version=broker.image.features.get(TRANSACTION_VERSION, 0),
    )
