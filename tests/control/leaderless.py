"""A partition without a leader, as the death of a broker leaves it in a cluster."""

from __future__ import annotations

import threading
from typing import Any

from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord
from pykafka_broker.testing import KafkaBroker


def leaderless(broker: KafkaBroker, topic: str, partition: int = 0) -> None:
    """Leave a partition without a leader. The broker must run in the process of the test."""
    process: Any = broker._process
    done = threading.Event()

    def take_away() -> None:
        metadata = process.running.server.broker.node.led_metadata
        record = PartitionChangeRecord(partition, metadata.image.topics[topic].id, leader=-1)
        metadata.commit([ApiMessageAndVersion(record, 0)])
        done.set()

    process._loop.call_soon_threadsafe(process.running.turns.run, take_away)
    assert done.wait(60)
