"""A broker of a few real logs, without sockets and without a metadata log, for tests of handlers."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from pykafka_broker.broker.context import ConnectionContext, RequestContext
from pykafka_broker.broker.fetch_session import FetchSessionCache
from pykafka_broker.broker.purgatory import Purgatory
from pykafka_broker.config import BrokerConfig, TopicConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.builder import BatchBuilder

NOW = 1_700_000_000_000


class LightBroker:
    """Topics come by `add`. `now` is moved by hand."""

    def __init__(self, directory: Path, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.config = BrokerConfig({"log.dirs": str(directory), **settings})
        ids = itertools.count(1)
        self.logs = LogManager(
            OsFileSystem(), self.config, new_uuid=lambda: next(ids).to_bytes(16, "big"), topic_config=self.topic_config
        )
        self.purgatory = Purgatory()
        self.logs.on_committed = self.purgatory.touch
        sessions = itertools.count(100)
        self.fetch_sessions = FetchSessionCache(10, 120_000, lambda: next(sessions))
        self.overrides: dict[str, dict[str, str]] = {}
        self.ids: dict[bytes, str] = {}
        self.now = NOW
        self.logs.start(NOW)

    def add(self, topic: str, partitions: int = 1, **overrides: str) -> bytes:
        """A new topic; returns its id."""
        topic_id = (1000 + len(self.ids)).to_bytes(16, "big")
        self.overrides[topic] = {key.replace("_", "."): value for key, value in overrides.items()}
        self.ids[topic_id] = topic
        for partition in range(partitions):
            self.logs.create(topic, partition, topic_id, self.now)
        return topic_id

    def context(self, api_key: ApiKey, version: int, client_id: str = "test") -> RequestContext:
        connection = ConnectionContext(1, "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 50000))
        return RequestContext(api_key, version, 1, client_id, connection, self.now)

    # what handlers ask of a broker

    def partition_log(self, topic: str, partition: int) -> PartitionLog:
        if not self.logs.exists(topic, partition):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.logs.get(topic, partition)

    def topic_name(self, topic_id: bytes) -> str:
        if topic_id not in self.ids:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        return self.ids[topic_id]

    def topic_config(self, topic: str) -> TopicConfig:
        return TopicConfig.resolve(self.config, self.overrides.get(topic, {}))

    def is_internal(self, topic: str) -> bool:
        return topic.startswith("__")

    def require_insync_replicas(self, topic: str, partition: int, wanted: int) -> None:
        raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)


def batch(*values: bytes, timestamp: int = NOW, **options: Any) -> bytearray:
    """One batch whose records are the given values, each with its value as key."""
    builder = BatchBuilder(**options)
    for value in values:
        builder.append(value, value, timestamp)
    return bytearray(builder.build())
