"""`python -m bench.many_turns`: the longest turns of our loop with 40,000 partitions on one node.

Rule: as in `turns.py`, CPU time of one turn. Requests over all of them come in the order of a node's life: their topics
are made, each gets its first record, all are asked for and changed, one topic of them goes, and the node stops and
starts. Times of stops and starts are of the clock, and CPU beside them.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import psutil

from bench.fair_groups import consumer, prepare, share, streams
from bench.fairness import ask
from bench.running import Running
from bench.turns import Noting, noted
from interop.answers.requests import create, new_topic
from interop.batches import batch
from interop.raw import RawClient, framed, request_bytes
from pykafka_broker.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from pykafka_broker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from pykafka_broker.protocol.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest
from pykafka_broker.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import Subtopology
from pykafka_broker.protocol.runtime import Message

_TOPICS = 8  # of five thousand partitions: ten thousand are too many for one decision
_NAMES = [f"of-many-{number}" for number in range(_TOPICS)]
_TOPIC_RESOURCE = 2
_RECORD = batch(bytes(100))
Asked = tuple[str, Message, int]  # what it is called, the request, its version


def life(each: int) -> Iterator[Asked]:
    """Yield the requests in the life of a node whose topics have `each` partitions."""
    every = range(each)
    for name in _NAMES:
        yield "create", create(new_topic(name, each)), 5
    data = [PartitionProduceData(number, _RECORD) for number in every]
    whole = [TopicProduceData(name, partition_data=data) for name in _NAMES]
    yield "first records", ProduceRequest(None, 1, 60_000, whole), 9
    yield "produce", ProduceRequest(None, 1, 60_000, whole), 9
    yield from _questions(every)
    yield from _groups(every)
    yield from _changes(every)


def _questions(every: range) -> Iterator[Asked]:
    latest = [ListOffsetsPartition(number, timestamp=-1) for number in every]
    yield "list offsets", ListOffsetsRequest(-1, topics=[ListOffsetsTopic(name, latest) for name in _NAMES]), 5
    by_time = [ListOffsetsPartition(number, timestamp=1) for number in every]
    yield "by time", ListOffsetsRequest(-1, topics=[ListOffsetsTopic(name, by_time) for name in _NAMES]), 5
    fetched = [FetchPartition(number, fetch_offset=0, partition_max_bytes=1 << 20) for number in every]
    topics = [FetchTopic(name, partitions=fetched) for name in _NAMES]
    yield "fetch all", FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=50 << 20, topics=topics), 11
    waiting = [FetchPartition(number, fetch_offset=2, partition_max_bytes=1 << 20) for number in every]
    topics = [FetchTopic(name, partitions=waiting) for name in _NAMES]
    yield "fetch that waits", FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, topics=topics), 11
    epochs = [OffsetForLeaderPartition(number, leader_epoch=0) for number in every]
    yield "epochs", OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(name, epochs) for name in _NAMES]), 4
    yield "metadata", MetadataRequest(None, False), 9
    yield "describe partitions", DescribeTopicPartitionsRequest([TopicRequest(name) for name in _NAMES]), 0
    yield "log dirs", DescribeLogDirsRequest(None), 4
    yield "log dirs, named", DescribeLogDirsRequest([DescribableLogDirTopic(name, [*every]) for name in _NAMES]), 4
    yield "configs", DescribeConfigsRequest([DescribeConfigsResource(_TOPIC_RESOURCE, name) for name in _NAMES]), 4
    yield "reassignments", ListPartitionReassignmentsRequest(60_000, None), 0
    yield "elections", ElectLeadersRequest(0, None, 60_000), 2


def _groups(every: range) -> Iterator[Asked]:
    """Yield requests of groups, heartbeats twice: with the second one comes what the first has made necessary."""
    for _ in range(2):
        yield "a consumer", consumer("many-consumers", 0, _NAMES), 1
        yield "a share consumer", share("many-shares", _NAMES), 1
        yield "a streams member", streams("many-streams", [Subtopology("0", _NAMES)]), 0
    commits = [OffsetCommitRequestPartition(number, 1, committed_metadata="") for number in every]
    topics = [OffsetCommitRequestTopic(name, partitions=commits) for name in _NAMES]
    yield "commit", OffsetCommitRequest("many-commits", topics=topics), 8
    yield "committed", OffsetFetchRequest("many-commits", None), 7


def _changes(every: range) -> Iterator[Asked]:
    for value in ("1000000", "2000000"):
        changes = [AlterableConfig("segment.ms", 0, value)]
        resources = [AlterConfigsResource(_TOPIC_RESOURCE, name, changes) for name in _NAMES]
        yield "alter configs", IncrementalAlterConfigsRequest(resources), 1
    deleted = [DeleteRecordsPartition(number, -1) for number in every]
    yield "delete records", DeleteRecordsRequest([DeleteRecordsTopic(name, deleted) for name in _NAMES], 60_000), 1
    grown = [CreatePartitionsTopic(_NAMES[0], len(every) * 5 // 4, None)]
    yield "create partitions", CreatePartitionsRequest(grown, 60_000), 3
    yield "delete topic", DeleteTopicsRequest(topic_names=_NAMES[:1], timeout_ms=60_000), 5
    yield "delete topics", DeleteTopicsRequest(topic_names=_NAMES[1:4], timeout_ms=60_000), 5


def _told(run: Noting, name: str, begun: float) -> None:
    run.tell(f"{name:20} {run.longest.ms:8.1f} ms, answered after {time.perf_counter() - begun:.1f} s")


def live(each: int, wanted: list[str], looked: bool) -> None:
    """Tell the longest turn of each request, and of each stop and start."""
    with Noting(where=looked) as run:
        with RawClient(run.bootstrap) as client:
            prepare(client)
        for name, request, version in life(each):
            run.begin()
            begun = time.perf_counter()
            ask(run.port, framed(request_bytes(request, version)))
            if name == "create":
                _check(run, each)
            if not wanted or name in wanted:
                noted(run)
                _told(run, name, begun)
        for end in (run.stop, run.kill):
            _restarted(run, end)


def _check(run: Running, each: int) -> None:
    with RawClient(run.bootstrap) as client:
        for topic in client.call(MetadataRequest(None, False), 9).topics:
            assert len(topic.partitions) == each or topic.name not in _NAMES, topic.name


def _restarted(run: Noting, end: Callable[[], None]) -> None:
    with RawClient(run.bootstrap) as client:  # what a stop or a kill may have to do with
        client.call(create(new_topic(f"again-{end.__name__}", 1)), 5)
    process = psutil.Process(run.pid)
    run.longest.ms, begun = 0, time.perf_counter()
    used = sum(process.cpu_times()[:2])
    end()
    _told(run, f"{end.__name__} after {used:.1f} s", begun)
    run.longest.ms, begun = 0, time.perf_counter()
    run.start()
    used = sum(psutil.Process(run.pid).cpu_times()[:2])
    noted(run)
    _told(run, f"start, CPU {used:.1f} s", begun)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.many_turns", description=__doc__)
    parser.add_argument("names", nargs="*", help="of requests to be told; all without any")
    parser.add_argument("--partitions", type=int, default=40_000)
    parser.add_argument("--where", action="store_true", help="what the longest turns did")
    options = parser.parse_args()
    live(options.partitions // _TOPICS, options.names, options.where)


if __name__ == "__main__":
    main()
