"""The image: replayed from logs and snapshots of a real 4.4.0 broker, record by record, and turned into a newer one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.cluster.acl_index import index_of
from pykafka_broker.cluster.image import MetadataDelta, MetadataImage, become
from pykafka_broker.cluster.image_records import image_records
from pykafka_broker.cluster.metadata_log import Replay
from pykafka_broker.cluster.records import MetadataError, decode_versioned, encode_record
from pykafka_broker.cluster.snapshot import snapshot_records
from pykafka_broker.log.checkpoints import MIGRATING, UNASSIGNED
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.stored.access_control_entry_record import AccessControlEntryRecord
from pykafka_broker.protocol.stored.broker_registration_change_record import BrokerRegistrationChangeRecord
from pykafka_broker.protocol.stored.clear_elr_record import ClearElrRecord
from pykafka_broker.protocol.stored.client_quota_record import ClientQuotaRecord, EntityData
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from pykafka_broker.protocol.stored.delegation_token_record import DelegationTokenRecord
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord
from pykafka_broker.protocol.stored.fence_broker_record import FenceBrokerRecord
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord
from pykafka_broker.protocol.stored.partition_record import PartitionRecord
from pykafka_broker.protocol.stored.producer_ids_record import ProducerIdsRecord
from pykafka_broker.protocol.stored.register_broker_record import RegisterBrokerRecord
from pykafka_broker.protocol.stored.register_controller_record import RegisterControllerRecord
from pykafka_broker.protocol.stored.remove_delegation_token_record import RemoveDelegationTokenRecord
from pykafka_broker.protocol.stored.remove_topic_record import RemoveTopicRecord
from pykafka_broker.protocol.stored.topic_record import TopicRecord
from pykafka_broker.protocol.stored.unfence_broker_record import UnfenceBrokerRecord
from pykafka_broker.protocol.stored.unregister_broker_record import UnregisterBrokerRecord
from pykafka_broker.protocol.stored.user_scram_credential_record import UserScramCredentialRecord
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records

DATA = Path(__file__).with_name("data")
ID = b"i" * 16


def image_of(*records: Any) -> MetadataImage:
    image = MetadataImage()
    for record in records:
        image.apply(record, MetadataDelta())
    return image


def kafka_image() -> MetadataImage:
    image = MetadataImage()
    replay = Replay(image, MetadataDelta())
    for header, batch in iter_batches((DATA / "kafka.log").read_bytes()):
        replay.batch(header, batch)
    return image


def test_a_real_log_is_understood() -> None:
    image = kafka_image()
    assert list(image.topics) == ["one"]
    assert list(image.topics["one"].partitions) == [0, 1, 2]
    assert image.partition_count == 3
    assert image.topic_config("one") == {"cleanup.policy": "compact", "segment.ms": "100000"}
    assert image.topic_config("gone") == {}
    assert image.config(ConfigResourceType.GROUP, "g1") == {"consumer.session.timeout.ms": "50000"}
    assert image.config(ConfigResourceType.CLIENT_METRICS, "m1") == {"interval.ms": "50000"}
    assert image.config(ConfigResourceType.BROKER, "") == {"min.insync.replicas": "1"}
    assert image.features["metadata.version"] == 33
    assert "streams.version" not in image.features  # lowered to 0
    assert image.client_quotas == {
        (("user", "u1"),): {"producer_byte_rate": 1000.0},
        (("client-id", "c"), ("user", None)): {"request_percentage": 1.5},
    }
    assert image.next_producer_id == 1000
    assert [record.name for record in image.scram.values()] == ["alice"]
    assert [record.principal for record in image.acls.values()] == ["User:alice"]
    assert set(image.brokers) == set(image.controllers) == {1}
    assert image.brokers[1].endpoints == [("PLAINTEXT", "127.0.0.1", 29500, 0)]
    assert image.brokers[1].fenced  # it was shut down
    # It stopped twice and started once more in between, each time with a leader less or more.
    partition = image.partition("one", 0)
    assert partition is not None
    assert (partition.leader, partition.isr, partition.elr) == (-1, (), (1,))
    assert partition.leader_epoch == partition.partition_epoch == 3


def test_every_record_of_a_real_log_encodes_to_the_same_bytes() -> None:
    count = 0
    for header, batch in iter_batches((DATA / "kafka.log").read_bytes()):
        if not header.is_control:
            for record in iter_records(batch, header):
                assert record.value is not None
                assert encode_record(decode_versioned(record.value)) == record.value
                count += 1
    assert count == 54


def test_the_records_of_an_image_are_those_of_kafkas_snapshot() -> None:
    recorded = [encode_record(record) for record in snapshot_records(OsFileSystem(), str(DATA / "kafka.checkpoint"))]
    image = MetadataImage()
    for value in recorded:
        image.apply(decode_versioned(value).message, MetadataDelta())
    ours = [encode_record(record) for record in image_records(image, 2, 4)]
    assert sorted(ours) == sorted(recorded)
    assert ours[0] == recorded[0]  # metadata.version


def test_an_image_survives_its_records() -> None:
    image = kafka_image()
    again = image_of(*(record.message for record in image_records(image, 2, 4)))
    assert list(image_records(again, 2, 4)) == list(image_records(image, 2, 4))


def test_configs_of_a_deleted_topic_do_not_pass_to_the_next_of_that_name() -> None:
    image = image_of(ConfigRecord(ConfigResourceType.TOPIC, "gone", "retention.ms", "5"), TopicRecord("gone", ID))
    assert image.topic_config("gone") == {}


def test_a_topic_is_created_once_and_known_by_both_names() -> None:
    image = image_of(TopicRecord("t", ID), PartitionRecord(0, ID, [1], [1], [], [], 1, 0, 0, 0))
    assert image.topic_id("t") == ID
    assert image.topics_by_id[ID].name == "t"
    with pytest.raises(MetadataError, match="created twice"):
        image.apply(TopicRecord("t", b"j" * 16), MetadataDelta())


def test_a_change_starts_an_epoch_only_if_it_names_a_leader() -> None:
    image = image_of(TopicRecord("t", ID), PartitionRecord(0, ID, [1, 2], [1, 2], [], [], 1, 0, 4, 7))
    image.apply(PartitionChangeRecord(0, ID, isr=[1]), MetadataDelta())
    partition = image.topics["t"].partitions[0]
    assert (partition.isr, partition.leader_epoch, partition.partition_epoch) == ((1,), 4, 8)
    image.apply(PartitionChangeRecord(0, ID, leader=1), MetadataDelta())
    assert partition.leader_epoch == 4  # what was looked at stays what it was
    partition = image.topics["t"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 5, 9)


def test_partitions_share_their_replica_tuples() -> None:
    records = [PartitionRecord(number, ID, [1, 2, 3], [1, 2, 3], [], [], 1, 0, 0, 0) for number in range(2)]
    first, second = image_of(TopicRecord("t", ID), *records).topics["t"].partitions.values()
    assert first.replicas is second.replicas is first.isr


def test_a_deleted_topic_takes_its_configs_along() -> None:
    delta = MetadataDelta()
    image = image_of(
        TopicRecord("t", ID),
        PartitionRecord(0, ID, [1], [1], [], [], 1, 0, 0, 0),
        ConfigRecord(ConfigResourceType.TOPIC, "t", "retention.ms", "5"),
    )
    image.apply(RemoveTopicRecord(ID), delta)
    assert (image.topics, image.topics_by_id, image.configs, image.partition_count) == ({}, {}, {}, 0)
    assert [topic.name for topic in delta.deleted] == ["t"]


def test_a_resource_without_overrides_is_not_kept() -> None:
    image = image_of(
        ConfigRecord(32, "g", "a", "1"), ConfigRecord(32, "g", "a", None), ConfigRecord(32, "h", "a", None)
    )
    assert image.configs == {}


def test_brokers_come_are_fenced_and_go() -> None:
    image = image_of(RegisterBrokerRecord(broker_id=4, broker_epoch=9, log_dirs=[ID]))
    broker = image.brokers[4]
    assert broker.fenced
    image.apply(UnfenceBrokerRecord(4, 9), MetadataDelta())
    assert not broker.fenced
    assert not broker.all_dirs_cordoned
    assert not image_of(RegisterBrokerRecord(broker_id=5)).brokers[5].all_dirs_cordoned, "of an older release"
    image.apply(FenceBrokerRecord(4, 9), MetadataDelta())
    image.apply(BrokerRegistrationChangeRecord(4, 9, fenced=-1), MetadataDelta())
    assert (broker.fenced, broker.in_controlled_shutdown) == (False, False)
    image.apply(BrokerRegistrationChangeRecord(4, 9, in_controlled_shutdown=1), MetadataDelta())
    image.apply(BrokerRegistrationChangeRecord(4, 9, cordoned_log_dirs=[ID]), MetadataDelta())
    assert broker.in_controlled_shutdown
    assert broker.all_dirs_cordoned
    image.apply(BrokerRegistrationChangeRecord(4, 9), MetadataDelta())
    assert broker.all_dirs_cordoned
    image.apply(BrokerRegistrationChangeRecord(4, 9, cordoned_log_dirs=[]), MetadataDelta())
    assert not broker.all_dirs_cordoned
    image.apply(UnregisterBrokerRecord(4, 9), MetadataDelta())
    assert image.brokers == {}
    with pytest.raises(MetadataError, match="broker 4, which is not registered"):
        image.apply(FenceBrokerRecord(4, 9), MetadataDelta())


def test_tokens_come_and_go() -> None:
    image = image_of(DelegationTokenRecord(token_id="a"), DelegationTokenRecord(token_id="b"))
    image.apply(RemoveDelegationTokenRecord("a"), MetadataDelta())
    assert list(image.delegation_tokens) == ["b"]


def test_eligible_leaders_are_cleared_for_one_topic_or_for_all() -> None:
    other = b"j" * 16
    partition: dict[str, Any] = {"isr": [], "leader": -1, "eligible_leader_replicas": [1], "last_known_elr": [1]}
    image = image_of(
        TopicRecord("t", ID),
        PartitionRecord(0, ID, [1], **partition),
        TopicRecord("u", other),
        PartitionRecord(0, other, [1], **partition),
    )
    image.apply(ClearElrRecord("t"), MetadataDelta())
    assert [topic.partitions[0].elr for topic in image.topics.values()] == [(), (1,)]
    image.apply(ClearElrRecord(""), MetadataDelta())
    assert image.topics["u"].partitions[0].last_known_elr == ()


@pytest.mark.parametrize(
    "record",
    [
        PartitionRecord(0, b"?" * 16, [1]),
        PartitionChangeRecord(0, b"?" * 16),
        PartitionChangeRecord(3, ID),
        RemoveTopicRecord(b"?" * 16),
        ProducerIdsRecord(1, 1, 500),
        ProducerIdsRecord(1, 1, 1000),  # the same block once more
    ],
)
def test_what_can_not_be_is_refused(record: Any) -> None:
    image = image_of(TopicRecord("t", ID), ProducerIdsRecord(1, 1, 1000))
    with pytest.raises(MetadataError):
        image.apply(record, MetadataDelta())


def test_the_generation_moves_with_every_record() -> None:
    image = image_of(FeatureLevelRecord("f", 1))
    before = image.generation
    image.apply(FeatureLevelRecord("f", 2), MetadataDelta())
    assert image.generation > before


def image_after(*records: Any) -> MetadataImage:
    image = MetadataImage()
    for record in records:
        image.apply(record, MetadataDelta())
    return image


def topic(name: str, number: int, partitions: int = 1) -> list[Any]:
    id_ = bytes(15) + bytes([number])
    return [
        TopicRecord(name, id_),
        *(PartitionRecord(each, id_, replicas=[1], isr=[1], leader=1) for each in range(partitions)),
    ]


def test_topics_come_go_and_grow() -> None:
    image = image_after(*topic("stays", 1), *topic("goes", 2))
    delta = become(image, image_after(*topic("stays", 1, 2), *topic("comes", 3)))
    assert sorted(image.topics) == ["comes", "stays"]
    assert [each.name for each in delta.created] == ["comes"]
    assert [each.name for each in delta.deleted] == ["goes"]
    assert [(each.name, partition.partition) for each, partition in delta.new_partitions] == [
        ("stays", 1),
        ("comes", 0),
    ]
    assert image.partition_count == 3


def test_a_topic_that_was_made_again_is_another_one() -> None:
    image = image_after(*topic("t", 1))
    delta = become(image, image_after(*topic("t", 2)))
    assert ([each.id[-1] for each in delta.deleted], [each.id[-1] for each in delta.created]) == ([1], [2])


def test_partitions_that_have_moved_on_are_changed() -> None:
    change = PartitionChangeRecord(0, bytes(15) + b"\x01", leader=-1)
    image = image_after(*topic("t", 1, 2))
    delta = become(image, image_after(*topic("t", 1, 2), change))
    assert [partition.partition for _, partition in delta.changed_partitions] == [0]
    assert image.topics["t"].partitions[0].leader == -1
    assert not delta.moved


def test_partitions_with_other_replicas_are_told_by_a_record_and_by_a_snapshot() -> None:
    change = PartitionChangeRecord(0, bytes(15) + b"\x01", replicas=[7])
    image, delta = image_after(*topic("t", 1, 2)), MetadataDelta()
    image.apply(change, delta)
    assert delta.moved == {"t"}
    assert become(image_after(*topic("t", 1, 2)), image).moved == {"t"}


def test_configs_and_features_are_compared() -> None:
    def config(value: str) -> ConfigRecord:
        return ConfigRecord(ConfigResourceType.TOPIC, "t", "retention.ms", value)

    image = image_after(FeatureLevelRecord("a", 1), FeatureLevelRecord("b", 1), config("5"))
    delta = become(image, image_after(FeatureLevelRecord("a", 1), FeatureLevelRecord("b", 2), config("6")))
    assert (delta.features, delta.configs) == ({"b"}, {(ConfigResourceType.TOPIC, "t")})
    assert image.topic_config("t") == {"retention.ms": "6"}


def test_a_replica_is_offline_with_its_broker_or_its_directory() -> None:
    image = image_of(
        TopicRecord("t", ID),
        PartitionRecord(0, ID, [4, 5], directories=[ID, b"d" * 16]),
        RegisterBrokerRecord(broker_id=4, broker_epoch=9, log_dirs=[ID]),
        RegisterBrokerRecord(broker_id=5, broker_epoch=9, log_dirs=[ID]),
    )
    partition = image.topics["t"].partitions[0]
    assert image.is_offline(partition, 4), "the broker is fenced"
    for broker in (4, 5):
        image.apply(UnfenceBrokerRecord(broker, 9), MetadataDelta())
    assert [image.is_offline(partition, broker) for broker in (4, 5)] == [False, True]
    for unnamed in (MIGRATING, UNASSIGNED):
        partition.directories = (ID, unnamed)
        assert not image.is_offline(partition, 5)
    image.apply(UnregisterBrokerRecord(4, 9), MetadataDelta())
    assert image.is_offline(partition, 4)


def test_everything_is_taken_over() -> None:
    entity = ClientQuotaRecord([EntityData("user", "a")], "producer_byte_rate", 5.0)
    newer = image_after(
        *topic("t", 1),
        ConfigRecord(ConfigResourceType.TOPIC, "t", "retention.ms", "5"),
        FeatureLevelRecord("a", 1),
        RegisterBrokerRecord(broker_id=4, broker_epoch=9),
        RegisterControllerRecord(5),
        entity,
        ProducerIdsRecord(1, 1, 1000),
        UserScramCredentialRecord("alice", 1),
        AccessControlEntryRecord(ID, 2, "t", 3, "User:a", "*", 3, 3),
        DelegationTokenRecord(token_id="a"),
    )
    own = {"_appliers", "acl_index", "generation", "token_index"}
    expected = {name: value for name, value in vars(newer).items() if name not in own}
    assert all(expected.values()), "a record for each"
    image = MetadataImage()
    delta = become(image, newer)
    assert {name: value for name, value in vars(image).items() if name not in own} == expected
    assert delta.quotas == {(("user", "a"),)}
    assert become(image, MetadataImage()).quotas == {(("user", "a"),)}


def test_what_follows_the_acls_has_the_new_ones() -> None:
    def acl(number: int, name: str) -> AccessControlEntryRecord:
        return AccessControlEntryRecord(bytes(15) + bytes([number]), 2, name, 3, "User:a", "*", 3, 3)

    image = image_after(acl(1, "one"), acl(2, "two"))
    index = index_of(image)
    become(image, image_after(acl(2, "two"), acl(3, "three")))
    fresh = index_of(image_after(acl(2, "two"), acl(3, "three")))
    assert image.acl_index is index
    assert {id_[-1] for id_ in image.acls} == {2, 3}
    assert _patterns(index) == _patterns(fresh)


def _patterns(index: Any) -> Any:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items()}
        slots = getattr(value, "__slots__", None)
        if slots is None:
            return value
        return {name: plain(getattr(value, name)) for name in slots if name != "changes"}

    return plain(index)


def test_the_image_is_a_newer_one() -> None:
    image = image_after(FeatureLevelRecord("a", 1))
    before = image.generation
    become(image, image_after(FeatureLevelRecord("a", 1)))
    assert image.generation > before
