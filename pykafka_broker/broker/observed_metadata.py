"""The metadata on a node whose controllers are other nodes: it observes their quorum.

Rule: the image holds what is committed, and is changed and delivered in the order of the log. What only a controller
decides is asked of the active one; this node changes nothing by itself, and finds what has become of it in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.controller_line import ControllerLine
from pykafka_broker.broker.forwarding import forward
from pykafka_broker.broker.metadata_source import Decide, Deliver, Q, Quorum
from pykafka_broker.broker.waiting import DONE, Answer, Future, R
from pykafka_broker.clock import Clock
from pykafka_broker.cluster.controller import (
    Controller,
    Spend,
    broker_record_version,
    partition_record_version,
    unlimited,
)
from pykafka_broker.cluster.image import MetadataDelta, MetadataImage, become
from pykafka_broker.cluster.image_records import image_records
from pykafka_broker.cluster.raft.followed_log import FollowedLog
from pykafka_broker.cluster.raft.observer import Leader, Observer
from pykafka_broker.cluster.records import ApiMessageAndVersion, MetadataError
from pykafka_broker.cluster.snapshot_keeper import SnapshotKeeper
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.roles import Roles
from pykafka_broker.errors import ApiError
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.jobs import Submit
from pykafka_broker.log.log_directory import LogDirectoryError
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.scan import remedy
from pykafka_broker.peers import LinkError, OnReply, Peers
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from pykafka_broker.protocol.runtime import ZERO_UUID, Message

logger = logging.getLogger(__name__)

_CREATION_MS = 30_000


class ObservedMetadata:
    """`on_refused` hears why this node can't go on."""

    def __init__(
        self,
        config: BrokerConfig,
        roles: Roles,
        clock: Clock,
        fs: FileSystem,
        logs: LogManager,
        peers: Peers,
        *,
        new_uuid: Callable[[], bytes],
        submit: Submit,
    ) -> None:
        self.image = MetadataImage()
        self.log: FollowedLog
        self.snapshots: SnapshotKeeper
        self.checks = Controller(self.image, config, config.node, new_uuid)  # of what is altered of this broker itself
        self.on_refused: Callable[[str], None] = logger.critical
        self._config = config
        self._roles = roles
        self._clock = clock
        self._fs = fs
        self._logs = logs
        self._peers = peers
        self._submit = submit
        self._controller = ControllerLine(peers, clock, str(config.node))
        self._observer: Observer
        self._observes = False
        self._deliver: Deliver
        self._being_created: set[str] = set()

    # -- life

    def load(self, deliver: Deliver) -> MetadataDelta:
        """Read what is on disk and begin to observe. `deliver` hears of every change from now on; returns what has been
        read. `LogDirectoryError` if the metadata is damaged.
        """
        self._deliver = deliver
        logs, clock = self._logs, self._clock
        log = logs.metadata_log(clock.now)
        directory = logs.directory_of((CLUSTER_METADATA, 0))
        assert directory is not None
        self.log = FollowedLog(log, self._fs, self._config.node, directory.id, list(self._roles.voters))
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
        except MetadataError as error:
            raise LogDirectoryError(f"{error}; {remedy(directory.path)}") from error
        self._observer = Observer(self.log, self._peers, clock, self._config, self._roles, logs.cluster_id)
        self._observes = True
        self._observer.start(self)
        return loaded

    def close(self) -> None:
        """Ask nobody any more; also where a start has failed before anybody was asked."""
        if self._observes:
            self._observer.close()
        self._controller.close()

    def reconfigure(self, config: BrokerConfig) -> None:
        self.checks.config = config

    def _image_records(self) -> Iterable[ApiMessageAndVersion]:
        return image_records(self.image, partition_record_version(self.image), broker_record_version(self.image))

    # -- what the observer tells

    def on_leader(self, leader: Leader | None) -> None:
        if leader is not None:
            self._controller.go_to(leader.address)

    def on_progress(self) -> None:
        """Apply what is committed."""
        try:
            delta = self.log.apply_committed()
        except MetadataError as error:
            self.on_refused(str(error))
            return
        except ApiError as error:
            logger.error("the metadata log can't be read: %s", error.message)
            return
        if not delta.is_empty:
            self._deliver(delta)
        self.snapshots.on_commit(self._clock.now)

    def on_snapshot(self) -> None:
        """A snapshot of the leader's takes the place of what was known."""
        newer = MetadataImage()
        try:
            self.log.replace(newer)
        except MetadataError as error:
            self.on_refused(str(error))
            return
        delta = become(self.image, newer)
        self.log.continue_with(self.image)
        self._deliver(delta)

    def on_refusal(self, why: str) -> None:
        self.on_refused(why)

    # -- as it is

    @property
    def applied_offset(self) -> int:
        return self.log.applied_end - 1

    @property
    def kraft_version(self) -> int:
        return self.log.kraft_version

    @property
    def quorum(self) -> Quorum:
        log = self.log
        return Quorum(log.leader_id, log.epoch, log.high_watermark, ZERO_UUID)

    def committed(self) -> Future[None]:
        return DONE  # all that is in the image is committed

    # -- asking

    def submit(self, context: RequestContext, request: Q, decide: Decide[Q, R]) -> Answer[R]:
        assert isinstance(request, Message)
        return self.relay(context, request)

    def relay(self, context: RequestContext, request: Message) -> Future[Any]:
        """To the active controller, and its answer back."""
        return forward(self.ask, context, request)

    def ask(self, request: Message, on_reply: OnReply, timeout_ms: int) -> None:
        self._controller.ask(request, on_reply, timeout_ms)

    def narrowed(self, api_key: int, lowest: int, highest: int) -> tuple[int, int]:
        """Those of these versions that the active controller serves as well, as far as that is known."""
        served = self._controller.served(api_key)
        return (lowest, highest) if served is None else (max(lowest, served[0]), min(highest, served[1]))

    def create_topics(self, topics: list[CreatableTopic], spend: Spend = unlimited) -> list[CreatableTopicResult]:
        """They are there when the log says so: until then a coordinator is not available, and a topic is unknown."""
        wanted = [topic for topic in topics if topic.name not in self._being_created]
        names = [topic.name for topic in wanted]
        self._being_created.update(names)

        def created(reply: Message | LinkError) -> None:
            self._being_created.difference_update(names)
            _tell_of_creation(reply)

        if wanted:
            self.ask(CreateTopicsRequest(wanted, _CREATION_MS), created, _CREATION_MS)
        return [CreatableTopicResult(topic.name) for topic in topics]

    # -- time

    def next_deadline(self) -> int | None:
        earliest = self._observer.next_deadline()
        for due in (self._controller.next_deadline(), self.snapshots.next_deadline()):
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        return earliest

    def on_deadline(self, now: int) -> None:
        for machine in (self._observer, self._controller, self.snapshots):
            due = machine.next_deadline()
            if due is not None and due <= now:
                machine.on_deadline(now)


def _tell_of_creation(reply: Message | LinkError) -> None:
    if isinstance(reply, LinkError):
        logger.warning("a topic was not created: %s", reply)
        return
    assert isinstance(reply, CreateTopicsResponse)
    for topic in reply.topics:
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            reason = topic.error_message or ErrorCode(topic.error_code).name
            logger.warning("topic %s was not created: %s", topic.name, reason)
