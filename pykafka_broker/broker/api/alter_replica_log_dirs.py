"""AlterReplicaLogDirs v0-v2 (KIP-113).

Behaviour: answered when the move has begun; the copy grows beside the loop and DescribeLogDirs shows it as a future
replica until it takes the log's place. A log that is already in the directory stays there, and an unfinished move of it
is given up. A directory that is not one of `log.dirs` is LOG_DIR_NOT_FOUND, and one that is cordoned
(KIP-1066) INVALID_REPLICA_ASSIGNMENT, whatever the partition.
Versions: 1 throttle time behaves as everywhere, 2 is flexible.
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting import Answer
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from pykafka_broker.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


@handles(ApiKey.ALTER_REPLICA_LOG_DIRS)
def alter_replica_log_dirs(
    services: Services, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> Answer[AlterReplicaLogDirsResponse]:
    may = services.allows(context, AclOperation.ALTER, AclResourceType.CLUSTER)
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for partition in topic.partitions:
                code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                if may:
                    code = _move(services, topic.name, partition, directory.path)
                topics.setdefault(topic.name, []).append(AlterReplicaLogDirPartitionResult(partition, code))
    results = [AlterReplicaLogDirTopicResult(topic, partitions) for topic, partitions in topics.items()]
    return AlterReplicaLogDirsResponse(results=results)


def _move(services: Services, topic: str, partition: int, path: str) -> ErrorCode:
    target = next((each for each in services.logs.partition_directories if each.path == path), None)
    if target is None or not target.online:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if services.logs.directory_map.is_cordoned(target):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if services.logs.directory_of((topic, partition)) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        services.logs.moves.start((topic, partition), target)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE
