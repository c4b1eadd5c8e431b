"""DescribeClientQuotas and AlterClientQuotas v0-v1 (KIP-546).

Behaviour: quotas are kept as metadata and told. In the answer the entries are an empty list where nothing matches, and
null only beside an error, as with Kafka. Versions: 1 is the flexible encoding.
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster import quotas
from pykafka_broker.cluster.authorizer import Rights
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from pykafka_broker.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from pykafka_broker.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from pykafka_broker.protocol.messages.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


@handles(ApiKey.DESCRIBE_CLIENT_QUOTAS)
def describe_client_quotas(
    services: Services, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    try:
        services.authorise(context, AclOperation.DESCRIBE_CONFIGS, AclResourceType.CLUSTER)
        found = quotas.describe_client_quotas(services.image, request.components, request.strict)
    except ApiError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    entries = [
        EntryData(
            [EntityData(kind, name) for kind, name in entity],
            [ValueData(key, value) for key, value in values.items()],
        )
        for entity, values in found
    ]
    return DescribeClientQuotasResponse(entries=entries)


@handles(ApiKey.ALTER_CLIENT_QUOTAS)
def alter_client_quotas(
    controller: Controller, context: RequestContext, request: AlterClientQuotasRequest
) -> Decision[AlterClientQuotasResponse]:
    try:
        Rights(controller.authorizer, context).require(AclOperation.ALTER_CONFIGS, AclResourceType.CLUSTER)
    except ApiError as error:
        return Decision([], quotas.refusal(request, error))
    return quotas.alter_client_quotas(controller, request)
