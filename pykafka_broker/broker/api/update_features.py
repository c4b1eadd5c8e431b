"""UpdateFeatures v0-v2 (KIP-584, KIP-778).

Behaviour: all updates or none. Versions: 0 has a flag for downgrades, 1 the kind of upgrade and validate-only, 2 no
results of single features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.cluster.feature_updates import update_features as decide
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.update_features_request import UpdateFeaturesRequest
from pykafka_broker.protocol.messages.update_features_response import UpdateFeaturesResponse

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker


@handles(ApiKey.UPDATE_FEATURES)
def update_features(broker: Broker, context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    effects = decide(broker.metadata.controller, request, context.api_version)
    broker.commit_metadata(effects.records, context.now)
    return effects.reply
