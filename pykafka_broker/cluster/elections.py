"""What follows for partitions when brokers and directories come and go: who leaves the ISR, who leads then.

Rule: each function yields one record for each partition that changes, of an image in which the broker's own record is
not applied yet; both belong into the same batch. Whether there may be an unclean leader is the topic's config.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pykafka_broker.cluster.controller import Controller
from pykafka_broker.cluster.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from pykafka_broker.cluster.partition_change import (
    Acceptable,
    Election,
    active,
    partition_change,
    topic_config,
)
from pykafka_broker.cluster.records import ApiMessageAndVersion

Records = Iterator[ApiMessageAndVersion]


def may_lead(image: MetadataImage, partition: PartitionImage, *, leaving: int = -1, returning: int = -1) -> Acceptable:
    """Which brokers are there and have the partition's directory; `leaving` is taken as gone, `returning` as back."""

    def acceptable(broker_id: int) -> bool:
        if broker_id == leaving or not (broker_id == returning or active(image, broker_id)):
            return False
        return broker_id in partition.replicas and image.brokers[broker_id].has_online(
            partition.directory_of(broker_id)
        )

    return acceptable


def election_of(controller: Controller, topic: TopicImage) -> Election:
    unclean = topic_config(controller, topic.name).unclean_leader_election_enable
    return Election.UNCLEAN if unclean else Election.ONLINE


def broker_leaves(controller: Controller, broker_id: int) -> Records:
    """The broker is fenced, unregistered or about to stop."""

    def left(topic: TopicImage, partition: PartitionImage) -> ApiMessageAndVersion | None:
        return without(controller, topic, partition, broker_id)

    return _changes(controller, lambda partition: broker_id in partition.isr, left)


def directories_lost(controller: Controller, broker_id: int, is_lost: Callable[[bytes], bool]) -> Records:
    """Those directories of a broker are offline."""

    def is_in(partition: PartitionImage) -> bool:
        return broker_id in partition.isr and is_lost(partition.directory_of(broker_id))

    def left(topic: TopicImage, partition: PartitionImage) -> ApiMessageAndVersion | None:
        return without(controller, topic, partition, broker_id)

    return _changes(controller, is_in, left)


def unclean_shutdown(controller: Controller, broker_id: int) -> Records:
    """A broker comes back that may have lost what it had not synced."""

    def forgotten(topic: TopicImage, partition: PartitionImage) -> ApiMessageAndVersion | None:
        return partition_change(
            controller,
            topic,
            partition,
            may_lead(controller.image, partition, leaving=broker_id),
            election=election_of(controller, topic),
            unclean=(broker_id,),
        )

    return _changes(controller, lambda partition: broker_id in partition.isr or broker_id in partition.elr, forgotten)


def broker_returns(controller: Controller, broker_id: int) -> Records:
    """The broker is unfenced: what nobody leads it may."""

    def elected(topic: TopicImage, partition: PartitionImage) -> ApiMessageAndVersion | None:
        return _online_again(controller, topic, partition, broker_id)

    return _changes(
        controller, lambda partition: partition.leader == NO_LEADER and broker_id in partition.replicas, elected
    )


def unclean_candidates(controller: Controller) -> Records:
    """Partitions without a leader get one where their topic's config would rather lose records."""

    for topic in controller.image.topics.values():
        leaderless = [partition for partition in topic.partitions.values() if partition.leader == NO_LEADER]
        if leaderless and election_of(controller, topic) is Election.UNCLEAN:
            for partition in leaderless:
                record = _online_again(controller, topic, partition)
                if record is not None:
                    yield record


def leads_anything(image: MetadataImage, broker_id: int) -> bool:
    return any(
        partition.leader == broker_id for topic in image.topics.values() for partition in topic.partitions.values()
    )


def _online_again(
    controller: Controller, topic: TopicImage, partition: PartitionImage, returning: int = -1
) -> ApiMessageAndVersion | None:
    acceptable = may_lead(controller.image, partition, returning=returning)
    return partition_change(controller, topic, partition, acceptable, election=election_of(controller, topic))


def without(
    controller: Controller, topic: TopicImage, partition: PartitionImage, broker_id: int
) -> ApiMessageAndVersion | None:
    return partition_change(
        controller,
        topic,
        partition,
        may_lead(controller.image, partition, leaving=broker_id),
        election=election_of(controller, topic),
        isr=[each for each in partition.isr if each != broker_id],
    )


def _changes(
    controller: Controller,
    concerns: Callable[[PartitionImage], bool],
    change: Callable[[TopicImage, PartitionImage], ApiMessageAndVersion | None],
) -> Records:
    for topic in controller.image.topics.values():
        for partition in topic.partitions.values():
            if concerns(partition):
                record = change(topic, partition)
                if record is not None:
                    yield record
