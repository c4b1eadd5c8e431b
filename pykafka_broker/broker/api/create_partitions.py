"""CreatePartitions v0-v3 (KIP-195).

Behaviour: a topic grows to `count` partitions, never shrinks; assignments are for the new ones only. All versions say
the same; 2 is the flexible encoding.
"""

from __future__ import annotations

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.cluster.authorizer import Rights
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.topics import create_partitions as decide
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.create_partitions_request import CreatePartitionsRequest
from pykafka_broker.protocol.messages.create_partitions_response import CreatePartitionsResponse


@handles(ApiKey.CREATE_PARTITIONS)
def create_partitions(
    controller: Controller, context: RequestContext, request: CreatePartitionsRequest
) -> Decision[CreatePartitionsResponse]:
    return decide(controller, request, Rights(controller.authorizer, context), context.spending())
