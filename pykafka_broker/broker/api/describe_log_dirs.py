"""DescribeLogDirs v0-v5 (KIP-113, KIP-827).

Behaviour: the answer has each directory with the room on its disk and the size of every log in it; no log is loaded for
that. Partitions that are asked for and are not here are left out. An offline directory has KAFKA_STORAGE_ERROR and
nothing else. Null topics mean all topics, an empty list none. Versions: 3 an error of the whole answer, 4 total and
usable bytes, 5 whether the directory is cordoned.
"""

from __future__ import annotations

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Steps
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA
from pykafka_broker.errors import ApiError
from pykafka_broker.log.log_directory import LogDirectory
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from pykafka_broker.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from pykafka_broker.steps import Pace

TopicPartition = tuple[str, int]


@handles(ApiKey.DESCRIBE_LOG_DIRS)
def describe_log_dirs(
    services: Services, context: RequestContext, request: DescribeLogDirsRequest
) -> Answer[DescribeLogDirsResponse]:
    return services.slices.reply(_described(services, context, request))


def _described(
    services: Services, context: RequestContext, request: DescribeLogDirsRequest
) -> Steps[DescribeLogDirsResponse]:
    if not services.allows(context, AclOperation.DESCRIBE, AclResourceType.CLUSTER):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)  # sent from version 3 on
    if request.topics is None:
        wanted = [partition for partition in services.logs.partitions() if partition[0] != CLUSTER_METADATA]
    else:
        named: dict[TopicPartition, None] = {}
        pace = Pace()
        for topic in request.topics:
            for number in topic.partitions:
                if services.logs.directory_of((topic.topic, number)) is not None:
                    named[topic.topic, number] = None
                if pace.due():
                    yield None
        wanted = list(named)
    by_directory: dict[int, list[TopicPartition]] = {}
    for partition in wanted:
        directory = services.logs.directory_of(partition)
        if directory is not None:
            by_directory.setdefault(id(directory), []).append(partition)
    results = [
        _directory(services, directory, by_directory.get(id(directory), []), wanted)
        for directory in services.logs.partition_directories
    ]
    return DescribeLogDirsResponse(results=results)


def _directory(
    services: Services, directory: LogDirectory, partitions: list[TopicPartition], wanted: list[TopicPartition]
) -> DescribeLogDirsResult:
    """Describe a directory.

    Args:
        partitions: the wanted partitions that are in the directory.
        wanted: all wanted partitions, some of which may be moving to the directory.
    """
    result = DescribeLogDirsResult(log_dir=directory.path)
    if not directory.online:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for topic, partition in partitions:
        try:
            size = services.logs.size_of((topic, partition))
        except ApiError:
            return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, directory.path)  # the directory has just failed
        topics.setdefault(topic, []).append(DescribeLogDirsPartition(partition, size, 0, False))
    for topic, partition in wanted:
        move = services.logs.moves.get((topic, partition))
        if move is not None and move.target is directory:
            future = DescribeLogDirsPartition(partition, move.size_bytes, move.offset_lag, True)
            topics.setdefault(topic, []).append(future)
    result.topics = [DescribeLogDirsTopic(topic, found) for topic, found in topics.items()]
    try:
        usage = services.logs.fs.disk_usage(directory.path)
    except OSError as error:
        services.logs.directory_failed(directory, error)
        return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, directory.path)
    result.total_bytes, result.usable_bytes = usage.total_bytes, usage.usable_bytes
    result.is_cordoned = services.logs.directory_map.is_cordoned(directory)
    return result
