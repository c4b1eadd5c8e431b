"""The broker: what handlers reach for.

Rule: this is the place where the parts meet, and nothing else: logs, metadata, coordinators and the purgatory each know
their own business. There is no clock and no socket here; whoever owns those calls `settle`, `next_deadline` and
`on_deadline`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka_broker.broker.context import ConnectionContext, RequestContext
from pykafka_broker.broker.fetch_session import FetchSessionCache
from pykafka_broker.broker.purgatory import Purgatory
from pykafka_broker.cluster.topic_names import (
    CONSUMER_OFFSETS,
    INTERNAL_TOPICS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from pykafka_broker.config import BrokerConfig, TopicConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.log.filesystem import FileSystem, OsFileSystem
from pykafka_broker.log.jobs import Submit, run_inline
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pykafka_broker.broker.group_host import GroupHost
    from pykafka_broker.broker.share_host import ShareHost
    from pykafka_broker.broker.transaction_host import TransactionHost
    from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
    from pykafka_broker.cluster.records import ApiMessageAndVersion
    from pykafka_broker.log.log_directory import LogDirectory
    from pykafka_broker.protocol.messages.produce_request import ProduceRequest
    from pykafka_broker.records.header import BatchHeader

_SESSION_EVICTION_MS = 120_000  # as Kafka has it, not configurable there either
_Machine = TypeVar("_Machine")


class Broker:
    """One node. `listeners` are set by the server before `start`."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        new_uuid: Callable[[], bytes],
        new_session_id: Callable[[], int],
        submit: Submit = run_inline,
        thread_pool: Callable[[int], Executor] | None = None,
        fs: FileSystem | None = None,
    ) -> None:
        self.config = config
        self.node_id: int = config.node
        self.new_uuid = new_uuid
        self.submit = submit
        self.thread_pool = thread_pool
        self.fs: FileSystem = OsFileSystem() if fs is None else fs
        self.listeners: dict[str, Any] = {}  # by name; each has host, port and advertised
        self.on_useless: Callable[[], None] | None = None  # the last log directory has failed
        self.purgatory = Purgatory()
        self.fetch_sessions = FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots,
            _SESSION_EVICTION_MS,
            new_session_id,
        )
        self._timed: list[Any] = [self.purgatory]  # whatever has `next_deadline` and `on_deadline`
        self._partitions: dict[
            tuple[str, int], PartitionLog
        ] = {}  # those that have been asked for since they last changed

    # -- life

    def start(self, now: int) -> None:
        """Read what is on disk; afterwards requests can be served."""
        from pykafka_broker.broker.metadata_publisher import MetadataPublisher

        self.logs = LogManager(
            self.fs,
            self.config,
            new_uuid=self.new_uuid,
            topic_config=self.topic_config,
            submit=self.submit,
            thread_pool=self.thread_pool,
        )
        self.logs.on_offline = self._forget_lost
        self.logs.on_committed = self.purgatory.touch
        self.logs.start(now, with_metadata=True)
        self._with_deadlines(self.logs)
        self.metadata = MetadataPublisher(self)
        self.metadata.start(now)
        self._with_deadlines(self.metadata)
        if TRANSACTION_STATE in self.image.topics:
            self.transactions.start(now)
        if CONSUMER_OFFSETS in self.image.topics:
            self.groups.start(now)
        if SHARE_GROUP_STATE in self.image.topics:
            self.shares.start(now)

    def stop_jobs(self) -> None:
        """Before the jobs beside the loop are waited for: end those that would take long."""
        if "logs" in self.__dict__:
            self.logs.stop_jobs()

    def stop(self, now: int) -> None:
        """Write checkpoints and, last of all, the clean-shutdown marker."""
        self.logs.shutdown(now)

    @cached_property
    def groups(self) -> GroupHost:
        """The group coordinator; made at its first use, so that a broker without groups does not pay for it."""
        from pykafka_broker.broker.group_host import GroupHost

        return self._with_deadlines(GroupHost(self))

    @cached_property
    def transactions(self) -> TransactionHost:
        """The transaction coordinator; made at its first use."""
        from pykafka_broker.broker.transaction_host import TransactionHost

        return self._with_deadlines(TransactionHost(self))

    @cached_property
    def shares(self) -> ShareHost:
        """The share coordinator and the share partitions; made at their first use."""
        from pykafka_broker.broker.share_host import ShareHost

        return self._with_deadlines(ShareHost(self))

    # -- metadata

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    @property
    def cluster_id(self) -> str:
        return self.logs.cluster_id

    def commit_metadata(self, records: list[ApiMessageAndVersion], now: int) -> MetadataDelta:
        """Append records to `__cluster_metadata-0`, apply them to the image, and act on what they changed."""
        return self.metadata.commit(records, now)

    def topic_name(self, topic_id: bytes) -> str:
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic.name

    def topic_config(self, topic: str) -> TopicConfig:
        """The topic's settings over the broker's defaults."""
        return self.metadata.topic_config(topic)

    def is_internal(self, topic: str) -> bool:
        return topic in INTERNAL_TOPICS

    def advertised(self, context: RequestContext) -> tuple[str, int]:
        """Where this client is told to find this node: at the address that it dialled, unless `advertised.listeners`
        says otherwise.
        """
        listener = self.listeners.get(context.connection.listener)
        if listener is not None and listener.advertised is not None:
            host, port = listener.advertised
            return host, port
        return context.connection.local_host, context.connection.local_port

    # -- partitions

    def partition_log(self, topic: str, partition: int) -> PartitionLog:
        """The log of a partition that this node leads."""
        found = self._partitions.get((topic, partition))
        if found is not None:
            return found
        image = self.image.partition(topic, partition)
        if image is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self.logs.exists(topic, partition):
            log = self.logs.get(topic, partition)
        else:  # there was no room for it when the topic was made
            log = self.metadata.create_log(topic, partition)
        if log.topic_id != self.image.topic_id(topic):  # that of a topic deleted while its directory was away
            log = self.metadata.create_log(topic, partition)
        log.leader_epoch = image.leader_epoch
        self._partitions[topic, partition] = log
        return log

    def verify_transactional_produce(
        self, context: RequestContext, request: ProduceRequest, header: BatchHeader, topic: str, partition: int
    ) -> bool:
        """Whether the coordinator vouches for this partition being part of the producer's transaction (KIP-890)."""
        return self.transactions.verify_produce(
            request.transactional_id,
            header.producer_id,
            header.producer_epoch,
            topic,
            partition,
            context.api_version,
            context.now,
            header.base_sequence,
        )

    def forget_partition(self, topic: str, partition: int) -> None:
        """The partition was deleted, moved or failed: whoever waits for it finds out."""
        log = self._partitions.pop((topic, partition), None)
        if log is not None:
            self.purgatory.touch(log)

    def _forget_lost(self, directory: LogDirectory, lost: list[tuple[str, int]]) -> None:
        for topic, partition in lost:
            self.forget_partition(topic, partition)
        if "metadata" in self.__dict__:
            self.metadata.replicas.directories_changed()
        if self.on_useless is not None and not any(each.online for each in self.logs.partition_directories):
            self.on_useless()

    def require_insync_replicas(self, topic: str, partition: int, wanted: int) -> None:
        """`min.insync.replicas`, for acks=all."""
        image = self.image.partition(topic, partition)
        if image is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        # Kafka never asks for more replicas than the partition has (KIP-966).
        if len(image.isr) < min(wanted, len(image.replicas)):
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

    # -- time, driven by the server

    def settle(self, now: int) -> None:
        self.purgatory.settle(now)

    def _with_deadlines(self, machine: _Machine) -> _Machine:
        """Drive its deadlines from now on."""
        self._timed.append(machine)
        return machine

    def next_deadline(self) -> int | None:
        """Epoch milliseconds at which something is due. Asked after every request: it must cost next to nothing."""
        earliest: int | None = None
        for machine in self._timed:
            due = machine.next_deadline()
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        return earliest

    def on_deadline(self, now: int) -> None:
        for machine in self._timed:
            due = machine.next_deadline()
            if due is not None and due <= now:
                machine.on_deadline(now)

    def connection_closed(self, connection: ConnectionContext) -> None:
        """A client has gone; coordinators that care are told. They act on it at their next deadline."""
        if "shares" in self.__dict__:
            self.shares.connection_closed(connection)
