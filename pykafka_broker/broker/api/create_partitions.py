"""CreatePartitions v0-v3 (KIP-195).

Behaviour: a topic grows to `count` partitions, never shrinks; assignments are for the new ones only. All versions say
the same; 2 is the flexible encoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.cluster.topics import create_partitions as decide
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.create_partitions_request import CreatePartitionsRequest
from pykafka_broker.protocol.messages.create_partitions_response import CreatePartitionsResponse

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker


@handles(ApiKey.CREATE_PARTITIONS)
def create_partitions(
    broker: Broker, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    effects = decide(broker.metadata.controller, request)
    broker.commit_metadata(effects.records, context.now)
    return effects.reply
