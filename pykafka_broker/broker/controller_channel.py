"""The channel to the active controller, where that is another node.

Rule: a request is sent again, to the same controller or the next one, while there is time, if no active controller is
known, the connection is lost, or the node that was asked is not active. A request that takes the controller long delays
no other kind: each API has a connection of its own, save that heartbeats follow the registration.
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


class _QueuedRequest(NamedTuple):
    """A request, the receiver of its answer, and until when there is one."""

    request: Message
    on_reply: OnReply
    deadline: int


class NodeToControllerChannel:
    """The requests of one broker to its controller (Kafka: NodeToControllerChannelManager).

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
        """Return the versions of an API that the active controller serves; None if that is not known."""
        for peer in self._open.values():
            versions = peer.served(api_key)
            if versions is not None:
                return versions
        return None

    def use_controller(self, address: Address) -> None:
        """Send requests to this controller until another one is known to be active."""
        if address == self._address:
            return
        self._address = address
        for peer in self._open.values():
            peer.close()  # who waits for an answer there asks again
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
                queued.on_reply(LinkTimeout("no active controller was reached in time", sent=False))
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
        left_ms = queued.deadline - self._clock.now
        if self._closed:
            return
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
        if isinstance(reply, NotServed | LinkTimeout):
            queued.on_reply(reply)
        elif isinstance(reply, LinkError) or getattr(reply, "error_code", None) == ErrorCode.NOT_CONTROLLER:
            self._retry(queued)
        else:
            queued.on_reply(reply)

    def _retry(self, queued: _QueuedRequest) -> None:
        self._waiting.append(queued)
        if self._retry_at is None:
            self._retry_at = self._clock.now + _RETRY_MS
