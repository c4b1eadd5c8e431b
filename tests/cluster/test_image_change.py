"""An image becomes a newer one, and those who hold it hear what has changed."""

from __future__ import annotations

from typing import Any

from pykafka_broker.cluster.acl_index import index_of
from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
from pykafka_broker.cluster.image_change import become
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.stored.access_control_entry_record import AccessControlEntryRecord
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord
from pykafka_broker.protocol.stored.partition_record import PartitionRecord
from pykafka_broker.protocol.stored.topic_record import TopicRecord


def image_of(*records: Any) -> MetadataImage:
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
    image = image_of(*topic("stays", 1), *topic("goes", 2))
    delta = become(image, image_of(*topic("stays", 1, 2), *topic("comes", 3)))
    assert sorted(image.topics) == ["comes", "stays"]
    assert [each.name for each in delta.created] == ["comes"]
    assert [each.name for each in delta.deleted] == ["goes"]
    assert [(each.name, partition.partition) for each, partition in delta.new_partitions] == [
        ("stays", 1),
        ("comes", 0),
    ]
    assert image.partition_count == 3


def test_a_topic_that_was_made_again_is_another_one() -> None:
    image = image_of(*topic("t", 1))
    delta = become(image, image_of(*topic("t", 2)))
    assert ([each.id[-1] for each in delta.deleted], [each.id[-1] for each in delta.created]) == ([1], [2])


def test_partitions_that_have_moved_on_are_changed() -> None:
    change = PartitionChangeRecord(0, bytes(15) + b"\x01", leader=-1)
    image = image_of(*topic("t", 1, 2))
    delta = become(image, image_of(*topic("t", 1, 2), change))
    assert [partition.partition for _, partition in delta.changed_partitions] == [0]
    assert image.topics["t"].partitions[0].leader == -1


def test_configs_and_features_are_compared() -> None:
    def config(value: str) -> ConfigRecord:
        return ConfigRecord(ConfigResourceType.TOPIC, "t", "retention.ms", value)

    image = image_of(FeatureLevelRecord("a", 1), FeatureLevelRecord("b", 1), config("5"))
    delta = become(image, image_of(FeatureLevelRecord("a", 1), FeatureLevelRecord("b", 2), config("6")))
    assert (delta.features, delta.configs) == ({"b"}, {(ConfigResourceType.TOPIC, "t")})
    assert image.topic_config("t") == {"retention.ms": "6"}


def test_what_follows_the_acls_has_the_new_ones() -> None:
    def acl(number: int, name: str) -> AccessControlEntryRecord:
        return AccessControlEntryRecord(bytes(15) + bytes([number]), 2, name, 3, "User:a", "*", 3, 3)

    image = image_of(acl(1, "one"), acl(2, "two"))
    index = index_of(image)
    become(image, image_of(acl(2, "two"), acl(3, "three")))
    fresh = index_of(image_of(acl(2, "two"), acl(3, "three")))
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
    image = image_of(FeatureLevelRecord("a", 1))
    before = image.generation
    become(image, image_of(FeatureLevelRecord("a", 1)))
    assert image.generation > before
