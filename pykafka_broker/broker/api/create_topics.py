"""CreateTopics v0-v7 (KIP-4).

Behaviour: the controller decides topic by topic; the topics of one request that are good are created in one batch, and
take requests before the answer goes out. Versions: 1 messages and validate-only, 4 defaults by -1 (which older versions
may ask for too, as with Kafka), 5 partitions, replicas and configs in the answer (KIP-525; never null, since Java's
admin client can't read that), 7 topic ids.
"""

from __future__ import annotations

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.cluster.authorizer import Rights
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.topics import create_topics as decide
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.create_topics_request import CreateTopicsRequest
from pykafka_broker.protocol.messages.create_topics_response import CreateTopicsResponse


@handles(ApiKey.CREATE_TOPICS)
def create_topics(
    controller: Controller, context: RequestContext, request: CreateTopicsRequest
) -> Decision[CreateTopicsResponse]:
    return decide(controller, request, context.api_version, Rights(controller.authorizer, context), context.spending())
