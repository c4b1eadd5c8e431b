"""A broker of a few topics, without sockets, for tests of handlers."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from pykafka_broker.broker.requests.context import ConnectionContext, RequestContext
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.config import BrokerConfig
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord
from pykafka_broker.protocol.stored.partition_record import PartitionRecord
from pykafka_broker.protocol.stored.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from pykafka_broker.protocol.stored.topic_record import TopicRecord
from pykafka_broker.records.builder import BatchBuilder
from tests.broker.api.real_broker import UnsyncedFileSystem
from tests.broker.driven import DrivenBroker, settings

NOW = 1_700_000_000_000
ANOTHER_NODE = 2


class LightBroker(DrivenBroker):
    """A broker, node 1. Topics come by `add`; `now` is moved by hand."""

    def __init__(self, directory: Path, **config: str) -> None:
        ids = itertools.count(1)
        sessions = itertools.count(100)
        super().__init__(
            BrokerConfig({"log.dirs": str(directory), "node.id": "1", **settings(**config)}),
            new_uuid=lambda: next(ids).to_bytes(16, "big"),
            new_session_id=lambda: next(sessions),
            fs=UnsyncedFileSystem(),
        )
        self._topic_ids = itertools.count(1000)
        self.start(NOW)

    @property
    def now(self) -> int:
        return self.clock.now

    @now.setter
    def now(self, now: int) -> None:
        self.clock.set(now)

    def add(
        self,
        topic: str,
        partitions: int = 1,
        *,
        replicas: tuple[int, ...] = (1,),
        isr: tuple[int, ...] = (1,),
        leader: int = 1,
        **overrides: str,
    ) -> bytes:
        """Add a new topic and return its id."""
        topic_id = next(self._topic_ids).to_bytes(16, "big")
        records: list[Any] = [TopicRecord(topic, topic_id)]
        records += [
            PartitionRecord(
                number, topic_id, list(replicas), list(isr), leader=leader, leader_epoch=0, partition_epoch=0
            )
            for number in range(partitions)
        ]
        records += [
            ConfigRecord(ConfigResourceType.TOPIC, topic, key, value) for key, value in settings(**overrides).items()
        ]
        self.commit_metadata([ApiMessageAndVersion(record, 0) for record in records])
        return topic_id

    def change(self, topic: str, number: int = 0, **fields: Any) -> None:
        """Change a partition's leader, ISR or whatever a PartitionChangeRecord can name."""
        record = PartitionChangeRecord(number, self.image.topics[topic].id, **fields)
        self.commit_metadata([ApiMessageAndVersion(record, 0)])

    def register_another_node(self) -> None:
        """Register another broker, with an address for clients."""
        endpoint = BrokerEndpoint("PLAINTEXT", "other.example", 9093, 0)
        record = RegisterBrokerRecord(ANOTHER_NODE, broker_epoch=9, end_points=[endpoint], fenced=False)
        self.commit_metadata([ApiMessageAndVersion(record, 3)])

    def context(self, api_key: ApiKey, version: int, client_id: str = "test") -> RequestContext:
        connection = ConnectionContext(1, "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 50000))
        return RequestContext(api_key, version, 1, client_id, connection, self.now)


def batch(*values: bytes, timestamp: int = NOW, **options: Any) -> bytearray:
    """Build a batch whose records have the given values, each with its value as key."""
    builder = BatchBuilder(**options)
    for value in values:
        builder.append(value, value, timestamp)
    return bytearray(builder.build())
