"""From one metadata image to a newer one, where no records lead from the one to the other (a snapshot has come).

Rule: whoever holds the image keeps it, and hears of the same changes as if records had brought them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

from pykafka_broker.cluster.image import MetadataDelta, MetadataImage, PartitionImage, TopicImage

K = TypeVar("K", bound=Hashable)

_HELD = (
    "brokers",
    "client_quotas",
    "configs",
    "controllers",
    "delegation_tokens",
    "features",
    "next_producer_id",
    "partition_count",
    "scram",
    "topics",
    "topics_by_id",
)


def become(image: MetadataImage, newer: MetadataImage) -> MetadataDelta:
    """Let `image` say what `newer` says, which is of no use afterwards; what that has changed."""
    delta = MetadataDelta()
    delta.deleted += [topic for topic_id, topic in image.topics_by_id.items() if topic_id not in newer.topics_by_id]
    for topic_id, topic in newer.topics_by_id.items():
        _compare(image.topics_by_id.get(topic_id), topic, delta)
    delta.configs |= _differing(image.configs, newer.configs)
    delta.features |= _differing(image.features, newer.features)
    delta.quotas |= _differing(image.client_quotas, newer.client_quotas)
    delta.brokers |= {*image.brokers, *newer.brokers}  # few, and a registration holds much
    _replace_acls(image, newer)
    for name in _HELD:
        setattr(image, name, getattr(newer, name))
    image.generation += newer.generation + 1
    return delta


def _compare(before: TopicImage | None, topic: TopicImage, delta: MetadataDelta) -> None:
    known: Mapping[int, PartitionImage] = {} if before is None else before.partitions
    if before is None:
        delta.created.append(topic)
    for number, partition in topic.partitions.items():
        if number not in known:
            delta.new_partitions.append((topic, partition))
        elif known[number].partition_epoch != partition.partition_epoch:
            delta.changed_partitions.append((topic, partition))


def _differing(before: Mapping[K, object], after: Mapping[K, object]) -> set[K]:
    return {key for key in {*before, *after} if before.get(key) != after.get(key)}


def _replace_acls(image: MetadataImage, newer: MetadataImage) -> None:
    index = image.acl_index
    if index is not None:
        for id_, acl in image.acls.items():
            if id_ not in newer.acls:
                index.remove(acl)
        for id_, acl in newer.acls.items():
            if id_ not in image.acls:
                index.add(acl)
    image.acls = newer.acls
