"""Configs as records.

Rule: who is eligible to lead (KIP-966) follows from `min.insync.replicas`, so with another value nobody is any more. A
ClearElrRecord says so behind it, for one topic or for all. Only where nobody is in sync they stay eligible, for nothing
has been committed there since, under any minimum. Kafka forgets them, and nobody ever leads such a partition again by
itself, though to lower the minimum is what an operator may do just then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pykafka_broker.cluster.features import ELR_VERSION
from pykafka_broker.cluster.image import MetadataImage, TopicImage
from pykafka_broker.cluster.partition_change import still_eligible
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.stored.config_record import ConfigRecord

_MIN_INSYNC = "min.insync.replicas"


def config_records(
    image: MetadataImage, kind: int, name: str, values: Mapping[str, str | None]
) -> list[ApiMessageAndVersion]:
    """The resource has these values from now on; None is that of whatever is below it."""
    records = []
    for key, value in values.items():
        records.append(ApiMessageAndVersion(ConfigRecord(kind, name, key, value), 0))
        if key == _MIN_INSYNC and value != image.config(kind, name).get(key) and image.features.get(ELR_VERSION, 0):
            records += _eligible_no_more(image, kind, name)
    return records


def _eligible_no_more(image: MetadataImage, kind: int, name: str) -> Iterator[ApiMessageAndVersion]:
    from pykafka_broker.protocol.stored.clear_elr_record import ClearElrRecord

    topics: Iterable[TopicImage]
    if kind == ConfigResourceType.TOPIC:
        topics = [image.topics[name]] if name in image.topics else []  # it may be about to be created
    elif kind == ConfigResourceType.BROKER and not name:
        topics = image.topics.values()
    else:
        return
    yield ApiMessageAndVersion(ClearElrRecord(name), 0)
    for topic in topics:
        for partition in topic.partitions.values():
            if not partition.isr:
                yield still_eligible(topic, partition)
