"""A broker that has its answers from elsewhere.

Rule: each connection of a client has one of its own to the broker that it was meant for. Requests go on as they are;
of the answers only addresses are changed, and versions that can't be read here are left out. What answers say of topics
and fetch sessions is remembered, since later requests name them by their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import unpack_from
from typing import Any

from pykafka_broker.broker.context import ConnectionContext
from pykafka_broker.broker.purgatory import Purgatory
from pykafka_broker.broker.router import PendingReply
from pykafka_broker.broker.waiting import Future
from pykafka_broker.clock import Clock
from pykafka_broker.config import BrokerConfig
from pykafka_broker.control.proxy.addresses import NAMING, Address, only_known_versions, replace
from pykafka_broker.control.proxy.upstream import Upstream
from pykafka_broker.control.traffic.exchange import Exchange
from pykafka_broker.control.traffic.frames import encoded_response
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import ZERO_UUID, Pieces

_NAMING_TOPICS = frozenset({ApiKey.METADATA, ApiKey.CREATE_TOPICS})
_MOST_SESSIONS = 10_000
Session = dict[tuple[str | bytes, int], None]


class ForwardingBroker:
    """What a `Server` asks of a broker. `connect` opens a connection to an address; `local` says where the proxy
    stands in for one.
    """

    def __init__(
        self,
        clock: Clock,
        connect: Callable[[ConnectionContext], Upstream],
        local: Callable[[Address], Address],
    ) -> None:
        self.config = BrokerConfig({"connections.max.idle.ms": "-1"})
        self.services = self
        self.emulation = None  # that is the other broker's business
        self.quotas = None  # and so are these
        self.purgatory = Purgatory()
        self._clock = clock
        self._connect = connect
        self._local = local
        self._upstreams: dict[int, Upstream] = {}
        self._topics: dict[bytes, str] = {}
        self._sessions: dict[int, Session] = {}

    # -- as a broker

    def settle(self) -> None:
        self.purgatory.settle(self._clock.now)

    def next_deadline(self) -> int | None:
        return self.purgatory.next_deadline()

    def on_deadline(self) -> None:
        self.purgatory.on_deadline(self._clock.now)

    def connection_closed(self, connection: ConnectionContext) -> None:
        upstream = self._upstreams.pop(connection.id, None)
        if upstream is not None:
            upstream.close()

    def check_listeners_by(self, checks: object) -> None:
        """Its own listeners are plain, and nobody alters their settings."""

    # -- as a router

    def dispatch(self, connection: ConnectionContext, frame: memoryview) -> PendingReply | None:
        """Hand it on; the answer comes later."""
        if len(frame) < 8:
            raise FrameError(f"a request of {len(frame)} bytes has no header")
        upstream = self._upstreams.get(connection.id)
        if upstream is None:
            upstream = self._upstreams[connection.id] = self._connect(connection)
        exchange = Exchange((self._clock.wall, connection, bytes(frame), None, 0))
        if exchange.api_key == ApiKey.API_VERSIONS and exchange.request is not None:
            connection.software_name = getattr(exchange.request, "client_software_name", "")
            connection.software_version = getattr(exchange.request, "client_software_version", "")
        if exchange.api_key == ApiKey.PRODUCE and exchange.request is not None and exchange.request.acks == 0:
            upstream.send(exchange.frame, None)
            return None
        reply = ForwardedReply(self, exchange)
        upstream.send(exchange.frame, reply.future)
        return reply

    def answered(self, exchange: Exchange, frame: bytes) -> Pieces:
        """What the client gets of an answer."""
        exchange.answer = [len(frame).to_bytes(4, "big"), frame]
        key, changed = exchange.api_key, False
        if key in NAMING or key in _NAMING_TOPICS or key == ApiKey.API_VERSIONS:
            response = exchange.response
            if response is not None:
                self._learn(exchange, response)
                changed = key in NAMING and replace(response, self._local)
                if key == ApiKey.API_VERSIONS and unpack_from(">h", frame, 4)[0] == 0:
                    only_known_versions(response)
                    changed = True
        spec = exchange.spec
        if changed and spec is not None:
            found = encoded_response(exchange.response, spec, exchange.version, exchange.correlation_id)
            return found or exchange.answer
        return exchange.answer

    # -- what messages leave unsaid

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._topics.get(topic_id)

    def fetched(self, session_id: int) -> Iterable[tuple[str | bytes, int]]:
        return self._sessions.get(session_id, ())

    def _learn(self, exchange: Exchange, response: Any) -> None:
        if exchange.api_key in _NAMING_TOPICS:
            for topic in response.topics:
                if topic.name and topic.topic_id != ZERO_UUID:
                    self._topics[topic.topic_id] = topic.name
        elif exchange.api_key == ApiKey.FETCH and response.session_id and exchange.request is not None:
            self._follow_session(exchange.request, response.session_id)

    def _follow_session(self, request: Any, session_id: int) -> None:
        if len(self._sessions) >= _MOST_SESSIONS and session_id not in self._sessions:
            self._sessions.pop(next(iter(self._sessions)))
        session = self._sessions.setdefault(session_id, {}) if request.session_id else {}
        self._sessions[session_id] = session
        for topic in request.topics:
            session.update(((topic.topic or topic.topic_id, each.partition), None) for each in topic.partitions)
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                session.pop((topic.topic or topic.topic_id, number), None)


class ForwardedReply(PendingReply):
    """One that another broker will answer: its reply is the frame, or the error that ends the connection."""

    __slots__ = ("_broker", "_exchange")

    def __init__(self, broker: ForwardingBroker, exchange: Exchange) -> None:
        self.future = Future()
        self._broker = broker
        self._exchange = exchange

    def pieces(self) -> Pieces:
        return self._broker.answered(self._exchange, self.future.result())
