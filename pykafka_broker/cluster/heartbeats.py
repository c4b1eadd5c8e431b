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

from collections.abc import Callable, Iterable
from itertools import islice

from pykafka_broker.cluster.controller import CORDONED_FROM, DIRECTORIES_FROM, Controller, Decision
from pykafka_broker.cluster.elections import broker_leaves, broker_returns, directories_lost, leads_anything
from pykafka_broker.cluster.features import METADATA_VERSION
from pykafka_broker.cluster.image import BrokerImage, MetadataImage
from pykafka_broker.cluster.records import ApiMessageAndVersion, RecordIterator
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from pykafka_broker.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from pykafka_broker.protocol.stored.broker_registration_change_record import BrokerRegistrationChangeRecord

UNKNOWN_OFFSET = -1
PORTION = 1_000  # partitions changed at once when a broker goes, so that no request waits long
_FENCE, _UNFENCE = 1, -1
_IN_CONTROLLED_SHUTDOWN = 1


class Session:
    """A broker's session with the controller.

    shutdown_offset: the metadata offset that every other broker must have reached before this broker may shut down;
    None while no shutdown is wanted. silent_since: the time from which the time-out counts.
    """

    __slots__ = ("broker_id", "epoch", "last_contact", "metadata_offset", "shutdown_offset", "silent_since")

    def __init__(self, broker_id: int, epoch: int, now: int) -> None:
        self.broker_id = broker_id
        self.epoch = epoch
        self.last_contact = self.silent_since = now
        self.metadata_offset = UNKNOWN_OFFSET
        self.shutdown_offset: int | None = None


# Returns the remaining changes of partitions for a broker, by the present image; none when all are written.
Following = Callable[[Controller, BrokerImage], RecordIterator]


class Sessions:
    """The sessions of all brokers. The broker in the controller's own process is never fenced for silence.

    unfinished: the changes that heartbeats have begun and the controller has to continue, with the broker's epoch.
    """

    def __init__(self, timeout_ms: int, node_id: int) -> None:
        self.timeout_ms = timeout_ms
        self.unfinished: dict[tuple[int, Following], int] = {}
        self._node_id = node_id
        self._sessions: dict[int, Session] = {}
        self._watched: dict[int, Session] = {}  # of unfenced brokers, the longest silent first

    def follow(self, image: MetadataImage, broker_ids: Iterable[int], now: int) -> None:
        """Begin and end sessions after changes of registrations."""
        for broker_id in broker_ids:
            broker = image.brokers.get(broker_id)
            if broker is None:
                self.remove(broker_id)
            elif broker_id == self._node_id:
                continue
            elif broker.fenced:
                self._watched.pop(broker_id, None)
            elif broker_id not in self._watched:
                self._watched[broker_id] = self._of(broker_id, broker.epoch, now)

    def contact(self, broker_id: int, epoch: int, metadata_offset: int, now: int) -> Session:
        session = self._of(broker_id, epoch, now)
        session.last_contact = session.silent_since = now
        session.metadata_offset = metadata_offset
        if self._watched.pop(broker_id, None) is not None:
            self._watched[broker_id] = session
        return session

    def remove(self, broker_id: int) -> None:
        """Remove a session; the first heartbeat of another incarnation begins the next session."""
        self._sessions.pop(broker_id, None)
        self._watched.pop(broker_id, None)

    def cancel_pending(self, broker_id: int) -> None:
        """Cancel the unfinished changes of a broker."""
        for key in [key for key in self.unfinished if key[0] == broker_id]:
            del self.unfinished[key]

    def _of(self, broker_id: int, epoch: int, now: int) -> Session:
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            session = self._sessions[broker_id] = Session(broker_id, epoch, now)
        return session

    def is_running(self, broker_id: int, epoch: int, now: int) -> bool:
        """Return whether a heartbeat of the incarnation came within the time-out."""
        session = self._sessions.get(broker_id)
        return session is not None and session.epoch == epoch and now < session.last_contact + self.timeout_ms

    def last_contact(self, broker_id: int) -> int:
        """Return the time of the last heartbeat; -1 without a session."""
        session = self._sessions.get(broker_id)
        return -1 if session is None else session.last_contact

    def all_have_seen(self, image: MetadataImage, offset: int) -> bool:
        """Return whether every serving broker has applied the metadata up to `offset`."""
        return all(
            session.metadata_offset >= offset
            for broker_id, session in self._watched.items()
            if not image.brokers[broker_id].in_controlled_shutdown
        )

    def expired(self, now: int) -> list[int]:
        """Return the brokers to fence, after too long a silence."""
        return [each.broker_id for each in self._watched.values() if each.silent_since + self.timeout_ms <= now]

    def postpone_fencing(self, broker_id: int, now: int) -> None:
        """Begin another time-out for a broker which can't be fenced now."""
        session = self._watched.pop(broker_id, None)
        if session is not None:
            session.silent_since = now
            self._watched[broker_id] = session

    def reset_all(self, now: int) -> None:
        """Begin all time-outs again, after a while without any network."""
        for session in self._watched.values():
            session.silent_since = now

    def next_deadline(self) -> int | None:
        """Return the time at which the next session expires."""
        for session in self._watched.values():
            return session.silent_since + self.timeout_ms
        return None


# -- heartbeats


def broker_heartbeat(
    controller: Controller, sessions: Sessions, request: BrokerHeartbeatRequest, *, next_offset: int, now: int
) -> Decision[BrokerHeartbeatResponse]:
    """Decide on a heartbeat.

    Args:
        next_offset: the offset of the decision's first record.

    Raises:
        ApiError: STALE_BROKER_EPOCH, the broker is not registered, or with another epoch.
    """
    if not controller.image.is_registered(request.broker_id, request.broker_epoch):
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH)
    broker = controller.image.brokers[request.broker_id]
    session = sessions.contact(broker.id, broker.epoch, request.current_metadata_offset, now)
    is_caught_up = request.current_metadata_offset >= broker.epoch
    sessions.unfinished.pop((broker.id, remaining_fence_records), None)  # set again below if still wanted
    records = list(_directories(controller, sessions, broker, request))
    fenced, should_shut_down = broker.fenced, False
    want_fence = request.want_fence or (broker.log_dirs and set(broker.log_dirs) <= set(request.offline_log_dirs))
    if broker.fenced:
        should_shut_down = request.want_shut_down
        if not should_shut_down and not want_fence and is_caught_up:
            records += unfence_records(controller, sessions, broker)
            fenced = False
    elif want_fence or (request.want_shut_down and _may_leave_at_once(controller, session, broker)):
        records += first_batch(fence_records(controller, broker), sessions, broker, remaining_fence_records)
        fenced = (broker.id, remaining_fence_records) not in sessions.unfinished
        should_shut_down = fenced and request.want_shut_down
    elif request.want_shut_down:
        retreating = []
        if not broker.in_controlled_shutdown or session.shutdown_offset is None:
            retreating = list(islice(controlled_shutdown_records(controller, broker), PORTION))
        records += retreating
        if len(retreating) < PORTION and (retreating or session.shutdown_offset is None):
            session.shutdown_offset = next_offset + len(records) - 1
        if not retreating and _may_end(controller, sessions, session):
            records += fence_records(controller, broker)
            fenced = should_shut_down = True
    response = BrokerHeartbeatResponse(is_caught_up=is_caught_up, is_fenced=fenced, should_shut_down=should_shut_down)
    return Decision(records, response)


def fence_records(controller: Controller, broker: BrokerImage) -> RecordIterator:
    """Fence a broker: leaderships go to others, and the broker leaves the ISRs."""
    yield from broker_leaves(controller, broker.id)
    yield ApiMessageAndVersion(BrokerRegistrationChangeRecord(broker.id, broker.epoch, fenced=_FENCE), 0)


def remaining_fence_records(controller: Controller, broker: BrokerImage) -> RecordIterator:
    """Return the rest of the fencing records."""
    return iter(()) if broker.fenced else fence_records(controller, broker)


def unfence_records(controller: Controller, sessions: Sessions, broker: BrokerImage) -> RecordIterator:
    """Unfence a broker: partitions without a leader may get the broker as leader."""
    yield ApiMessageAndVersion(BrokerRegistrationChangeRecord(broker.id, broker.epoch, fenced=_UNFENCE), 0)
    yield from first_batch(broker_returns(controller, broker.id), sessions, broker, remaining_unfence_records)


def remaining_unfence_records(controller: Controller, broker: BrokerImage) -> RecordIterator:
    """Return the rest of the elections after an unfencing."""
    return iter(()) if broker.fenced else broker_returns(controller, broker.id)


def remaining_loss_records(controller: Controller, broker: BrokerImage) -> RecordIterator:
    """Return the rest of the changes after a loss of directories."""
    return directories_lost(controller, broker.id, lambda directory: not broker.has_online(directory))


def first_batch(
    records: RecordIterator, sessions: Sessions, broker: BrokerImage, following: Following
) -> RecordIterator:
    """Yield the first portion of records; `following` makes the rest later."""
    some = list(islice(records, PORTION))
    if len(some) == PORTION:
        sessions.unfinished[broker.id, following] = broker.epoch
    yield from some


def controlled_shutdown_records(controller: Controller, broker: BrokerImage) -> RecordIterator:
    """Prepare a broker's shutdown: leaderships go to others."""
    if not broker.in_controlled_shutdown:
        record = BrokerRegistrationChangeRecord(broker.id, broker.epoch, in_controlled_shutdown=_IN_CONTROLLED_SHUTDOWN)
        yield ApiMessageAndVersion(record, 1)
    yield from broker_leaves(controller, broker.id)


def _may_leave_at_once(controller: Controller, session: Session, broker: BrokerImage) -> bool:
    """Return whether a broker that asks to shut down for the first time leads nothing, so nobody has to take over."""
    is_first = not broker.in_controlled_shutdown and session.shutdown_offset is None
    return is_first and not leads_anything(controller.image, broker.id)


def _may_end(controller: Controller, sessions: Sessions, session: Session) -> bool:
    """Return whether the broker leads nothing any more, and every serving broker knows so."""
    image, offset = controller.image, session.shutdown_offset
    return offset is not None and sessions.all_have_seen(image, offset) and not leads_anything(image, session.broker_id)


def _directories(
    controller: Controller, sessions: Sessions, broker: BrokerImage, request: BrokerHeartbeatRequest
) -> RecordIterator:
    """Yield changes of the broker's directories unknown to the metadata."""
    level = controller.image.features.get(METADATA_VERSION, 0)
    lost = [each for each in broker.log_dirs if each in request.offline_log_dirs]
    online = [each for each in broker.log_dirs if each not in lost]
    if lost and online and level >= DIRECTORIES_FROM:
        yield ApiMessageAndVersion(BrokerRegistrationChangeRecord(broker.id, broker.epoch, log_dirs=online), 2)
        moved = directories_lost(controller, broker.id, lost.__contains__)
        yield from first_batch(moved, sessions, broker, remaining_loss_records)
    cordoned = request.cordoned_log_dirs
    known = broker.cordoned_log_dirs
    if cordoned is not None and level >= CORDONED_FROM and (known is None or set(known) != set(cordoned)):
        change = BrokerRegistrationChangeRecord(broker.id, broker.epoch, cordoned_log_dirs=list(cordoned))
        yield ApiMessageAndVersion(change, 3)
