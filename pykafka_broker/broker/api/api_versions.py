"""ApiVersions v0-v5.

Behaviour: the answer has the ranges of the route table and the features of a 4.4 broker, or ranges and features of the
emulated release. An unknown version of the request is answered in version 0 with UNSUPPORTED_VERSION and the range of
ApiVersions, so that the client can ask again (KIP-511). APIs of controllers alone are not listed; telemetry
is with `pykafka.telemetry`, as by a Kafka with a receiver of metrics.
Versions: 1 throttle time, 3 the client's name and version (which must be words of letters, digits, '-' and '.') and
features (KIP-584), 4 features that may be at level 0, 5 the cluster id and the node id that the client
expects: both or neither, and REBOOTSTRAP_REQUIRED from another node (KIP-1242).
A finalized feature at level 0 is not listed; the epoch is the offset up to which the metadata log has been applied.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.encoded_reply import EncodedReply
from pykafka_broker.broker.requests.router import handles, served_versions
from pykafka_broker.broker.requests.routes import ROUTES, Route
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.features import KRAFT_VERSION, shown_levels, supported_features
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from pykafka_broker.broker.metadata.metadata_follower import MetadataFollower
    from pykafka_broker.broker.requests.emulation import Emulation

_SOFTWARE_FROM = 3
_LEVEL_ZERO_FROM = 4
_ANY_NODE = -1
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@handles(ApiKey.API_VERSIONS)
def api_versions(
    services: Services, context: RequestContext, request: ApiVersionsRequest | None
) -> ApiVersionsResponse | EncodedReply:
    emulation = services.emulation_for(context.connection)
    return answered(services, context, request, _ranges if emulation is None else _emulated_ranges)


def answered(
    services: Services,
    context: RequestContext,
    request: ApiVersionsRequest | None,
    ranges: Callable[[Services], list[ApiVersion]],
) -> ApiVersionsResponse | EncodedReply:
    """Answer ApiVersions with the given ranges."""
    emulation = services.emulation_for(context.connection)
    if request is None:
        own = [key for key in ranges(services) if key.api_key == ApiKey.API_VERSIONS]
        told = emulation is None or emulation.tells_own_range
        return ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, own if told else [])
    version = context.api_version
    if version >= _SOFTWARE_FROM:
        name, software_version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(software_version)):
            return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
        context.connection.software_name = name
        context.connection.software_version = software_version
        error = _mistaken(services, request)
        if error is not None:
            return ApiVersionsResponse(error)
    if context.connection.login is not None:
        context.connection.login.versions_told()
    if services.node.metadata_follower is not None:  # the controller may change without a change of the metadata
        return _answer(services, version, ranges(services), emulation)
    cache = services.replies
    key = (ApiKey.API_VERSIONS, version, ranges)
    known = cache.get(services.image, key)
    if known is not None:
        return known
    answer = _answer(services, version, ranges(services), emulation)
    return cache.put(services.image, key, EncodedReply(answer.encode(version)))


def _mistaken(services: Services, request: ApiVersionsRequest) -> ErrorCode | None:
    """Return the error for a client that expects another cluster or node, or says one of the two."""
    cluster_id, node_id = request.cluster_id, request.node_id
    if (cluster_id is None) != (node_id == _ANY_NODE):
        return ErrorCode.INVALID_REQUEST
    if cluster_id is not None and (cluster_id != services.node.cluster_id or node_id != services.node.id):
        return ErrorCode.REBOOTSTRAP_REQUIRED
    return None


def _answer(
    services: Services, version: int, ranges: list[ApiVersion], emulation: Emulation | None
) -> ApiVersionsResponse:
    features = dict(services.image.features)
    if services.metadata.kraft_version:  # kept by the quorum, not in the image
        features[KRAFT_VERSION] = services.metadata.kraft_version
    return ApiVersionsResponse(
        api_keys=ranges,
        supported_features=[
            SupportedFeatureKey(name, lowest, highest)
            for name, (lowest, highest) in supported_features(services.config).items()
            # Older clients refuse a range that begins at 0.
            if lowest > 0 or version >= _LEVEL_ZERO_FROM
        ],
        finalized_features_epoch=services.metadata.applied_offset
        if emulation is None
        else emulation.features_epoch(services.metadata.applied_offset),
        finalized_features=[
            FinalizedFeatureKey(name, level, level) for name, level in shown_levels(services.config, features).items()
        ],
    )


def _emulated_ranges(services: Services) -> list[ApiVersion]:
    assert services.emulation is not None
    versions = services.emulation.offered
    return [ApiVersion(key, *versions[key]) for key in versions if _offers(services, key)]


def _ranges(services: Services) -> list[ApiVersion]:
    offered = {api_key: route for api_key, route in ROUTES.items() if _offers(services, api_key)}
    return ranges_of(offered, services.node.metadata_follower)


def ranges_of(routes: Mapping[ApiKey, Route], metadata: MetadataFollower | None = None) -> list[ApiVersion]:
    """Return the ranges in a table of routes, without APIs that only an emulation serves.

    metadata: where another node is the controller, forwarded APIs have the versions that both nodes serve.
    """
    if metadata is not None:
        from pykafka_broker.broker.requests.controller_routes import (
            FORWARDED,
        )  # few brokers have a controller elsewhere

    ranges = []
    for api_key in sorted(routes):
        lowest, highest = served_versions(api_key, routes)
        if metadata is not None and api_key in FORWARDED:
            lowest, highest = metadata.narrowed(api_key, lowest, highest)
        if lowest <= highest:
            ranges.append(ApiVersion(api_key, lowest, highest))
    return ranges


def _offers(services: Services, api_key: int) -> bool:
    """Return whether clients are to know of an API; the release that is emulated may have others than `ROUTES`."""
    route = ROUTES.get(ApiKey(api_key))
    return route is None or not route.optional or services.own.telemetry
