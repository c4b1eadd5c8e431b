"""ListConfigResources v0-v1 (KIP-1142).

Behaviour: v0 lists client metrics subscriptions, as the API was made for (KIP-714); v1 the resources of the types asked
for, of all types if none are. Topics and brokers are there whether something is set for them or not. A type that has no
configs is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Iterable

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType, ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from pykafka_broker.protocol.messages.list_config_resources_response import (
    ConfigResource,
    ListConfigResourcesResponse,
)

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
