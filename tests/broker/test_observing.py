"""A broker whose controller is another node: from its start to its end, and what it finds when it comes back."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import LOST, UNASSIGNED
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.log_directory import LogDirectoryError
from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_configs_request import AlterableConfig as AnyConfig
from pykafka_broker.protocol.messages.alter_configs_request import AlterConfigsRequest
from pykafka_broker.protocol.messages.alter_configs_request import AlterConfigsResource as AnyConfigs
from pykafka_broker.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.describe_cluster_request import DescribeClusterRequest
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.protocol.stored.client_quota_record import ClientQuotaRecord, EntityData
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord
from pykafka_broker.records.header import MAGIC_OFFSET
from tests.broker.observed_cluster import NODE, ObservedCluster
from tests.broker.support import NOW, batch


@pytest.fixture
def cluster(tmp_path: Path) -> ObservedCluster:
    return ObservedCluster(tmp_path)


def test_clients_are_let_in_and_then_told_of(cluster: ObservedCluster) -> None:
    cluster.start()
    assert cluster.events == ["unfenced"]
    (registration,) = cluster.controller.registrations
    assert [(each.name, each.port) for each in registration.listeners] == [("PLAINTEXT", 9092)]
    assert (registration.previous_broker_epoch, len(registration.log_dirs)) == (-1, 1)
    assert cluster.controller.heartbeats[0].want_fence


def test_before_it_has_the_metadata_it_serves_nobody(cluster: ObservedCluster) -> None:
    cluster.controller.high_watermark = 0
    cluster.controller.create("t")
    cluster.controller.high_watermark = 0
    cluster.broker.start({})
    for _ in range(30):
        cluster.run(1)
        cluster.controller.high_watermark = 0
    assert cluster.events == []
    cluster.controller.high_watermark = cluster.controller.end
    cluster.run()
    assert cluster.events == ["unfenced"]
    assert cluster.broker.node.logs.exists("t", 0)


def test_what_only_the_controller_decides_goes_there(cluster: ObservedCluster) -> None:
    cluster.start()
    answer = cluster.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1000), 7)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("t", 0)]
    assert [type(request) for request in cluster.controller.forwarded] == [CreateTopicsRequest]
    cluster.run()
    metadata = cluster.ask(MetadataRequest([MetadataRequestTopic(name="t")]), 12)
    assert [(p.leader_id, p.isr_nodes) for p in metadata.topics[0].partitions] == [(NODE, [NODE])]
    assert cluster.broker.node.replicas.leader("t", 0).is_leader


def test_a_fenced_broker_names_itself_to_nobody(cluster: ObservedCluster) -> None:
    cluster.start()
    assert [each.node_id for each in cluster.ask(MetadataRequest([]), 12).brokers] == [NODE]
    cluster.broker.node.image.brokers[NODE].fenced = True
    assert cluster.ask(MetadataRequest([], False), 12).brokers == []
    described = cluster.ask(DescribeClusterRequest(include_fenced_brokers=True), 2).brokers
    assert [(each.broker_id, each.is_fenced) for each in described] == [(NODE, True)]


def test_without_a_controller_the_client_is_told_in_time(cluster: ObservedCluster) -> None:
    cluster.start()
    cluster.controller.alive = False
    answer = cluster.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 200), 7)
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_settings_of_a_broker_are_looked_at_before_they_go_on(cluster: ObservedCluster) -> None:
    cluster.start()

    def ask(name: str, key: str, value: str) -> tuple[int, str]:
        change = AlterConfigsResource(4, name, [AlterableConfig(key, 0, value)])
        answer = cluster.ask(IncrementalAlterConfigsRequest([change], validate_only=True), 1)
        return answer.responses[0].error_code, answer.responses[0].error_message or ""

    code, why = ask(str(NODE), "log.cleaner.threads", "many")
    assert (code, "of type INT" in why) == (ErrorCode.INVALID_REQUEST, True)
    assert ask("8", "log.cleaner.threads", "2")[0] == ErrorCode.INVALID_REQUEST
    assert cluster.controller.forwarded == []
    assert ask(str(NODE), "log.cleaner.threads", "2") == (0, "")
    assert [type(request) for request in cluster.controller.forwarded] == [IncrementalAlterConfigsRequest]


def test_settings_that_replace_others_are_looked_at_too(cluster: ObservedCluster) -> None:
    cluster.start()

    def replaced(name: str, value: str) -> AnyConfigs:
        return AnyConfigs(4, name, [AnyConfig("log.cleaner.threads", value)])

    topic = AnyConfigs(2, "t", [AnyConfig("cleanup.policy", "compact")])
    answer = cluster.ask(AlterConfigsRequest([replaced("8", "2"), topic, replaced(str(NODE), "many")]), 2)
    codes = [(each.resource_name, each.error_code) for each in answer.responses]
    wrong = ErrorCode.INVALID_REQUEST
    assert codes == [("8", wrong), ("t", 0), (str(NODE), wrong)]
    assert [[each.resource_name for each in asked.resources] for asked in cluster.controller.forwarded] == [["t"]]
    answer = cluster.ask(AlterConfigsRequest([replaced("8", "2")]), 2)
    assert (len(answer.responses), len(cluster.controller.forwarded)) == (1, 1)


def test_what_a_client_needs_is_created_in_its_name(cluster: ObservedCluster) -> None:
    cluster.start()
    cluster.ask(MetadataRequest([MetadataRequestTopic(name="t")]), 12)
    cluster.ask(FindCoordinatorRequest("g"), 3)
    cluster.run()
    assert {"t", "__consumer_offsets"} <= {*cluster.broker.node.image.topics}
    [request] = cluster.controller.forwarded  # in an envelope, so that the client's quota counts
    assert [topic.name for topic in request.topics] == ["t"]


def test_a_client_is_held_up_for_as_long_as_the_controller_says(cluster: ObservedCluster) -> None:
    cluster.start()
    muted: list[int] = []
    cluster.broker.services.mute = lambda connection_id, until: muted.append(until - cluster.clock.now)
    cluster.controller.append(ClientQuotaRecord([EntityData("user", "alice")], "controller_mutation_rate", 9.0))
    cluster.run()
    cluster.controller.throttle_ms = 700
    answer = cluster.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1000), 7)
    assert (answer.throttle_time_ms, muted) == (700, [700])


def test_what_a_broker_needs_itself_is_there_a_moment_later(cluster: ObservedCluster) -> None:
    cluster.start()
    cluster.broker.services.node.create_missing_topics(["__consumer_offsets"])
    cluster.broker.services.node.create_missing_topics(["__consumer_offsets"])
    assert "__consumer_offsets" not in cluster.broker.node.image.topics
    cluster.run()
    assert "__consumer_offsets" in cluster.broker.node.image.topics
    assert next(cluster.controller.topics) == 2


def test_producer_ids_come_in_blocks(cluster: ObservedCluster) -> None:
    cluster.start()
    assert [cluster.ask(InitProducerIdRequest(None, 1000), 4).producer_id for _ in range(3)] == [0, 1, 2]


def test_a_clean_stop_is_remembered_with_its_epoch(cluster: ObservedCluster) -> None:
    cluster.start()
    epoch = cluster.controller.broker_epoch
    cluster.stop()
    assert cluster.controller.heartbeats[-1].want_shut_down
    marker = (cluster.directories[0] / ".kafka_cleanshutdown").read_text()
    assert marker == f'{{"version":0,"brokerEpoch":{epoch}}}'
    cluster.new_broker()
    cluster.start()
    assert cluster.controller.registrations[-1].previous_broker_epoch == epoch
    assert not (cluster.directories[0] / ".kafka_cleanshutdown").exists()


def test_a_quick_return_is_tried_until_it_is_taken(cluster: ObservedCluster) -> None:
    cluster.controller.registration_errors = [ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 3
    cluster.start(80)
    assert len(cluster.controller.registrations) == 4
    assert cluster.events == ["unfenced"]


def test_a_foreign_broker_ends(cluster: ObservedCluster) -> None:
    cluster.controller.registration_errors = [ErrorCode.INCONSISTENT_CLUSTER_ID]
    cluster.start()
    assert cluster.events == [
        "the controller refuses this broker: its data is of another cluster (INCONSISTENT_CLUSTER_ID)"
    ]


def test_a_topic_deleted_meanwhile_is_put_aside(cluster: ObservedCluster) -> None:
    cluster.start()
    old = cluster.controller.create("t")
    cluster.run()
    cluster.broker.node.replicas.leader("t", 0)
    cluster.stop()
    cluster.controller.delete(old)
    cluster.controller.create("t")
    cluster.new_broker()
    cluster.start()
    names = [path.name for path in cluster.directories[0].iterdir() if path.name.startswith("t-0")]
    assert sorted(name.rpartition("-")[2] for name in names) == ["0", "stray"]
    assert cluster.broker.node.replicas.leader("t", 0).log.log_end_offset == 0


def test_nothing_is_deleted_while_the_settings_of_topics_are_not_known(tmp_path: Path) -> None:
    """A topic keeps its records for ever, the broker's defaults for 5 s; the controllers are away for longer."""
    cluster = ObservedCluster(tmp_path, log_retention_ms="5000", log_retention_check_interval_ms="1000")
    cluster.start()
    cluster.controller.create("t")
    cluster.controller.append(ConfigRecord(2, "t", "retention.ms", "-1"))
    cluster.run()
    cluster.broker.node.replicas.leader("t", 0).log.append(batch(b"one"), NOW)
    cluster.stop()
    cluster.network.waiting.clear()
    cluster.controller.alive = False
    cluster.new_broker()
    cluster.start()
    cluster.clock.set(cluster.clock.now + 10_000)
    cluster.run()
    cluster.controller.alive = True
    cluster.run(60)
    assert cluster.events[-1:] == ["unfenced"]
    log = cluster.broker.node.replicas.leader("t", 0).log
    assert (log.log_start_offset, log.log_end_offset) == (0, 1)
    cluster.controller.append(ConfigRecord(2, "t", "retention.ms", "5000"))
    cluster.run()
    assert (log.log_start_offset, log.log_end_offset) == (1, 1)


@pytest.mark.parametrize("is_deleted", [True, False])
def test_folders_of_an_earlier_topic_are_no_rivals_of_a_log(tmp_path: Path, is_deleted: bool) -> None:
    """One was on a disk that was away while the topic was deleted and made anew."""
    cluster = ObservedCluster(tmp_path, log_dirs=2)
    cluster.start()
    old = cluster.controller.create("t")
    cluster.run()
    (left,) = tmp_path.glob("data-*/t-0")
    away = left.with_name("away")
    shutil.copytree(left, away)
    cluster.controller.delete(old)
    if not is_deleted:
        cluster.controller.create("t")
    cluster.run()
    cluster.stop()
    if is_deleted:
        shutil.copytree(away, tmp_path / "data-0/t-0")
        shutil.copytree(away, tmp_path / "data-1/t-0")
    else:
        (newer,) = tmp_path.glob("data-*/t-0")
        away.rename(tmp_path / ("data-1" if newer.parent.name == "data-0" else "data-0") / "t-0")
    cluster.new_broker()
    cluster.start()
    assert len(list(tmp_path.glob("data-*/t-0"))) == (0 if is_deleted else 1)
    assert len(list(tmp_path.glob("data-*/t-0.*-stray"))) == (2 if is_deleted else 1)
    if is_deleted:
        cluster.controller.create("t")
        cluster.run()
    assert cluster.broker.node.replicas.leader("t", 0).log.log_end_offset == 0


def test_a_disk_that_fails_just_then_keeps_nobody_from_serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ObservedCluster(tmp_path, log_dirs=2)
    cluster.start()
    cluster.controller.create("t")
    cluster.run()
    (folder,) = tmp_path.glob("data-*/t-0")
    if folder.parent.name == "data-0":  # the directory that has the metadata log
        folder.rename(tmp_path / "data-1/t-0")
    cluster.stop()

    def fail(fs: FileSystem, path: str) -> bytes | None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    monkeypatch.setattr("pykafka_broker.broker.membership.lifecycle.read_partition_metadata", fail)
    cluster.new_broker()
    cluster.events.clear()
    cluster.start()
    assert cluster.events == ["unfenced"]
    assert [each.online for each in cluster.broker.node.logs.directories] == [True, False]


def test_a_replica_given_to_another_node_meanwhile_is_put_aside(cluster: ObservedCluster) -> None:
    cluster.start()
    mine = cluster.controller.create("t")
    cluster.run()
    cluster.broker.node.replicas.leader("t", 0)
    cluster.stop()
    cluster.controller.append_versioned((_moved(mine), 2))
    cluster.new_broker()
    cluster.start()
    assert not cluster.broker.node.logs.exists("t", 0)
    with pytest.raises(ApiError):
        cluster.broker.node.replicas.leader("t", 0)


def test_checkpoints_say_nothing_of_what_is_put_aside(cluster: ObservedCluster) -> None:
    """Checkpoints leave out a log that is put aside.

    Otherwise the log would be missed once the broker is killed now and is given the partition again.
    """
    cluster.start()
    mine = cluster.controller.create("t")
    cluster.run()
    cluster.broker.node.replicas.leader("t", 0).log.append(batch(b"one"), NOW)
    (directory,) = cluster.directories
    cluster.stop()
    checkpoint = directory / "recovery-point-offset-checkpoint"
    assert "t 0 1" in checkpoint.read_text()
    cluster.controller.append_versioned((_moved(mine), 2))
    cluster.new_broker()
    cluster.start()
    assert list(directory.glob("t-0.*-stray"))
    assert "t 0" not in checkpoint.read_text()


def _moved(topic_id: bytes) -> Message:
    return PartitionChangeRecord(0, topic_id, replicas=[9], isr=[9], leader=9, directories=[b"x" * 16])


def test_one_directory_is_known_without_a_word(cluster: ObservedCluster) -> None:
    cluster.start()
    cluster.controller.create("t")
    cluster.run()
    assert cluster.controller.told == {}


def test_of_several_the_controller_is_told_which(tmp_path: Path) -> None:
    cluster = ObservedCluster(tmp_path, log_dirs=2)
    cluster.start()
    topics = [cluster.controller.create(name) for name in ("a", "b")]
    cluster.run()
    logs = cluster.broker.node.logs
    places = [logs.directory_of((name, 0)) for name in ("a", "b")]
    assert [cluster.controller.told[topic_id, 0] for topic_id in topics] == [place and place.id for place in places]
    assert len(set(cluster.controller.told.values())) == 2


def test_a_log_is_made_where_it_was_wanted_before_it_was_assigned(tmp_path: Path) -> None:
    """Two brokers of Apache Kafka 4.4.0 were asked the same."""
    cluster = ObservedCluster(tmp_path, log_dirs=2)
    cluster.start()
    elsewhere = {name: cluster.controller.create(name, replicas=(9,)) for name in "abcd"}
    cluster.run()
    wanted = cluster.broker.node.logs.partition_directories[1]

    def move(topic: str, partition: int = 0) -> int:
        asked = AlterReplicaLogDir(wanted.path, [AlterReplicaLogDirTopic(topic, [partition])])
        return int(cluster.ask(AlterReplicaLogDirsRequest([asked]), 2).results[0].partitions[0].error_code)

    assert [move(name) for name in elsewhere] == [ErrorCode.REPLICA_NOT_AVAILABLE] * 4
    assert [move("a", 1), move("none")] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    for topic_id in elsewhere.values():
        directories = [UNASSIGNED, UNASSIGNED]
        cluster.controller.append_versioned(
            (PartitionChangeRecord(0, topic_id, replicas=[9, NODE], directories=directories), 2)
        )
    cluster.run()
    assert cluster.controller.told == {(topic_id, 0): wanted.id for topic_id in elsewhere.values()}
    assert move("a") == ErrorCode.NONE, "it is there"


@pytest.mark.parametrize("log_dirs", [1, 2])
@pytest.mark.parametrize("mended", ["repaired", "removed"])
def test_a_damaged_log_is_lost_for_the_controller_until_a_start_finds_a_sound_one(
    tmp_path: Path, log_dirs: int, mended: str
) -> None:
    cluster = ObservedCluster(tmp_path, log_dirs=log_dirs)
    cluster.start()
    topic_id = cluster.controller.create("t", replicas=(9, NODE))
    alone = cluster.controller.create("alone", replicas=(NODE, 9), isr=(NODE,))
    cluster.run()
    cluster.broker.node.replicas.leader("alone", 0).append(batch(b"v"), NOW)
    log = cluster.broker.node.replicas.replica("t", 0).log
    log.append(batch(b"v"), NOW)
    cluster.stop()
    paths = [Path(log.directory), *(path / "alone-0" for path in cluster.directories if (path / "alone-0").exists())]
    kept = {}
    for path in paths:
        segment = path / "00000000000000000000.log"
        kept[segment] = segment.read_bytes()
        segment.write_bytes(kept[segment][:-1])
    cluster.controller.told.clear()
    cluster.network.waiting.clear()
    cluster.new_broker()
    cluster.start()
    with pytest.raises(ApiError, match="is damaged"):
        cluster.broker.node.replicas.replica("alone", 0)
    cluster.run()
    assert cluster.controller.told == {(topic_id, 0): LOST}, "nobody else can lead the other one"
    for segment, content in kept.items():
        segment.write_bytes(content)
    if mended == "removed":
        shutil.rmtree(log.directory)
    cluster.restart()
    cluster.run()
    place = cluster.broker.node.logs.directory_of(("t", 0))
    assert place is not None
    assert cluster.controller.told == {(topic_id, 0): place.id}
    assert cluster.broker.node.replicas.replica("t", 0).log.log_end_offset == (1 if mended == "repaired" else 0)
    assert alone not in cluster.controller.told


@pytest.mark.parametrize("met_by", ["read", "append", "retention"])
def test_damage_of_a_log_in_service_takes_it_out_where_another_replica_can_lead(tmp_path: Path, met_by: str) -> None:
    cluster = ObservedCluster(tmp_path)
    cluster.start()
    topic_id = cluster.controller.create("t", replicas=(NODE, 9), isr=(NODE, 9))
    cluster.controller.create("alone", replicas=(NODE, 9), isr=(NODE,))
    cluster.run()
    for name in ("t", "alone"):
        for value in (b"damaged", b"sound"):
            cluster.broker.node.replicas.leader(name, 0).append(batch(value), NOW)
    cluster.restart()
    partitions = [cluster.broker.node.replicas.leader(name, 0) for name in ("t", "alone")]
    waiting = partitions[0].committed(3)
    partitions[0].fetched_by(9, 2, NOW)
    for partition in partitions:
        with open(partition.log.segments.active.log.path, "r+b") as file:
            file.seek(MAGIC_OFFSET)
            file.write(b"\x7f")
        if met_by == "retention":
            cluster.broker.node.logs.look_now(NOW)
            cluster.broker.node.logs.on_deadline(NOW)
            continue
        with pytest.raises(ApiError, match="is damaged") as refused:
            partition.log.read(1, 1000, 2) if met_by == "read" else partition.append(batch(b"v"), NOW)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    cluster.run()
    assert cluster.controller.told == {(topic_id, 0): LOST}, "nobody else can lead the other one"
    assert waiting.error is not None
    with pytest.raises(ApiError, match="is damaged"):
        cluster.broker.node.replicas.leader("t", 0)
    assert cluster.broker.node.replicas.leader("alone", 0) is partitions[1]


def test_a_replica_whose_disk_is_another_one_is_made_anew(tmp_path: Path) -> None:
    cluster = ObservedCluster(tmp_path, log_dirs=2)
    cluster.start()
    led_elsewhere = cluster.controller.create("t", replicas=(9, NODE), directories=(b"x" * 16, b"w" * 16))
    cluster.controller.create("mine", directories=(b"w" * 16,))
    cluster.run()
    place = cluster.broker.node.logs.directory_of(("t", 0))
    assert place is not None
    assert cluster.controller.told[led_elsewhere, 0] == place.id
    assert not cluster.broker.node.logs.exists("mine", 0)


def test_a_broker_that_loses_a_disk_tells_its_controller(tmp_path: Path) -> None:
    cluster = ObservedCluster(tmp_path, log_dirs=2)
    cluster.start()
    kept, lost = cluster.broker.node.logs.partition_directories
    cluster.broker.node.logs.take_offline(lost, OSError(5, "broken"))
    cluster.run()
    assert [bytes(each) for each in cluster.controller.heartbeats[-1].offline_log_dirs] == [lost.id]
    assert cluster.events == ["unfenced"]
    cluster.broker.node.logs.take_offline(kept, OSError(5, "broken"))
    assert cluster.events[1].startswith("the metadata log is out of reach: ")


def test_a_node_without_a_cluster_does_not_start(tmp_path: Path) -> None:
    cluster = ObservedCluster(tmp_path)
    cluster.broker.node.logs.cluster_id = ""
    with pytest.raises(LogDirectoryError, match="is of no cluster yet: `pykafka-broker format"):
        cluster.start()
    cluster.broker.stop()


def test_a_start_that_comes_to_nothing_leaves_the_disks_as_they_were(cluster: ObservedCluster) -> None:
    cluster.start()
    cluster.stop()
    marker = (cluster.directories[0] / ".kafka_cleanshutdown").read_text()
    cluster.network.waiting.clear()
    cluster.controller.alive = False
    cluster.new_broker()
    cluster.start()
    cluster.stop()
    assert (cluster.directories[0] / ".kafka_cleanshutdown").read_text() == marker


def test_a_metadata_log_that_was_lost_is_fetched_again(tmp_path: Path) -> None:
    cluster = ObservedCluster(tmp_path)
    cluster.start()
    cluster.controller.create("t")
    cluster.run()
    cluster.broker.node.replicas.leader("t", 0)
    cluster.stop()
    folder = cluster.directories[0] / "__cluster_metadata-0"
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    cluster.new_broker()
    cluster.start()
    assert cluster.events[-1:] == ["unfenced"]
    assert cluster.broker.node.replicas.leader("t", 0).is_leader


def test_nobody_is_asked_after_the_end(cluster: ObservedCluster) -> None:
    cluster.start()
    cluster.stop()
    heard: list[Message | LinkError] = []
    cluster.broker.node.metadata.ask(CreateTopicsRequest(), heard.append, 100)
    cluster.run()
    assert heard == []
