"""UpdateFeatures v0-v2 (KIP-584, KIP-778).

Behaviour: all updates or none. Versions: 0 has a flag for downgrades, 1 the kind of upgrade and validate-only, 2 no
results of single features.
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.cluster.authorizer import Rights
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.feature_updates import update_features as decide
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.messages.update_features_request import UpdateFeaturesRequest
from pykafka_broker.protocol.messages.update_features_response import UpdateFeaturesResponse


@handles(ApiKey.UPDATE_FEATURES)
def update_features(
    controller: Controller, context: RequestContext, request: UpdateFeaturesRequest
) -> Decision[UpdateFeaturesResponse]:
    try:
        Rights(controller.authorizer, context).require(AclOperation.ALTER, AclResourceType.CLUSTER)
    except ApiError as error:
        return Decision([], UpdateFeaturesResponse(error_code=error.code, error_message=error.message))
    return decide(controller, request, context.api_version)
