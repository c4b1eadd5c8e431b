"""DescribeConfigs v0-v4 (KIP-133, KIP-226, KIP-569).

Behaviour: every config of a topic, the broker, a group or a metrics subscription, with where its value comes from and,
if asked for, the values behind it; the broker "" shows what is set cluster-wide, a BROKER_LOGGER the levels of the
loggers. An empty list of keys means all, as null does. Documentation is there if asked for, in our own words.
Versions: 0 has a flag for defaults, 1 sources and synonyms, 3 types and documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pykafka_broker.broker.api.broker_loggers import describe_loggers
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Steps
from pykafka_broker.cluster.topic_names import check_topic_name
from pykafka_broker.config.describe import (
    ConfigEntry,
    ConfigSource,
    describe_broker,
    describe_broker_default,
    describe_client_metrics,
    describe_group,
    describe_topic,
    documentation,
)
from pykafka_broker.config.values import ConfigType
from pykafka_broker.errors import MALFORMED, ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest
from pykafka_broker.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from pykafka_broker.steps import Pace

_SOURCES_FROM = 1
_LIKE_ITEMS = 100  # that all configs of a topic take as long as
_SCOPES: Mapping[int, str] = {
    ConfigResourceType.TOPIC: "topic",
    ConfigResourceType.BROKER: "broker",
    ConfigResourceType.CLIENT_METRICS: "client_metrics",
    ConfigResourceType.GROUP: "group",
}


@handles(ApiKey.DESCRIBE_CONFIGS)
def describe_configs(
    services: Services, context: RequestContext, request: DescribeConfigsRequest
) -> Answer[DescribeConfigsResponse]:
    return services.slices.reply(_described(services, context, request))


def _described(
    services: Services, context: RequestContext, request: DescribeConfigsRequest
) -> Steps[DescribeConfigsResponse]:
    results = []
    pace = Pace()
    for resource in request.resources:
        if pace.due(_LIKE_ITEMS):
            yield None
        kind, name = resource.resource_type, resource.resource_name
        try:
            services.rights(context).require_config(AclOperation.DESCRIBE_CONFIGS, kind, name)
            entries = _entries(services, kind, name)
        except ApiError as error:
            results.append(DescribeConfigsResult(error.code, error.message or "", kind, name))
            continue
        keys = set(resource.configuration_keys or ())
        configs = [
            _result(entry, request, _documentation(entry, kind, request), context.api_version)
            for entry in entries
            if not keys or entry.name in keys
        ]
        results.append(DescribeConfigsResult(0, "", kind, name, configs))
    return DescribeConfigsResponse(results=results)


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
    if kind == ConfigResourceType.BROKER_LOGGER:
        if name == "":
            raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        _check_own_id(services, name, str(services.node_id))
        return describe_loggers()
    if kind == ConfigResourceType.CLIENT_METRICS:
        if name == "":
            raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return describe_client_metrics(image.config(kind, name))
    if kind == ConfigResourceType.GROUP:
        if name == "":
            raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return describe_group(services.config, image.config(kind, name))
    raise ApiError(ErrorCode.INVALID_REQUEST, MALFORMED)


def _check_own_id(services: Services, name: str, expected: str) -> None:
    try:
        wanted = int(name)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}") from None
    if wanted != services.node_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {expected} but received {name}")


def _documentation(entry: ConfigEntry, kind: int, request: DescribeConfigsRequest) -> str | None:
    """There is none of what nobody knows, nor of a setting of one listener; a logger's is empty, asked for or not."""
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
        is_default=version < _SOURCES_FROM and entry.source is ConfigSource.DEFAULT,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(*synonym) for synonym in entry.synonyms] if request.include_synonyms else [],
        config_type=entry.type,
        documentation=says,
    )
