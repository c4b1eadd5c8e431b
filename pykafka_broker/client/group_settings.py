"""The properties of a member of a group, with Kafka's defaults (Kafka docs, "Consumer Configs"). Raises Unusable."""

from __future__ import annotations

from collections.abc import Mapping

from pykafka_broker.client.errors import Unusable
from pykafka_broker.client.properties import flag, number

_ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "range": "range",
    "roundrobin": "roundrobin",
}
_OF_JAVA = ("StickyAssignor", "CooperativeStickyAssignor")


class GroupSettings:
    def __init__(self, properties: Mapping[str, str]) -> None:
        self.group_id = properties.get("group.id", "")
        self.instance_id = properties.get("group.instance.id")
        self.new_protocol = _protocol(properties.get("group.protocol", "classic"))
        self.remote_assignor = properties.get("group.remote.assignor")
        self.session_timeout_ms = number(properties, "session.timeout.ms", 45_000)
        self.heartbeat_interval_ms = number(properties, "heartbeat.interval.ms", 3_000)
        self.rebalance_timeout_ms = number(properties, "max.poll.interval.ms", 300_000, least=1)
        self.metadata_max_age_ms = number(properties, "metadata.max.age.ms", 300_000, least=0)
        self.auto_commit = flag(properties, "enable.auto.commit", True)
        self.auto_commit_interval_ms = number(properties, "auto.commit.interval.ms", 5_000, least=0)
        self.exclude_internal_topics = flag(properties, "exclude.internal.topics", True)
        self.assignors = _assignors(properties.get("partition.assignment.strategy"))
        if not self.group_id:
            raise Unusable(
                "To use the group management or offset commit APIs, you must provide a valid group.id in the consumer "
                "configuration."
            )


def _protocol(name: str) -> bool:
    if name.lower() not in ("classic", "consumer"):
        raise Unusable(
            f"Invalid value {name} for configuration group.protocol: String must be one of (case insensitive): "
            "CLASSIC, CONSUMER"
        )
    return name.lower() == "consumer"


def _assignors(text: str | None) -> list[str]:
    """In the order of preference; those of Java's default that this client does not know are left out."""
    if text is None:
        return ["range"]
    found = []
    for name in filter(None, (each.strip() for each in text.split(","))):
        if name in _ASSIGNORS:
            found.append(_ASSIGNORS[name])
        elif not name.endswith(_OF_JAVA):
            raise Unusable(f"{name} ClassNotFoundException exception occurred")
    if not found:
        raise Unusable("partition.assignment.strategy names neither RangeAssignor nor RoundRobinAssignor")
    return found
