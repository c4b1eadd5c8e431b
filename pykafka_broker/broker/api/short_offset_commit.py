"""The short way of OffsetCommit: one partition, committed by a client without a static id, v5-v10.

Rule: for an unusual request the result is None, before anything is changed, and `group_offsets.py` serves the request.
Unusual are: two partitions, no metadata at all, a group that is not coordinated here, a refusal by the group, an answer
that waits for followers or for a sync. This module has no rules about groups or offsets of its own: `OffsetRequests`
decides and `GroupHost` writes, as in `group_offsets.py`. After the append the result is never None: a refusal of the
log is answered here. Commits of one turn of the loop are written as one batch before an answer of the turn leaves.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import shortens
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.offset_commit_request import SINGLE_READERS
from pykafka_broker.protocol.messages.offset_commit_response import SINGLE_WRITERS
from pykafka_broker.protocol.runtime import Pieces
from pykafka_broker.protocol.stored.offset_commit_value import OffsetCommitValue


@shortens(ApiKey.OFFSET_COMMIT)
def commit_shortly(services: Services, context: RequestContext, frame: Any, body: int) -> Pieces | None:
    version = context.api_version
    read = SINGLE_READERS.get(version)
    asked = None if read is None else read(frame, body)
    if asked is None or CONSUMER_OFFSETS not in services.hosts:
        return None
    group_id, epoch, member_id, _, topic, topic_id, index, offset, leader_epoch, _, metadata = asked
    host = services.groups
    shard = host.shard_for_commit(group_id)
    if shard is None:
        return None
    value = OffsetCommitValue(offset, leader_epoch, metadata)
    record = host.commit_one(group_id, epoch, member_id, topic, topic_id, index, value, version, context.now)
    if record is None:
        return None
    write = SINGLE_WRITERS[version]
    return host.write_commit(shard, record, lambda code: write(topic, topic_id, index, code))
