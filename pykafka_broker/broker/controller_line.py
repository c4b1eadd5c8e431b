"""What a broker asks the active controller, whoever that is at the moment.

Rule: a request is asked again, of the same controller or the next one, while there is time, if nobody knows who is
active, the connection is lost, or whoever is asked says that it is not the one. What takes the controller long holds up
nothing else: each kind of request has a connection of its own, save that heartbeats follow the registration.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from pykafka_broker.clock import Clock
from pykafka_broker.peers import Address, LinkError, LinkTimeout, NotServed, OnReply, Peer, Peers, Versions
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import Message

_RETRY_MS = 50
_SHARED = {ApiKey.BROKER_REGISTRATION: ApiKey.BROKER_HEARTBEAT}


class _Wish(NamedTuple):
    """A request and who waits for its answer."""

    request: Message
    on_reply: OnReply
    deadline: int


class ControllerLine:
    """Of one broker. `client_id` is its own id, as Kafka's brokers have it."""

    def __init__(self, peers: Peers, clock: Clock, client_id: str) -> None:
        self._peers = peers
        self._clock = clock
        self._client_id = client_id
        self._address: Address | None = None  # of the active controller
        self._open: dict[int, Peer] = {}  # by API key
        self._waiting: list[_Wish] = []
        self._retry_at: int | None = None
        self._closed = False

    def ask(self, request: Message, on_reply: OnReply, timeout_ms: int) -> None:
        """`on_reply` is called once, never before this has returned; with a `LinkTimeout` when the time is over."""
        self._send(_Wish(request, on_reply, self._clock.now + timeout_ms))

    def served(self, api_key: int) -> Versions | None:
        """The versions of an API that the active controller serves, as far as that is known."""
        for peer in self._open.values():
            versions = peer.served(api_key)
            if versions is not None:
                return versions
        return None

    def go_to(self, address: Address) -> None:
        """That one is active. Until another one is known, it is asked on."""
        if address == self._address:
            return
        self._address = address
        for peer in self._open.values():
            peer.close()  # who waits for an answer there asks again
        self._open.clear()
        self._go_on()

    def close(self) -> None:
        """Nothing is asked any more; who waits hears nothing."""
        self._closed = True
        self._waiting.clear()
        for peer in self._open.values():
            peer.close()
        self._open.clear()

    # -- time

    def next_deadline(self) -> int | None:
        if not self._waiting:
            return None
        earliest = min(wish.deadline for wish in self._waiting)
        return earliest if self._retry_at is None else min(earliest, self._retry_at)

    def on_deadline(self, now: int) -> None:
        late = [wish for wish in self._waiting if wish.deadline <= now]
        if late:
            self._waiting = [wish for wish in self._waiting if wish.deadline > now]
            for wish in late:
                wish.on_reply(LinkTimeout("no active controller was reached in time", sent=False))
        if self._retry_at is not None and self._retry_at <= now:
            self._retry_at = None
            self._go_on()

    # -- asking

    def _go_on(self) -> None:
        if self._address is None:
            return
        waiting, self._waiting = self._waiting, []
        for wish in waiting:
            self._send(wish)

    def _send(self, wish: _Wish) -> None:
        left_ms = wish.deadline - self._clock.now
        if self._closed:
            return
        if self._address is None or left_ms <= 0:
            self._waiting.append(wish)
            return
        try:
            self._peer(wish.request.API_KEY, self._address).send(
                wish.request, partial(self._answered, wish), left_ms, copied=True
            )
        except LinkError:
            self._again(wish)

    def _peer(self, api_key: int, address: Address) -> Peer:
        purpose = _SHARED.get(ApiKey(api_key), api_key)
        peer = self._open.get(purpose)
        if peer is None:
            peer = self._open[purpose] = self._peers.open(address, self._client_id)
        return peer

    def _answered(self, wish: _Wish, reply: Message | LinkError) -> None:
        if self._closed:
            return
        if isinstance(reply, NotServed | LinkTimeout):
            wish.on_reply(reply)
        elif isinstance(reply, LinkError) or getattr(reply, "error_code", None) == ErrorCode.NOT_CONTROLLER:
            self._again(wish)
        else:
            wish.on_reply(reply)

    def _again(self, wish: _Wish) -> None:
        self._waiting.append(wish)
        if self._retry_at is None:
            self._retry_at = self._clock.now + _RETRY_MS
