"""What a node serves and which features a cluster has: ApiVersions, UpdateFeatures (KIP-584, KIP-778)."""

from __future__ import annotations

from collections.abc import Mapping

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, Refused, check
from pykafka_broker.protocol.enums import UpgradeType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.api_versions_response import ApiVersionsResponse
from pykafka_broker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

_SOFTWARE = "pykafka-broker-tools"


async def api_versions(client: Client, node: int | None = None, *, call: str | None = None) -> ApiVersionsResponse:
    """Of that node, or of any. Raises Refused."""
    request = ApiVersionsRequest(_SOFTWARE, "1")
    answer: ApiVersionsResponse = await client.ask(request, node, call=call)
    check(answer.error_code)
    return answer


async def update_features(
    client: Client, levels: Mapping[str, int], kind: UpgradeType, *, validate_only: bool
) -> dict[str, ClientError | None]:
    """What became of each feature. Raises ClientError where nothing was decided at all."""
    updates = [
        FeatureUpdateKey(name, level, upgrade_type=kind, allow_downgrade=False) for name, level in levels.items()
    ]
    request = UpdateFeaturesRequest(client.request_timeout_ms, updates, validate_only)
    answer = await client.ask_controller(request, versions=(1, 2), call="updateFeatures", repeatable=False)
    if answer.error_code != ErrorCode.NONE:
        return dict.fromkeys(levels, Refused(answer.error_code, answer.error_message))
    found: dict[str, ClientError | None] = dict.fromkeys(levels)
    for each in answer.results:
        if each.error_code != ErrorCode.NONE:
            found[each.feature] = Refused(each.error_code, each.error_message)
    return found
