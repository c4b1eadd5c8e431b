"""The metadata of a node, and the way to the controller that decides about it.

Rule: append, apply, deliver, one change after the other. Only records in the log change the image; the receiver of a
delivery acts on them. A delivery may bring further changes; they are in the image at once and are delivered next.

`MetadataSource` is what both kinds of nodes have. `MetadataLeader` leads `__cluster_metadata-0` and so has the active
controller in its process (a quorum of one voter, KIP-500); for `MetadataFollower` see `metadata_follower.py`.

`ProducerIdManager` hands out producer ids from blocks that the controller gives (KIP-730): an id is handed out once in
the life of the cluster, and the rest of a block is lost when the broker stops.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.waiting.future import DONE, Answer, Future, R, when_committed
from pykafka_broker.clock import Clock
from pykafka_broker.cluster import bootstrap
from pykafka_broker.cluster.controller import (
    Controller,
    Decision,
    broker_record_version,
    partition_record_version,
    unlimited,
)
from pykafka_broker.cluster.features import METADATA_VERSION, abilities
from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
from pykafka_broker.cluster.metadata_log import MetadataLog
from pykafka_broker.cluster.records import ApiMessageAndVersion, MetadataError
from pykafka_broker.cluster.snapshot import SnapshotKeeper
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA
from pykafka_broker.config import BrokerConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import LOCK
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.jobs import Submit
from pykafka_broker.log.log_directory import LogDirectoryError
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.scan import DamagedLog, remedy
from pykafka_broker.peers import Address, Ask, LinkError, OnReply, deliver
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import Message

if TYPE_CHECKING:
    from pykafka_broker.log.flush import Waiter
    from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic
    from pykafka_broker.protocol.messages.create_topics_response import CreatableTopicResult

logger = logging.getLogger(__name__)

_BLOCK_TIMEOUT_MS = 30_000
_LOW_PART = 0.1  # of a block of producer ids: the next block is asked for
Deliver = Callable[[MetadataDelta], None]
OnRefused: TypeAlias = "Callable[[list[CreatableTopicResult]], None]"
Q = TypeVar("Q")  # a request
Decide = Callable[[Controller, RequestContext, Q], Decision[R]]


class Quorum(NamedTuple):
    """The quorum of the metadata log (KIP-595). `voter_directory_id` is zero while kraft.version is 0."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voter_directory_id: bytes


class MetadataSource(ABC):
    """The metadata of the node: the image, the log behind the image, and the way to the controller.

    Changes are delivered in the order of the log; a receiver must not raise.
    """

    log: MetadataLog
    snapshots: SnapshotKeeper

    def __init__(self, config: BrokerConfig, clock: Clock, fs: FileSystem, logs: LogManager, submit: Submit) -> None:
        self.image = MetadataImage()
        self._config = config
        self._clock = clock
        self._fs = fs
        self._logs = logs
        self._submit = submit
        self._deliver: Deliver

    # -- the log

    def load(self, deliver: Deliver) -> MetadataDelta:
        """Read the metadata on disk, and return the difference to an empty image.

        Args:
            deliver: takes every change from now on.

        Raises:
            LogDirectoryError: the metadata is damaged, of a newer release, or on a disk that takes no more records.
        """
        self._deliver = deliver
        logs, clock = self._logs, self._clock
        log = logs.metadata_log(clock.now)
        directory = logs.directory_of((CLUSTER_METADATA, 0))
        assert directory is not None
        self.log = self._open(log, directory.id)
        self.snapshots = SnapshotKeeper(
            self.log,
            self._fs,
            self._config,
            submit=self._submit,
            flush=lambda now, waiter: logs.flush(log, now, waiter),
            records=self._image_records,
            clock=clock,
        )
        try:
            loaded = self.log.load(self.image)
            self._check_metadata_version(directory.path)
            self._begin(directory.path)
        except (MetadataError, DamagedLog) as error:
            raise LogDirectoryError(f"{error}; {remedy(directory.path)}") from error
        except ApiError as error:
            raise LogDirectoryError(f"the metadata log can't be written: {error.message}") from error
        return loaded

    def _check_metadata_version(self, path: str) -> None:
        """Refuse metadata of a newer release, whose records may say what this broker does not know, as Kafka does."""
        level, highest = self.image.features.get(METADATA_VERSION, 0), abilities(self._config)[METADATA_VERSION][1]
        if level > highest:
            raise LogDirectoryError(
                f"{path} has metadata.version {level}, and this broker supports levels up to {highest}: the directory "
                "belongs to a newer Kafka, or to a broker with --emulate of a newer release"
            )

    @abstractmethod
    def _open(self, log: PartitionLog, directory_id: bytes) -> MetadataLog:
        """Return the metadata log over the log of the partition."""

    @abstractmethod
    def _begin(self, directory: str) -> None:
        """Lead or follow the log, after the load. `directory`: the path of the log's directory."""

    def _image_records(self) -> Iterable[ApiMessageAndVersion]:
        from pykafka_broker.cluster.image_records import image_records  # few starts write a snapshot

        return image_records(self.image, partition_record_version(self.image), broker_record_version(self.image))

    @property
    def applied_offset(self) -> int:
        """The offset of the newest record in the image."""
        return self.log.applied_end - 1

    @property
    def kraft_version(self) -> int:
        """The level of the quorum's own feature, not the controller's (KIP-853)."""
        return self.log.kraft_version

    @property
    @abstractmethod
    def quorum(self) -> Quorum:
        """The quorum of now."""

    @abstractmethod
    def committed(self) -> Future[None]:
        """Return the future of the newest change being committed."""

    # -- the controller

    @abstractmethod
    def submit(self, context: RequestContext, request: Q, decide: Decide[Q, R]) -> Answer[R]:
        """Return the controller's answer to a client's request, or the future of the answer.

        Raises what is wrong with the whole request.
        """

    @abstractmethod
    def ask(self, request: Message, on_reply: OnReply, timeout_ms: int) -> None:
        """Bring a request of the broker itself to the active controller.

        While there is time, a controller that is not active any more, or can't be reached, is left for the next one.
        `on_reply` is called once, by a controller in this process before this method returns. The records that its
        answer tells of are there for good when `committed` is done.
        """

    @abstractmethod
    def create_topics(
        self, topics: list[CreatableTopic], context: RequestContext | None = None, on_refused: OnRefused | None = None
    ) -> list[CreatableTopicResult]:
        """Create topics; the image has the topics afterwards, or soon, or a result says why not.

        Args:
            context: of the client's request that needs the topics, whose quota counts; None for the broker itself.
            on_refused: called with the refusals of a controller on another node, once they come.
        """

    @abstractmethod
    def reconfigure(self, config: BrokerConfig) -> None:
        """Decide by other settings from now on."""

    # -- time

    @abstractmethod
    def next_deadline(self) -> int | None: ...

    @abstractmethod
    def on_deadline(self, now: int) -> None: ...


class MetadataLeader(MetadataSource):
    """The leader of the metadata log with the controller, a quorum of a single voter."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        fs: FileSystem,
        logs: LogManager,
        *,
        new_uuid: Callable[[], bytes],
        submit: Submit,
    ) -> None:
        super().__init__(config, clock, fs, logs, submit)
        self.controller = Controller(self.image, config, config.node, new_uuid)
        # By API key: what only a controller of several nodes decides.
        self.decisions: dict[int, Callable[[Controller, Any], Decision[Any]]] = {}
        self.voter_endpoints: Sequence[Address] = ()  # where others reach this controller
        self.on_synced: Waiter | None = None  # called with the outcome of each sync of the log
        self._undelivered: deque[MetadataDelta] = deque()
        self._later: deque[Callable[[], None]] = deque()
        self._appending = self._delivering = False

    def _open(self, log: PartitionLog, directory_id: bytes) -> MetadataLog:
        return MetadataLog(log, self._fs, self._config.node, directory_id)

    def _begin(self, directory: str) -> None:
        """Begin to lead, and make the first records of a new cluster."""
        self.log.lead(self._clock.wall)
        self.controller.kraft_version = self.log.kraft_version
        self.controller.ignores_case = self._fs.exists(f"{directory}/{LOCK.upper()}")  # there is one in lower case
        if not self.image.features:
            first = bootstrap.bootstrap_records(self._fs, directory, self._clock.wall, self.controller.config)
            self.commit(bootstrap.first_records(self.controller, first))

    def reconfigure(self, config: BrokerConfig) -> None:
        self.controller.config = config

    def ask(self, request: Message, on_reply: OnReply, timeout_ms: int) -> None:
        try:
            decision = self.decide(request)
            self.commit(decision.records)
            reply = decision.reply
        except ApiError as error:
            response = SPECS[ApiKey(request.API_KEY)].response_class()
            reply = response.failed(request, error.code, error.message, response.MAX_VERSION)
        deliver(on_reply, reply)

    def decide(self, request: Message) -> Decision[Any]:
        """Return the controller's decision on a request of a broker. Raises ApiError to refuse."""
        decide = self.decisions.get(request.API_KEY) or _decision_function(request)
        return decide(self.controller, request)

    # -- changes

    def submit(self, context: RequestContext, request: Q, decide: Decide[Q, R]) -> Answer[R]:
        decision = decide(self.controller, context, request)
        self.commit(decision.records)
        if decision.kraft_version:
            self._raise_kraft_version(decision.kraft_version)
        return when_committed(decision.reply, self.committed())

    def commit(self, records: Sequence[ApiMessageAndVersion]) -> None:
        """Append `records` as a batch, apply and deliver the change; the sync runs beside the event loop.

        If the disk refuses the records nothing has changed and the error is raised.
        """
        if not records:
            return
        delta = MetadataDelta()
        self._appending = True
        try:
            self.log.append(records, self._clock.wall)
            self._logs.flush(self.log.log, self._clock.now, self.on_synced)
            self.log.apply([record.message for record in records], self.image, delta)
            self._undelivered.append(delta)
        finally:
            self._appending = False
            self._deliver_all()
        self.snapshots.on_commit(self._clock.now)

    def _raise_kraft_version(self, level: int) -> None:
        """Write the voter, which stood in the configuration, into the log. Raises KAFKA_STORAGE_ERROR."""
        from pykafka_broker.cluster.formatting import voter, voters_record
        from pykafka_broker.cluster.snapshot import Voters

        record = voters_record([voter(self.controller.node_id, self.log.directory_id, self.voter_endpoints)])
        self._appending = True
        try:
            self.log.raise_kraft_version(Voters(level, record), self._clock.wall)
            self._logs.flush(self.log.log, self._clock.now, self.on_synced)
            self.controller.kraft_version = level
            self.image.generation += 1  # answers that tell of features are made anew
        finally:
            self._appending = False
            self._deliver_all()

    def _deliver_all(self) -> None:
        if self._delivering:
            return  # the delivery under way continues with this one
        self._delivering = True
        try:
            while self._undelivered or self._later:
                if self._undelivered:
                    self._deliver(self._undelivered.popleft())
                else:
                    self._later.popleft()()
        finally:
            self._delivering = False

    def soon(self, action: Callable[[], None]) -> None:
        """Call `action` when no change is under way: now, or right after the present change.

        For events in the middle of a change, as a disk that fails.
        """
        self._later.append(action)
        if not self._appending:
            self._deliver_all()

    def create_topics(
        self, topics: list[CreatableTopic], context: RequestContext | None = None, on_refused: OnRefused | None = None
    ) -> list[CreatableTopicResult]:
        from pykafka_broker.cluster.topics import create_topics
        from pykafka_broker.protocol.messages.create_topics_request import CreateTopicsRequest
        from pykafka_broker.protocol.messages.create_topics_response import CreatableTopicResult

        spend = unlimited if context is None else context.spending()
        decision = create_topics(self.controller, CreateTopicsRequest(topics), 0, spend=spend)
        try:
            self.commit(decision.records)
        except ApiError as error:
            code, message = error.code, error.message
            return [CreatableTopicResult(topic.name, error_code=code, error_message=message) for topic in topics]
        return decision.reply.topics

    # -- the quorum

    @property
    def quorum(self) -> Quorum:
        log = self.log
        return Quorum(self._config.node, log.epoch, log.last_offset + 1, log.voter_directory_id)

    # -- what is committed

    def committed(self) -> Future[None]:
        """Return the future of the present log being committed: synced, as the voter is alone."""
        log = self.log.log
        if log.recovery_point >= log.log_end_offset:
            return DONE
        future: Future[None] = Future()
        self._logs.flush(log, self._clock.now, partial(_synced, future))
        return future

    # -- time

    def next_deadline(self) -> int | None:
        left = (self._undelivered or self._later) and not self._delivering  # for later, or by a defect
        return 0 if left else self.snapshots.next_deadline()

    def on_deadline(self, now: int) -> None:
        self._deliver_all()
        self.snapshots.on_deadline(now)


def _decision_function(request: Message) -> Callable[[Controller, Any], Decision[Any]]:
    """Return the function for a request of a broker that every controller decides on."""
    match request.API_KEY:
        case ApiKey.ALLOCATE_PRODUCER_IDS:
            from pykafka_broker.cluster.registration import allocate_producer_ids

            return allocate_producer_ids
        case ApiKey.ASSIGN_REPLICAS_TO_DIRS:
            from pykafka_broker.cluster.replication_control import assign_replicas_to_dirs

            return assign_replicas_to_dirs
        case ApiKey.ALTER_PARTITION:
            from pykafka_broker.cluster.replication_control import alter_partition

            return alter_partition
    raise AssertionError(f"no controller decides on {type(request).__name__}")


def _synced(future: Future[None], error: OSError | None) -> None:
    if error is None:
        future.complete(None)
    else:
        future.fail(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror))


# -- producer ids


class ProducerIdManager:
    """The producer ids of a broker (Kafka: ProducerIdManager).

    Args:
        broker_id: the id of the broker.
        broker_epoch: returns the epoch of the broker's registration.
        ask: brings a request to the controller. A controller in this process answers before `ask` returns.
    """

    def __init__(self, broker_id: int, broker_epoch: Callable[[], int], ask: Ask) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._ask = ask
        self._block = range(0)  # ids of the current block that are left
        self._ask_below = 0.0  # with fewer ids than that the next block is asked for
        self._next_block: range | None = None
        self._asking = False
        self._refusal = ""  # logged once: each try of a client asks again

    def prepare(self) -> None:
        """Ask for the first block, so the first producer need not come twice."""
        if not self._block and self._next_block is None:
            self._ask_for_block()

    def next_id(self) -> int:
        """Return an unused producer id.

        Raises:
            ApiError: COORDINATOR_LOAD_IN_PROGRESS while there is no block: the client comes again.
        """
        if self._next_block is None and len(self._block) <= self._ask_below:
            self._ask_for_block()
        if not self._block:
            if self._next_block is None:
                raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            self._block, self._next_block = self._next_block, None
            self._ask_below = len(self._block) * _LOW_PART
        producer_id, self._block = self._block[0], self._block[1:]
        return producer_id

    def _ask_for_block(self) -> None:
        if self._asking:
            return
        from pykafka_broker.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest

        self._asking = True  # a start without producers does not import the message
        self._ask(AllocateProducerIdsRequest(self._broker_id, self._broker_epoch()), self._on_reply, _BLOCK_TIMEOUT_MS)

    def _on_reply(self, reply: Message | LinkError) -> None:
        from pykafka_broker.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse

        self._asking = False
        if not isinstance(reply, AllocateProducerIdsResponse):
            self._refused(str(reply))
        elif reply.error_code:
            self._refused(ErrorCode(reply.error_code).name)
        elif reply.producer_id_len > 0:
            self._refusal = ""
            self._next_block = range(reply.producer_id_start, reply.producer_id_start + reply.producer_id_len)

    def _refused(self, why: str) -> None:
        if why != self._refusal:
            logger.warning("no producer ids: %s", why)
        self._refusal = why
