"""The short way of Produce: an uncompressed batch without a transaction for one partition, v3-v13.

Rule: for an unusual request the result is None, before anything is changed, and `produce.py` serves the request.
Unusual are: two partitions, a transaction, compressed records, an internal topic, records that need a closer look, a
partition that another node leads or that is not open yet, an answer that waits for followers or for a sync. This module
has no rules about records or partitions of its own: `read_batch`, `check_batch` and `Partition.append` decide, as in
`produce.py`. After the append the result is never None: a refusal of the log is answered here, as by `produce.py`.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.broker.api.produce import ALL, TOPIC_IDS_FROM, close_on_failure, refusal_of_append
from pykafka_broker.broker.api.produce_checks import Prepared, check_batch, read_batch
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import shortens
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.topic_names import INTERNAL_TOPICS
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.produce_request import SINGLE_READERS
from pykafka_broker.protocol.messages.produce_response import SINGLE_WRITERS, ProduceResponse, TopicProduceResponse
from pykafka_broker.protocol.runtime import Pieces

_ACKS = (ALL, 0, 1)


@shortens(ApiKey.PRODUCE)
def produce_shortly(services: Services, context: RequestContext, frame: Any, body: int) -> Pieces | None:
    version = context.api_version
    read = SINGLE_READERS.get(version)
    asked = None if read is None else read(frame, body)
    if asked is None:
        return None
    acks, _, topic, topic_id, index, records = asked
    name = topic
    if version >= TOPIC_IDS_FROM:
        described = services.image.topics_by_id.get(topic_id)
        if described is None:
            return None
        name = described.name
    partition = services.replicas.open_leader(name, index)
    if partition is None or acks not in _ACKS or name in INTERNAL_TOPICS:
        return None
    log, wall = partition.log, services.clock.wall
    config = log.config
    try:
        batch, header = read_batch(records, version)
        if header is None or header.attributes or (acks == ALL and not log.sole_replica):
            return None
        if log.log_end_offset + header.count - log.recovery_point >= config.flush_messages:
            return None
        checked = check_batch(batch, header, config, wall, validate=services.own.validate_records)
    except ApiError:
        return None
    if not isinstance(checked, Prepared):
        return None
    batch, header, log_append_time = checked
    try:
        appended = partition.append(batch, wall, header=header, verified=False)
    except ApiError as error:
        answer = refusal_of_append(services, name, index, error)
        response = ProduceResponse([TopicProduceResponse(topic, topic_id, [answer])])
        if not acks:
            close_on_failure(response.responses)
        pieces: Pieces = [b""]
        response.write(version, pieces.append)
        return pieces
    if not acks:
        return []
    # A duplicate is answered with the time of the batch that it repeats, whatever the topic's timestamp type.
    time = appended.max_timestamp if appended.duplicate else log_append_time
    return SINGLE_WRITERS[version](topic, topic_id, index, appended.base_offset, time, appended.log_start_offset)
