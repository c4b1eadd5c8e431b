"""Scenarios about records (deletion, log directories, producers), and about the cluster and its features."""

from interop.answers.requests import create, list_offsets, new_topic, produce
from interop.answers.script import Ask, Name, Script, scenario
from interop.batches import batch
from pykafka_broker.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pykafka_broker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykafka_broker.protocol.messages.describe_cluster_request import DescribeClusterRequest
from pykafka_broker.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from pykafka_broker.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from pykafka_broker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest


def delete(topic: str, offset: int, partition: int = 0) -> DeleteRecordsRequest:
    return DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])], 10_000)


@scenario
def delete_records(name: Name) -> Script:
    topic = name("a")
    yield "create", create(new_topic(topic))
    yield Ask("write", produce(topic, batch(*[b"%d" % i for i in range(10)])), 12)
    yield "up to four", delete(topic, 4)
    yield "earliest", list_offsets(topic, -2)
    yield "back to two", delete(topic, 2)
    yield "up to the end", delete(topic, -1)
    yield "earliest at the end", list_offsets(topic, -2)
    yield "beyond the end", delete(topic, 11)
    yield "negative", delete(topic, -2)
    yield "unknown partition", delete(topic, 0, 9)
    yield "unknown topic", delete(name("none"), 0)


@scenario
def log_dirs(name: Name) -> Script:
    yield "create", create(new_topic(name("a"), 2))
    yield Ask("write", produce(name("a"), batch(b"x" * 100)), 12)
    yield "one topic", DescribeLogDirsRequest([DescribableLogDirTopic(name("a"), [0, 1])])
    yield "unknown topic", DescribeLogDirsRequest([DescribableLogDirTopic(name("none"), [0])])
    yield "none", DescribeLogDirsRequest([])
    there = [AlterReplicaLogDirTopic(name("a"), [0])]
    yield "move to an unknown one", AlterReplicaLogDirsRequest([AlterReplicaLogDir("/no/such/dir", there)])


@scenario
def producers(name: Name) -> Script:
    yield "create", create(new_topic(name("a"), 2))
    for sequence in (0, 1):
        yield Ask("write", produce(name("a"), batch(b"x", producer=(4242, 0, sequence))), 12)
    yield "who", DescribeProducersRequest([TopicRequest(name("a"), [0, 1, 7])])
    yield "unknown topic", DescribeProducersRequest([TopicRequest(name("none"), [0])])


@scenario
def the_cluster(name: Name) -> Script:
    yield "brokers", DescribeClusterRequest(include_cluster_authorized_operations=True)
    yield "controllers", DescribeClusterRequest(endpoint_type=2)
    yield "unknown endpoint type", DescribeClusterRequest(endpoint_type=9)


@scenario
def features(name: Name) -> Script:
    def update(feature: str, level: int, kind: int = 1) -> UpdateFeaturesRequest:
        return UpdateFeaturesRequest(10_000, [FeatureUpdateKey(feature, level, upgrade_type=kind)], validate_only=True)

    yield "nothing", UpdateFeaturesRequest(10_000, [])
    yield "unknown feature", update("no.such.feature", 1)
    yield "unknown level", update("transaction.version", 99)
    yield "down without leave", update("transaction.version", 1)
    yield "down with leave", update("transaction.version", 1, 2)
    yield "same", update("transaction.version", 2)
