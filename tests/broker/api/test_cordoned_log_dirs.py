"""Directories that take nothing new (KIP-1066), as a 4.4.0 broker answered to the same requests, and 4.3.1 to some."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.problems import problems
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
from pykafka_broker.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.api.real_broker import RealBroker

KEY = "cordoned.log.dirs"
BROKER, SET, DELETE, APPEND, SUBTRACT = 4, 0, 1, 2, 3
FULL = "All brokers are currently fenced, or have all their log directories cordoned."


class Node(RealBroker):
    """A broker with two directories, `a` and `b`; answers have these names in the place of paths."""

    def __init__(self, path: Path, **settings: str) -> None:
        self.path = path
        super().__init__(path, **{"log.dirs": f"{path}/a,{path}/b", **settings})

    def alter(self, value: str | None, operation: int = SET, name: str = "1") -> tuple[ErrorCode, str | None]:
        resource = AlterConfigsResource(BROKER, name, [AlterableConfig(KEY, operation, value and self.paths(value))])
        answer = self.call(IncrementalAlterConfigsRequest([resource]), 1).responses[0]
        message = answer.error_message
        return ErrorCode(answer.error_code), message and message.replace(f"{self.path}/", "")

    def paths(self, names: str) -> str:
        return ",".join(str(self.path / each) if each in ("a", "b", "x") else each for each in names.split(","))

    def directories(self, version: int = 5) -> list[tuple[str, bool, int]]:
        """Return of each directory its name, whether it is cordoned, and its number of partitions."""
        results = self.call(DescribeLogDirsRequest(None), version).results
        return [
            (Path(each.log_dir).name, each.is_cordoned, sum(len(topic.partitions) for topic in each.topics))
            for each in results
        ]

    def create(self, name: str, partitions: int, assigned: int = 0) -> tuple[ErrorCode, str | None]:
        topic = CreatableTopic(name, partitions, 1)
        if assigned:
            topic = CreatableTopic(name, -1, -1, [CreatableReplicaAssignment(each, [1]) for each in range(assigned)])
        answer = self.call(CreateTopicsRequest([topic]), 7).topics[0]
        return ErrorCode(answer.error_code), answer.error_message

    def move(self, topic: str, partition: int, target: str) -> ErrorCode:
        topics = [AlterReplicaLogDirTopic(topic, [partition])]
        request = AlterReplicaLogDirsRequest([AlterReplicaLogDir(str(self.path / target), topics)])
        return ErrorCode(self.call(request, 2).results[0].partitions[0].error_code)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


OK = (ErrorCode.NONE, None)


def test_new_partitions_go_where_they_may(node: Node) -> None:
    assert node.create("t", 2) == OK
    assert node.alter("b") == OK
    assert node.directories() == [("a", False, 1), ("b", True, 1)]
    assert node.directories(4) == [("a", False, 1), ("b", False, 1)]
    assert node.create("u", 4) == OK
    assert node.directories() == [("a", False, 5), ("b", True, 1)]
    node.restart()
    assert node.directories() == [("a", False, 5), ("b", True, 1)]
    assert node.alter(None, DELETE) == OK
    assert node.create("v", 4) == OK
    assert node.directories() == [("a", False, 5), ("b", False, 5)]


def test_what_was_set_at_the_start_can_be_lifted(tmp_path: Path) -> None:
    node = Node(tmp_path, **{KEY: f"{tmp_path}/b"})
    assert node.alter(None, DELETE) == OK
    assert node.create("t", 4) == OK
    assert node.directories() == [("a", False, 4), ("b", True, 0)]
    assert node.alter("") == OK
    assert node.create("u", 4) == OK
    assert node.directories() == [("a", False, 4), ("b", False, 4)]


@pytest.mark.parametrize(("release", "all_of_them"), [("4.3", "*"), ("4.3", "b,a,b"), ("4.4", "*"), ("4.4", "a,b")])
def test_with_none_left_there_is_no_place(tmp_path: Path, release: str, all_of_them: str) -> None:
    node = Node(tmp_path, **{"pykafka.emulate": release})
    assert node.create("t", 2) == OK
    assert node.alter(all_of_them) == OK
    assert node.directories() == [("a", True, 1), ("b", True, 1)]
    refused = f"Unable to replicate the partition 1 time(s): {FULL}"
    assert node.create("u", 1) == (ErrorCode.INVALID_REPLICATION_FACTOR, refused)
    more = node.call(CreatePartitionsRequest([CreatePartitionsTopic("t", 3, None)], 1000), 3).results[0]
    assert (more.error_code, more.error_message) == (ErrorCode.INVALID_REPLICATION_FACTOR, FULL)
    assert node.create("by hand", 0, assigned=1)[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
    again = [CreatePartitionsTopic("t", 3, [CreatePartitionsAssignment([1])])]
    assigned = node.create("assigned", 0, assigned=3)
    added = node.call(CreatePartitionsRequest(again, 1000), 3).results[0]
    if release == "4.3":
        assert assigned == OK
        assert (added.error_code, node.directories()) == (0, [("a", True, 5), ("b", True, 1)])
        return
    named = "The manual partition assignment includes broker 1, but all its log directories are cordoned."
    assert assigned == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, named)
    assert (added.error_code, added.error_message) == assigned
    moved = ReassignableTopic("t", [ReassignablePartition(0, [1])])
    (told,) = node.call(AlterPartitionReassignmentsRequest(1000, topics=[moved]), 1).responses[0].partitions
    assert (told.error_code, told.error_message) == assigned
    assert node.directories() == [("a", True, 1), ("b", True, 1)]


def test_nothing_moves_to_where_nothing_may_go(node: Node) -> None:
    assert node.create("t", 2) == OK
    assert node.alter("*") == OK
    for topic, number in (("t", 0), ("t", 1), ("nope", 0)):
        assert node.move(topic, number, "b") == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert node.move(topic, number, "x") == ErrorCode.LOG_DIR_NOT_FOUND
    assert node.alter("a") == OK
    assert [node.move("t", number, "b") for number in (0, 1)] == [ErrorCode.NONE] * 2
    assert node.directories() == [("a", True, 0), ("b", False, 2)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("*,a", "When cordoned.log.dirs is set to *, it must not contain other values"),
        ("x", "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : x"),
        ("b,x", "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : x"),
    ],
)
def test_what_can_not_be_is_refused(node: Node, value: str, message: str) -> None:
    assert node.alter(value) == (ErrorCode.INVALID_REQUEST, f"requirement failed: {message}")
    at_start = BrokerConfig({KEY: node.paths(value), "log.dirs": node.paths("a,b")})
    assert [problem.replace(f"{node.path}/", "") for problem in problems(at_start)] == [message]


def test_it_is_a_list_of_this_broker_alone(node: Node) -> None:
    refused = f"Cannot update these configs at default cluster level, broker id must be specified: [{KEY}]"
    assert node.alter("a", name="") == (ErrorCode.INVALID_REQUEST, refused)
    repeated = (ErrorCode.INVALID_REQUEST, f"Configuration '{KEY}' values must not be duplicated.")
    assert [node.alter(each) for each in (" , ", "b,b", "*,*")] == [repeated] * 3
    assert node.alter("b,b", name="") == repeated
    assert node.alter("b", APPEND) == OK
    assert node.alter("a", APPEND) == OK
    assert [cordoned for _, cordoned, _ in node.directories()] == [True, True]
    assert node.alter("b", SUBTRACT) == OK
    assert [cordoned for _, cordoned, _ in node.directories()] == [True, False]


def test_what_is_named_twice_counted_once_before_4_4(tmp_path: Path) -> None:
    node = Node(tmp_path, **{"pykafka.emulate": "4.3"})
    assert node.alter(" , ") == (ErrorCode.INVALID_REQUEST, f"Configuration '{KEY}' values must not be empty.")
    assert node.alter("b,b") == OK
    resource = DescribeConfigsResource(BROKER, "1", [KEY])
    (described,) = node.call(DescribeConfigsRequest([resource], include_synonyms=True), 4).results[0].configs
    b = f"{node.path}/b"
    assert described.value == b
    assert [synonym.value for synonym in described.synonyms] == [f"{b},{b}", ""]


def test_the_metadata_is_told_if_it_has_room_for_it(node: Node) -> None:
    a, b = (directory.id for directory in node.broker.logs.directories)

    def told() -> Any:
        return node.broker.image.brokers[1].cordoned_log_dirs

    assert told() is None
    node.alter("b")
    assert told() == (b,)
    node.alter("*")
    assert set(told()) == {a, b}
    node.alter("")
    assert told() == ()
    node.broker.image.features["metadata.version"] = 29
    needed = f"The {KEY} configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
    assert node.alter("b") == (ErrorCode.INVALID_CONFIG, needed)
