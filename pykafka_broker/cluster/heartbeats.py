"""Sessions of brokers, and BrokerHeartbeat v0-v2: a broker says that it is running and what it wants (KIP-631; Kafka:
BrokerHeartbeatManager).

Rule: sessions are soft state. A controller that begins to lead knows none and gives every unfenced broker a session
from its own start on, so that a change of controllers fences no broker. The same goes for a controller that was not
running for a while (a stopped process): its own silence is not the brokers' silence. The image says which brokers are
fenced; sessions follow it.

A broker serves clients only after it has applied its own registration and wants to be unfenced. A broker that wants to
shut down hands its leaderships over first, a portion with each heartbeat, and may shut down when all other brokers know
of that. A lost directory is taken out of the broker's registration, and leaderships move away from the directory; a
broker without directories can't serve. Changes of many partitions are written in portions, the first with the heartbeat
and the others by the controller's own duties (`Sessions.unfinished`). A broker is fenced with the last portion.
Versions: 1 offline directories (KIP-858), 2 cordoned directories (KIP-1066).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from pykafka_broker.cluster.controller import CORDONED_FROM, DIRECTORIES_FROM, Controller, Decision
from pykafka_broker.cluster.elections import broker_leaves, broker_returns, directories_lost, leads_anything
from pykafka_broker.cluster.features import METADATA_VERSION
from pykafka_broker.cluster.image import BrokerImage, MetadataImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from pykafka_broker.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from pykafka_broker.protocol.stored.broker_registration_change_record import BrokerRegistrationChangeRecord

UNKNOWN_OFFSET = -1
PORTION = 1_000  # partitions that change at once when a broker goes, so that nobody waits long
_FENCE, _UNFENCE = 1, -1
_IN_CONTROLLED_SHUTDOWN = 1
Records = Iterator[ApiMessageAndVersion]


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


# -- heartbeats


def broker_heartbeat(
    controller: Controller, sessions: Sessions, request: BrokerHeartbeatRequest, *, next_offset: int, now: int
) -> Decision[BrokerHeartbeatResponse]:
    """`next_offset` is that of the first record of the decision. STALE_BROKER_EPOCH is raised for a broker that is not
    registered, or with another epoch.
    """
    broker = known_broker(controller, request.broker_id, request.broker_epoch)
    session = sessions.contact(broker.id, broker.epoch, request.current_metadata_offset, now)
    is_caught_up = request.current_metadata_offset >= broker.epoch
    sessions.unfinished.pop((broker.id, being_fenced), None)  # unless it still wants that
    records = list(_directories(controller, sessions, broker, request))
    fenced, should_shut_down = broker.fenced, False
    want_fence = request.want_fence or (broker.log_dirs and set(broker.log_dirs) <= set(request.offline_log_dirs))
    if broker.fenced:
        should_shut_down = request.want_shut_down
        if not should_shut_down and not want_fence and is_caught_up:
            records += unfencing(controller, sessions, broker)
            fenced = False
    elif want_fence:
        records += begun(fencing(controller, broker), sessions, broker, being_fenced)
        fenced = (broker.id, being_fenced) not in sessions.unfinished
        should_shut_down = fenced and request.want_shut_down
    elif request.want_shut_down:
        retreating = _retreating(controller, broker, session)
        records += retreating
        if len(retreating) < PORTION and session.shut_down_at is None:
            session.shut_down_at = next_offset + len(records) - 1
        if not retreating and _may_end(controller, sessions, session):
            records += fencing(controller, broker)
            fenced = should_shut_down = True
    response = BrokerHeartbeatResponse(is_caught_up=is_caught_up, is_fenced=fenced, should_shut_down=should_shut_down)
    return Decision(records, response)


def known_broker(controller: Controller, broker_id: int, epoch: int) -> BrokerImage:
    """Raises STALE_BROKER_EPOCH for any other."""
    broker = controller.image.brokers.get(broker_id)
    if broker is None or broker.epoch != epoch:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH)
    return broker


def fencing(controller: Controller, broker: BrokerImage) -> Records:
    """It serves no more: its leaderships go to others, and it leaves the ISRs."""
    yield from broker_leaves(controller, broker.id)
    yield ApiMessageAndVersion(BrokerRegistrationChangeRecord(broker.id, broker.epoch, fenced=_FENCE), 0)


def being_fenced(controller: Controller, broker: BrokerImage) -> Records:
    """The rest of that."""
    return iter(()) if broker.fenced else fencing(controller, broker)


def unfencing(controller: Controller, sessions: Sessions, broker: BrokerImage) -> Records:
    """It serves: partitions without a leader may get one."""
    yield ApiMessageAndVersion(BrokerRegistrationChangeRecord(broker.id, broker.epoch, fenced=_UNFENCE), 0)
    yield from begun(broker_returns(controller, broker.id), sessions, broker, returning)


def returning(controller: Controller, broker: BrokerImage) -> Records:
    """The rest of what follows when it serves again."""
    return iter(()) if broker.fenced else broker_returns(controller, broker.id)


def losing(controller: Controller, broker: BrokerImage) -> Records:
    """The rest of what follows when it has lost directories."""
    return directories_lost(controller, broker.id, lambda directory: not broker.has_online(directory))


def begun(records: Records, sessions: Sessions, broker: BrokerImage, following: Following) -> Records:
    """The first portion; `following` is the rest of it, later."""
    some = list(islice(records, PORTION))
    if len(some) == PORTION:
        sessions.unfinished[broker.id, following] = broker.epoch
    yield from some


def retreat(controller: Controller, broker: BrokerImage) -> Records:
    """It is about to stop: its leaderships go to others."""
    if not broker.in_controlled_shutdown:
        record = BrokerRegistrationChangeRecord(broker.id, broker.epoch, in_controlled_shutdown=_IN_CONTROLLED_SHUTDOWN)
        yield ApiMessageAndVersion(record, 1)
    yield from broker_leaves(controller, broker.id)


def _retreating(controller: Controller, broker: BrokerImage, session: Session) -> list[ApiMessageAndVersion]:
    """The next portion; none if all is done."""
    if broker.in_controlled_shutdown and session.shut_down_at is not None:
        return []
    return list(islice(retreat(controller, broker), PORTION))


def _may_end(controller: Controller, sessions: Sessions, session: Session) -> bool:
    """Nothing is led there any more, and whoever serves knows it."""
    image, offset = controller.image, session.shut_down_at
    return offset is not None and sessions.all_have_seen(image, offset) and not leads_anything(image, session.broker_id)


def _directories(
    controller: Controller, sessions: Sessions, broker: BrokerImage, request: BrokerHeartbeatRequest
) -> Records:
    """What it says of its directories that the metadata does not know."""
    level = controller.image.features.get(METADATA_VERSION, 0)
    lost = [each for each in broker.log_dirs if each in request.offline_log_dirs]
    online = [each for each in broker.log_dirs if each not in lost]
    if lost and online and level >= DIRECTORIES_FROM:
        yield ApiMessageAndVersion(BrokerRegistrationChangeRecord(broker.id, broker.epoch, log_dirs=online), 2)
        moved = directories_lost(controller, broker.id, lost.__contains__)
        yield from begun(moved, sessions, broker, losing)
    cordoned = request.cordoned_log_dirs
    if cordoned is not None and level >= CORDONED_FROM and not _same(broker.cordoned_log_dirs, cordoned):
        change = BrokerRegistrationChangeRecord(broker.id, broker.epoch, cordoned_log_dirs=list(cordoned))
        yield ApiMessageAndVersion(change, 3)


def _same(known: tuple[bytes, ...] | None, told: list[bytes]) -> bool:
    return known is not None and set(known) == set(told)
