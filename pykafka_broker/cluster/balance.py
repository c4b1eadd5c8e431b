"""Leadership goes back to the first replicas: after a broker's return it would lead nothing.

Rule: a broker is out of balance if, of the partitions whose first replica it has, more than a percentage are led by
others. Then those of them that it can lead are given back to it, a limited number at a time, so that one check does not
move a whole cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

from pykafka_broker.cluster.controller import Controller
from pykafka_broker.cluster.elect_leaders import elected
from pykafka_broker.cluster.image import PartitionImage, TopicImage
from pykafka_broker.cluster.partition_change import Election
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.steps import Pace

MAX_ELECTIONS = 1_000  # of one check


def balancing(
    controller: Controller, at_most: int = MAX_ELECTIONS
) -> Generator[None, None, list[ApiMessageAndVersion]]:
    """The elections that `leader.imbalance.per.broker.percentage` asks for, in steps; none if it asks for none.
    With `at_most` there may be more: check again soon."""
    pace = Pace()
    preferred: Counter[int] = Counter()
    led_by_others: dict[int, list[tuple[TopicImage, PartitionImage]]] = {}
    for topic in tuple(controller.image.topics.values()):
        for partition in tuple(topic.partitions.values()):
            first = partition.replicas[0]
            preferred[first] += 1
            if partition.leader != first:
                led_by_others.setdefault(first, []).append((topic, partition))
            if pace.due():
                yield
    percentage = controller.config.leader_imbalance_per_broker_percentage
    records: list[ApiMessageAndVersion] = []
    for broker, partitions in led_by_others.items():
        if len(partitions) * 100 <= percentage * preferred[broker]:
            continue
        for topic, partition in partitions:
            if len(records) == at_most:
                return records
            record = elected(controller, topic, partition, Election.PREFERRED)
            if record is not None:
                records.append(record)
            if pace.due():
                yield
    return records
