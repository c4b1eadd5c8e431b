"""AlterConfigs v0-v2 (KIP-133) and IncrementalAlterConfigs v0-v1 (KIP-339).

Behaviour: AlterConfigs replaces all configs of a resource, the incremental form sets, deletes, appends to and subtracts
from single keys. Resources stand for themselves; one that is named twice is refused. Only the incremental form takes
BROKER_LOGGER, whose levels hold until the broker stops. Versions differ in encoding only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from pykafka_broker.broker.api import broker_loggers
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, then
from pykafka_broker.cluster.authorizer import Rights
from pykafka_broker.cluster.config_changes import (
    ConfigOp,
    TooManyRecords,
    alter_configs,
    check_operations,
    check_ops,
    incremental_alter_configs,
)
from pykafka_broker.cluster.controller import MAX_RECORDS_PER_OPERATION, Controller, Decision
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AlterConfigOp, ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import alter_configs_response as replaced
from pykafka_broker.protocol.messages import incremental_alter_configs_response as changed
from pykafka_broker.protocol.messages.alter_configs_request import AlterConfigsRequest, AlterConfigsResource
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterConfigsResource as IncrementalResource,
)
from pykafka_broker.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest

if TYPE_CHECKING:
    from pykafka_broker.broker.metadata.metadata_follower import MetadataFollower

# What is wrong with these is told before rights are asked for: a broker of Kafka looks at it, its controller at rights.
_CHECKED_FIRST = (ConfigResourceType.BROKER,)
Outcome = tuple[int, str | None, int, str]  # error code, message, resource type, resource name

Records = list[ApiMessageAndVersion]


class ConfigResource(Protocol):
    """What is to be altered, in either form of the request."""

    resource_type: int
    resource_name: str


A = TypeVar("A", bound=ConfigResource)


@handles(ApiKey.ALTER_CONFIGS)
def alter_all_configs(
    services: Services, context: RequestContext, request: AlterConfigsRequest
) -> Answer[replaced.AlterConfigsResponse]:
    if services.node.metadata_follower is None:
        return services.metadata.submit(context, request, decide_all)
    return _replaced(services, context, request, services.node.metadata_follower)


def _replaced(
    services: Services, context: RequestContext, request: AlterConfigsRequest, observed: MetadataFollower
) -> Answer[replaced.AlterConfigsResponse]:
    alter = partial(alter_configs, observed.checks)
    refused = _refused_here(services, context, request.resources, _replacing, alter)
    others = _without(request.resources, refused)
    own = [replaced.AlterConfigsResourceResponse(*outcome) for outcome in refused]

    def respond(decided: replaced.AlterConfigsResponse) -> replaced.AlterConfigsResponse:
        found = _in_order(request.resources, [*own, *decided.responses])
        return replaced.AlterConfigsResponse(decided.throttle_time_ms, found)

    if not others:
        return respond(replaced.AlterConfigsResponse())
    decided = observed.submit(context, AlterConfigsRequest(others, request.validate_only), decide_all)
    return then(decided, respond)


def decide_all(
    controller: Controller, context: RequestContext, request: AlterConfigsRequest
) -> Decision[replaced.AlterConfigsResponse]:
    rights = Rights(controller.authorizer, context)
    alter = partial(alter_configs, controller)
    records, outcomes = _each(
        context, request.resources, rights, _replacing, alter, (*_CHECKED_FIRST, ConfigResourceType.BROKER_LOGGER)
    )
    responses = [replaced.AlterConfigsResourceResponse(*outcome) for outcome in outcomes]
    return Decision([] if request.validate_only else records, replaced.AlterConfigsResponse(responses=responses))


def _replacing(resource: AlterConfigsResource) -> Iterator[ConfigOp]:
    return (ConfigOp(config.name, AlterConfigOp.SET, config.value) for config in resource.configs)


@handles(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def incrementally_alter_configs(
    services: Services, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Answer[changed.IncrementalAlterConfigsResponse]:
    """Change loggers, which are this node's own, here; the controller decides about everything else."""
    loggers = [each for each in request.resources if each.resource_type == ConfigResourceType.BROKER_LOGGER]
    others = [each for each in request.resources if each.resource_type != ConfigResourceType.BROKER_LOGGER]
    alter = partial(_alter_loggers, services.node_id, request.validate_only)
    _, own = _each(context, loggers, services.rights(context), _ops, alter)
    if services.node.metadata_follower is not None:
        check = partial(incremental_alter_configs, services.node.metadata_follower.checks)
        refused = _refused_here(services, context, others, _ops, check)
        own += refused
        others = _without(others, refused)

    def respond(decided: changed.IncrementalAlterConfigsResponse) -> changed.IncrementalAlterConfigsResponse:
        found = _in_order(request.resources, [*_responses(own), *decided.responses])
        return changed.IncrementalAlterConfigsResponse(decided.throttle_time_ms, found)

    if not others:
        return respond(changed.IncrementalAlterConfigsResponse())
    submitted = IncrementalAlterConfigsRequest(others, request.validate_only)
    decided: Answer[changed.IncrementalAlterConfigsResponse] = services.metadata.submit(
        context, submitted, decide_incrementally
    )
    return then(decided, respond)


def _refused_here(
    services: Services,
    context: RequestContext,
    resources: Sequence[A],
    ops_of: Callable[[A], Iterator[ConfigOp]],
    alter: Callable[..., Records],
) -> list[Outcome]:
    """Only a broker can tell whether it takes a setting of its own: a controller elsewhere does not look at it."""
    brokers = [each for each in resources if each.resource_type == ConfigResourceType.BROKER]
    _, outcomes = _each(context, brokers, services.rights(context), ops_of, alter, _CHECKED_FIRST)
    return [outcome for outcome in outcomes if outcome[0]]


def _without(resources: Sequence[A], refused: list[Outcome]) -> list[A]:
    known = {outcome[2:] for outcome in refused}
    return [each for each in resources if (each.resource_type, each.resource_name) not in known]


def _in_order(resources: Sequence[ConfigResource], answers: Sequence[A]) -> list[A]:
    """As they were asked for."""
    of = {(each.resource_type, each.resource_name): each for each in answers}
    return [of[each.resource_type, each.resource_name] for each in resources]


def decide_incrementally(
    controller: Controller, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Decision[changed.IncrementalAlterConfigsResponse]:
    """Of everything but loggers."""
    rights = Rights(controller.authorizer, context)
    alter = partial(incremental_alter_configs, controller)
    records, outcomes = _each(context, request.resources, rights, _ops, alter, _CHECKED_FIRST)
    response = changed.IncrementalAlterConfigsResponse(responses=_responses(outcomes))
    return Decision([] if request.validate_only else records, response)


def _responses(outcomes: list[Outcome]) -> list[changed.AlterConfigsResourceResponse]:
    return [changed.AlterConfigsResourceResponse(*outcome) for outcome in outcomes]


def _ops(resource: IncrementalResource) -> Iterator[ConfigOp]:
    return (ConfigOp(config.name, config.config_operation, config.value) for config in resource.configs)


def _each(
    context: RequestContext,
    resources: Sequence[A],
    rights: Rights,
    ops_of: Callable[[A], Iterator[ConfigOp]],
    alter: Callable[..., Records],
    checked_first: Collection[int] = (),
) -> tuple[Records, list[Outcome]]:
    """What is to be recorded, and what became of each resource."""
    repeats = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    records: Records = []
    outcomes: list[Outcome] = []
    for resource in resources:
        identity = (resource.resource_type, resource.resource_name)
        try:
            if repeats[identity] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            ops = list(ops_of(resource))
            check_ops(ops)
            permit = partial(rights.require_config, AclOperation.ALTER_CONFIGS, *identity)
            if identity[0] in checked_first:
                decided = alter(*identity, ops, permit)
            else:
                permit()
                decided = alter(*identity, ops)
            records += decided
            if len(records) > MAX_RECORDS_PER_OPERATION:
                raise TooManyRecords
            outcomes.append((0, None, *identity))
        except TooManyRecords as error:
            return [], [(error.code, error.message, one.resource_type, one.resource_name) for one in resources]
        except ApiError as error:
            outcomes.append((error.code, error.message, *identity))
    return records, outcomes


def _alter_loggers(node_id: int, validate_only: bool, kind: int, name: str, ops: Sequence[ConfigOp]) -> Records:
    try:
        wanted = int(name)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}") from None
    if wanted != node_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {node_id}, but received {wanted}")
    for op in ops:
        check_operations([op])
        if op.operation in (AlterConfigOp.APPEND, AlterConfigOp.SUBTRACT):
            word = "APPEND" if op.operation == AlterConfigOp.APPEND else "SUBTRACT"
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{word} operation is not allowed for the BROKER_LOGGER resource")
        if op.operation == AlterConfigOp.DELETE and op.key == broker_loggers.ROOT:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
        broker_loggers.check_level(op.key, None if op.operation == AlterConfigOp.DELETE else op.value)
    if not validate_only:
        for op in ops:
            broker_loggers.set_level(op.key, None if op.operation == AlterConfigOp.DELETE else op.value)
    return []
