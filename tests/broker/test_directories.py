"""Directories of partitions in the metadata: told after creations, moves and failures, and heeded at a start."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.cluster.image import PartitionImage
from pykafka_broker.cluster.records import ApiMessageAndVersion, decode_versioned
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import UNASSIGNED
from pykafka_broker.log.log_directory import LogDirectoryError
from pykafka_broker.log.manager import LogListener, LogManager
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from pykafka_broker.protocol.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.list_transactions_request import ListTransactionsRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records
from tests.broker.api.real_broker import RealBroker
from tests.broker.support import LightBroker, batch

METADATA = "__cluster_metadata-0"


class Node(RealBroker):
    """A broker with the metadata log in directory `a` and topics in `a` and `b`."""

    def __init__(self, path: Path, dirs: str = "ab", **settings: str) -> None:
        self.path = path
        super().__init__(path / "a", **{"log.dirs": self.dirs(dirs), **settings})

    def dirs(self, names: str) -> str:
        return ",".join(f"{self.path}/{name}" for name in names)

    def create(self, name: str = "t", partitions: int = 4) -> bytes:
        result = self.call(CreateTopicsRequest([CreatableTopic(name, partitions, 1)]), 7).topics[0]
        assert result.error_code == 0
        return result.topic_id

    def partitions(self, name: str = "t") -> list[PartitionImage]:
        return list(self.broker.image.topics[name].partitions.values())

    def homes(self, name: str = "t") -> list[str]:
        """Return the directory of each partition by the metadata."""
        names = {directory.id: Path(directory.path).name for directory in self.broker.logs.directories}
        return [names.get(partition.directory_of(1), "?") for partition in self.partitions(name)]

    def places(self, name: str = "t") -> list[str]:
        """Return the directory of each partition by the folders on disk."""
        found = {int(path.name[2:]): path.parent.name for path in self.path.glob(f"[a-z]/{name}-[0-9]")}
        return [found[number] for number in sorted(found)]

    def write(self, number: int, topic: str = "t") -> None:
        self.broker.partition_log(topic, number).append(batch(b"1", b"2", b"3", timestamp=self.now), self.now)

    def read_end(self, number: int, topic: str = "t") -> int:
        return self.broker.partition_log(topic, number).log_end_offset

    def move(self, number: int, target: str) -> None:
        topics = [AlterReplicaLogDirTopic("t", [number])]
        answer = self.call(AlterReplicaLogDirsRequest([AlterReplicaLogDir(f"{self.path}/{target}", topics)]), 2)
        assert answer.results[0].partitions[0].error_code == 0

    def metadata(self, name: str = "t") -> list[Any]:
        request = MetadataRequest([MetadataRequestTopic(name=name)])
        return self.call(request, 12).topics[0].partitions

    def records(self) -> list[tuple[str, Any]]:
        found = []
        data = next(Path(self.path).glob(f"?/{METADATA}/{0:020d}.log")).read_bytes()
        for header, each in iter_batches(data):
            if not header.is_control:
                for record in iter_records(each, header):
                    message = decode_versioned(record.value or b"").message
                    found.append((type(message).__name__, message))
        return found

    def take_away(self, name: str) -> None:
        (self.path / name).rename(self.path / f"{name}.away")
        (self.path / name).write_text("not a directory")

    def give_back(self, name: str) -> None:
        (self.path / name).unlink()
        (self.path / f"{name}.away").rename(self.path / name)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def storage_error(action: Callable[[], object]) -> None:
    with pytest.raises(ApiError) as caught:
        action()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_log_whose_name_leaves_no_room_for_a_copy_stays_where_it_is(node: Node) -> None:
    """The folder of the copy would have a name of more than 255 characters, and its directory would go offline."""
    for size, code in ((213, ErrorCode.NONE), (214, ErrorCode.INVALID_TOPIC_EXCEPTION)):
        name = "t" * size
        node.create(name, 1)
        node.write(0, name)
        [home] = node.homes(name)
        [other] = {"a", "b"} - {home}
        topics = [AlterReplicaLogDirTopic(name, [0])]
        answer = node.call(AlterReplicaLogDirsRequest([AlterReplicaLogDir(f"{node.path}/{other}", topics)]), 2)
        assert answer.results[0].partitions[0].error_code == code
        assert node.read_end(0, name) == 3
    assert all(directory.online for directory in node.broker.logs.directories)


def test_the_directory_of_each_new_log_is_told_as_by_kafka(node: Node) -> None:
    node.create()
    assert node.homes() == node.places()
    assert set(node.homes()) == {"a", "b"}
    made = [message for name, message in node.records() if name == "PartitionRecord"]
    told = [message for name, message in node.records() if name == "PartitionChangeRecord"]
    assert [message.directories for message in made] == [[UNASSIGNED]] * 4
    assert sorted(message.partition_id for message in told) == [0, 1, 2, 3]  # one directory after the other
    assert all((message.leader, message.isr, message.replicas) == (-2, None, None) for message in told)
    assert [(each.leader_epoch, each.partition_epoch) for each in node.partitions()] == [(0, 1)] * 4


def test_with_one_directory_it_is_known_from_the_beginning(tmp_path: Path) -> None:
    node = Node(tmp_path, "a")
    node.create()
    assert not [name for name, _ in node.records() if name == "PartitionChangeRecord"]
    assert node.homes() == ["a"] * 4


def test_the_registration_names_all_directories(node: Node) -> None:
    ids = {directory.id for directory in node.broker.logs.directories}
    assert set(node.broker.image.brokers[1].log_dirs) == ids
    (registered,) = [message for name, message in node.records() if name == "RegisterBrokerRecord"]
    assert set(registered.log_dirs) == ids


def test_a_move_is_told(node: Node) -> None:
    node.create()
    number = node.homes().index("a")
    node.write(number)
    node.move(number, "b")
    assert node.homes()[number] == "b" == node.places()[number]
    assert node.partitions()[number].leader_epoch == 0
    node.restart()
    assert (node.homes()[number], node.read_end(number)) == ("b", 3)


def test_a_move_that_was_not_told_is_made_good_by_the_next_start(node: Node) -> None:
    node.create()
    number = node.homes().index("a")
    node.broker.logs.listener = LogListener()
    node.move(number, "b")
    assert node.homes()[number] == "a"
    node.restart()
    assert node.homes()[number] == "b"


def test_a_directory_that_is_away_at_the_start_keeps_what_is_in_it(node: Node) -> None:
    node.create()
    for number in range(4):
        node.write(number)
    homes = node.homes()
    node.stop()
    node.take_away("b")
    node.start()
    assert len(node.broker.image.brokers[1].log_dirs) == 1
    for number, home in enumerate(homes):
        answer = node.metadata()[number]
        if home == "a":
            assert (answer.error_code, answer.leader_id, answer.offline_replicas) == (0, 1, [])
            assert node.read_end(number) == 3
        else:
            code = ErrorCode.LEADER_NOT_AVAILABLE
            assert (answer.error_code, answer.leader_id, answer.offline_replicas) == (code, -1, [1])
            storage_error(partial(node.write, number))
    assert set(node.places()) == {"a"}
    node.create("new", 2)
    assert node.homes("new") == ["a", "a"]
    node.stop()
    node.give_back("b")
    node.start()
    assert len(node.broker.image.brokers[1].log_dirs) == 2
    assert node.homes() == homes
    assert [(each.error_code, each.leader_id, each.offline_replicas) for each in node.metadata()] == [(0, 1, [])] * 4
    assert [node.read_end(number) for number in range(4)] == [3] * 4


def test_a_directory_that_fails_is_told_at_once(node: Node) -> None:
    node.create()
    homes = node.homes()
    lost = homes.index("b")
    node.write(lost)
    node.broker.logs.take_offline(node.broker.logs.directories[1], OSError("gone"))
    last = node.records()[-3:]
    # as a 4.4.0 broker does
    assert [name for name, _ in last] == [*["PartitionChangeRecord"] * 2, "BrokerRegistrationChangeRecord"]
    assert (last[0][1].leader, last[0][1].isr, last[0][1].eligible_leader_replicas) == (-1, [], [1])
    assert last[2][1].log_dirs == [node.broker.logs.directories[0].id]
    assert [each.offline_replicas for each in node.metadata()] == [[1] if home == "b" else [] for home in homes]
    described = node.call(DescribeTopicPartitionsRequest([TopicRequest("t")], 100), 0).topics[0].partitions
    assert [each.offline_replicas for each in described] == [[1] if home == "b" else [] for home in homes]
    storage_error(lambda: node.read_end(lost))
    results = node.call(DescribeLogDirsRequest(None), 4).results
    assert [result.error_code for result in results] == [0, ErrorCode.KAFKA_STORAGE_ERROR]
    node.restart()
    assert (node.partitions()[lost].leader, node.homes()[lost], node.read_end(lost)) == (1, "b", 3)


def test_a_directory_that_fails_while_a_topic_is_made(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    original = LogManager.make

    def make(logs: LogManager, topic: str, number: int, *arguments: Any, **options: Any) -> Any:
        if number == 2:
            raise logs.directory_failed(logs.directories[1], OSError(5, "Input/output error"))
        return original(logs, topic, number, *arguments, **options)

    with monkeypatch.context() as failing:
        failing.setattr(LogManager, "make", make)
        node.create()
    assert node.homes()[2] == "?"  # no log yet
    assert node.homes()[3] == "a"
    assert len(node.broker.image.brokers[1].log_dirs) == 1
    node.write(2)
    assert node.homes()[2] == "a"


def test_a_directory_no_longer_named_is_missed(node: Node) -> None:
    node.create()
    lost, kept = node.homes().index("b"), node.homes().index("a")
    node.write(lost)
    node.stop()
    node.settings["log.dirs"] = node.dirs("ac")
    node.start()
    storage_error(lambda: node.write(lost))
    assert node.metadata()[lost].leader_id == -1
    node.write(kept)
    assert not list(node.path.glob(f"[ac]/t-{lost}"))
    node.stop()
    node.settings["log.dirs"] = node.dirs("acb")
    node.start()
    assert node.read_end(lost) == 3


def test_a_log_that_was_carried_to_another_directory_is_found_there(node: Node) -> None:
    node.create()
    number = node.homes().index("b")
    node.write(number)
    node.stop()
    for path in node.path.glob("b/t-*"):
        shutil.move(path, node.path / "a" / path.name)
    node.settings["log.dirs"] = node.dirs("a")
    node.start()
    assert (node.homes()[number], node.read_end(number)) == ("a", 3)


def test_a_folder_that_vanished_is_made_anew_and_named(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.create()
    number = node.homes().index("b")
    node.write(number)
    node.stop()
    shutil.rmtree(node.path / "b" / f"t-{number}")
    node.start()
    assert f"t-{number} had been synced up to 3 in {node.path}/b and is missing now" in caplog.text
    assert (node.homes()[number], node.read_end(number)) == ("b", 0)


def test_an_empty_directory_in_the_place_of_one_that_is_not_mounted(node: Node) -> None:
    node.create()
    number = node.homes().index("b")
    node.write(number)
    node.stop()
    (node.path / "b").rename(node.path / "unmounted")
    node.start()
    storage_error(lambda: node.write(number))
    node.stop()
    shutil.rmtree(node.path / "b")
    (node.path / "unmounted").rename(node.path / "b")
    node.start()
    assert node.read_end(number) == 3


def test_without_the_directory_of_the_metadata_log_there_is_no_start(node: Node) -> None:
    node.create()
    node.stop()
    node.take_away("a")
    with pytest.raises(LogDirectoryError, match="There is no metadata log"):
        node.start()
    assert not (node.path / "b" / METADATA).exists()


def test_the_copy_that_the_metadata_names_is_the_log(node: Node) -> None:
    node.create()
    number = node.homes().index("b")
    node.write(number)
    node.stop()
    shutil.copytree(node.path / "b" / f"t-{number}", node.path / "a" / f"t-{number}")
    node.start()
    assert (node.homes()[number], node.read_end(number)) == ("b", 3)
    assert list(node.path.glob(f"a/t-{number}.*-stray"))


def test_the_log_of_a_topic_deleted_while_its_directory_was_away_is_not_the_new_ones(node: Node) -> None:
    node.create()
    number = node.homes().index("b")
    node.write(number)
    node.stop()
    node.take_away("b")
    node.start()
    assert node.call(DeleteTopicsRequest(topic_names=["t"], timeout_ms=30_000), 5).responses[0].error_code == 0
    topic_id = node.create()
    assert set(node.homes()) == {"a"}
    node.broker.metadata.snapshots.begin(node.now)  # so that the next start does not read of the deletion
    node.stop()
    node.give_back("b")
    node.start()
    assert set(node.homes()) == {"a"}
    log = node.broker.partition_log("t", number)
    assert (log.log_end_offset, log.topic_id) == (0, topic_id)


def test_a_lone_log_of_an_earlier_topic_is_replaced_at_its_first_use(tmp_path: Path) -> None:
    node = Node(tmp_path, "a")
    node.draw_distant_ids()
    node.create("t", 1)
    node.write(0)
    kept = tmp_path / "kept"
    node.stop()
    shutil.copytree(tmp_path / "a" / "t-0", kept)
    node.start()
    node.call(DeleteTopicsRequest(topic_names=["t"], timeout_ms=30_000), 5)
    topic_id = node.create("t", 1)
    node.broker.metadata.snapshots.begin(node.now)
    node.stop()
    shutil.rmtree(tmp_path / "a" / "t-0")
    kept.rename(tmp_path / "a" / "t-0")
    node.start()
    log = node.broker.partition_log("t", 0)
    assert (log.log_end_offset, log.topic_id) == (0, topic_id)


def test_coordinators_serve_without_the_partitions_that_are_away(tmp_path: Path) -> None:
    node = Node(tmp_path, **{"offsets.topic.num.partitions": "8", "transaction.state.log.num.partitions": "8"})
    for kind, keys in ((0, ["g"]), (1, ["x"])):
        node.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=keys), 4)
    assert set(node.homes("__consumer_offsets")) == {"a", "b"}
    node.stop()
    node.take_away("b")
    node.start()
    keys = [f"k{number}" for number in range(20)]
    for kind in (0, 1):
        answer = node.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=keys), 4)
        assert {each.error_code for each in answer.coordinators} == {0, ErrorCode.COORDINATOR_NOT_AVAILABLE}
    # a client that asks without a look-up of the coordinator is told to look it up
    refusals = {node.broker.groups.refusal(key) for key in keys}
    assert refusals == {0, ErrorCode.NOT_COORDINATOR}
    codes = {node.call(InitProducerIdRequest(key, 1000), 4).error_code for key in keys}
    assert codes == {0, ErrorCode.NOT_COORDINATOR}
    assert node.call(ListTransactionsRequest(), 1).error_code == 0


def test_directories_are_told_when_the_metadata_version_allows_it(tmp_path: Path) -> None:
    node = Node(tmp_path, "a")
    node.broker.commit_metadata([ApiMessageAndVersion(FeatureLevelRecord("metadata.version", 16), 0)])
    node.settings["log.dirs"] = node.dirs("ab")
    node.restart()
    node.create()
    assert [each.directories for each in node.partitions()] == [()] * 4
    assert node.broker.image.brokers[1].log_dirs == ()
    node.stop()
    node.take_away("b")
    node.start()
    missing = sorted(set(range(4)) - {int(path.name[2:]) for path in node.path.glob("a/t-*")})
    storage_error(lambda: node.write(missing[0]))
    node.stop()
    node.give_back("b")
    node.start()
    update = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("metadata.version", 30, upgrade_type=1)])
    assert node.call(update, 1).error_code == 0
    assert set(node.homes()) == {"a", "b"}
    assert len(node.broker.image.brokers[1].log_dirs) == 2


def test_sizes_are_told_of_logs_that_nobody_has_asked_for(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.create("t", 2)
    for number in range(2):
        node.write(number)
    sizes = [node.broker.partition_log("t", number).segments.size_bytes for number in range(2)]
    node.restart()
    shutil.rmtree(node.path / node.homes()[1] / "t-1")

    def described() -> list[tuple[int, dict[int, int]]]:
        results = node.call(DescribeLogDirsRequest(None), 4).results
        return [
            (each.error_code, {one.partition_index: one.partition_size for t in each.topics for one in t.partitions})
            for each in results
        ]

    told = described()
    assert {**told[0][1], **told[1][1]} == {0: sizes[0], 1: 0}
    assert not [key for key in node.broker.logs.loaded if key[0] == "t"]

    def gone(path: str) -> None:
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr(node.broker.fs, "disk_usage", gone)
    assert [code for code, _ in described()] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


def test_the_metadata_log_may_have_a_directory_of_its_own(tmp_path: Path) -> None:
    node = Node(tmp_path, "ab", **{"metadata.log.dir": f"{tmp_path}/m"})
    node.create()
    assert set(node.homes()) == {"a", "b"}
    assert len(node.broker.image.brokers[1].log_dirs) == 2
    assert len(node.call(DescribeLogDirsRequest(None), 4).results) == 2
    node.restart()
    assert set(node.homes()) == {"a", "b"}
    assert (tmp_path / "m" / METADATA).exists()


def test_a_start_shrinks_the_isr_to_this_node(tmp_path: Path) -> None:
    """A data directory of a cluster of several: the others are not there, and this node is its own controller."""
    broker = LightBroker(tmp_path)
    broker.add("t", replicas=(1, 2), isr=(1, 2))
    broker.add("u", replicas=(2, 1), isr=(2, 1), leader=2)
    broker.partition("t", 0).append(batch(b"v"), broker.now)
    assert broker.partition("t", 0).high_watermark == 0
    broker.stop(broker.now)
    again = LightBroker(tmp_path)
    for name, epoch in (("t", 0), ("u", 1)):
        partition = again.partition(name, 0)
        assert (partition.isr, partition.leader_epoch) == ((1,), epoch)
        end = partition.append(batch(b"w"), again.now).last_offset + 1
        assert partition.high_watermark == end
