"""Brokers and controllers become known (BrokerRegistration, UnregisterBroker, ControllerRegistration), and brokers get
blocks of producer ids (AllocateProducerIds, KIP-730).

Rule: a broker's epoch is the offset of its registration, so a newer incarnation always has a higher one. While a
session of an incarnation runs, no other incarnation takes its place. The same incarnation may amend its registration,
and keeps epoch and state: its log directories have no room in the records of the oldest levels of metadata.version
(KIP-858). A broker that does not name the epoch that it shut down with may have lost the tails of its logs (KIP-966),
so it leaves every ISR and ELR before it comes back, fenced. Where these are many the broker leaves in portions
(`Sessions.unfinished`), and comes back when it asks again.

No producer id is in two blocks, even where an answer was lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pykafka_broker.cluster.bootstrap import SECURITY_PROTOCOLS
from pykafka_broker.cluster.controller import DIRECTORIES_FROM, Controller, Decision
from pykafka_broker.cluster.elections import broker_leaves, unclean_shutdown
from pykafka_broker.cluster.features import METADATA_VERSION, UNREGISTER_CONTROLLER_FROM, abilities
from pykafka_broker.cluster.heartbeats import Sessions, first_batch
from pykafka_broker.cluster.image import BrokerImage, MetadataImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.config import BrokerConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import is_reserved
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from pykafka_broker.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from pykafka_broker.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from pykafka_broker.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from pykafka_broker.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from pykafka_broker.protocol.messages.controller_registration_response import ControllerRegistrationResponse
from pykafka_broker.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from pykafka_broker.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from pykafka_broker.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from pykafka_broker.protocol.messages.unregister_controller_response import UnregisterControllerResponse
from pykafka_broker.protocol.stored.producer_ids_record import ProducerIdsRecord
from pykafka_broker.protocol.stored.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from pykafka_broker.protocol.stored.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from pykafka_broker.protocol.stored.unregister_broker_record import UnregisterBrokerRecord
from pykafka_broker.protocol.stored.unregister_controller_record import UnregisterControllerRecord

CONTROLLERS_FROM = 15  # the first metadata.version with controller registrations (KIP-919)
PRODUCER_ID_BLOCK_SIZE = 1000


def register_broker(
    controller: Controller,
    sessions: Sessions,
    request: BrokerRegistrationRequest,
    *,
    cluster_id: str,
    next_offset: int,
    now: int,
) -> Decision[BrokerRegistrationResponse]:
    """Decide on a registration.

    Args:
        next_offset: the offset of the decision's first record.

    Raises:
        ApiError: the request is wrong.
    """
    known = controller.image.brokers.get(request.broker_id)
    if request.cluster_id != cluster_id:
        raise ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID)
    if request.is_migrating_zk_broker:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED)
    again = known is not None and known.incarnation_id == request.incarnation_id
    if known is not None and not again and sessions.is_running(known.id, known.epoch, now):
        raise ApiError(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    _check_directories(controller, request)
    _check_features(controller.image, request)
    _check_listeners(request)
    if known is not None and again:
        amended = _record(controller, request, known.epoch, known)
        return Decision([amended], BrokerRegistrationResponse(broker_epoch=known.epoch))
    sessions.cancel_pending(request.broker_id)
    records = list(_before(controller, sessions, request.broker_id, request.previous_broker_epoch))
    if any(broker_id == request.broker_id for broker_id, _ in sessions.unfinished):
        # More portions follow: the broker asks again, as it does while a session of its last incarnation runs.
        return Decision(records, BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION))
    epoch = next_offset + len(records)
    records.append(_record(controller, request, epoch))
    sessions.remove(request.broker_id)
    return Decision(records, BrokerRegistrationResponse(broker_epoch=epoch))


def _check_directories(controller: Controller, request: BrokerRegistrationRequest) -> None:
    if controller.image.features.get(METADATA_VERSION, 0) < DIRECTORIES_FROM:
        return
    mine = set(request.log_dirs)
    taken = {
        each
        for broker in controller.image.brokers.values()
        if broker.id != request.broker_id
        for each in broker.log_dirs
    }
    if not mine or len(mine) < len(request.log_dirs) or mine & taken or any(map(is_reserved, mine)):
        raise ApiError(ErrorCode.INVALID_REGISTRATION)


def _check_features(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    if not request.features:
        raise ApiError(ErrorCode.INVALID_REGISTRATION)
    ranges = {each.name: (each.min_supported_version, each.max_supported_version) for each in request.features}
    for name in {*image.features, *ranges}:  # an unknown feature is at level 0
        lowest, highest = ranges.get(name, (0, 0))
        if not lowest <= image.features.get(name, 0) <= highest:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)


def _check_listeners(request: BrokerRegistrationRequest) -> None:
    """Refuse impossible endpoints, which would end a node of Kafka's."""
    names = [each.name for each in request.listeners]
    known = SECURITY_PROTOCOLS.values()
    wrong = (not (each.name and each.port) or each.security_protocol not in known for each in request.listeners)
    if len({*names}) < len(names) or any(wrong):
        raise ApiError(ErrorCode.INVALID_REGISTRATION)


def _before(
    controller: Controller, sessions: Sessions, broker_id: int, previous_epoch: int
) -> Iterator[ApiMessageAndVersion]:
    """Yield the first portion of changes for a broker returning as another incarnation.

    A broker that was unregistered may come with new disks.
    """
    known = controller.image.brokers.get(broker_id)
    if known is None:
        yield from unclean_shutdown(controller, broker_id)
    elif previous_epoch != known.epoch:
        yield from first_batch(remaining_unclean_records(controller, known), sessions, known, remaining_unclean_records)
    elif not known.fenced:
        yield from first_batch(remaining_leave_records(controller, known), sessions, known, remaining_leave_records)


def remaining_unclean_records(controller: Controller, broker: BrokerImage) -> Iterator[ApiMessageAndVersion]:
    """Return the changes after an incarnation which may have lost records."""
    return unclean_shutdown(controller, broker.id)


def remaining_leave_records(controller: Controller, broker: BrokerImage) -> Iterator[ApiMessageAndVersion]:
    """Return the changes after the end of an unfenced incarnation."""
    return broker_leaves(controller, broker.id)


def _record(
    controller: Controller, request: BrokerRegistrationRequest, epoch: int, known: BrokerImage | None = None
) -> ApiMessageAndVersion:
    """Return the record of a registration, fenced; of an amended one in the state of the `known` broker."""
    version = controller.broker_record_version()
    record = RegisterBrokerRecord(
        request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=[BrokerEndpoint(e.name, e.host, e.port, e.security_protocol) for e in request.listeners],
        features=[
            BrokerFeature(each.name, each.min_supported_version, each.max_supported_version)
            for each in request.features
        ],
        rack=request.rack,
        fenced=known is None or known.fenced,
        in_controlled_shutdown=known is not None and known.in_controlled_shutdown,
        log_dirs=list(request.log_dirs) if version >= 3 else [],
    )
    if known is not None and known.cordoned_log_dirs is not None and version >= 4:
        record.cordoned_log_dirs = list(known.cordoned_log_dirs)
    return ApiMessageAndVersion(record, version)


def unregister_broker(controller: Controller, request: UnregisterBrokerRequest) -> Decision[UnregisterBrokerResponse]:
    """Forget a broker, running or not; the broker may come back as a new broker."""
    if request.broker_id == controller.node_id and request.broker_id in controller.image.brokers:
        message = f"Broker {request.broker_id} is the one that runs this cluster"
        raise ApiError(ErrorCode.INVALID_REQUEST, message)
    broker = controller.image.brokers.get(request.broker_id)
    if broker is None:
        message = f"Broker ID {request.broker_id} is not currently registered"
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, message)
    records = list(broker_leaves(controller, broker.id))
    records.append(ApiMessageAndVersion(UnregisterBrokerRecord(broker.id, broker.epoch), 0))
    return Decision(records, UnregisterBrokerResponse(error_message=""))


def controller_registration(
    config: BrokerConfig, incarnation_id: bytes, endpoints: Sequence[tuple[str, str, int, str]]
) -> ApiMessageAndVersion:
    """Return the controller's own record; an endpoint is (listener, host, port, security protocol)."""
    record = RegisterControllerRecord(
        config.node,
        incarnation_id,
        False,
        [
            ControllerEndpoint(name, host, port, SECURITY_PROTOCOLS[protocol])
            for name, host, port, protocol in endpoints
        ],
        [ControllerFeature(name, lowest, highest) for name, (lowest, highest) in abilities(config).items()],
    )
    return ApiMessageAndVersion(record, 0)


def register_controller(
    controller: Controller, request: ControllerRegistrationRequest
) -> Decision[ControllerRegistrationResponse]:
    """Register a controller with any id, as Kafka does: being a voter is another matter."""
    record = RegisterControllerRecord(
        request.controller_id,
        request.incarnation_id,
        request.zk_migration_ready,
        [ControllerEndpoint(e.name, e.host, e.port, e.security_protocol) for e in request.listeners],
        [
            ControllerFeature(each.name, each.min_supported_version, each.max_supported_version)
            for each in request.features
        ],
    )
    return Decision([ApiMessageAndVersion(record, 0)], ControllerRegistrationResponse())


def unregister_controller(
    controller: Controller, request: UnregisterControllerRequest
) -> Decision[UnregisterControllerResponse]:
    """Forget a controller, running or not; a running one registers again."""
    if request.controller_id == controller.node_id:
        message = "Controller cannot unregister itself while it is active."
        raise ApiError(ErrorCode.INVALID_REQUEST, message)
    if controller.image.features.get(METADATA_VERSION, 0) < UNREGISTER_CONTROLLER_FROM:
        message = "The current MetadataVersion is too old to support controller unregistration."
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, message)
    if request.controller_id not in controller.image.controllers:
        message = f"Controller ID {request.controller_id} is not currently registered."
        raise ApiError(ErrorCode.CONTROLLER_ID_NOT_REGISTERED, message)
    record = ApiMessageAndVersion(UnregisterControllerRecord(request.controller_id), 0)
    return Decision([record], UnregisterControllerResponse(error_message=""))


def allocate_producer_ids(
    controller: Controller, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    """Give the broker the next block (version 0), also while fenced: the block is needed at once afterwards."""
    if not controller.image.is_registered(request.broker_id, request.broker_epoch):
        return Decision([], AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    first = controller.image.next_producer_id
    record = ProducerIdsRecord(request.broker_id, request.broker_epoch, first + PRODUCER_ID_BLOCK_SIZE)
    response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK_SIZE)
    return Decision([ApiMessageAndVersion(record, 0)], response)
