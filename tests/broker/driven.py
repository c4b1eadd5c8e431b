"""A broker that a test drives by hand: each call gives the time, and the broker's parts are accessible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pykafka_broker.broker.broker import Broker
from pykafka_broker.broker.coordinators.group_host import GroupHost
from pykafka_broker.broker.coordinators.share_host import ShareHost
from pykafka_broker.broker.coordinators.transaction_host import TransactionHost
from pykafka_broker.broker.metadata.metadata_source import MetadataLeader
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.router import PendingReply, new_router
from pykafka_broker.broker.services import BoundEndpoint, Services
from pykafka_broker.broker.setup import NO_SETUP, Setup
from pykafka_broker.broker.waiting.future import Purgatory
from pykafka_broker.clock import Clock
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.config import BrokerConfig, TopicConfig
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.jobs import Submit, run_inline
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.peers import Peers
from pykafka_broker.protocol.runtime import Pieces
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord


class DrivenBroker:
    """A broker without sockets, driven by hand; a test may add to `listeners` before `start`."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        new_uuid: Callable[[], bytes],
        new_session_id: Callable[[], int] = lambda: 1,
        submit: Submit = run_inline,
        fs: FileSystem | None = None,
        setup: Setup = NO_SETUP,
        peers: Peers | None = None,
    ) -> None:
        self.clock = Clock()
        self.listeners: dict[str, BoundEndpoint] = {}
        self.whole = Broker(
            config,
            self.clock,
            new_uuid=new_uuid,
            new_session_id=new_session_id,
            submit=submit,
            fs=fs,
            setup=setup,
            peers=peers,
        )
        self.router = new_router(self.whole.services)

    # -- life and time

    def start(self, now: int) -> None:
        self.clock.set(now)
        self.whole.start(self.listeners)

    def stop(self, now: int) -> None:
        self.clock.set(now)
        self.whole.stop()

    def settle(self, now: int) -> None:
        self.clock.set(now)
        self.whole.settle()

    def next_deadline(self) -> int | None:
        return self.whole.next_deadline()

    def on_deadline(self, now: int) -> None:
        self.clock.set(now)
        self.whole.on_deadline()

    def dispatch(self, connection: ConnectionContext, frame: memoryview, now: int) -> Pieces | PendingReply | None:
        self.clock.set(now)
        return self.router.dispatch(connection, frame)

    def connection_closed(self, connection: ConnectionContext) -> None:
        self.whole.connection_closed(connection)

    # -- parts

    @property
    def services(self) -> Services:
        return self.whole.services

    @property
    def config(self) -> BrokerConfig:
        return self.whole.config

    @property
    def image(self) -> MetadataImage:
        return self.services.image

    @property
    def logs(self) -> LogManager:
        return self.services.logs

    @property
    def metadata(self) -> MetadataLeader:
        return self.whole.node.led_metadata

    @property
    def purgatory(self) -> Purgatory:
        return self.services.purgatory

    @property
    def groups(self) -> GroupHost:
        return self.services.groups

    @property
    def transactions(self) -> TransactionHost:
        return self.services.transactions

    @property
    def shares(self) -> ShareHost:
        return self.services.shares

    @property
    def fs(self) -> FileSystem:
        return self.logs.fs

    @property
    def cluster_id(self) -> str:
        return self.services.cluster_id

    @property
    def node_id(self) -> int:
        return self.services.node_id

    def partition(self, topic: str, number: int) -> Partition:
        """Return a partition that this node leads."""
        return self.services.replicas.leader(topic, number)

    def partition_log(self, topic: str, number: int) -> PartitionLog:
        return self.partition(topic, number).log

    def elect_again(self, topic: str, times: int = 1) -> None:
        """Let the leaders of the topic's partitions begin new epochs."""
        for _ in range(times):
            self.elect(topic, self.node_id)

    def elect(self, topic: str, leader: int) -> None:
        """Give all partitions of the topic that leader, in a new epoch."""
        described = self.image.topics[topic]
        self.commit_metadata(
            [
                ApiMessageAndVersion(PartitionChangeRecord(number, described.id, leader=leader), 0)
                for number in described.partitions
            ]
        )

    def topic_name(self, topic_id: bytes) -> str:
        return self.services.topic_name(topic_id)

    def topic_config(self, topic: str) -> TopicConfig:
        return self.services.node.topic_config(topic)

    def create_missing_topics(self, names: Iterable[str]) -> None:
        self.services.node.create_missing_topics(names)

    def commit_metadata(self, records: list[ApiMessageAndVersion]) -> None:
        self.metadata.commit(records)

    def subscribe(self, subscriber: Callable[[Any], None]) -> None:
        self.whole.node.subscribe(subscriber)


def settings(**config: str) -> Mapping[str, str]:
    """Return settings whose config keys are given with underscores for dots."""
    return {key.replace("_", "."): value for key, value in config.items()}
