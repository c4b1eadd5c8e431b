"""AlterConfigs v0-v2 (KIP-133) and IncrementalAlterConfigs v0-v1 (KIP-339).

Behaviour: AlterConfigs replaces all configs of a resource, the incremental form sets, deletes, appends to and subtracts
from single keys. Resources stand for themselves; one that is named twice is refused. Only the incremental form takes
BROKER_LOGGER, whose levels hold until the broker stops. Versions differ in encoding only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pykafka_broker.broker.api import broker_loggers
from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.cluster.config_changes import (
    APPEND,
    DELETE,
    SUBTRACT,
    ConfigOp,
    alter_configs,
    check_operation,
    check_ops,
    incremental_alter_configs,
)
from pykafka_broker.cluster.records import ApiMessageAndVersion, ResourceType
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import alter_configs_response as replaced
from pykafka_broker.protocol.messages import incremental_alter_configs_response as changed
from pykafka_broker.protocol.messages.alter_configs_request import AlterConfigsRequest
from pykafka_broker.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker

Outcome = tuple[int, str | None, int, str]  # error code, message, resource type, resource name
Decide = Callable[[Any], list[ApiMessageAndVersion]]


@handles(ApiKey.ALTER_CONFIGS)
def alter_all_configs(
    broker: Broker, context: RequestContext, request: AlterConfigsRequest
) -> replaced.AlterConfigsResponse:
    controller = broker.metadata.controller

    def decide(resource: Any) -> list[ApiMessageAndVersion]:
        configs = [(config.name, config.value) for config in resource.configs]
        return alter_configs(controller, resource.resource_type, resource.resource_name, configs)

    outcomes = _run(broker, context, request.resources, request.validate_only, decide)
    return replaced.AlterConfigsResponse(
        responses=[replaced.AlterConfigsResourceResponse(*outcome) for outcome in outcomes]
    )


@handles(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def incrementally_alter_configs(
    broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> changed.IncrementalAlterConfigsResponse:
    controller = broker.metadata.controller

    def decide(resource: Any) -> list[ApiMessageAndVersion]:
        ops = [ConfigOp(config.name, config.config_operation, config.value) for config in resource.configs]
        kind, name = resource.resource_type, resource.resource_name
        if kind == ResourceType.BROKER_LOGGER:
            _alter_loggers(broker.node_id, name, ops, request.validate_only)
            return []
        return incremental_alter_configs(controller, kind, name, ops)

    outcomes = _run(broker, context, request.resources, request.validate_only, decide)
    return changed.IncrementalAlterConfigsResponse(
        responses=[changed.AlterConfigsResourceResponse(*outcome) for outcome in outcomes]
    )


def _run(
    broker: Broker, context: RequestContext, resources: Sequence[Any], validate_only: bool, decide: Decide
) -> list[Outcome]:
    repeats = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    records: list[ApiMessageAndVersion] = []
    outcomes: list[Outcome] = []
    for resource in resources:
        identity = (resource.resource_type, resource.resource_name)
        try:
            if repeats[identity] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            records += decide(resource)
            outcomes.append((0, None, *identity))
        except ApiError as error:
            outcomes.append((error.code, error.message, *identity))
    if not validate_only:
        broker.commit_metadata(records, context.now)
    return outcomes


def _alter_loggers(node_id: int, name: str, ops: Sequence[ConfigOp], validate_only: bool) -> None:
    check_ops(ops)
    try:
        wanted = int(name)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}") from None
    if wanted != node_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {node_id}, but received {wanted}")
    for op in ops:
        check_operation(op)
        if op.operation in (APPEND, SUBTRACT):
            word = "APPEND" if op.operation == APPEND else "SUBTRACT"
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{word} operation is not allowed for the BROKER_LOGGER resource")
        if op.operation == DELETE and op.key == broker_loggers.ROOT:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
        broker_loggers.check_level(op.key, None if op.operation == DELETE else op.value)
    if not validate_only:
        for op in ops:
            broker_loggers.set_level(op.key, None if op.operation == DELETE else op.value)
