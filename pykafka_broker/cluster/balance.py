"""Leadership goes back to the first replicas: after a broker's return it would lead nothing.

Rule: whatever its first replica can lead is given back to it, a limited number at a time, so that one check does not
move a whole cluster. Nobody waits until a broker leads far too little: like Kafka's controller since KRaft, this one
does not look at `leader.imbalance.per.broker.percentage`.
"""

from __future__ import annotations

from pykafka_broker.cluster.controller import Controller
from pykafka_broker.cluster.elect_leaders import elected
from pykafka_broker.cluster.partition_change import Election
from pykafka_broker.cluster.records import ApiMessageAndVersion

MAX_ELECTIONS = 1_000  # of one check


def balancing(controller: Controller, at_most: int = MAX_ELECTIONS) -> list[ApiMessageAndVersion]:
    """Return the elections that are due; where they are `at_most`, more may be due soon."""
    records: list[ApiMessageAndVersion] = []
    for topic in controller.image.topics.values():
        for partition in topic.partitions.values():
            if partition.leader != partition.replicas[0]:
                record = elected(controller, topic, partition, Election.PREFERRED)
                if record is not None:
                    records.append(record)
                    if len(records) == at_most:
                        return records
    return records
