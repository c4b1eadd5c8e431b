"""Configs of topics, brokers, groups and so on: ListConfigResources v0-v1 (KIP-1142), DescribeConfigs v0-v4 (KIP-133,
KIP-226, KIP-569), AlterConfigs v0-v2 (KIP-133), IncrementalAlterConfigs v0-v1 (KIP-339).

ListConfigResources: v0 lists client metrics subscriptions, as the API was made for (KIP-714); v1 the resources of the
given types, of all types if none are given. Topics and brokers are listed whether or not something is set for them. A
type without configs is UNSUPPORTED_VERSION.

DescribeConfigs: every config of a topic, the broker, a group or a metrics subscription, with the source of its value
and, if asked for, the values behind it; the broker "" shows what is set cluster-wide, a BROKER_LOGGER the levels of the
loggers. An empty list of keys means all, as null does. Documentation is in our own words. Versions: 0 has a flag for
defaults, 1 sources and synonyms, 3 types and documentation.

AlterConfigs replaces all configs of a resource, the incremental form sets, deletes, appends to and subtracts from
single keys. Resources are answered one by one; a resource that is named twice is refused. Only the incremental form
takes BROKER_LOGGER, whose levels hold until the broker stops. Versions differ in encoding only.

Loggers (KIP-412): the levels of this process's loggers in Kafka's words; Python's CRITICAL is FATAL, and TRACE is below
DEBUG. `root` is the logger of the whole package: a program that embeds the broker keeps its own root logger to itself.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.encoded_reply import EncodedReply, Portions
from pykafka_broker.broker.requests.router import handles, handles_in_steps
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Steps, then
from pykafka_broker.cluster.authorizer import Rights
from pykafka_broker.cluster.config_changes import (
    ConfigOp,
    alter_configs,
    check_operations,
    check_ops,
    incremental_alter_configs,
)
from pykafka_broker.cluster.controller import (
    MAX_RECORDS_PER_OPERATION,
    Controller,
    Decision,
    RequestRefused,
    TooManyRecords,
)
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.topic_names import check_topic_name
from pykafka_broker.config.describe import (
    ConfigEntry,
    describe_broker,
    describe_broker_default,
    describe_client_metrics,
    describe_group,
    describe_topic,
    documentation,
)
from pykafka_broker.config.values import ConfigType, java_integer
from pykafka_broker.errors import MALFORMED, ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType, AlterConfigOp, ConfigResourceType, ConfigSource
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import alter_configs_response as replaced
from pykafka_broker.protocol.messages import incremental_alter_configs_response as changed
from pykafka_broker.protocol.messages.alter_configs_request import AlterConfigsRequest
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from pykafka_broker.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from pykafka_broker.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from pykafka_broker.protocol.messages.list_config_resources_response import ConfigResource, ListConfigResourcesResponse

ROOT = "root"
PACKAGE = "pykafka_broker"
LEVELS = {
    "TRACE": logging.DEBUG - 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_SOURCES_FROM = 1
_LIKE_ITEMS = 60  # configs that are found take as long as so many items of `Pace`, and as two more each
_SCOPES: Mapping[int, str] = {
    ConfigResourceType.TOPIC: "topic",
    ConfigResourceType.BROKER: "broker",
    ConfigResourceType.CLIENT_METRICS: "client_metrics",
    ConfigResourceType.GROUP: "group",
}
_NAMED: Mapping[int, str] = {
    ConfigResourceType.BROKER_LOGGER: "Broker id",
    ConfigResourceType.CLIENT_METRICS: "Client metrics subscription name",
    ConfigResourceType.GROUP: "Group name",
}
_LISTED = (
    ConfigResourceType.GROUP,
    ConfigResourceType.CLIENT_METRICS,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.BROKER,
    ConfigResourceType.TOPIC,
)


@handles(ApiKey.LIST_CONFIG_RESOURCES)
def list_config_resources(
    services: Services, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    services.authorise(context, AclOperation.DESCRIBE_CONFIGS, AclResourceType.CLUSTER)
    types: Iterable[int] = [ConfigResourceType.CLIENT_METRICS] if context.api_version == 0 else request.resource_types
    if any(kind not in _LISTED for kind in types):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    wanted = set(types) or set(_LISTED)
    resources = [
        ConfigResource(name, kind) for kind in _LISTED if kind in wanted for name in _names(services.image, kind)
    ]
    return ListConfigResourcesResponse(config_resources=resources)


def _names(image: MetadataImage, kind: ConfigResourceType) -> Iterable[str]:
    if kind is ConfigResourceType.TOPIC:
        return image.topics
    if kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
        return map(str, image.brokers)
    return [name for resource, name in image.configs if resource == kind]


def loggers() -> dict[str, logging.Logger]:
    """Return the used loggers of the package by name."""
    known = logging.Logger.manager.loggerDict
    names = (name for name, entry in known.items() if isinstance(entry, logging.Logger))
    found = {name: logging.getLogger(name) for name in sorted(names) if name.startswith(f"{PACKAGE}.")}
    return {ROOT: logging.getLogger(PACKAGE), **found}


def level_name(level: int) -> str:
    """Return Kafka's word for a level, or for the next lower level with a word."""
    return max((value, name) for name, value in LEVELS.items() if value <= max(level, LEVELS["TRACE"]))[1]


def describe_loggers() -> list[ConfigEntry]:
    """Return the levels of all loggers as configs."""
    source, unknown = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG, ConfigType.UNKNOWN
    return [
        ConfigEntry(name, level_name(logger.getEffectiveLevel()), source, unknown, False, False, [])
        for name, logger in loggers().items()
    ]


def check_level(name: str, level: str | None) -> None:
    """Raise INVALID_CONFIG for an unknown logger or level."""
    if name not in loggers():
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if level is not None and level not in LEVELS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. Valid log levels are "
            + ", ".join(sorted(LEVELS)),
        )


@handles_in_steps(ApiKey.DESCRIBE_CONFIGS)
def describe_configs(
    services: Services, context: RequestContext, request: DescribeConfigsRequest
) -> Steps[DescribeConfigsResponse | EncodedReply]:
    if any(resource.resource_type not in _LISTED for resource in request.resources):
        raise ApiError(ErrorCode.INVALID_REQUEST, MALFORMED)
    results = Portions(DescribeConfigsResponse, "results", context.api_version)
    for resource in request.resources:
        result = _description(services, context, request, resource)
        if results.add(result, 2 if result.error_code else _LIKE_ITEMS + 2 * len(result.configs)):
            yield None
    return results.response()


def _description(
    services: Services, context: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    kind, name = resource.resource_type, resource.resource_name
    try:
        services.rights(context).require_config(AclOperation.DESCRIBE_CONFIGS, kind, name)
        entries = _entries(services, kind, name)
    except ApiError as error:
        return DescribeConfigsResult(error.code, error.message or "", kind, name)
    keys = set(resource.configuration_keys or ())
    configs = [
        _result(entry, request, _documentation(entry, kind, request), context.api_version)
        for entry in entries
        if not keys or entry.name in keys
    ]
    return DescribeConfigsResult(0, "", kind, name, configs)


def _entries(services: Services, kind: int, name: str) -> Iterable[ConfigEntry]:
    image = services.image
    if kind == ConfigResourceType.TOPIC:
        check_topic_name(name)
        if name not in image.topics:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(services.config, services.node.topic_overrides(name))
    if kind == ConfigResourceType.BROKER:
        if name == "":
            return describe_broker_default(services.config)
        _check_own_id(services, name, f"{services.node_id} or empty string,")
        return describe_broker(services.config)
    if name == "" and kind in _NAMED:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{_NAMED[kind]} must not be empty")
    if kind == ConfigResourceType.BROKER_LOGGER:
        _check_own_id(services, name, str(services.node_id))
        return describe_loggers()
    if kind == ConfigResourceType.CLIENT_METRICS:
        return describe_client_metrics(image.config(kind, name))
    if kind == ConfigResourceType.GROUP:
        return describe_group(services.config, image.config(kind, name))
    raise ApiError(ErrorCode.INVALID_REQUEST, MALFORMED)


def _check_own_id(services: Services, name: str, expected: str) -> None:
    try:
        wanted = java_integer(name)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}") from None
    if wanted != services.node_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {expected} but received {name}")


def _documentation(entry: ConfigEntry, kind: int, request: DescribeConfigsRequest) -> str | None:
    """Return a config's documentation: none for unknown keys and a listener's own settings, "" for a logger."""
    if kind == ConfigResourceType.BROKER_LOGGER:
        return ""
    if not request.include_documentation or entry.type is ConfigType.UNKNOWN:
        return None
    return documentation(_SCOPES[kind]).get(entry.name)


def _result(
    entry: ConfigEntry, request: DescribeConfigsRequest, says: str | None, version: int
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=version < _SOURCES_FROM and entry.source is ConfigSource.DEFAULT_CONFIG,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(*synonym) for synonym in entry.synonyms] if request.include_synonyms else [],
        config_type=entry.type,
        documentation=says,
    )


_Outcome = tuple[int, str | None, int, str]  # error code, message, resource type, resource name
_Records = list[ApiMessageAndVersion]


class ResourceToAlter(Protocol):
    """A resource in a request to alter configs, in either form."""

    resource_type: int
    resource_name: str


A = TypeVar("A", bound=ResourceToAlter)


class _Form(NamedTuple):
    """A form of the request to alter configs.

    ops_of: returns the changes that a resource in the request asks for.
    alter: returns the records for the changes of a resource.
    checked_first: kinds of resources whose changes are checked before rights: a broker of Kafka looks at the changes,
        its controller at rights.
    """

    request: type[Any]
    response: type[Any]
    result: type[Any]
    ops_of: Callable[[Any], Iterable[ConfigOp]]
    alter: Callable[..., _Records]
    checked_first: Collection[int]

    def decide(self, controller: Controller, context: RequestContext, request: Any) -> Decision[Any]:
        """Decide about a request without loggers."""
        rights, alter = Rights(controller.authorizer, context), partial(self.alter, controller)
        records, outcomes = _each(request.resources, rights, self.ops_of, alter, self.checked_first)
        response = self.response(responses=[self.result(*outcome) for outcome in outcomes])
        return Decision([] if request.validate_only else records, response)


_REPLACING = _Form(
    AlterConfigsRequest,
    replaced.AlterConfigsResponse,
    replaced.AlterConfigsResourceResponse,
    lambda resource: (ConfigOp(config.name, AlterConfigOp.SET, config.value) for config in resource.configs),
    alter_configs,
    (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER),
)
_INCREMENTAL = _Form(
    IncrementalAlterConfigsRequest,
    changed.IncrementalAlterConfigsResponse,
    changed.AlterConfigsResourceResponse,
    lambda resource: (ConfigOp(config.name, config.config_operation, config.value) for config in resource.configs),
    incremental_alter_configs,
    (ConfigResourceType.BROKER,),
)


@handles(ApiKey.ALTER_CONFIGS)
def replace_configs(
    services: Services, context: RequestContext, request: AlterConfigsRequest
) -> Answer[replaced.AlterConfigsResponse]:
    return _altered(services, context, request, _REPLACING, request.resources, [])


@handles(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def change_configs(
    services: Services, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Answer[changed.IncrementalAlterConfigsResponse]:
    """Change the node's own loggers, and have the controller decide about everything else."""
    own = [each for each in request.resources if each.resource_type == ConfigResourceType.BROKER_LOGGER]
    others = [each for each in request.resources if each.resource_type != ConfigResourceType.BROKER_LOGGER]
    alter = partial(_alter_loggers, services.node_id, request.validate_only)
    _, outcomes = _each(own, services.rights(context), _INCREMENTAL.ops_of, alter)
    return _altered(services, context, request, _INCREMENTAL, others, outcomes)


def _altered(
    services: Services,
    context: RequestContext,
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
    form: _Form,
    resources: Sequence[A],
    outcomes: list[_Outcome],
) -> Answer[Any]:
    """Have the controller alter `resources`, and add the `outcomes` of the request's other resources.

    A controller elsewhere does not check settings of single brokers: a broker checks its own settings here, before.
    Since 4.4 it asks for the right to them first of all.
    """
    if services.config.is_of_4_4:
        rights, allowed = services.rights(context), list[A]()
        for each in resources:
            if each.resource_type not in form.checked_first or _may_alter(rights, each):
                allowed.append(each)
            else:
                failed = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                outcomes.append((failed, None, each.resource_type, each.resource_name))
        resources = allowed
    if services.node.metadata_follower is not None:
        brokers = [each for each in resources if each.resource_type == ConfigResourceType.BROKER]
        check = partial(form.alter, services.node.metadata_follower.checks)
        _, checked = _each(brokers, services.rights(context), form.ops_of, check, form.checked_first)
        refused = [outcome for outcome in checked if outcome[0]]
        outcomes = outcomes + refused
        identities = {outcome[2:] for outcome in refused}
        resources = [each for each in resources if (each.resource_type, each.resource_name) not in identities]

    def respond(decided: Any) -> Any:
        results = [*(form.result(*outcome) for outcome in outcomes), *decided.responses]
        of = {(each.resource_type, each.resource_name): each for each in results}
        in_order = [of[each.resource_type, each.resource_name] for each in request.resources]
        return form.response(decided.throttle_time_ms, in_order)

    if not resources:
        return respond(form.response())
    submitted = form.request(resources, request.validate_only)
    return then(services.metadata.submit(context, submitted, form.decide), respond)


def _may_alter(rights: Rights, resource: ResourceToAlter) -> bool:
    try:
        rights.require_config(AclOperation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)
    except ApiError:
        return False
    return True


def _each(
    resources: Sequence[A],
    rights: Rights,
    ops_of: Callable[[A], Iterable[ConfigOp]],
    alter: Callable[..., _Records],
    checked_first: Collection[int] = (),
) -> tuple[_Records, list[_Outcome]]:
    """Return the records of all changes, and the outcome of each resource."""
    repeats = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    records: _Records = []
    outcomes: list[_Outcome] = []
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
        except RequestRefused as error:
            return [], [(error.code, error.message, each.resource_type, each.resource_name) for each in resources]
        except ApiError as error:
            outcomes.append((error.code, error.message, *identity))
    return records, outcomes


def _alter_loggers(node_id: int, validate_only: bool, kind: int, name: str, ops: Sequence[ConfigOp]) -> _Records:
    try:
        wanted = java_integer(name)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}") from None
    if wanted != node_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {node_id}, but received {wanted}")
    levels: dict[str, str | None] = {}
    for op in ops:
        check_operations([op])
        if op.operation in (AlterConfigOp.APPEND, AlterConfigOp.SUBTRACT):
            word = "APPEND" if op.operation == AlterConfigOp.APPEND else "SUBTRACT"
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{word} operation is not allowed for the BROKER_LOGGER resource")
        if op.operation == AlterConfigOp.DELETE and op.key == ROOT:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
        levels[op.key] = None if op.operation == AlterConfigOp.DELETE else op.value
        check_level(op.key, levels[op.key])
    if not validate_only:
        known = loggers()
        for key, level in levels.items():  # without a level of its own a logger has its parent's
            known[key].setLevel(logging.NOTSET if level is None else LEVELS[level])
    return []
