"""BrokerHeartbeat v0-v2: a broker says that it is there and what it wants (KIP-631).

Rule: a broker serves clients only after it has applied its own registration and wants to be unfenced. One that wants
to end hands its leaderships over first, so many with each heartbeat, and may end when all other brokers know of that. A
directory that it has lost is taken out of its registration, and leaderships move away from it; without any it can't
serve. What follows for many partitions is written in portions, the first with the heartbeat and the others by the
controller's own duties (`Sessions.unfinished`). A broker is fenced with the last of them.
Versions: 1 directories that are offline (KIP-858), 2 cordoned ones (KIP-1066).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from pykafka_broker.cluster.controller import CORDONED_FROM, DIRECTORIES_FROM, Controller, Decision
from pykafka_broker.cluster.elections import broker_leaves, broker_returns, directories_lost, leads_anything
from pykafka_broker.cluster.features import METADATA_VERSION
from pykafka_broker.cluster.image import BrokerImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.sessions import Following, Session, Sessions
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from pykafka_broker.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from pykafka_broker.protocol.stored.broker_registration_change_record import BrokerRegistrationChangeRecord

PORTION = 1_000  # partitions that change at once when a broker goes, so that nobody waits long
_FENCE, _UNFENCE = 1, -1
_IN_CONTROLLED_SHUTDOWN = 1
Records = Iterator[ApiMessageAndVersion]


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
