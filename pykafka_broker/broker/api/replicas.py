"""Directories and leaders of replicas: ElectLeaders v0-v2 (KIP-183, KIP-460), AlterPartitionReassignments v0-v1,
ListPartitionReassignments v0 (KIP-455), AlterReplicaLogDirs v0-v2 (KIP-113), DescribeLogDirs v0-v5 (KIP-113, KIP-827).

ElectLeaders: the controller decides partition by partition. A request without partitions means all, and the answer has
the partitions that needed an election. Versions: 1 unclean elections and an error of the whole.

Reassignments: the list is made from the image, so any broker answers it. On one node a partition can only be assigned
to the node, so no reassignment is ever under way there. Versions: 1 of Alter may forbid a change of the number of
replicas (KIP-860).

AlterReplicaLogDirs: answered when the move has begun; the copy grows beside the loop and DescribeLogDirs shows it as a
future replica until it takes the log's place. A log that is already in the directory stays there, and an unfinished
move of the log is given up. A directory that is not in `log.dirs` is LOG_DIR_NOT_FOUND, an offline one
KAFKA_STORAGE_ERROR, and a cordoned one (KIP-1066) INVALID_REPLICA_ASSIGNMENT, whatever the partition. A topic whose
name is too long for the folder of a copy is INVALID_TOPIC_EXCEPTION before all that. A partition that other nodes have
is REPLICA_NOT_AVAILABLE, and this node makes its log in the directory if it is assigned here later.

DescribeLogDirs: the answer has each directory with the room on its disk and the size of every log in it, without
loading a log. Partitions that are not on this node are left out, and so is the metadata log. An offline directory has
KAFKA_STORAGE_ERROR and nothing else. Null topics mean all topics, an empty list none. Versions: 3 an error of the whole
answer, 4 total and usable bytes, 5 whether the directory is cordoned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles, handles_in_steps
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Steps
from pykafka_broker.cluster import elections, replication_control
from pykafka_broker.cluster.authorizer import Rights
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA
from pykafka_broker.errors import ApiError
from pykafka_broker.log.log_directory import LogDirectory, may_move
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType, by_topic
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from pykafka_broker.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from pykafka_broker.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from pykafka_broker.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from pykafka_broker.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from pykafka_broker.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest
from pykafka_broker.protocol.messages.elect_leaders_response import ElectLeadersResponse
from pykafka_broker.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from pykafka_broker.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from pykafka_broker.steps import Pace

_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_LOG, _MOVE = 5, 80  # a log that is not loaded, and the begin of a move, take as long as so many items of `Pace`


@handles(ApiKey.ELECT_LEADERS)
def elect_leaders(
    controller: Controller, context: RequestContext, request: ElectLeadersRequest
) -> Decision[ElectLeadersResponse]:
    Rights(controller.authorizer, context).require(AclOperation.ALTER, AclResourceType.CLUSTER)
    return elections.elect_leaders(controller, request)


@handles(ApiKey.LIST_PARTITION_REASSIGNMENTS)
def list_partition_reassignments(
    services: Services, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    services.authorise(context, AclOperation.DESCRIBE, AclResourceType.CLUSTER)
    return replication_control.list_partition_reassignments(services.image, request)


@handles(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def alter_partition_reassignments(
    controller: Controller, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    Rights(controller.authorizer, context).require(AclOperation.ALTER, AclResourceType.CLUSTER)
    return replication_control.alter_partition_reassignments(controller, request)


@handles_in_steps(ApiKey.ALTER_REPLICA_LOG_DIRS, outlives_client=True)
def alter_replica_log_dirs(
    services: Services, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> Steps[AlterReplicaLogDirsResponse]:
    services.authorise(context, AclOperation.ALTER, AclResourceType.CLUSTER)
    # A partition that is named twice goes to the directory that is named last.
    paths = {(topic.name, each): to.path for to in request.dirs for topic in to.topics for each in topic.partitions}
    results, pace = list[tuple[str, AlterReplicaLogDirPartitionResult]](), Pace()
    for (topic, index), path in paths.items():
        code = _move(services, topic, index, path)
        results.append((topic, AlterReplicaLogDirPartitionResult(index, code)))
        if pace.due(1 if code else _MOVE):
            yield None
    topics = by_topic(results).items()
    return AlterReplicaLogDirsResponse(results=[AlterReplicaLogDirTopicResult(*each) for each in topics])


def _move(services: Services, topic: str, partition: int, path: str) -> ErrorCode:
    if not may_move((topic, partition)):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    target = next((each for each in services.logs.partition_directories if each.path == path), None)
    if target is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if not target.online:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if services.logs.directory_map.is_cordoned(target):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if services.logs.directory_of((topic, partition)) is None:
        if services.image.partition(topic, partition) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        services.logs.directory_map.wanted[topic, partition] = target
        return ErrorCode.REPLICA_NOT_AVAILABLE
    try:
        services.logs.moves.start((topic, partition), target)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


@handles_in_steps(ApiKey.DESCRIBE_LOG_DIRS)
def describe_log_dirs(
    services: Services, context: RequestContext, request: DescribeLogDirsRequest
) -> Steps[DescribeLogDirsResponse]:
    if not services.allows(context, AclOperation.DESCRIBE, AclResourceType.CLUSTER):
        return DescribeLogDirsResponse(error_code=_DENIED)  # sent from version 3 on
    pace = Pace()
    if request.topics is None:
        asked = dict.fromkeys(services.logs.partitions())
    else:
        asked = {}
        for topic in request.topics:
            for index in topic.partitions:
                asked[topic.topic, index] = None
                if pace.due():
                    yield None
    logs, failed = services.logs, set[LogDirectory]()
    found: dict[LogDirectory, list[tuple[str, DescribeLogDirsPartition]]] = defaultdict(list)
    for topic_name, index in asked:
        if topic_name == CLUSTER_METADATA:
            continue
        directory, move = logs.directory_of((topic_name, index)), logs.moves.get((topic_name, index))
        if directory is not None and directory.online:
            try:
                size = logs.size_of((topic_name, index))
                found[directory].append((topic_name, DescribeLogDirsPartition(index, size, 0, False)))
            except ApiError:
                failed.add(directory)
        if move is not None:
            future = DescribeLogDirsPartition(index, move.size_bytes, move.offset_lag, True)
            found[move.target].append((topic_name, future))
        if pace.due(_LOG):
            yield None
    results = [
        DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, directory.path)
        if directory in failed or not directory.online
        else _described_directory(services, directory, by_topic(found[directory]))
        for directory in logs.partition_directories
    ]
    return DescribeLogDirsResponse(results=results)


def _described_directory(
    services: Services, directory: LogDirectory, topics: Mapping[str, list[DescribeLogDirsPartition]]
) -> DescribeLogDirsResult:
    try:
        usage = services.logs.fs.disk_usage(directory.path)
    except OSError as error:
        services.logs.directory_failed(directory, error)
        return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, directory.path)
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=[DescribeLogDirsTopic(*topic) for topic in topics.items()],
        total_bytes=usage.total_bytes,
        usable_bytes=usage.usable_bytes,
        is_cordoned=services.logs.directory_map.is_cordoned(directory),
    )
