"""The requests of clients, seen and disturbed on their way through a router.

Rule: without faults a request costs a note in the log and nothing more. A fault acts around the router: the router gets
another request than the client sent, or the answer is changed, delayed or lost. The router knows nothing of faults, so
a router that forwards to another broker can be observed too.

The module is imported when the control API opens. A request from inside the process is not observed.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from time import perf_counter_ns
from typing import Any, Protocol

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.encoded_reply import UnwrittenReply
from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.broker.waiting.future import Future, Parked
from pykafka_broker.clock import Clock
from pykafka_broker.control.traffic.answers import Change, answer_change, change, refusing, with_records
from pykafka_broker.control.traffic.exchange import (
    KEPT_REQUEST_BYTES,
    Entry,
    Exchange,
    Kept,
    Mark,
    bytes_of,
    thinned,
)
from pykafka_broker.control.traffic.faults import PAUSE_ID, Action, FaultTable, Rule
from pykafka_broker.control.traffic.mentions import FetchedSession, Known
from pykafka_broker.control.traffic.recorder import ProducedBatches
from pykafka_broker.control.traffic.request_log import FULL, RequestCounts, RequestLog
from pykafka_broker.errors import ClosedOnPurpose, FrameError
from pykafka_broker.log.filesystem import FileSlice
from pykafka_broker.platform import has_gone
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import Pieces
from pykafka_broker.server.connection import Dispatching
from pykafka_broker.server.server import Server

Answer = Pieces | PendingReply | None
Dispatch = Callable[[ConnectionContext, Any], Answer]  # takes a frame, which is `bytes` where nothing writes into it

_WITH_RECORDS = frozenset({int(ApiKey.FETCH), int(ApiKey.SHARE_FETCH), int(ApiKey.FETCH_SNAPSHOT)})
_API_KEY_AT = 1  # position of the API key's low byte; no key is above 255
_AFTER_PRODUCE = b"\0\1"  # frames from here on in byte order are no produce requests
_LONG = (4 << 10).to_bytes(4, "big")  # length prefixes from here on are long answers


class Surroundings(Protocol):
    """The server around the router."""

    def cut(self, connection: int, half: bytes) -> None:
        """Send a half answer, then close the connection."""

    def send(self, connection: int, answer: Pieces) -> None:
        """Send a delayed answer."""

    def later(self, action: Action, step: Callable[[], None]) -> None:
        """Run a step when the delay of the action is over."""

    def cancel(self, future: Future[Any]) -> None:
        """Cancel the future of a client that has gone."""

    def befall(self, exchange: Exchange, rule: Rule) -> None:
        """Let the event of a rule befall what a request names."""

    def at_end(self, step: Callable[[], None]) -> object:
        """Run a step of the server's turn before its answers leave."""

    def take_steps(self) -> None:
        """Run the steps of the server's turn now."""


class ObservedRouter:
    """A router with a log of every request, and with faults."""

    def __init__(
        self, dispatch: Dispatch, clock: Clock, log: RequestLog, faults: FaultTable, surroundings: Surroundings
    ) -> None:
        self._serve = dispatch
        self._clock = clock
        self._log = log
        self._note = log.note
        self._recent = log.recent
        self._faults = faults
        self._surroundings = surroundings
        self._unwritten: list[tuple[Entry, UnwrittenReply]] = []  # each with the time of arrival as its duration

    def dispatch(self, connection: ConnectionContext, frame: memoryview) -> Answer:
        """Serve a request as `Router.dispatch` does."""
        if self._faults.watching:
            if self._faults.disturbing:
                return self._disturbed(connection, frame)
            return self._recorded(connection, frame)
        size = len(frame)
        served: memoryview | bytes = frame
        if size >= KEPT_REQUEST_BYTES:
            kept = frame[:KEPT_REQUEST_BYTES].tobytes()
        elif (kept := frame.tobytes()) >= _AFTER_PRODUCE:
            served = kept  # bytes are quicker to read
        began = perf_counter_ns()
        try:
            answer = self._serve(connection, served)
        except FrameError:
            self._noted(Exchange((self._clock.wall, connection, kept, None, began), mark=_mark(size)), None)
            raise
        seen: Kept | None = None
        if type(answer) is list:
            if answer[0] >= _LONG or size >= KEPT_REQUEST_BYTES:
                answer, seen = self._long(answer, kept, size)
            elif len(answer) == 2:
                seen = answer[1]  # the most frequent answers were made before; only the body is kept
            else:
                try:
                    answer = [b"".join(answer)]  # the channel would join the pieces anyway
                    seen = (answer[0],)
                    self._log.unsealed_bytes += len(answer[0])
                except TypeError:  # slices of files are among the pieces
                    seen = thinned(answer)
        elif answer is not None:
            entry = self._clock.wall, connection, kept, None, began
            if type(answer) is UnwrittenReply:
                return self._noted_when_written(entry, answer, size)
            return ObservedReply(self, answer, Exchange(entry, mark=_mark(size)))  # type: ignore[arg-type]
        elif size >= KEPT_REQUEST_BYTES:
            self._log.mark(Mark(size, None))
        self._note((self._clock.wall, connection, kept, seen, perf_counter_ns() - began))
        if len(self._recent) >= FULL:
            self._log.seal()
        return answer

    def _noted_when_written(self, entry: Entry, answer: UnwrittenReply, size: int) -> Pieces:
        """Return the answer; log the exchange once the answer stands."""
        if size >= KEPT_REQUEST_BYTES:
            self._surroundings.take_steps()
            self._noted(Exchange(entry, mark=_mark(size)), answer)
            return list(answer)
        if not self._unwritten:
            self._surroundings.at_end(self._note_written)
        self._unwritten.append((entry, answer))
        return answer

    def _note_written(self) -> None:
        unwritten, self._unwritten = self._unwritten, []
        recorder = self._log.recorder
        for (wall, connection, kept, _, began), answer in unwritten:
            if recorder is not None:
                recorder.add_served(connection.id, kept, began, b"".join(answer))
            self._note((wall, connection, kept, answer[1], perf_counter_ns() - began))
        if len(self._recent) >= FULL:
            self._log.seal()

    def _standing(self, answer: Answer) -> Answer:
        """Return an answer that does not change any more."""
        if type(answer) is not UnwrittenReply:
            return answer
        self._surroundings.take_steps()
        return list(answer)

    def _long(self, answer: Pieces, request: bytes, size: int) -> tuple[Pieces, Kept]:
        """Return a long answer, or the answer to a long request, as sent and as logged."""
        seen: Kept
        if request[_API_KEY_AT] in _WITH_RECORDS:
            seen = thinned(answer)
        else:
            answer = [b"".join(answer)]
            seen = tuple(answer)
        self._log.weigh(sum([len(piece) for piece in seen if type(piece) is bytes]))
        if size >= KEPT_REQUEST_BYTES:
            self._log.mark(Mark(size, None))
        return answer, seen

    def _recorded(self, connection: ConnectionContext, frame: memoryview) -> Answer:
        """Serve a request that is recorded, and meets nothing."""
        if len(frame) >= KEPT_REQUEST_BYTES:
            return self._recorded_long(connection, frame)
        whole = frame.tobytes()
        entry = self._clock.wall, connection, whole, None, perf_counter_ns()
        try:
            answer = self._serve(connection, whole if whole >= _AFTER_PRODUCE else frame)
        except FrameError:
            self._noted(Exchange(entry), None)
            raise
        if type(answer) is UnwrittenReply:
            return self._noted_when_written(entry, answer, len(whole))
        if isinstance(answer, PendingReply):
            return ObservedReply(self, answer, Exchange(entry))
        if answer is None:
            self._noted(Exchange(entry), None)
            return None
        if len(answer) == 2 and answer[0] < _LONG:
            seen: Kept = answer[1]  # often made before, and one object in the log and the recording
        else:
            try:
                answer = [b"".join(answer)]
            except TypeError:  # slices of files are among the pieces
                self._noted(Exchange(entry), answer)
                return answer
            if answer[0] >= _LONG:
                self._noted(Exchange(entry), answer)
                return answer
            seen = (answer[0],)
            self._log.unsealed_bytes += len(answer[0])
        wall, _, _, _, began = entry
        assert self._log.recorder is not None
        self._log.recorder.add_served(connection.id, whole, began, tuple(answer))
        self._note((wall, connection, whole, seen, perf_counter_ns() - began))
        if len(self._recent) >= FULL:
            self._log.seal()
        return answer

    def _recorded_long(self, connection: ConnectionContext, frame: memoryview) -> Answer:
        """Serve a long request that is recorded."""
        kept = frame[:KEPT_REQUEST_BYTES].tobytes()
        exchange = Exchange((self._clock.wall, connection, kept, None, perf_counter_ns()), mark=_mark(len(frame)))
        produced = ProducedBatches(frame)
        if not produced:
            assert self._log.recorder is not None
            exchange.recorded = self._log.recorder.take(frame)
        return self._serve_noted(exchange, frame, produced)

    def _serve_noted(self, exchange: Exchange, frame: memoryview, produced: ProducedBatches | None = None) -> Answer:
        """Serve a request, and note what comes of it at once or later.

        produced: the batches of a request that is recorded.
        """
        answer: Answer = None
        try:
            answer = self._standing(self._serve(exchange.connection, frame))
        finally:
            if produced and self._log.recorder is not None:
                exchange.recorded = self._log.recorder.take(frame, produced.stored(self._faults.known))
            if not isinstance(answer, PendingReply):
                self._noted(exchange, answer)
        return ObservedReply(self, answer, exchange) if isinstance(answer, PendingReply) else answer

    # -- under faults

    def _disturbed(self, connection: ConnectionContext, frame: memoryview) -> Answer:
        whole = bytes(frame)
        return self._meet(Exchange((self._clock.wall, connection, whole, None, perf_counter_ns())))

    def _meet(self, exchange: Exchange) -> Answer:
        """Serve a request under the fault that it meets, if any."""
        rule = self._faults.on_request(exchange)
        if rule is None:
            return self._go_on(exchange, None)
        exchange.fault = rule.id
        if rule.action.hang or rule.action.delay_ms:
            return self._hold(exchange, rule)
        return self._go_on(exchange, rule)

    def _go_on(self, exchange: Exchange, rule: Rule | None) -> Answer:
        """Serve a request under a rule."""
        made: Change | None = None
        answer: Answer
        try:
            if rule is not None and rule.action.drop == "before":
                exchange.served = None
                raise ClosedOnPurpose(f"fault {rule.id} drops the connection before the request is served")
            if rule is not None and rule.action.event is not None:
                self._surroundings.befall(exchange, rule)
            if rule is not None and rule.action.error is not None and not rule.action.applied:
                exchange.served = None
                served, made, refusal = refusing(exchange, rule, self._faults.known)
                exchange.served = None if served is None else bytes(served)
                answer = refusal if served is None else self._serve(exchange.connection, memoryview(served))
            else:
                answer = self._serve(exchange.connection, memoryview(bytearray(exchange.frame)))
        except FrameError:
            self._noted(exchange, None)
            raise
        answer = self._standing(answer)
        if isinstance(answer, PendingReply):
            return ObservedReply(self, answer, exchange, rule, made)
        return self.leave(exchange, answer, rule, made)

    def _hold(self, exchange: Exchange, rule: Rule) -> PendingReply:
        """Serve a request later."""
        outer: Future[Any] = Future()
        held = HeldReply(outer)

        def go_on() -> None:
            if rule.held.pop(id(outer), None) is None or outer.done:
                return
            try:
                if rule.id == PAUSE_ID:
                    answer = self._meet(exchange)  # as if it came only now
                else:
                    answer = self._go_on(exchange, rule if self._faults.in_force(rule) else None)
            except FrameError as error:
                outer.fail(error)
                return
            if isinstance(answer, PendingReply):
                self._follow(outer, answer)
            else:
                outer.complete(answer)

        def forget() -> None:
            rule.held.pop(id(outer), None)
            self._noted(exchange, None)

        rule.held[id(outer)] = go_on
        outer.on_cancel = forget
        if rule.action.delay_ms:
            self._surroundings.later(rule.action, go_on)
        return held

    def _follow(self, outer: Future[Any], answer: PendingReply) -> None:
        """Complete a held request when the answer is ready."""

        def on_reply(_: object) -> None:
            try:
                pieces = answer.pieces()
            except FrameError as error:
                outer.fail(error)
            else:
                outer.complete(pieces)

        outer.on_cancel = partial(self._surroundings.cancel, answer.future)
        answer.future.add_done_callback(on_reply)

    def leave(self, exchange: Exchange, answer: Pieces | None, rule: Rule | None, made: Change | None) -> Pieces | None:
        """Return the answer the client gets, or None. Raises FrameError where the connection is lost."""
        exchange.answer = answer if answer is None else list(map(bytes_of, answer))
        if made is not None:
            exchange.answer = change(exchange, made)
            exchange.forget_response()
        if rule is None or not self._faults.in_force(rule):
            rule = self._faults.on_answer(exchange, partial(self._bites, exchange))
            if rule is not None:
                exchange.fault = rule.id
        if rule is not None:
            made = answer_change(exchange, rule, self._faults.known)
            if made is not None:
                exchange.answer = change(exchange, made)
            if rule.action.drop == "after":
                self._noted(exchange, None)
                raise ClosedOnPurpose(f"fault {rule.id} drops the connection after the request was served")
            if rule.action.cut and exchange.answer:
                whole = b"".join(exchange.answer)
                self._noted(exchange, None)
                self._surroundings.cut(exchange.connection.id, whole[: len(whole) // 2])
                return None
        self._noted(exchange, exchange.answer)
        return exchange.answer

    def _bites(self, exchange: Exchange, rule: Rule) -> bool:
        """Return whether the rule affects the answer."""
        if rule.action.corrupt:
            return bool(with_records(exchange.response, rule.meets, self._faults.known))
        return exchange.answer is not None or rule.action.drop is not None

    # -- the log

    def answered(self, waiting: ObservedReply) -> Pieces:
        """Return the answer to a waiting request, and log both."""
        exchange = waiting.exchange
        self._log.waiting.pop(id(waiting), None)
        try:
            pieces = waiting.inner.pieces()
        except FrameError:
            self._noted(exchange, None)
            raise
        if not pieces:  # a produce with acks=0
            self._noted(exchange, None)
            return pieces
        if self._faults.disturbing or waiting.made is not None or waiting.rule is not None:
            return self._held_in_a_pause(exchange, self.leave(exchange, pieces, waiting.rule, waiting.made) or [])
        self._noted(exchange, pieces)
        return pieces

    def _held_in_a_pause(self, exchange: Exchange, answer: Pieces) -> Pieces:
        """Return the pieces to send now.

        During a pause the answer is kept, and sent at its end before requests of the pause are served.
        """
        pause = self._faults.pause_of(exchange)
        if pause is None or not answer:
            return answer
        pause.held[id(answer)] = partial(self._surroundings.send, exchange.connection.id, answer)
        return []

    def waits(self, waiting: ObservedReply) -> None:
        self._log.waiting[id(waiting)] = waiting

    def left(self, waiting: ObservedReply) -> None:
        """Log a waiting request whose client has gone."""
        if self._log.waiting.pop(id(waiting), None) is not None:
            self._noted(waiting.exchange, None)

    def _noted(self, exchange: Exchange, answer: Pieces | None) -> None:
        if self._log.recorder is not None:
            self._log.recorder.add(exchange, answer)
        frame, seen = exchange.frame[:KEPT_REQUEST_BYTES], None
        if answer is not None:
            seen = thinned(answer)
            self._log.weigh(sum([len(piece) for piece in seen if type(piece) is bytes]))
        if exchange.mark is not None:
            self._log.mark(exchange.mark)
        took_ns = perf_counter_ns() - exchange.duration_ns
        self._note((exchange.wall_ms, exchange.connection, frame, seen, took_ns))
        if len(self._recent) >= FULL:
            self._log.seal()


class ObservedReply(PendingReply):
    """A pending reply, for the router and for the log. Until the answer, `duration_ns` is the time of arrival."""

    __slots__ = ("_earlier", "_router", "exchange", "inner", "made", "rule")

    def __init__(
        self,
        router: ObservedRouter,
        inner: PendingReply,
        exchange: Exchange,
        rule: Rule | None = None,
        made: Change | None = None,
    ) -> None:
        self.future = future = inner.future
        self.inner = inner
        self.exchange = exchange
        self.rule = rule
        self.made = made
        self._router = router
        self._earlier = future.on_cancel
        future.on_cancel = self._cancelled
        router.waits(self)

    def _cancelled(self) -> None:
        self._router.left(self)
        if self._earlier is not None:
            self._earlier()

    def pieces(self) -> Pieces:
        return self._router.answered(self)

    def so_far(self) -> Exchange:
        of = self.exchange
        frame, waited_ns = of.frame[:KEPT_REQUEST_BYTES], perf_counter_ns() - of.duration_ns
        return Exchange((of.wall_ms, of.connection, frame, None, waited_ns), mark=of.mark)


class HeldReply(PendingReply):
    """A reply delayed by a fault: the pieces themselves, or the error ending the connection."""

    __slots__ = ()

    def __init__(self, future: Future[Any]) -> None:
        self.future = future

    def pieces(self) -> Pieces:
        return self.future.result() or []


def _mark(request_bytes: int) -> Mark | None:
    return Mark(request_bytes, None) if request_bytes >= KEPT_REQUEST_BYTES else None


_LOOK_S = 1  # between two looks at held connections
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing resets the connection


class BrokerKnows:
    """Facts beyond a single message, asked of the server's present broker."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self._server.broker.services.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def has_topic(self, topic: str) -> bool:
        return topic in self._server.broker.services.image.topics

    def fetched(self, session: FetchedSession) -> Iterable[tuple[Any, int]]:
        services = self._server.broker.services
        if isinstance(session, tuple):
            return services.shares.sessions.partitions(session)
        return services.fetch_sessions.partitions(session)

    def log_end(self, topic: str, partition: int, size: int) -> FileSlice | None:
        led = self._server.broker.services.replicas.open_leader(topic, partition)
        return None if led is None else led.log.segments.tail(size)


class TrafficObserver:
    """The request log and the faults of a server, and all effects of faults.

    `router` is the observed router itself, for requests that shall not be observed.
    """

    router: Dispatching

    def __init__(self, server: Server, known: Known) -> None:
        self._server = server
        self.known = known
        self.log = RequestLog()
        self.faults = FaultTable(known)
        self.faults.on_added = self._meet_who_waits
        self.on_event: Callable[[Exchange, Rule], None] | None = None  # None: nothing can befall, as in a proxy
        self.follow()
        self._hanging: list[tuple[Rule, socket.socket, ConnectionContext]] = []  # connections that faults hold
        server.admit = self._admit

    @cached_property
    def counts(self) -> RequestCounts:
        """Return sums of the clients' requests; counting begins with the first call."""
        return RequestCounts(self.log, self.known)

    def follow(self) -> None:
        """Observe the server's present router, which a new broker replaces."""
        server = self._server
        if not isinstance(server.router, ObservedRouter):
            self.router = server.router
            self.observe_by(ObservedRouter)
            server.broker.services.on_close.append(self._note_close)

    def _note_close(self, connection: ConnectionContext) -> None:
        if self.log.recorder is not None:
            self.log.recorder.add_close(connection.id)

    def observe_by(self, kind: Callable[..., ObservedRouter]) -> None:
        """Let a router of another kind observe. Requests that wait stay with the router that they came to."""
        server = self._server
        server.router = kind(self.router.dispatch, server.turns.clock, self.log, self.faults, self)

    # -- the server around the router

    def cut(self, connection: int, half: bytes) -> None:
        found = self._server.connection(connection)
        if found is not None:
            found.send([half])
            found.close("a fault cuts an answer in two")

    def send(self, connection: int, answer: Pieces) -> None:
        found = self._server.connection(connection)
        if found is not None:
            found.send(answer)

    def later(self, action: Action, step: Callable[[], None]) -> None:
        turns = self._server.turns
        if action.delay_clock == "wall":
            turns.loop.call_later(action.delay_ms / 1000, turns.run, step)
            return

        def due(now: int) -> bool:
            step()
            return True

        self._server.purgatory.park(Parked(turns.clock.now + action.delay_ms, expire=due))

    def cancel(self, future: Future[Any]) -> None:
        self._server.purgatory.cancel(future)

    def at_end(self, step: Callable[[], None]) -> None:
        self._server.turns.at_end(step)

    def take_steps(self) -> None:
        self._server.turns.answers.take_steps()

    def befall(self, exchange: Exchange, rule: Rule) -> None:
        if self.on_event is not None:
            self.on_event(exchange, rule)

    def _meet_who_waits(self, rule: Rule) -> None:
        """End waiting fetches, so the clients come again and meet the new fault."""
        if rule.action.on_request:
            for connection in list(self._server.connections):
                connection.hurry()

    def _admit(self, sock: socket.socket, context: ConnectionContext) -> bool:
        rule = self.faults.on_connect(context.id, context.listener)
        if rule is None:
            return True
        if rule.action.connect == "hang":
            rule.held[id(sock)] = lambda: self._server.serve(sock, context)
            if not self._hanging:
                self._look_later()
            self._hanging.append((rule, sock, context))
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._server.turn_away(sock, context)
        return False

    def _look_later(self) -> None:
        turns = self._server.turns
        turns.loop.call_later(_LOOK_S, turns.run, self._close_gone)

    def _close_gone(self) -> None:
        """Close held connections whose clients have gone, which nobody reads from."""
        held, self._hanging = self._hanging, []
        for rule, sock, context in held:
            if id(sock) not in rule.held:
                continue
            if has_gone(sock):
                del rule.held[id(sock)]
                self._server.turn_away(sock, context)
            else:
                self._hanging.append((rule, sock, context))
        if self._hanging:
            self._look_later()
