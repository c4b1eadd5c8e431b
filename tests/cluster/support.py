"""A controller whose decisions are applied at once, without a log."""

from __future__ import annotations

import itertools
from typing import Any

from pykafka_broker.cluster.bootstrap import first_records, format_records, registration
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
from pykafka_broker.cluster.metadata_log import Replay
from pykafka_broker.cluster.records import ApiMessageAndVersion, decode_record
from pykafka_broker.cluster.topics import create_topics
from pykafka_broker.config import BrokerConfig
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records

DIRECTORY = b"d" * 16


class Cluster:
    """A cluster of brokers 1 to `brokers`, with the controller on broker 1."""

    def __init__(self, brokers: int = 1, **settings: str) -> None:
        ids = itertools.count(1)
        self.image = MetadataImage()
        config = BrokerConfig({"node.id": "1", **{key.replace("_", "."): value for key, value in settings.items()}})
        self.controller = Controller(self.image, config, 1, lambda: next(ids).to_bytes(16, "big"))
        self.apply(first_records(self.controller, format_records()))
        for broker in range(1, brokers + 1):
            self.controller.node_id = broker
            record = registration(
                self.controller,
                epoch=10 + broker,
                incarnation_id=bytes(16),
                endpoints=[("PLAINTEXT", "h", 9092, "PLAINTEXT")],
                log_dirs=[DIRECTORY],
            )
            self.apply([record])
        self.controller.node_id = 1

    def apply(self, records: list[ApiMessageAndVersion]) -> MetadataDelta:
        delta = MetadataDelta()
        replay = Replay(self.image, delta)
        for record in records:
            replay.record(record.message)
        return delta

    def do(self, decision: Decision[Any]) -> Any:
        self.apply(decision.records)
        return decision.reply

    def create(self, name: str, partitions: int = 1, replicas: int = 1, **fields: Any) -> Any:
        """Create one topic and return the result."""
        request = CreateTopicsRequest([CreatableTopic(name, partitions, replicas, **fields)])
        return self.do(create_topics(self.controller, request, 7)).topics[0]


def log_records(log: PartitionLog) -> list[Any]:
    """Return the metadata records that a log holds, in their order."""
    found: list[Any] = []
    offset = log.log_start_offset
    while (read := log.read(offset, 1 << 20, log.log_end_offset)) is not None:
        for header, batch in iter_batches(read.records.read()):
            if not header.is_control:
                found += [decode_record(record.value or b"") for record in iter_records(batch, header)]
        offset = read.end_offset
    return found
