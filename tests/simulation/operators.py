"""Simulated operators: they move replicas, cancel moves, elect preferred leaders, change settings, add
partitions, and delete a topic and create it again.

Rule: a request goes to any broker and is tried again until it is answered, as tools do it; an operator may ask for
anything in any state of the cluster. A new topic of the same name is another topic: no client is shown a record
of the deleted one, and acknowledged records are there until the topic is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from pykafka_broker.peers import LinkError, Versions
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pykafka_broker.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pykafka_broker.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.testing.simulation.network import HostPort
from tests.simulation.client import Ask, Script, SimClient, Wait
from tests.simulation.keeping import SETTLED
from tests.simulation.readers import records_of

PAUSE_MS = 700
MOST_PARTITIONS = 5
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET, DELETE = 0, 1
_INTERNAL = "__consumer_offsets", "__transaction_state"
_OF_TOPICS = (
    ("segment.ms", "300"),
    ("flush.messages", "1"),
    ("min.insync.replicas", "3"),
    ("compression.type", "gzip"),
    ("message.timestamp.type", "LogAppendTime"),
    ("leader.replication.throttled.replicas", "*"),
    ("follower.replication.throttled.replicas", "*"),
)
_OF_BROKERS = (
    ("leader.replication.throttled.rate", "5000"),
    ("follower.replication.throttled.rate", "5000"),
    ("num.replica.fetchers", "2"),
)


class Operator:
    """An operator that moves partitions, elects leaders and changes settings.

    brokers: the ids of all brokers. topics: two partitions of each, and of each internal topic, are moved.
    directories: replicas also move between these directories of a broker.
    """

    def __init__(
        self, client: SimClient, brokers: list[int], topics: list[str], directories: Sequence[str] = ()
    ) -> None:
        self._topics = topics
        self._directories = directories
        self._client = client
        self._brokers = brokers

    def script(self) -> Script:
        """Act again and again until the client stops, then put all settings back."""
        random = self._client.random
        acts = [self._move, self._move, self._move, self._elect, self._set, self._set]
        if self._directories:
            acts += [self._move_on_disk] * 6
        while not self._client.stopping:
            yield Wait(random.randrange(PAUSE_MS))
            yield from random.choice(acts)()
        yield from self._reset()

    def _move(self) -> Script:
        """Move a partition to other brokers; now and then cancel the move soon after."""
        random = self._client.random
        count = 4 if random.random() < 0.1 else random.choice((2, 3, 3))
        partition = random.choice((*self._topics, *_INTERNAL)), random.randrange(2)
        yield from self._reassign("move", partition, random.sample(self._brokers, min(count, len(self._brokers))))
        if random.random() < 0.4:
            yield Wait(random.randrange(60))
            yield from self._reassign("move given up", partition, None)

    def _reassign(self, what: str, partition: PartitionKey, replicas: list[int] | None) -> Script:
        topic = ReassignableTopic(partition[0], [ReassignablePartition(partition[1], replicas)])
        answer = yield from ask(self._client, AlterPartitionReassignmentsRequest(2_000, topics=[topic]), (0, 1))
        self._note(what, answer.error_code or answer.responses[0].partitions[0].error_code)

    def _move_on_disk(self) -> Script:
        """Move a replica of one broker to a directory, where it may already be or be moving to."""
        random = self._client.random
        topic = AlterReplicaLogDirTopic(random.choice((*self._topics, *_INTERNAL)), [random.randrange(2)])
        request = AlterReplicaLogDirsRequest([AlterReplicaLogDir(random.choice(self._directories), [topic])])
        answer = yield from ask(self._client, request, (2, 2))
        self._note("move on disk", answer.results[0].partitions[0].error_code)

    def _elect(self) -> Script:
        answer = yield from ask(self._client, ElectLeadersRequest(0, None, 2_000), (2, 2))
        self._note("election", answer.error_code)

    def _set(self) -> Script:
        random = self._client.random
        operation = random.choice((SET, SET, DELETE))
        if random.random() < 0.7:
            name, value = random.choice(_OF_TOPICS)
            resource = AlterConfigsResource(TOPIC_RESOURCE, random.choice(self._topics))
        else:
            name, value = random.choice(_OF_BROKERS)
            resource = AlterConfigsResource(BROKER_RESOURCE, random.choice(("", str(random.choice(self._brokers)))))
        resource.configs = [AlterableConfig(name, operation, value if operation == SET else None)]
        yield from self._alter(resource)

    def _reset(self) -> Script:
        for topic in self._topics:
            configs = [AlterableConfig(name, DELETE, None) for name, _ in _OF_TOPICS]
            yield from self._alter(AlterConfigsResource(TOPIC_RESOURCE, topic, configs), settled=True)
        for broker in ("", *map(str, self._brokers)):
            configs = [AlterableConfig(name, DELETE, None) for name, _ in _OF_BROKERS]
            yield from self._alter(AlterConfigsResource(BROKER_RESOURCE, broker, configs), settled=True)

    def _alter(self, resource: AlterConfigsResource, *, settled: bool = False) -> Script:
        """Change settings. Settings of a single broker are sent to that broker, which has to validate them."""
        place = None
        if resource.resource_type == BROKER_RESOURCE and resource.resource_name:
            place = self._client.bootstrap[self._brokers.index(int(resource.resource_name))]
        while True:
            answer = yield from ask(self._client, IncrementalAlterConfigsRequest([resource]), (1, 1), place)
            code = answer.responses[0].error_code
            self._note("setting", code)
            if code == ErrorCode.NONE or not settled:
                return
            yield self._client.backoff()

    def _note(self, what: str, code: int) -> None:
        error = ErrorCode(code)
        self._client.history.did[what if error is ErrorCode.NONE else f"{what}: {error.name}"] += 1


def ask(
    client: SimClient, request: Message, versions: Versions, place: HostPort | None = None
) -> Generator[Ask | Wait, Any, Any]:
    """Ask any broker, or the one at `place`, until it answers."""
    while True:
        answer = yield Ask(place or client.random.choice(client.bootstrap), request, versions)
        if not isinstance(answer, LinkError):
            return answer
        yield client.backoff()


def settle(client: SimClient, topic: str) -> Script:
    """Turn off retention and cleaning of the topic, so that it keeps its records from now on."""
    configs = [AlterableConfig(name, SET, value) for name, value in SETTLED.items()]
    while True:
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC_RESOURCE, topic, configs)])
        if not (yield from ask(client, request, (1, 1))).responses[0].error_code:
            return
        yield client.backoff()


class Growth:
    """An operator that adds partitions to a topic from time to time.

    All clients that share the list of the topic's partitions use a new one as soon as its creation is acknowledged;
    other nodes may not have heard of it by then.
    """

    def __init__(self, client: SimClient, partitions: list[PartitionKey], on_added: Callable[[int], None]) -> None:
        """on_added: called with each new partition."""
        self._client = client
        self._partitions = partitions
        self._on_added = on_added

    def script(self) -> Script:
        client, topic = self._client, self._partitions[0][0]
        while not client.stopping and len(self._partitions) < MOST_PARTITIONS:
            yield Wait(client.random.randrange(4 * PAUSE_MS))
            count = len(self._partitions) + client.random.choice((1, 1, 2))
            yield from self._grow(topic, count)
            client.history.counts[topic] = count
            for partition in range(len(self._partitions), count):
                client.history.did["partition added"] += 1
                self._partitions.append((topic, partition))
                self._on_added(partition)

    def _grow(self, topic: str, count: int) -> Script:
        client = self._client
        while True:
            request = CreatePartitionsRequest([CreatePartitionsTopic(topic, count, None)], 2_000)
            answer = yield Ask(client.random.choice(client.bootstrap), request, (3, 3))
            if not isinstance(answer, LinkError):
                code = answer.results[0].error_code
                if code in (ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS):  # the latter where an answer was lost
                    return
                if code != ErrorCode.INVALID_REPLICATION_FACTOR:  # there are too few brokers
                    client.expect(code, "CreatePartitions")
            yield client.backoff()


class Churn:
    """A client that creates, uses and deletes a topic, again and again."""

    def __init__(self, client: SimClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._number = 0

    def script(self) -> Script:
        """Create, use and delete the topic until the client stops; at the end the topic is deleted."""
        client = self._client
        while not client.stopping:
            self._number += 1
            id = yield from self._create()
            acknowledged = yield from self._write(id)
            yield from self._check(id, acknowledged)
            yield from self._delete(DeleteTopicState(None, id), ErrorCode.UNKNOWN_TOPIC_ID)
            client.history.did["topic made and deleted"] += 1
            yield Wait(client.random.randrange(200))

    def _create(self) -> Generator[Ask | Wait, Any, bytes]:
        client = self._client
        while True:
            request = CreateTopicsRequest([CreatableTopic(self._topic, 2, 3)], 2_000)
            result = (yield from ask(client, request, (7, 7))).topics[0]
            if result.error_code == ErrorCode.NONE:
                return bytes(result.topic_id)
            if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:  # of an answer that was lost
                yield from self._delete(DeleteTopicState(self._topic), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif result.error_code != ErrorCode.INVALID_REPLICATION_FACTOR:  # there are too few brokers
                client.expect(result.error_code, "CreateTopics")
            yield client.backoff()

    def _delete(self, topic: DeleteTopicState, gone: ErrorCode) -> Script:
        while True:
            result = (yield from ask(self._client, DeleteTopicsRequest([topic], timeout_ms=2_000), (6, 6))).responses[0]
            if result.error_code in (ErrorCode.NONE, gone):
                return
            self._client.expect(result.error_code, "DeleteTopics")
            yield self._client.backoff()

    def _write(self, id: bytes) -> Generator[Ask | Wait, Any, list[bytes]]:
        """Write a few records to partition 0, each once; return those that were acknowledged."""
        client, acknowledged = self._client, []
        for each in range(client.random.randrange(6)):
            value = f"{self._number}.{each}".encode()
            builder = BatchBuilder()
            builder.append(None, value, client.clock.wall)
            data = TopicProduceData("", id, [PartitionProduceData(0, bytes(builder.build()))])
            place = yield from self._leader(id)
            answer = yield Ask(place, ProduceRequest(None, -1, 1_000, [data]), (13, 13))
            if not isinstance(answer, LinkError):
                code = answer.responses[0].partition_responses[0].error_code
                if code == ErrorCode.NONE:
                    acknowledged.append(value)
                else:
                    client.expect(code, "Produce by id")
                    yield client.backoff()
        return acknowledged

    def _leader(self, id: bytes) -> Generator[Ask | Wait, Any, HostPort]:
        client = self._client
        while True:
            request = MetadataRequest([MetadataRequestTopic(id, None)], allow_auto_topic_creation=False)
            answer = yield from ask(client, request, (12, 12))
            places = {each.node_id: (each.host, each.port) for each in answer.brokers}
            for each in answer.topics[0].partitions:
                if each.partition_index == 0 and each.leader_id in places:
                    return places[each.leader_id]
            yield client.backoff()

    def _check(self, id: bytes, acknowledged: list[bytes]) -> Script:
        """Read until all acknowledged records have come; a record of another topic is a violation."""
        client, offset = self._client, 0
        found: list[bytes] = []
        while True:
            place = yield from self._leader(id)
            partition = FetchPartition(0, -1, offset, partition_max_bytes=1 << 20)
            request = FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20)
            request.topics = [FetchTopic(topic_id=id, partitions=[partition])]
            answer = yield Ask(place, request, (13, 13))
            if isinstance(answer, LinkError):
                yield client.backoff()
                continue
            part = answer.responses[0].partitions[0]
            if part.error_code:
                client.expect(part.error_code, "Fetch by id")
                yield client.backoff()
                continue
            records, offset = records_of(part, offset, committed=False)
            found += [value for _, value in records]
            if offset >= part.high_watermark and set(acknowledged) <= set(found):
                break
        strange = [value for value in found if not value.startswith(b"%d." % self._number)]
        if strange:
            client.history.violation(f"{self._topic} number {self._number} has records of another: {strange}")
