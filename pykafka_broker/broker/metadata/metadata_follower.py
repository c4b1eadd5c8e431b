"""The metadata on a node whose controllers are other nodes: the node observes their quorum.

Rule: the image holds committed records alone, and changes are delivered in the order of the log. The active controller
decides: this node asks for a decision, changes nothing by itself, and reads the outcome in the log.

A client's request goes to the controller in an Envelope (KIP-590): as the client sent it, with its own header, the
client's principal and address; the answer is the controller's. Requests from inside the process go as this node's own.
The client waits no longer than the request allows.

A request is sent again, to the same controller or the next one, while there is time, if no active controller is known,
the connection is lost, or the node that was asked is not active. A request that takes the controller long delays no
other kind: each API has a connection of its own, save that heartbeats follow the registration.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

from pykafka_broker.broker.metadata.metadata_source import Decide, MetadataSource, OnRefused, Q, Quorum
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.waiting.future import DONE, Answer, Future, R, caught
from pykafka_broker.clock import Clock, earliest_deadline
from pykafka_broker.cluster.authorizer import INSIDE
from pykafka_broker.cluster.controller import Controller
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
from pykafka_broker.peers import (
    Address,
    Ask,
    LinkError,
    LinkTimeout,
    NotServed,
    OnReply,
    Peer,
    Peers,
    Unsendable,
    Versions,
    deliver,
)
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from pykafka_broker.protocol.messages.default_principal_data import DefaultPrincipalData
from pykafka_broker.protocol.messages.envelope_request import EnvelopeRequest
from pykafka_broker.protocol.messages.envelope_response import EnvelopeResponse
from pykafka_broker.protocol.messages.request_header import RequestHeader
from pykafka_broker.protocol.messages.response_header import ResponseHeader
from pykafka_broker.protocol.runtime import ZERO_UUID, DecodeError, Message, Pieces

logger = logging.getLogger(__name__)

_CREATION_MS = 30_000
_RETRY_MS = 50  # of a request whose controller was not there
_FORWARDED_MS = 30_000  # for a client's request without a timeout of its own
_PRINCIPAL_VERSION = Struct(">h")
_SHARED = {ApiKey.BROKER_REGISTRATION: ApiKey.BROKER_HEARTBEAT}  # APIs that use the connection of another


class _QueuedRequest(NamedTuple):
    """A request with the receiver and the deadline of the answer."""

    request: Message
    on_reply: OnReply
    deadline: int


class NodeToControllerChannel:
    """The requests of a broker to the active controller (Kafka: NodeToControllerChannelManager).

    client_id: the broker's id, as Kafka's brokers have it.
    """

    def __init__(self, peers: Peers, clock: Clock, client_id: str) -> None:
        self._peers = peers
        self._clock = clock
        self._client_id = client_id
        self._address: Address | None = None  # of the active controller
        self._open: dict[int, Peer] = {}  # by API key
        self._waiting: list[_QueuedRequest] = []
        self._retry_at: int | None = None
        self._closed = False

    def ask(self, request: Message, on_reply: OnReply, timeout_ms: int) -> None:
        """Send a request. `on_reply` is called once, later; with a `LinkTimeout` when the time is over."""
        self._send(_QueuedRequest(request, on_reply, self._clock.now + timeout_ms))

    def served(self, api_key: int) -> Versions | None:
        """Return the versions of an API served by the active controller; None if unknown."""
        for peer in self._open.values():
            versions = peer.served(api_key)
            if versions is not None:
                return versions
        return None

    def use_controller(self, address: Address) -> None:
        """Send requests to a controller, until another is known to be active."""
        if address == self._address:
            return
        self._address = address
        for peer in self._open.values():
            peer.close()  # waiting requests fail, and are sent again
        self._open.clear()
        self._send_queued()

    def close(self) -> None:
        """Drop all requests; nobody gets an answer any more."""
        self._closed = True
        self._waiting.clear()
        for peer in self._open.values():
            peer.close()
        self._open.clear()

    # -- time

    def next_deadline(self) -> int | None:
        if not self._waiting:
            return None
        earliest = min(queued.deadline for queued in self._waiting)
        return earliest if self._retry_at is None else min(earliest, self._retry_at)

    def on_deadline(self, now: int) -> None:
        late = [queued for queued in self._waiting if queued.deadline <= now]
        if late:
            self._waiting = [queued for queued in self._waiting if queued.deadline > now]
            for queued in late:
                deliver(queued.on_reply, LinkTimeout("no active controller was reached in time", sent=False))
        if self._retry_at is not None and self._retry_at <= now:
            self._retry_at = None
            self._send_queued()

    # -- asking

    def _send_queued(self) -> None:
        if self._address is None:
            return
        waiting, self._waiting = self._waiting, []
        for queued in waiting:
            self._send(queued)

    def _send(self, queued: _QueuedRequest) -> None:
        if self._closed:
            return
        left_ms = queued.deadline - self._clock.now
        if self._address is None or left_ms <= 0:
            self._waiting.append(queued)
            return
        try:
            self._peer(queued.request.API_KEY, self._address).send(
                queued.request, partial(self._on_reply, queued), left_ms, copied=True
            )
        except LinkError:
            self._retry(queued)

    def _peer(self, api_key: int, address: Address) -> Peer:
        purpose = _SHARED.get(ApiKey(api_key), api_key)
        peer = self._open.get(purpose)
        if peer is None:
            peer = self._open[purpose] = self._peers.open(address, self._client_id)
        return peer

    def _on_reply(self, queued: _QueuedRequest, reply: Message | LinkError) -> None:
        if self._closed:
            return
        is_broken = isinstance(reply, LinkError) and not isinstance(reply, NotServed | Unsendable | LinkTimeout)
        if is_broken or getattr(reply, "error_code", None) == ErrorCode.NOT_CONTROLLER:
            self._retry(queued)
        else:
            deliver(queued.on_reply, reply)

    def _retry(self, queued: _QueuedRequest) -> None:
        self._waiting.append(queued)
        if self._retry_at is None:
            self._retry_at = self._clock.now + _RETRY_MS


class MetadataFollower(MetadataSource):
    """The metadata of an observer of the quorum. on_refused: called with the reason why this node can't go on."""

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
        self.checks = Controller(self.image, config, config.node, new_uuid)  # checks changes of this broker's configs
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
        """Apply committed records."""
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
        """Return the part of a range of versions served by the active controller, as far as known."""
        served = self._controller.served(api_key)
        return (lowest, highest) if served is None else (max(lowest, served[0]), min(highest, served[1]))

    def create_topics(
        self, topics: list[CreatableTopic], context: RequestContext | None = None, on_refused: OnRefused | None = None
    ) -> list[CreatableTopicResult]:
        """Ask the controller for topics, in the name of the client, and return results without errors at once.

        Until the log has the new topics, clients hear that a coordinator is not available, or that a topic is unknown.
        """
        wanted = [topic for topic in topics if topic.name not in self._being_created]
        names = [topic.name for topic in wanted]
        self._being_created.update(names)

        def created(reply: Message | LinkError) -> None:
            self._being_created.difference_update(names)
            refused = _refused(reply)
            if on_refused is not None:
                on_refused(refused)

        if wanted:
            request = CreateTopicsRequest(wanted, _CREATION_MS)
            if context is None:
                self.ask(request, created, _CREATION_MS)
            else:
                self._create_for(context, request, created)
        return [CreatableTopicResult(topic.name) for topic in topics]

    def _create_for(self, context: RequestContext, request: CreateTopicsRequest, created: OnReply) -> None:
        """Ask for topics as the client of another request."""
        lowest, highest = SPECS[ApiKey.CREATE_TOPICS].min_version, SPECS[ApiKey.CREATE_TOPICS].stable_max_version
        _, version = self.narrowed(ApiKey.CREATE_TOPICS, lowest, highest)
        connection, client_id = context.connection, context.client_id
        creating = RequestContext(
            ApiKey.CREATE_TOPICS, version, context.correlation_id, client_id, connection, context.now
        )
        self.relay(creating, request).add_done_callback(
            lambda answer: created(answer.result() if answer.error is None else LinkError(str(answer.error)))
        )

    # -- time

    def next_deadline(self) -> int | None:
        return earliest_deadline((self._observer, self._controller, self.snapshots))

    def on_deadline(self, now: int) -> None:
        for machine in (self._observer, self._controller, self.snapshots):
            due = machine.next_deadline()
            if due is not None and due <= now:
                machine.on_deadline(now)


def _refused(reply: Message | LinkError) -> list[CreatableTopicResult]:
    """Return the topics that the controller has refused to create, and log them, unless it is for a quota."""
    if isinstance(reply, LinkError):
        logger.warning("a topic was not created: %s", reply)
        return []
    assert isinstance(reply, CreateTopicsResponse)
    refused = [topic for topic in reply.topics if topic.error_code not in (0, ErrorCode.TOPIC_ALREADY_EXISTS)]
    for topic in refused:
        if topic.error_code != ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            reason = topic.error_message or ErrorCode(topic.error_code).name
            logger.warning("topic %s was not created: %s", topic.name, reason)
    return refused


# -- requests of clients, forwarded


def forward(ask: Ask, context: RequestContext, request: Message) -> Future[Message]:
    """Return the future of the controller's answer to a client's request."""
    answer: Future[Message] = Future()
    is_own = context.connection.principal == INSIDE

    def arrived(reply: Message | LinkError) -> None:
        try:
            if isinstance(reply, LinkError):
                is_served = not isinstance(reply, NotServed | Unsendable)
                raise ApiError(ErrorCode.REQUEST_TIMED_OUT if is_served else ErrorCode.UNSUPPORTED_VERSION)
            answer.complete(reply if is_own else _answer_in(context, reply))
        except ApiError as error:
            answer.fail(caught(error))

    asked_ms = getattr(request, "timeout_ms", 0)
    timeout_ms = asked_ms if asked_ms > 0 else _FORWARDED_MS
    ask(request if is_own else sealed(context, request), arrived, timeout_ms)
    return answer


def sealed(context: RequestContext, request: Message) -> EnvelopeRequest:
    """Return the request in an envelope: with its header, the client's principal and address."""
    spec, version, connection = SPECS[context.api_key], context.api_version, context.connection
    pieces: Pieces = []
    header = RequestHeader(context.api_key, version, context.correlation_id, context.client_id)
    header.write(spec.request_header_version(version), pieces.append)
    request.write(version, pieces.append)
    kind, _, name = connection.principal.partition(":")
    principal = DefaultPrincipalData(kind, name, connection.by_token)
    import ipaddress  # 0.3 MB that a broker without clients does without

    address = ipaddress.ip_address(connection.client_host.partition("%")[0]).packed
    return EnvelopeRequest(b"".join(pieces), _PRINCIPAL_VERSION.pack(0) + principal.encode(0), address)


def _answer_in(context: RequestContext, envelope: Message) -> Message:
    """Return the answer to the client. Raises ApiError if the controller has not served the request."""
    assert isinstance(envelope, EnvelopeResponse)
    if envelope.error_code == ErrorCode.UNSUPPORTED_VERSION:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if envelope.error_code or envelope.response_data is None:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    spec, version = SPECS[context.api_key], context.api_version
    try:
        _, body = ResponseHeader.read(envelope.response_data, 0, spec.response_header_version(version))
        return spec.response_class().decode(memoryview(envelope.response_data)[body:], version)
    except DecodeError:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR) from None
