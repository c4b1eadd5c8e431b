"""kafka-leader-election, where the preferred leaders of some partitions do not lead."""

import time

from interop.raw import RawClient
from interop.tools.steps import UNREACHABLE, Step, steps
from pykafka_broker.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest

BROKERS = 3
_TOPICS = {"orders": 3, "items": 1}


def prepare(bootstrap: str) -> None:
    """Broker 1 leads everything, and all prefer broker 2 from then on."""
    with RawClient(bootstrap.partition(",")[0]) as client:
        places = [
            CreatableTopic(name, -1, -1, [CreatableReplicaAssignment(each, [1, 2, 3]) for each in range(count)])
            for name, count in _TOPICS.items()
        ]
        made = client.call(CreateTopicsRequest(places, 20_000), 5)
        assert not any(each.error_code for each in made.topics), made
        changed = [
            ReassignableTopic(name, [ReassignablePartition(each, [2, 1, 3]) for each in range(count)])
            for name, count in _TOPICS.items()
        ]
        answer = client.call(AlterPartitionReassignmentsRequest(20_000, topics=changed), 0)
        assert answer.error_code == 0, answer
        while not _settled(client):
            time.sleep(0.05)


def _settled(client: RawClient) -> bool:
    topics = client.call(MetadataRequest(None), 1).topics
    partitions = [each for topic in topics for each in topic.partitions]
    return len(partitions) == 4 and all(each.replica_nodes[0] == 2 and len(each.isr_nodes) == 3 for each in partitions)


def _unordered(command: str) -> Step:
    return Step("leader-election", command, alike=_sorted)


def _sorted(out: str) -> str:
    """Lines, and the partitions in them."""
    lines = (line.rpartition(" partitions ") for line in out.splitlines())
    return "\n".join(sorted(before + between + ", ".join(sorted(last.split(", "))) for before, between, last in lines))


STEPS: list[Step] = steps(
    "leader-election",
    "--election-type preferred --topic orders --partition 0",
    "--election-type preferred --topic orders --partition 0",
    "--election-type PREFERRED --topic orders --partition 9",
    "--election-type preferred --topic nothing --partition 0",
    "--election-type unclean --topic orders --partition 1",
    _unordered("--election-type unclean --all-topic-partitions"),
    _unordered(
        '--election-type preferred --path-to-json-file \'{file:{"partitions":[{"topic":"orders","partition":0},'
        '{"topic":"orders","partition":1},{"topic":"orders","partition":7}]}}\''
    ),
    _unordered("--election-type preferred --all-topic-partitions"),
    "--election-type preferred --all-topic-partitions",
    "--election-type preferred",
    "--election-type preferred --topic orders",
    "--election-type preferred --partition 1",
    "--election-type preferred --topic orders --partition x",
    "--election-type preferred --topic orders --partition 0 --all-topic-partitions",
    "--election-type odd --topic orders --partition 0",
    "--topic orders --partition 0",
    "{nowhere} --election-type preferred --all-topic-partitions",
    "--election-type preferred --path-to-json-file /no/such/file",
    "--election-type preferred --path-to-json-file '{file:nonsense}'",
    "--election-type preferred --path-to-json-file '{file:{}}'",
    "--election-type preferred --path-to-json-file '{file:{\"partitions\":[]}}'",
    '--election-type preferred --path-to-json-file \'{file:{"partitions":[{"topic":"orders"}]}}\'',
    '--election-type preferred --path-to-json-file \'{file:{"partitions":[{"topic":"orders","partition":0},'
    '{"topic":"orders","partition":0}]}}\'',
    "--election-type preferred --path-to-json-file '{file:{\"partitions\":[]}}' --topic orders --partition 0",
    "--election-type preferred --all-topic-partitions --odd",
    f"{UNREACHABLE} --election-type preferred --topic orders --partition 0",
)
STEPS += [
    Step("leader-election", each)
    for each in (
        "extra",
        "--command-config",
        "{nowhere}",
    )
]
IN_OUR_WORDS = {
    "--election-type odd --topic orders --partition 0",
    "--election-type preferred --path-to-json-file '{file:nonsense}'",
    "--election-type preferred --path-to-json-file '{file:{}}'",
    "{nowhere}",
    "{nowhere} --election-type preferred --all-topic-partitions",
}
