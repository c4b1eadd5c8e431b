"""ApiVersions v0-v4 at a controller: as at a broker, with what a controller serves."""

from __future__ import annotations

from pykafka_broker.broker.api.api_versions import answered
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.controller_routes import CONTROLLER_ROUTES, CONTROLLERS
from pykafka_broker.broker.requests.encoded_reply import EncodedReply
from pykafka_broker.broker.requests.router import handles, served_versions
from pykafka_broker.broker.services import Services
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse


@handles(ApiKey.API_VERSIONS, CONTROLLERS)
def api_versions(
    services: Services, context: RequestContext, request: ApiVersionsRequest | None
) -> ApiVersionsResponse | EncodedReply:
    return answered(services, context, request, _ranges)


def _ranges(services: Services) -> list[ApiVersion]:
    return [ApiVersion(key, *served_versions(key, CONTROLLER_ROUTES)) for key in sorted(CONTROLLER_ROUTES)]
