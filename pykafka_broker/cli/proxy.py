"""`pykafka-broker proxy --to HOST:PORT`: the request log and the faults in front of another broker, as a process.

Rule: for the `Server` the proxy is a broker with answers from elsewhere; the ready line and the stop are those of a
broker. Each connection of a client has its own connection to the client's broker. Requests are forwarded unchanged. In
answers only addresses are changed, and versions unknown to the proxy are left out. An address is every struct with a
host and a port, in any answer. The proxy replaces each address by an address of its own, opens it when first named and
keeps it to the end, so that clients stay with the proxy. Topics and fetch sessions of answers are remembered, since
later requests name them by id.

Each forwarded request is answered or refused, in the order of sending. A lost connection is never replaced by another.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from struct import unpack_from
from typing import TYPE_CHECKING, Any, cast

from pykafka_broker.addresses import address_text
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.broker.waiting.future import Future, Purgatory
from pykafka_broker.cli.addresses import control_address, host_and_port
from pykafka_broker.cli.commands import CommandParser
from pykafka_broker.cli.log_lines import log_to_stderr
from pykafka_broker.cli.settings import UsageError
from pykafka_broker.clock import Clock
from pykafka_broker.config import BrokerConfig
from pykafka_broker.control.control import Control
from pykafka_broker.control.door import ControlDoor
from pykafka_broker.control.http import HttpAddress
from pykafka_broker.control.observed_router import HeldReply, TrafficObserver
from pykafka_broker.control.traffic.exchange import Exchange, encoded_response
from pykafka_broker.control.traffic.mentions import FetchedSession, partition_of, session_of
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.runtime import ZERO_UUID, Pieces, leaves
from pykafka_broker.server.event_loop import EventLoop, SystemClock, new_event_loop
from pykafka_broker.server.listeners import Listener
from pykafka_broker.server.server import Server
from pykafka_broker.server.signals import StopSignals

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker


_LOOPBACK = "127.0.0.1"


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with `proxy`. Returns the exit code."""
    signals = StopSignals()
    options = parser().parse_args(arguments[1:])
    log_to_stderr("INFO")
    loop = new_event_loop()
    try:
        to, listen = host_and_port("--to", options.to), host_and_port("--listen", options.listen)
        control = control_address(options.control, options.control_token_file)
        stopped = asyncio.Event()
        signals.hand_to(lambda: loop.call_soon_threadsafe(stopped.set))
        loop.run_until_complete(Proxy(loop, to, *listen).run(control, _say, stopped))
    except UsageError as error:
        print(f"pykafka-broker proxy: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"pykafka-broker proxy: cannot start: {error.strerror or error}", file=sys.stderr)
        return 1
    finally:
        signals.ignore()
        loop.close()
    return 0


def parser() -> argparse.ArgumentParser:
    command = CommandParser(
        prog="pykafka-broker proxy",
        description="Record the requests of clients, and inject faults, in front of another broker.",
    )
    command.option("--to HOST:PORT", "a broker of the cluster behind the proxy", required=True)
    command.option("--listen HOST:PORT", "where clients connect; port 0 takes a free one", default=f"{_LOOPBACK}:0")
    command.option("--control HOST:PORT", "where the control API listens", default=f"{_LOOPBACK}:0")
    command.option("--control-token-file FILE", "the file with the token that clients of the control API must send")
    return command


def _say(line: str) -> None:
    print(line, flush=True)


# -- the proxy


Address = tuple[str, int]

# The answers that may name brokers.
NAMING = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
    }
)


def replace(message: Any, other: Callable[[Address], Address]) -> bool:
    """Replace all addresses in a message; return whether any were found."""
    found = False
    for struct, name, value in leaves(message):
        if name == "host" and value and getattr(struct, "port", 0) > 0:
            struct.host, struct.port = other((value, struct.port))
            found = True
    return found


def only_known_versions(api_versions: Any) -> None:
    """Leave only decodable versions in an answer to ApiVersions."""
    kept = []
    for each in api_versions.api_keys:
        spec = SPECS.get(each.api_key)
        if spec is not None and each.min_version <= spec.max_version:
            each.max_version = min(each.max_version, spec.max_version)
            kept.append(each)
    api_versions.api_keys = kept


_SIZE_BYTES = 4
_MOST_UNSENT_BYTES = 1 << 20  # of a connection; a client that waits for no answers waits for the broker from there on


class Upstream:
    """A client's connection to the broker behind the proxy.

    `on_lost` is called once when the broker has closed the connection or can't be reached.
    """

    def __init__(self, turns: EventLoop, address: tuple[str, int], on_lost: Callable[[str], None]) -> None:
        self._turns = turns
        self._address = address
        self._on_lost = on_lost
        self._unsent: list[bytes] = []
        self._waiting: deque[Future[bytes]] = deque()
        self._behind: list[Future[None]] = []
        self._draining: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._task = turns.loop.create_task(self._run())

    def send(self, frame: bytes, answer: Future[bytes] | None) -> None:
        """Send a request; the answer's frame completes `answer`, or a FrameError does."""
        if answer is not None:
            self._waiting.append(answer)
        data = len(frame).to_bytes(_SIZE_BYTES, "big") + frame
        if self._writer is None:
            self._unsent.append(data)
        else:
            self._writer.write(data)

    def room(self) -> Future[None] | None:
        """Return the future of room for more, where much waits to be sent."""
        unsent = sum(map(len, self._unsent)) if self._writer is None else self._writer.transport.get_write_buffer_size()
        if unsent <= _MOST_UNSENT_BYTES:
            return None
        future: Future[None] = Future()
        self._behind.append(future)
        if self._draining is None and self._writer is not None:
            self._draining = self._turns.loop.create_task(self._drain(self._writer))
        return future

    async def _drain(self, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await writer.drain()
        self._draining = None
        self._turns.run(self._caught_up)

    def _caught_up(self) -> None:
        behind, self._behind = self._behind, []
        for future in behind:
            future.complete(None)

    def close(self) -> None:
        """Close the connection: the client has gone."""
        self._task.cancel()

    async def _run(self) -> None:
        host, port = self._address
        why = f"{address_text(host, port)} has closed the connection"
        try:
            reader, self._writer = await asyncio.open_connection(host, port)
            self._writer.writelines(self._unsent)
            self._unsent.clear()
            self._draining = self._turns.loop.create_task(self._drain(self._writer))
            while True:
                size = int.from_bytes(await reader.readexactly(_SIZE_BYTES), "big")
                self._turns.run(partial(self._answered, await reader.readexactly(size)))
        except asyncio.IncompleteReadError:
            pass
        except (OSError, UnicodeError) as error:  # UnicodeError: no label of a host name can have this form
            why = f"{address_text(host, port)}: {getattr(error, 'strerror', None) or error}"
        finally:
            if self._draining is not None:
                self._draining.cancel()
            if self._writer is not None:
                self._writer.close()
        self._turns.run(partial(self._lost, why))

    def _answered(self, frame: bytes) -> None:
        if self._waiting:
            self._waiting.popleft().complete(frame)

    def _lost(self, why: str) -> None:
        waiting, self._waiting = self._waiting, deque()
        for answer in waiting:
            answer.fail(FrameError(why))
        for room in self._behind:
            room.fail(FrameError(why))
        self._on_lost(why)


_NAMING_TOPICS = frozenset({ApiKey.METADATA, ApiKey.CREATE_TOPICS})
_MOST_SESSIONS = 10_000
Session = dict[tuple[str | bytes, int], None]


class ForwardingBroker:
    """A stand-in for the broker that a `Server` serves.

    `connect` opens a connection to an address; `local` returns the proxy's address for a broker.
    """

    def __init__(
        self,
        clock: Clock,
        connect: Callable[[ConnectionContext], Upstream],
        local: Callable[[Address], Address],
    ) -> None:
        self.config = BrokerConfig({"connections.max.idle.ms": "-1"})
        self.services = self
        self.emulation = None  # the other broker's business
        self.quotas = None  # the other broker's business
        self.purgatory = Purgatory()
        self.on_close: list[Callable[[ConnectionContext], None]] = []
        self._clock = clock
        self._connect = connect
        self._local = local
        self._upstreams: dict[int, Upstream] = {}
        self._topics: dict[bytes, str] = {}
        self._sessions: dict[FetchedSession, Session] = {}

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
        for on_close in self.on_close:
            on_close(connection)

    def check_listeners_by(self, checks: object) -> None:
        """Do nothing: the proxy's listeners are plain, and the settings never change."""

    # -- as a router

    def dispatch(self, connection: ConnectionContext, frame: memoryview) -> PendingReply | None:
        """Forward a request; the answer comes later."""
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
            room = upstream.room()
            return None if room is None else HeldReply(room)
        reply = ForwardedReply(self, exchange)
        upstream.send(exchange.frame, reply.future)
        return reply

    def answered(self, exchange: Exchange, frame: bytes) -> Pieces:
        """Return the answer the client gets."""
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

    # -- facts beyond a single message

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._topics.get(topic_id)

    def has_topic(self, topic: str) -> bool:
        return topic in self._topics.values()

    def fetched(self, session: FetchedSession) -> Iterable[tuple[str | bytes, int]]:
        return self._sessions.get(session, ())

    def log_end(self, topic: str, partition: int, size: int) -> None:
        """Return None: a proxy has no logs."""

    def _learn(self, exchange: Exchange, response: Any) -> None:
        if exchange.api_key in _NAMING_TOPICS:
            for topic in response.topics:
                if topic.name and topic.topic_id != ZERO_UUID:
                    self._topics[topic.topic_id] = topic.name
        elif exchange.api_key == ApiKey.FETCH and response.session_id and exchange.request is not None:
            self._follow_session(exchange.request, response.session_id)
        elif exchange.api_key == ApiKey.SHARE_FETCH and not response.error_code and exchange.request is not None:
            self._follow_session(exchange.request, (exchange.request.group_id or "", exchange.request.member_id or ""))

    def _follow_session(self, request: Any, key: FetchedSession) -> None:
        if len(self._sessions) >= _MOST_SESSIONS and key not in self._sessions:
            self._sessions.pop(next(iter(self._sessions)))
        session = {} if session_of(request) is None else self._sessions.setdefault(key, {})
        self._sessions[key] = session
        for topic in request.topics:
            name = getattr(topic, "topic", "") or topic.topic_id
            session.update(((name, index), None) for index in map(partition_of, topic.partitions) if index is not None)
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                session.pop((getattr(topic, "topic", "") or topic.topic_id, index), None)


class ForwardedReply(PendingReply):
    """A reply of another broker: the frame, or the error ending the connection."""

    __slots__ = ("_broker", "_exchange")

    def __init__(self, broker: ForwardingBroker, exchange: Exchange) -> None:
        self.future = Future()
        self._broker = broker
        self._exchange = exchange

    def pieces(self) -> Pieces:
        return self._broker.answered(self._exchange, self.future.result())


_OF_LOG = ("requests", "clear_requests", "wait_for_request", "advice")
_OF_FAULTS = ("faults", "add_fault", "clear_faults", "fault", "remove_fault", "wait_for_fault", "chaos", "chaos_state")
_OF_RECORDINGS = ("start_recording", "recording", "stop_recording")
OFFERED = frozenset({*_OF_LOG, *_OF_FAULTS, *_OF_RECORDINGS, "pause", "unpause", "health", "openapi"})


class ProxyControl(Control):
    """The parts of a proxy for operations: the traffic."""

    has_broker = False

    def __init__(self, server: Server, turns: EventLoop, listeners: list[Listener], observing: TrafficObserver) -> None:
        self.server = server
        self.turns = turns
        self.listeners = listeners
        self.observing = observing


class Proxy:
    """A proxy for the broker at `to`, and for all brokers named in answers."""

    def __init__(self, loop: asyncio.AbstractEventLoop, to: Address, host: str, port: int) -> None:
        self.turns = EventLoop(loop, SystemClock())
        self._host = host
        self._broker = ForwardingBroker(self.turns.clock, self._connect, self._local)
        # the server sees a broker: settings, deadlines, a purgatory
        self.server = Server(cast("Broker", self._broker), self.turns)
        self.server.router = self._broker
        self.observing = TrafficObserver(self.server, self._broker)
        self.listeners: list[Listener] = []
        self._targets: dict[str, Address] = {}  # by name of listener
        self._locals: dict[Address, Listener] = {}
        self.first = self._open(to, port)

    def _open(self, target: Address, port: int) -> Listener:
        listener = self._locals[target] = Listener(f"{target[0]}:{target[1]}", self._host, port)
        self._targets[listener.name] = target
        self.listeners.append(listener)
        self.server.listen([listener])
        return listener

    def _local(self, target: Address) -> Address:
        listener = self._locals.get(target) or self._open(target, 0)
        return listener.host, listener.port

    def _connect(self, connection: ConnectionContext) -> Upstream:
        def lost(why: str) -> None:
            client = self.server.connection(connection.id)
            if client is not None:
                client.close(why)

        if self.observing.log.recorder is not None:
            self.observing.log.recorder.add_server(connection)
        return Upstream(self.turns, self._targets[connection.listener], lost)

    async def run(self, control: HttpAddress, say: Callable[[str], None], stopped: asyncio.Event) -> None:
        """Serve until `stopped`. Raises OSError."""
        traffic = ProxyControl(self.server, self.turns, self.listeners, self.observing)
        door = ControlDoor(traffic, control, offered=OFFERED)
        await door.open()
        try:
            self.server.start()
            say(f"control on {door.url}")
            say(f"listening on {address_text(self.first.host, self.first.port)}")
            await stopped.wait()
        finally:
            await door.close()
            await self.server.stop()
            self.turns.close()
