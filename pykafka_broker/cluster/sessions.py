"""When the controller last heard of each broker, and what that broker wants.

Rule: soft state. A controller that begins to lead knows nothing of it and gives every broker that is not fenced a
session from its own start on, so that a change of controllers fences nobody, and so does one that was not running for
a while (a process that was stopped): its own silence is not that of others. Which brokers are fenced stands in the
image; this follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pykafka_broker.cluster.controller import Controller
from pykafka_broker.cluster.image import BrokerImage, MetadataImage
from pykafka_broker.cluster.records import ApiMessageAndVersion

UNKNOWN_OFFSET = -1


class Session:
    """Of one broker. shut_down_at: the offset that the others must have seen before this one, which wants to end, may;
    None for one that does not want to. silent_since: its time to be fenced counts from there.
    """

    __slots__ = ("broker_id", "epoch", "last_contact", "metadata_offset", "shut_down_at", "silent_since")

    def __init__(self, broker_id: int, epoch: int, now: int) -> None:
        self.broker_id = broker_id
        self.epoch = epoch
        self.last_contact = self.silent_since = now
        self.metadata_offset = UNKNOWN_OFFSET
        self.shut_down_at: int | None = None


# What follows for partitions from what a broker wants, as the image is then: nothing, once all of it is written.
Following = Callable[[Controller, BrokerImage], Iterator[ApiMessageAndVersion]]


class Sessions:
    """The sessions of all brokers. The broker in the controller's own process is never fenced for its silence.

    unfinished: what heartbeats have begun and the controller has to go on with, and the epoch of the broker that wants
    it.
    """

    def __init__(self, timeout_ms: int, node_id: int) -> None:
        self.timeout_ms = timeout_ms
        self.unfinished: dict[tuple[int, Following], int] = {}
        self._node_id = node_id
        self._sessions: dict[int, Session] = {}
        self._watched: dict[int, Session] = {}  # of those that are not fenced, the longest silent first

    def follow(self, image: MetadataImage, broker_ids: Iterable[int], now: int) -> None:
        """Their registrations have changed."""
        for broker_id in broker_ids:
            broker = image.brokers.get(broker_id)
            if broker is None:
                self._sessions.pop(broker_id, None)
                self._watched.pop(broker_id, None)
            elif broker_id == self._node_id:
                continue
            elif broker.fenced:
                self._watched.pop(broker_id, None)
            elif broker_id not in self._watched:
                self._watched[broker_id] = self._of(broker_id, broker.epoch, now)

    def contact(self, broker_id: int, epoch: int, metadata_offset: int, now: int) -> Session:
        """It has sent a heartbeat."""
        session = self._of(broker_id, epoch, now)
        session.last_contact = session.silent_since = now
        session.metadata_offset = metadata_offset
        if self._watched.pop(broker_id, None) is not None:
            self._watched[broker_id] = session
        return session

    def end(self, broker_id: int) -> None:
        """Another incarnation has registered. Its session begins with its first heartbeat."""
        self._sessions.pop(broker_id, None)
        self._watched.pop(broker_id, None)

    def drop(self, broker_id: int) -> None:
        """Nobody wants any more what that one has begun."""
        for key in [key for key in self.unfinished if key[0] == broker_id]:
            del self.unfinished[key]

    def _of(self, broker_id: int, epoch: int, now: int) -> Session:
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            session = self._sessions[broker_id] = Session(broker_id, epoch, now)
        return session

    def is_running(self, broker_id: int, epoch: int, now: int) -> bool:
        """Whether that incarnation has been heard of within the time-out."""
        session = self._sessions.get(broker_id)
        return session is not None and session.epoch == epoch and now < session.last_contact + self.timeout_ms

    def last_contact(self, broker_id: int) -> int:
        """When it was last heard of; -1 if there is no session of it."""
        session = self._sessions.get(broker_id)
        return -1 if session is None else session.last_contact

    def all_have_seen(self, image: MetadataImage, offset: int) -> bool:
        """Whether every broker that serves has applied the metadata up to there."""
        return all(
            session.metadata_offset >= offset
            for broker_id, session in self._watched.items()
            if not image.brokers[broker_id].in_controlled_shutdown
        )

    def run_out(self, now: int) -> list[int]:
        """Brokers that are to be fenced, since nothing was heard of them for too long."""
        return [each.broker_id for each in self._watched.values() if each.silent_since + self.timeout_ms <= now]

    def put_off(self, broker_id: int, now: int) -> None:
        """It can't be fenced now: it is looked at again after another time-out."""
        session = self._watched.pop(broker_id, None)
        if session is not None:
            session.silent_since = now
            self._watched[broker_id] = session

    def begin_anew(self, now: int) -> None:
        """Nobody could be heard of for a while."""
        for session in self._watched.values():
            session.silent_since = now

    def next_deadline(self) -> int | None:
        """When the next session runs out."""
        for session in self._watched.values():
            return session.silent_since + self.timeout_ms
        return None
