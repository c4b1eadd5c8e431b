"""Topics: created, described, grown, deleted; and what is refused on the way."""

from interop.answers.requests import create, new_topic
from interop.answers.script import Ask, Name, Script, scenario
from pykafka_broker.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pykafka_broker.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from pykafka_broker.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from pykafka_broker.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic

UNKNOWN_ID = bytes(range(16))


def metadata(*topics: str | bytes, create_missing: bool = False, operations: bool = False) -> MetadataRequest:
    asked = [MetadataRequestTopic(t, None) if isinstance(t, bytes) else MetadataRequestTopic(name=t) for t in topics]
    return MetadataRequest(asked, create_missing, False, operations)


def delete(*topics: str | bytes) -> DeleteTopicsRequest:
    asked = [DeleteTopicState(None, t) if isinstance(t, bytes) else DeleteTopicState(t) for t in topics]
    return DeleteTopicsRequest(asked, timeout_ms=10_000)


def grow(topic: str, count: int, *brokers: list[int], validate_only: bool = False) -> CreatePartitionsRequest:
    assignments = [CreatePartitionsAssignment(b) for b in brokers] or None
    return CreatePartitionsRequest([CreatePartitionsTopic(topic, count, assignments)], 10_000, validate_only)


@scenario
def create_a_topic(name: Name) -> Script:
    yield "plain", create(new_topic(name("a"), 3))
    yield "again", create(new_topic(name("a"), 3))
    yield "by the defaults", create(new_topic(name("b"), -1, -1))
    yield "with configs", create(new_topic(name("c"), configs={"retention.ms": "5000", "cleanup.policy": "compact"}))
    yield "only looking", create(new_topic(name("d")), validate_only=True)
    yield "only looking at one that is there", create(new_topic(name("a")), validate_only=True)
    for version in range(2, 7):
        yield Ask(f"version {version}", create(new_topic(name(f"v{version}"), 2, 1)), version)


@scenario
def create_what_can_not_be(name: Name) -> Script:
    yield "no partitions", create(new_topic(name("a"), 0))
    yield "minus two partitions", create(new_topic(name("a"), -2))
    yield "replicas", create(new_topic(name("a"), 1, 2))
    yield "no replicas", create(new_topic(name("a"), 1, 0))
    yield "unknown key", create(new_topic(name("a"), configs={"no.such.key": "1"}))
    yield "bad value", create(new_topic(name("a"), configs={"retention.ms": "soon"}))
    yield "value out of range", create(new_topic(name("a"), configs={"min.insync.replicas": "0"}))
    yield "null value", create(new_topic(name("a"), configs={"retention.ms": None}))
    yield "twice in one request", create(new_topic(name("a")), new_topic(name("a")), new_topic(name("b")))
    for bad in ("", ".", "..", "a b", "a/b", "ä", "x" * 250):
        yield f"name {bad[:10]!r}", create(new_topic(bad))
    yield "dots and underscores", create(new_topic(name("p.q_r")))
    yield "collide", create(new_topic(name("p_q.r")))
    yield "internal name", create(new_topic("__cluster_metadata"))


@scenario
def create_with_assignments(name: Name) -> Script:
    yield "good", create(new_topic(name("a"), -1, -1, assignments={0: [1], 1: [1]}))
    yield "with a count", create(new_topic(name("b"), 2, -1, assignments={0: [1], 1: [1]}))
    yield "with a gap", create(new_topic(name("b"), -1, -1, assignments={0: [1], 2: [1]}))
    yield "no brokers", create(new_topic(name("b"), -1, -1, assignments={0: []}))
    yield "unknown broker", create(new_topic(name("b"), -1, -1, assignments={0: [77]}))
    yield "a broker twice", create(new_topic(name("b"), -1, -1, assignments={0: [1, 1]}))


@scenario
def look_at_topics(name: Name) -> Script:
    created = yield "create", create(new_topic(name("a"), 2))
    topic_id = created.topics[0].topic_id
    yield "by name", metadata(name("a"), operations=True)
    yield "by id", metadata(topic_id)
    yield "unknown name", metadata(name("none"))
    yield "unknown id", metadata(UNKNOWN_ID)
    yield "bad name", metadata("a b")
    yield "bad name with creation", metadata("a b", create_missing=True)
    yield "none at all", metadata()
    yield "twice", metadata(name("a"), name("a"))
    for version in range(4, 10):
        yield Ask(f"version {version}", metadata(name("a")), version)


@scenario
def describe_in_pages(name: Name) -> Script:
    yield "create", create(new_topic(name("a"), 3), new_topic(name("b"), 2))
    both = [TopicRequest(name("b")), TopicRequest(name("a"))]
    yield "all", DescribeTopicPartitionsRequest(both)
    yield "first four", DescribeTopicPartitionsRequest(both, 4)
    yield "rest", DescribeTopicPartitionsRequest(both, 4, Cursor(name("b"), 1))
    yield "cursor beyond", DescribeTopicPartitionsRequest(both, 4, Cursor(name("b"), 9))
    yield "negative cursor", DescribeTopicPartitionsRequest(both, 4, Cursor(name("a"), -1))
    yield "unknown", DescribeTopicPartitionsRequest([TopicRequest(name("none"))])


@scenario
def more_partitions(name: Name) -> Script:
    yield "create", create(new_topic(name("a")))
    yield "only looking", grow(name("a"), 3, validate_only=True)
    yield "to three", grow(name("a"), 3)
    yield "to three again", grow(name("a"), 3)
    yield "to fewer", grow(name("a"), 2)
    yield "to none", grow(name("a"), 0)
    yield "negative", grow(name("a"), -5)
    yield "assigned", grow(name("a"), 4, [1])
    yield "assigned to nobody", grow(name("a"), 5, [])
    yield "assigned to an unknown broker", grow(name("a"), 5, [77])
    yield "too many assignments", grow(name("a"), 5, [1], [1])
    yield "unknown topic", grow(name("none"), 5)
    twice = [CreatePartitionsTopic(name("a"), 6, None), CreatePartitionsTopic(name("a"), 6, None)]
    yield "twice in one request", CreatePartitionsRequest(twice, 10_000)


@scenario
def delete_topics(name: Name) -> Script:
    created = yield "create", create(new_topic(name("a")), new_topic(name("b")), new_topic(name("c")))
    ids = [t.topic_id for t in created.topics]
    yield "by name", delete(name("a"))
    yield "by name again", delete(name("a"))
    yield "by id", delete(ids[1])
    yield "by id again", delete(ids[1])
    yield "unknown id", delete(UNKNOWN_ID)
    yield "neither", DeleteTopicsRequest([DeleteTopicState()], timeout_ms=10_000)
    yield "both", DeleteTopicsRequest([DeleteTopicState(name("c"), ids[2])], timeout_ms=10_000)
    yield "twice in one request", delete(name("c"), name("c"))
    yield "gone", metadata(name("a"))
    yield "gone by id", metadata(ids[0])
    recreated = yield "create again", create(new_topic(name("a")))
    assert recreated.topics[0].topic_id != ids[0]


@scenario
def leaders_and_reassignments(name: Name) -> Script:
    yield "create", create(new_topic(name("a"), 2))
    yield "preferred", ElectLeadersRequest(0, [TopicPartitions(name("a"), [0, 1])])
    yield "unclean", ElectLeadersRequest(1, [TopicPartitions(name("a"), [0])])
    yield "unknown partition", ElectLeadersRequest(0, [TopicPartitions(name("a"), [9])])
    yield "unknown topic", ElectLeadersRequest(0, [TopicPartitions(name("none"), [0])])
    asked = [ListPartitionReassignmentsTopics(name("a"), [0])]
    yield "reassignments", ListPartitionReassignmentsRequest(topics=asked)
    yield "all reassignments", ListPartitionReassignmentsRequest()

    def move(topic: str, partition: int, replicas: list[int] | None) -> AlterPartitionReassignmentsRequest:
        return AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(topic, [ReassignablePartition(partition, replicas)])]
        )

    yield "to where it is", move(name("a"), 0, [1])
    yield "to an unknown broker", move(name("a"), 0, [77])
    yield "to nowhere", move(name("a"), 0, [])
    yield "cancel what is not going on", move(name("a"), 0, None)
    yield "move an unknown partition", move(name("a"), 9, [1])
    yield "move an unknown topic", move(name("none"), 0, [1])
