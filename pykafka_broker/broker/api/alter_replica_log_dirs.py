"""AlterReplicaLogDirs v0-v2 (KIP-113).

Behaviour: a log that is already in the directory stays there, a directory that is not one of `log.dirs` is
LOG_DIR_NOT_FOUND, whatever the partition. Moving a log to another directory is not served: KAFKA_STORAGE_ERROR, as for
a directory that can't take it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from pykafka_broker.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker


@handles(ApiKey.ALTER_REPLICA_LOG_DIRS)
def alter_replica_log_dirs(
    broker: Broker, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for partition in topic.partitions:
                code = _move(broker, topic.name, partition, directory.path)
                topics.setdefault(topic.name, []).append(AlterReplicaLogDirPartitionResult(partition, code))
    results = [AlterReplicaLogDirTopicResult(topic, partitions) for topic, partitions in topics.items()]
    return AlterReplicaLogDirsResponse(results=results)


def _move(broker: Broker, topic: str, partition: int, path: str) -> ErrorCode:
    target = next((each for each in broker.logs.directories if each.path == path), None)
    if target is None or not target.online:
        return ErrorCode.LOG_DIR_NOT_FOUND
    current = broker.logs.directory_of((topic, partition))
    if current is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if current is target else ErrorCode.KAFKA_STORAGE_ERROR
