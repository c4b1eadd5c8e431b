"""An outgoing connection: requests to another broker, with the project's own codec.

Rule: every request that `send` has taken gets exactly one call of its `on_reply`, with the answer or with a
`LinkError`, and never before `send` has returned. Answers come in the order of the requests; when one fails to come in
time, those behind it can't come either, so the connection is closed, as Kafka's clients do it.

A link connects when there is something to send. When the connection is lost, requests that had left fail (the caller
knows whether to repeat them); requests that still wait stay, within their time, for the next connection, which is tried
after a pause that grows with each failure. With settings that are not `patient` they fail with the attempt, but not
where the link itself ends a connection to log in anew.

`LinkPeers` are the links of a node in a cluster, for machines that know no sockets (`peers.py`). A test may cut a node
off from others; each node does so for the connections that it makes itself.

Names, units and defaults of `LinkSettings` are those of Kafka's client configs.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import weakref
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pykafka_broker.addresses import address_text
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.roles import roles_of
from pykafka_broker.errors import FrameError
from pykafka_broker.peers import (
    Address,
    LinkBroken,
    LinkClosed,
    LinkError,
    LinkFull,
    LinkTimeout,
    NotServed,
    OnReply,
    Peer,
    Unsendable,
    Versions,
    deliver,
)
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.server.channel import Channel, FrameReader
from pykafka_broker.server.dial import Dial
from pykafka_broker.server.event_loop import EventLoop
from pykafka_broker.server.link_codec import (
    Greeting,
    choose_version,
    correlation_id_of,
    decode_response,
    encode_request,
)
from pykafka_broker.server.listeners import PLAINTEXT, security_protocol_of
from pykafka_broker.server.transport import PlainTransport, Transport

if TYPE_CHECKING:
    from pykafka_broker.server.link_security import LinkLogin


log = logging.getLogger(__name__)

_MOST_DOUBLINGS = 20
_CUT_OFF = "cut off"


class LinkSettings(NamedTuple):
    """Kafka's client configs, with Kafka's names and defaults; `max_waiting` bounds the queue."""

    client_id: str | None = "pykafka-broker"
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    socket_connection_setup_timeout_ms: int = 10_000
    max_in_flight_requests_per_connection: int = 5
    max_waiting: int = 1_000
    max_response_bytes: int = 100 << 20
    patient: bool = True  # requests wait for the next connection when one can't be made

    def pause_ms(self, failures: int, drawn: float) -> int:
        """Return the pause before the next attempt after so many failures."""
        return growing_pause_ms(failures, self.reconnect_backoff_ms, self.reconnect_backoff_max_ms, drawn)


def growing_pause_ms(failures: int, first_ms: int, max_ms: int, drawn: float) -> int:
    """Return the pause before the next attempt after so many failures (KIP-580).

    The pause varies by a fifth up or down (`drawn` is within 0 to 1), so that nodes that lost the same peer don't come
    back at once, and is never longer than `max_ms`.
    """
    grown = min(first_ms << min(failures - 1, _MOST_DOUBLINGS), max_ms)
    return min(int(grown * (0.8 + 0.4 * drawn)), max_ms)


class LinkState(Enum):
    RESTING = "without a connection"
    DIALLING = "connecting"
    SECURING = "shaking hands"
    GREETING = "asking the peer for its versions"
    LOGGING_IN = "logging in"
    READY = "ready"
    CLOSED = "closed"


_NEXT = {
    LinkState.RESTING: {LinkState.DIALLING, LinkState.CLOSED},
    LinkState.DIALLING: {LinkState.SECURING, LinkState.RESTING, LinkState.CLOSED},
    LinkState.SECURING: {LinkState.GREETING, LinkState.RESTING, LinkState.CLOSED},
    LinkState.GREETING: {LinkState.LOGGING_IN, LinkState.READY, LinkState.RESTING, LinkState.CLOSED},
    LinkState.LOGGING_IN: {LinkState.READY, LinkState.RESTING, LinkState.CLOSED},
    LinkState.READY: {LinkState.RESTING, LinkState.CLOSED},
    LinkState.CLOSED: set(),
}
_SETTING_UP = (LinkState.DIALLING, LinkState.SECURING, LinkState.GREETING, LinkState.LOGGING_IN)


class TransportSecurity(Protocol):
    """The layers between a socket and requests."""

    def transport(self, sock: socket.socket, host: str) -> Transport:
        """Return the transport for a socket connected to `host`."""

    def begin(self, wall: int, host: str) -> LinkLogin | None:
        """Return the login at the beginning of a connection to `host`, or None."""


class _Plain:
    """No TLS and no login."""

    def transport(self, sock: socket.socket, host: str) -> Transport:
        return PlainTransport(sock)

    def begin(self, wall: int, host: str) -> None:
        return None


PLAIN = _Plain()


class _Exchange:
    """A request and the callback for the answer."""

    def __init__(
        self, request: Message, on_reply: OnReply, now: int, timeout_ms: int, wanted: Versions | None, copied: bool
    ) -> None:
        self.request = request
        self.spec = SPECS[request.API_KEY]
        self.on_reply = on_reply
        self.deadline = now + timeout_ms
        self.timeout_ms = timeout_ms
        self.wanted = wanted
        self.copied = copied
        self.unanswered = False
        self.version = self.correlation_id = -1  # until it is sent


class _Wire(Channel):
    __slots__ = ("_ended_by", "_link")

    def __init__(self, link: Link, turns: EventLoop, transport: Transport, max_bytes: int) -> None:
        self._link = link
        self._ended_by: Exception | None = None
        super().__init__(turns, transport, FrameReader(turns.scratch, turns.buffers, max_bytes))

    @property
    def peer(self) -> str:
        return self._link.peer

    def _deliver(self, frame: memoryview) -> bool:
        self._link.take(frame)
        return not self.closed

    def _end_of_input(self) -> None:
        self._ended_by = EOFError()
        super()._end_of_input()

    def refuse(self, error: FrameError) -> None:
        self._ended_by = error
        super().refuse(error)

    def _lost(self, why: str) -> None:
        self._link.lost(why, self._ended_by)


class Link:
    """Requests to a host and port. `state` is for observers; `admits` is asked before each connection."""

    def __init__(
        self,
        turns: EventLoop,
        host: str,
        port: int,
        settings: LinkSettings | None = None,
        *,
        security: TransportSecurity = PLAIN,
        draw: Callable[[], float] = random.random,
        admits: Callable[[], bool] = lambda: True,
    ) -> None:
        self.peer = address_text(host, port)
        self.state = LinkState.RESTING
        self._turns = turns
        self._clock = turns.clock
        self._host, self._port = host, port
        self._settings = settings or LinkSettings()
        self._security = security
        self._login: LinkLogin | None = None
        self._asked: tuple[Message, int] = (ApiVersionsRequest(), 0)  # of the login, and in which version
        self._renew_at: int | None = None
        self._draw = draw
        self._admits = admits
        self._waiting: deque[_Exchange] = deque()
        self._in_flight: deque[_Exchange] = deque()
        self._dial: Dial | None = None
        self._wire: _Wire | None = None
        self._greeting = Greeting()
        self._served: dict[int, Versions] = {}
        self._correlation_id = 0
        self._failures = 0  # since it was ready for the last time
        self._trouble = ""  # the last one
        self._not_before = 0  # the next attempt
        self._setup_until = 0
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = 0

    # -- for callers

    def send(
        self,
        request: Message,
        on_reply: OnReply,
        timeout_ms: int,
        *,
        versions: Versions | None = None,
        copied: bool = False,
        unanswered: bool = False,
    ) -> None:
        """Take a request.

        versions: the lowest and highest version with room for the request's fields; by default any. copied: the
        answer's `records` stay valid; otherwise they are gone when `on_reply` returns. unanswered: the request has no
        answer, as a Produce with acks=0, and `on_reply` gets an empty response once the request has been sent.

        Raises LinkFull or LinkClosed if the request is not taken.
        """
        if self.state is LinkState.CLOSED:
            raise LinkClosed(f"the link to {self.peer} is closed")
        if len(self._waiting) >= self._settings.max_waiting:
            raise LinkFull(f"{len(self._waiting)} requests wait for {self.peer}")
        exchange = _Exchange(request, on_reply, self._clock.now, timeout_ms, versions, copied)
        exchange.unanswered = unanswered
        self._waiting.append(exchange)
        self._go_on()
        self._arm(exchange.deadline)

    async def ask(
        self, request: Message, timeout_ms: int, *, versions: Versions | None = None, unanswered: bool = False
    ) -> Any:
        """Send a request and return the answer. For tasks of the loop, beside the turns. Raises LinkError."""
        self._clock.tick()
        answer: asyncio.Future[Message] = self._turns.loop.create_future()

        def on_reply(reply: Message | LinkError) -> None:
            if answer.done():
                return  # the caller was cancelled
            if isinstance(reply, LinkError):
                answer.set_exception(reply)
            else:
                answer.set_result(reply)

        self.send(request, on_reply, timeout_ms, versions=versions, copied=True, unanswered=unanswered)
        return await answer

    def withdraw(self, request: Message) -> bool:
        """Take back a request that has not left; return whether it was. Its `on_reply` is not called then."""
        for exchange in self._waiting:
            if exchange.request is request:
                self._waiting.remove(exchange)
                return True
        return False

    def served(self, api_key: int) -> Versions | None:
        """Return the versions of an API served by the peer; None without any, or before the first contact."""
        return self._served.get(api_key)

    def close(self) -> None:
        """Close the link; waiting callers are told in the next turn."""
        if self.state is LinkState.CLOSED:
            return
        self._enter(LinkState.CLOSED)
        self._drop("closed")
        self._fail([*self._in_flight, *self._waiting], LinkClosed(f"the link to {self.peer} was closed"))
        self._in_flight.clear()
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def cut(self) -> None:
        """Lose the connection, if any; the next is made only once the address is admitted again."""
        if self.state is LinkState.DIALLING:
            self._drop(_CUT_OFF)
            self._rest(_CUT_OFF)
        else:
            self._drop(_CUT_OFF)

    # -- the connection

    def _go_on(self) -> None:
        """Advance the waiting requests as far as the state allows."""
        if self.state is LinkState.READY:
            if not self._must_log_in_anew():
                self._send_waiting()
            elif not self._in_flight:
                self._drop("it is time to log in anew")
        elif self.state is LinkState.RESTING and self._waiting:
            if self._clock.now < self._not_before:
                self._arm(self._not_before)
            else:
                self._connect()

    def _must_log_in_anew(self) -> bool:
        """Return whether the connection's login is about to end: the next connection has a login of its own."""
        return self._renew_at is not None and self._clock.now >= self._renew_at

    def _connect(self) -> None:
        self._enter(LinkState.DIALLING)
        if not self._admits():
            self._rest(_CUT_OFF)
            return
        self._setup_until = self._clock.now + self._settings.socket_connection_setup_timeout_ms
        self._arm(self._setup_until)
        self._dial = Dial(self._turns, self._host, self._port, self._connected, self._not_connected)

    def _connected(self, sock: socket.socket) -> None:
        self._dial = None
        self._enter(LinkState.SECURING)
        try:
            transport = self._security.transport(sock, self._host)
        except (OSError, ValueError) as error:  # the peer has gone already, or TLS can't name the host
            sock.close()
            self._rest(str(error))
            return
        self._wire = _Wire(self, self._turns, transport, self._settings.max_response_bytes)
        self._greeting = Greeting()
        if hasattr(transport, "on_established"):
            transport.on_established = self._secured
        else:
            self._secured()

    def _secured(self, *_: object) -> None:
        self._enter(LinkState.GREETING)
        self._greet()

    def _not_connected(self, error: OSError) -> None:
        self._dial = None
        self._rest(error.strerror or str(error))

    def _greet(self) -> None:
        self._correlation_id = 0
        greeting = self._greeting
        self._put(encode_request(greeting.request(), greeting.version, 0, self._settings.client_id))

    def lost(self, why: str, ended_by: Exception | None = None) -> None:
        """Handle the end of the connection; `ended_by` is the error that has ended it."""
        self._wire = None
        if self.state is LinkState.CLOSED:
            return
        broken = list(self._in_flight)
        self._in_flight.clear()
        self._fail(broken, LinkBroken(f"the connection to {self.peer} was lost: {why}", ended_by))
        self._rest(why, ended_by)

    def _rest(self, why: str, ended_by: Exception | None = None) -> None:
        self._enter(LinkState.RESTING)
        self._failures += 1
        self._trouble = why
        self._not_before = self._clock.now + self._settings.pause_ms(self._failures, self._draw())
        log.log(
            logging.INFO if self._failures == 1 and self._waiting else logging.DEBUG,
            "no connection to %s: %s",
            self.peer,
            why,
        )
        relogin, self._renew_at = self._must_log_in_anew(), None
        if not (self._settings.patient or relogin):
            waiting = list(self._waiting)
            self._waiting.clear()
            self._fail(waiting, LinkTimeout(f"no connection to {self.peer}: {why}", False, ended_by))
        self._go_on()

    def _drop(self, why: str) -> None:
        if self._dial is not None:
            self._dial.cancel()
            self._dial = None
        if self._wire is not None:
            self._wire.close(why)

    def _enter(self, state: LinkState) -> None:
        assert state in _NEXT[self.state], (self.state, state)
        self.state = state

    # -- requests and answers

    def _send_waiting(self) -> None:
        most = self._settings.max_in_flight_requests_per_connection
        while self._waiting and len(self._in_flight) < most and self.state is LinkState.READY:
            exchange = self._waiting.popleft()
            self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
            exchange.correlation_id = self._correlation_id
            try:
                exchange.version = choose_version(self._served, exchange.spec, exchange.wanted)
                pieces = encode_request(
                    exchange.request, exchange.version, exchange.correlation_id, self._settings.client_id
                )
            except (NotServed, Unsendable) as error:
                self._fail([exchange], error)
                continue
            if exchange.unanswered:
                self._turns.call_soon(partial(deliver, exchange.on_reply, exchange.spec.response_class()()))
            else:
                self._in_flight.append(exchange)
            self._put(pieces)

    def _put(self, pieces: list[Any]) -> None:
        assert self._wire is not None
        self._wire.send(pieces)

    def take(self, frame: memoryview) -> None:
        """Handle an answer. Raises FrameError if the answer makes no sense."""
        expected = self._in_flight[0].correlation_id if self._in_flight else 0
        greeting = self.state is LinkState.GREETING
        if not greeting and not self._in_flight and self.state is not LinkState.LOGGING_IN:
            raise FrameError(f"an answer of {len(frame)} bytes to no request")
        if (correlation_id := correlation_id_of(frame)) != expected:
            raise FrameError(f"an answer with correlation id {correlation_id} and not {expected}")
        if greeting:
            self._greeted(self._greeting.answered(frame))
            return
        if self.state is LinkState.LOGGING_IN:
            request, version = self._asked
            self._go_on_logging_in(decode_response(bytes(frame), SPECS[request.API_KEY], version))
            return
        exchange = self._in_flight[0]
        kept = bytes(frame) if exchange.copied else frame
        response = decode_response(kept, exchange.spec, exchange.version)
        self._in_flight.popleft()
        deliver(exchange.on_reply, response)
        self._go_on()

    def _greeted(self, served: dict[int, Versions] | None) -> None:
        if served is None:
            self._greet()
            return
        self._served = served
        self._login = self._security.begin(self._clock.wall, self._host)
        if self._login is None:
            self._is_ready()
        else:
            self._enter(LinkState.LOGGING_IN)
            self._ask_to_log_in(self._login.first())

    def _ask_to_log_in(self, asked: tuple[Message, int]) -> None:
        self._asked = asked
        self._put(encode_request(*asked, 0, self._settings.client_id))

    def _go_on_logging_in(self, answer: Message) -> None:
        login = self._login
        assert login is not None
        served = self._served.get(ApiKey.SASL_AUTHENTICATE, (0, 0))
        login.go_on(answer, served, self._turns, partial(self._has_gone_on, login))

    def _has_gone_on(self, login: LinkLogin, asked: tuple[Message, int] | FrameError | None) -> None:
        if self._login is not login or self.state is not LinkState.LOGGING_IN:
            return  # the connection has gone meanwhile
        if isinstance(asked, FrameError):
            assert self._wire is not None
            self._wire.refuse(asked)
            return
        if asked is not None:
            self._ask_to_log_in(asked)
            return
        if login.renew_after_ms is not None:
            self._renew_at = self._clock.now + login.renew_after_ms
        self._login = None
        self._is_ready()

    def _is_ready(self) -> None:
        self._failures = 0
        self._enter(LinkState.READY)
        self._go_on()

    def _fail(self, exchanges: list[_Exchange], error: LinkError) -> None:
        """Fail exchanges in the next turn, so no callback runs inside the caller's call."""
        for exchange in exchanges:
            self._turns.call_soon(partial(deliver, exchange.on_reply, error))

    # -- time

    def _arm(self, deadline: int) -> None:
        if self._timer is not None:
            if self._armed_for <= deadline:
                return
            self._timer.cancel()
        self._armed_for = deadline
        delay_s = max(1, deadline - self._clock.now) / 1000
        self._timer = self._turns.loop.call_later(delay_s, self._turns.run, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._clock.now
        self._expire(self._waiting, now, sent=False)
        if self._expire(self._in_flight, now, sent=True):
            self._drop("an answer before this one did not come in time")
        elif self.state in _SETTING_UP and now >= self._setup_until:
            self._give_up_setup()
        self._go_on()
        if (deadline := self._next_deadline()) is not None and self.state is not LinkState.CLOSED:
            self._arm(deadline)

    def _expire(self, exchanges: deque[_Exchange], now: int, *, sent: bool) -> bool:
        """Fail the exchanges whose time is over; return whether there were any."""
        late = [exchange for exchange in exchanges if exchange.deadline <= now]
        for exchange in late:
            exchanges.remove(exchange)
            self._fail([exchange], LinkTimeout(self._too_late(exchange), sent))
        return bool(late)

    def _too_late(self, exchange: _Exchange) -> str:
        trouble = f"; {self._trouble}" if self._trouble and self.state is not LinkState.READY else ""
        return f"{self.peer} did not answer {exchange.spec.name} within {exchange.timeout_ms} ms{trouble}"

    def _give_up_setup(self) -> None:
        why = f"not {LinkState.READY.value} within {self._settings.socket_connection_setup_timeout_ms} ms"
        dialling = self.state is LinkState.DIALLING
        self._drop(why)
        if dialling:
            self._rest(why)

    def _next_deadline(self) -> int | None:
        deadlines = [exchange.deadline for exchange in (*self._in_flight, *self._waiting)]
        if self.state in _SETTING_UP:
            deadlines.append(self._setup_until)
        elif self.state is LinkState.RESTING and self._waiting:
            deadlines.append(self._not_before)
        return min(deadlines, default=None)


class LinkPeers:
    """Links to other nodes.

    `admits` says whether an address may be dialled; after a change of it, `cut` closes connections.
    """

    def __init__(self, turns: EventLoop, config: BrokerConfig | None = None) -> None:
        self._turns = turns
        self._links: weakref.WeakKeyDictionary[Link, Address] = weakref.WeakKeyDictionary()
        self._securities: dict[str, TransportSecurity] = {}  # by the name of the listener
        self._config = config
        self.admits: Callable[[Address], bool] = lambda address: True

    def check(self) -> None:
        """Check that the node, as a broker, can log in at every listener of others. Raises ConfigError."""
        config = self._config
        if config is not None and roles_of(config).broker:
            others = config.inter_broker_listener_name or config.security_inter_broker_protocol
            for listener in (others, *(config.controller_listener_names or ())):
                self._security_of(listener.upper())

    def open(self, address: Address, client_id: str) -> Peer:
        settings = LinkSettings(client_id=client_id)
        security = self._security_of(address.listener)
        link = Link(
            self._turns, address.host, address.port, settings, security=security, admits=lambda: self.admits(address)
        )
        self._links[link] = address
        return link

    def _security_of(self, listener: str) -> TransportSecurity:
        if self._config is None or security_protocol_of(self._config, listener) == PLAINTEXT:
            return PLAIN
        if listener not in self._securities:
            from pykafka_broker.server.link_security import security_at  # brings OpenSSL

            self._securities[listener] = security_at(self._config, listener)
        return self._securities[listener]

    def cut(self) -> None:
        """Drop the connections to addresses not admitted any more."""
        for link, address in list(self._links.items()):
            if not self.admits(address):
                link.cut()
