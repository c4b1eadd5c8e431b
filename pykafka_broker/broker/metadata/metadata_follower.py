"""The metadata on a node whose controllers are other nodes: the node observes their quorum.

Rule: the image holds committed records alone, and changes are delivered in the order of the log. The active controller
decides: this node asks for a decision, changes nothing by itself, and reads the outcome in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pykafka_broker.broker.channels.controller_channel import NodeToControllerChannel
from pykafka_broker.broker.metadata.metadata_source import Decide, MetadataSource, Q, Quorum
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.forwarding import forward
from pykafka_broker.broker.waiting.future import DONE, Answer, Future, R
from pykafka_broker.clock import Clock
from pykafka_broker.cluster.controller import Controller, Spend, unlimited
from pykafka_broker.cluster.image import MetadataImage, become
from pykafka_broker.cluster.raft.observer import FollowedLog, Leader, Observer
from pykafka_broker.cluster.records import MetadataError
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.roles import Roles
from pykafka_broker.errors import ApiError
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.jobs import Submit
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.peers import LinkError, OnReply, Peers
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from pykafka_broker.protocol.runtime import ZERO_UUID, Message

logger = logging.getLogger(__name__)

_CREATION_MS = 30_000


class MetadataFollower(MetadataSource):
    """The metadata as an observer of the quorum reads it.

    on_refused: called with the reason why this node can't go on.
    """

    log: FollowedLog

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
        super().__init__(config, clock, fs, logs, submit)
        self.checks = Controller(self.image, config, config.node, new_uuid)  # for changes of this broker's configs
        self.on_refused: Callable[[str], None] = logger.critical
        self._roles = roles
        self._peers = peers
        self._controller = NodeToControllerChannel(peers, clock, str(config.node))
        self._observer: Observer
        self._observes = False
        self._being_created: set[str] = set()

    # -- life

    def _open(self, log: PartitionLog, directory_id: bytes) -> FollowedLog:
        return FollowedLog(log, self._fs, self._config.node, directory_id, list(self._roles.voters))

    def _begin(self, directory: str) -> None:
        """Begin to observe."""
        self._observer = Observer(self.log, self._peers, self._clock, self._config, self._roles, self._logs.cluster_id)
        self._observes = True
        self._observer.start(self)

    def close(self) -> None:
        """Send no more requests. A call is safe even if the start failed before the node began to observe."""
        if self._observes:
            self._observer.close()
        self._controller.close()

    def reconfigure(self, config: BrokerConfig) -> None:
        self.checks.config = config

    # -- what the observer tells

    def on_leader(self, leader: Leader | None) -> None:
        if leader is not None:
            self._controller.use_controller(leader.address)

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
        """Replace the image by the snapshot downloaded from the leader."""
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

    # -- the present state

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
        """Return the future of the active controller's answer to a request."""
        return forward(self.ask, context, request)

    def ask(self, request: Message, on_reply: OnReply, timeout_ms: int) -> None:
        self._controller.ask(request, on_reply, timeout_ms)

    def narrowed(self, api_key: int, lowest: int, highest: int) -> tuple[int, int]:
        """Return the versions from `lowest` to `highest` that the active controller serves too, as far as known."""
        served = self._controller.served(api_key)
        return (lowest, highest) if served is None else (max(lowest, served[0]), min(highest, served[1]))

    def create_topics(self, topics: list[CreatableTopic], spend: Spend = unlimited) -> list[CreatableTopicResult]:
        """Ask the controller for topics, and return results without errors at once.

        Until the log has the new topics, clients hear that a coordinator is not available, or that a topic is unknown.
        """
        wanted = [topic for topic in topics if topic.name not in self._being_created]
        names = [topic.name for topic in wanted]
        self._being_created.update(names)

        def created(reply: Message | LinkError) -> None:
            self._being_created.difference_update(names)
            _log_failures(reply)

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


def _log_failures(reply: Message | LinkError) -> None:
    if isinstance(reply, LinkError):
        logger.warning("a topic was not created: %s", reply)
        return
    assert isinstance(reply, CreateTopicsResponse)
    for topic in reply.topics:
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            reason = topic.error_message or ErrorCode(topic.error_code).name
            logger.warning("topic %s was not created: %s", topic.name, reason)
