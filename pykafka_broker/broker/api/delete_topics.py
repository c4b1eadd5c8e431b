"""DeleteTopics v0-v6 (KIP-4, KIP-516).

Behaviour: the logs go aside at once and their space is freed after `file.delete.delay.ms`; a topic that is created
again under the same name is another one, with another id. Versions: 3 TOPIC_DELETION_DISABLED (KIP-322), 5 messages,
6 topics by id.
"""

from __future__ import annotations

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.cluster.authorizer import Rights
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.topics import delete_topics as decide
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.protocol.messages.delete_topics_response import DeleteTopicsResponse


@handles(ApiKey.DELETE_TOPICS)
def delete_topics(
    controller: Controller, context: RequestContext, request: DeleteTopicsRequest
) -> Decision[DeleteTopicsResponse]:
    return decide(controller, request, context.api_version, Rights(controller.authorizer, context), context.spending())
