"""Decisions to create and delete topics and to add partitions.

Rule: a bad topic of a request fails alone; a request that is too large as a whole fails as a whole, and so does one
without time, once a topic is left to decide about. Checks stand in Kafka's order (ControllerApis, then
ReplicationControlManager), because a request with two faults is answered with the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain

from pykafka_broker.cluster.authorizer import ANYTHING, Rights, denial
from pykafka_broker.cluster.config_changes import check_topic, config_records
from pykafka_broker.cluster.controller import (
    MAX_RECORDS_PER_OPERATION,
    Controller,
    Decision,
    Spend,
    TooManyRecords,
    check_creation,
    check_time,
    invalid_request,
    unlimited,
)
from pykafka_broker.cluster.partition_change import active
from pykafka_broker.cluster.placement import check_assignment, directory_of, drawing, place
from pykafka_broker.cluster.records import ApiMessageAndVersion, Records
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA, check_topic_name, may_collide, unified
from pykafka_broker.config.describe import describe_topic
from pykafka_broker.errors import NOT_HOSTED, ApiError
from pykafka_broker.protocol.enums import AclOperation, AclResourceType, ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from pykafka_broker.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from pykafka_broker.protocol.runtime import ZERO_UUID
from pykafka_broker.protocol.stored.partition_record import PartitionRecord
from pykafka_broker.protocol.stored.remove_topic_record import RemoveTopicRecord
from pykafka_broker.protocol.stored.topic_record import TopicRecord

MAX_PARTITIONS_PER_REQUEST = 10_000
# The configs of a created topic are in the answer since KIP-525.
CONFIGS_FROM_VERSION = 5


def create_topics(
    controller: Controller,
    request: CreateTopicsRequest,
    version: int,
    rights: Rights = ANYTHING,
    spend: Spend = unlimited,
) -> Decision[CreateTopicsResponse]:
    """Decide on CreateTopics (KIP-4), all versions; `version` decides only whether the configs are worth making."""
    may_create_all = rights.allow(AclOperation.CREATE, AclResourceType.CLUSTER, log=False)
    refused: dict[str, CreatableTopicResult] = {}
    for name, count in Counter(topic.name for topic in request.topics).items():
        if count > 1:
            refused[name] = _failed(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        elif name == CLUSTER_METADATA:  # whatever the client's rights
            message = f"Creation of internal topic {name} is prohibited."
            refused[name] = _failed(name, ErrorCode.INVALID_REQUEST, message)
        elif not (may_create_all or rights.allow(AclOperation.CREATE, AclResourceType.TOPIC, name)):
            refused[name] = _failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    wanted = [topic for topic in request.topics if topic.name not in refused]
    if wanted:
        check_time(request.timeout_ms)
    creation = _Creation(controller, request.validate_only, version >= CONFIGS_FROM_VERSION, spend)
    results = [*creation.run(wanted), *refused.values()]
    for result in results:
        if not (result.error_code or rights.allow(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, result.name)):
            # The client may create a topic, but not see configs.
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            result.num_partitions = result.replication_factor = -1
            result.configs = []
    return Decision([] if request.validate_only else creation.records, CreateTopicsResponse(topics=results))


class _Creation:
    """A CreateTopics request in progress, with the records so far."""

    def __init__(self, controller: Controller, validate_only: bool, with_configs: bool, spend: Spend) -> None:
        self.controller = controller
        self.validate_only = validate_only
        self.with_configs = with_configs
        self.spend = spend
        self.records: Records = []
        self._by_lower_case: dict[str, str] | None = None  # existing and new topics, where case is ignored
        self._default_configs: list[CreatableTopicConfigs] | None = None

    def run(self, topics: list[CreatableTopic]) -> list[CreatableTopicResult]:
        if self._requested_partitions(topics) > MAX_PARTITIONS_PER_REQUEST:
            return self._refuse_all(topics, "Excessively large number of partitions per request.")
        collisions: dict[str, str] | None = None
        results = []
        for topic in topics:
            if collisions is None and may_collide(topic.name):
                # The existing topics by unified name. Two new topics of a request may collide, as in Kafka.
                collisions = {unified(name): name for name in self.controller.image.topics if may_collide(name)}
            try:
                results.append(self._create(topic, collisions or {}))
            except ApiError as error:
                results.append(_failed(topic.name, error.code, error.message))
        if len(self.records) > MAX_RECORDS_PER_OPERATION:
            self.records = []
            return self._refuse_all(topics, "Unable to perform excessively large batch operation.")
        return results

    def _refuse_all(self, topics: list[CreatableTopic], message: str) -> list[CreatableTopicResult]:
        return [_failed(topic.name, ErrorCode.POLICY_VIOLATION, message) for topic in topics]

    def _check_case(self, name: str) -> None:
        """Refuse a topic whose folders would be those of another topic, as on macOS and Windows."""
        if self._by_lower_case is None:
            self._by_lower_case = {each.lower(): each for each in self.controller.image.topics}
        other = self._by_lower_case.setdefault(name.lower(), name)
        if other != name:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {other}. This file system does not tell them apart.",
            )

    def _requested_partitions(self, topics: list[CreatableTopic]) -> int:
        default = self.controller.config.num_partitions
        requested = 0
        for topic in topics:
            count = default if topic.num_partitions == -1 else max(topic.num_partitions, 0)
            requested += len(topic.assignments) or count
        return requested

    def _create(self, topic: CreatableTopic, collisions: Mapping[str, str]) -> CreatableTopicResult:
        image = self.controller.image
        name = topic.name
        check_topic_name(name)
        if name in image.topics:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if may_collide(name) and unified(name) in collisions:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {collisions[unified(name)]}",
            )
        if self.controller.ignores_case:
            self._check_case(name)
        nulls = {config.name for config in topic.configs if config.value is None}
        if nulls:
            names = ",".join(sorted(nulls))
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {names}")
        # The last one of a repeated name holds, as in Kafka.
        overrides = {config.name: config.value for config in topic.configs if config.value is not None}
        check_topic(self.controller.config, overrides)
        assignments = self._assignments(topic)
        if self.controller.policies is not None:
            check_creation(self.controller.policies, topic, assignments, overrides)
        self.spend(len(assignments))  # also for a request that only validates, as in Kafka
        topic_id = self.controller.new_uuid()
        records = [ApiMessageAndVersion(TopicRecord(name, topic_id), 0)]
        records += config_records(image, ConfigResourceType.TOPIC, name, overrides)
        records += _partition_records(self.controller, topic_id, 0, assignments)
        self.records += records
        return CreatableTopicResult(
            name=name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(assignments),
            replication_factor=len(assignments[0]),
            configs=self._configs_of(overrides) if self.with_configs else [],
        )

    def _configs_of(self, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        """Return all configs of a new topic; topics without overrides share them."""
        if overrides:
            return _described(self.controller, overrides)
        if self._default_configs is None:
            self._default_configs = _described(self.controller, {})
        return self._default_configs

    def _assignments(self, topic: CreatableTopic) -> list[list[int]]:
        config = self.controller.config
        if topic.assignments:
            return self._manual_assignments(topic)
        if topic.replication_factor < -1 or topic.replication_factor == 0:
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.num_partitions < -1 or topic.num_partitions == 0:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        partitions = config.num_partitions if topic.num_partitions == -1 else topic.num_partitions
        factor = config.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
        try:
            return place(self.controller, partitions, factor, drawing(self.controller))
        except ApiError as error:
            raise ApiError(error.code, f"Unable to replicate the partition {factor} time(s): {error.message}") from None

    def _manual_assignments(self, topic: CreatableTopic) -> list[list[int]]:
        for value, what in ((topic.replication_factor, "replication factor"), (topic.num_partitions, "numPartitions")):
            if value != -1:
                raise invalid_request(f"A manual partition assignment was specified, but {what} was not set to -1.")
        assignments: dict[int, list[int]] = {}
        expected = None
        for assignment in topic.assignments:
            if assignment.partition_index in assignments:
                raise ApiError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Found multiple manual partition assignments for partition {assignment.partition_index}",
                )
            check_assignment(self.controller, assignment.broker_ids, expected)
            expected = len(assignment.broker_ids)
            assignments[assignment.partition_index] = assignment.broker_ids
        if sorted(assignments) != list(range(len(assignments))):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
            )
        return [assignments[partition] for partition in range(len(assignments))]


def _described(controller: Controller, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    """Return all configs of a new topic, with the request's values as the client wrote them."""
    entries = describe_topic(controller.config, overrides)
    return [
        CreatableTopicConfigs(
            entry.name, overrides.get(entry.name, entry.value), entry.read_only, entry.source, entry.is_sensitive
        )
        for entry in sorted(entries, key=lambda entry: entry.name)
    ]


def _partition_records(controller: Controller, topic_id: bytes, first: int, assignments: list[list[int]]) -> Records:
    version = controller.partition_record_version()
    image = controller.image
    records = []
    for partition, replicas in enumerate(assignments, first):
        in_sync = [replica for replica in replicas if active(image, replica)]
        if not in_sync:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "All brokers specified in the manual partition assignment for partition "
                f"{partition} are fenced or in controlled shutdown.",
            )
        epoch = controller.first_leader_epoch
        record = PartitionRecord(partition, topic_id, replicas, in_sync, [], [], in_sync[0], 0, epoch, 0)
        if version > 0:
            record.directories = [directory_of(image, replica) for replica in replicas]
        records.append(ApiMessageAndVersion(record, version))
    return records


def _failed(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=message)


def delete_topics(
    controller: Controller,
    request: DeleteTopicsRequest,
    version: int,
    rights: Rights = ANYTHING,
    spend: Spend = unlimited,
) -> Decision[DeleteTopicsResponse]:
    """Decide on DeleteTopics: by name, and by id since version 6 (KIP-516).

    A topic that the client may not describe is refused as a missing topic would be.
    """
    by_name = ((name, ZERO_UUID) for name in request.topic_names)
    wanted = chain(((topic.name, topic.topic_id) for topic in request.topics), by_name)
    if not controller.config.delete_topic_enable:
        # Clients before KIP-322 don't know the special error.
        code = ErrorCode.INVALID_REQUEST if version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
        return Decision([], DeleteTopicsResponse(responses=[_deletion(*topic, code) for topic in wanted]))
    if rights.allow(AclOperation.DELETE, AclResourceType.CLUSTER):
        rights = ANYTHING
    results: list[DeletableTopicResult] = []
    named: list[tuple[str | None, bytes]] = []
    for (name, topic_id), count in Counter(wanted).items():
        if (name is None) == (topic_id == ZERO_UUID):
            message = "You may not specify both topic name and topic id."
            if name is None:
                message = "Neither topic name nor id were specified."
            results += [_deletion(name, topic_id, ErrorCode.INVALID_REQUEST, message)] * count
        elif count > 1:
            message = f"Duplicate topic {'id' if name is None else 'name'}."
            results.append(_deletion(name, topic_id, ErrorCode.INVALID_REQUEST, message))
        else:
            named.append((name, topic_id))
    if named:
        check_time(request.timeout_ms)
    found: list[tuple[str, bytes]] = []
    for name, topic_id in named:
        try:
            doomed = _find_doomed(controller, rights, name, topic_id)
            if not rights.allow(AclOperation.DELETE, AclResourceType.TOPIC, doomed[0]):
                name = doomed[0]  # the client may describe the topic, so may also learn the name for an id
                raise denial(AclResourceType.TOPIC)
            found.append(doomed)
        except ApiError as error:
            results.append(_deletion(name, topic_id, error.code, error.message))
    records = []
    for (name, topic_id), count in Counter(found).items():
        if count > 1:
            message = "The provided topic name maps to an ID that was already supplied."
            results.append(_deletion(name, topic_id, ErrorCode.INVALID_REQUEST, message))
            continue
        try:
            spend(len(controller.image.topics_by_id[topic_id].partitions))
        except ApiError as error:
            results.append(_deletion(name, topic_id, error.code, error.message))
        else:
            results.append(_deletion(name, topic_id))
            records.append(ApiMessageAndVersion(RemoveTopicRecord(topic_id), 0))
    return Decision(records, DeleteTopicsResponse(responses=results))


def _deletion(
    name: str | None, topic_id: bytes, code: ErrorCode = ErrorCode.NONE, message: str | None = None
) -> DeletableTopicResult:
    return DeletableTopicResult(name, topic_id, code, message)


def _find_doomed(controller: Controller, rights: Rights, name: str | None, topic_id: bytes) -> tuple[str, bytes]:
    """Return name and id of an existing topic which the client may describe."""
    if name is None:
        topic = controller.image.topics_by_id.get(topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        rights.require(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.name)
    else:
        rights.require(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)
        topic = controller.image.topics.get(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED)
    return topic.name, topic.id


def create_partitions(
    controller: Controller, request: CreatePartitionsRequest, rights: Rights = ANYTHING, spend: Spend = unlimited
) -> Decision[CreatePartitionsResponse]:
    """Decide on CreatePartitions (KIP-195): a topic only ever grows."""
    refused: dict[str, CreatePartitionsTopicResult] = {}
    for name, count in Counter(topic.name for topic in request.topics).items():
        if count > 1:
            refused[name] = CreatePartitionsTopicResult(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        elif not rights.allow(AclOperation.ALTER, AclResourceType.TOPIC, name):
            refused[name] = CreatePartitionsTopicResult(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    wanted = [topic for topic in request.topics if topic.name not in refused]
    if wanted:
        check_time(request.timeout_ms)
    records: Records = []
    results = []
    for topic in wanted:
        try:
            added = _added_partitions(controller, topic)
            if len(records) + len(added) > MAX_RECORDS_PER_OPERATION:
                raise TooManyRecords
            spend(len(added))
            records += added
            results.append(CreatePartitionsTopicResult(topic.name, error_message=None))
        except ApiError as error:
            results.append(CreatePartitionsTopicResult(topic.name, error.code, error.message))
    response = CreatePartitionsResponse(results=[*results, *refused.values()])
    return Decision([] if request.validate_only else records, response)


def _added_partitions(controller: Controller, topic: CreatePartitionsTopic) -> Records:
    image = controller.image.topics.get(topic.name)
    if image is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(image.partitions)
    if topic.count == present:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if topic.count < present:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {present} partition(s); {topic.count} would not be an increase.",
        )
    added = topic.count - present
    if added > MAX_RECORDS_PER_OPERATION:
        # Kafka fails here with UNKNOWN_SERVER_ERROR; CreateTopics has a fitting error.
        raise TooManyRecords
    factor = len(image.partitions[0].replicas)
    if topic.assignments is None:
        assignments = place(controller, added, factor, drawing(controller))
    else:
        if len(topic.assignments) != added:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {added} additional partition(s), but only {len(topic.assignments)} assignment(s) "
                "were specified.",
            )
        for assignment in topic.assignments:
            check_assignment(controller, assignment.broker_ids, factor)
        assignments = [assignment.broker_ids for assignment in topic.assignments]
    return _partition_records(controller, image.id, present, assignments)
