"""What a file of MirrorMaker 2 says (KIP-382).

Rule: a setting of a flow is looked for as `A->B.name`, then as `B.name` of its target, then as `name`; what this mirror
has no use for (`tasks.max` and whatever else is Connect's) is left alone. Properties of a client come from its cluster
(`B.name`, then `B.producer.name`); a flow has the last word (`A->B.producer.name`, then `A->B.target.producer.name`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pykafka_broker.client.errors import Unusable

_TOPICS_EXCLUDED = r"mm2.*\.internal, .*\.replica, __.*"  # Kafka docs, "MirrorMaker Common Configs"
_GROUPS_EXCLUDED = "console-consumer-.*, connect-.*, __.*"
_CONFIGS_EXCLUDED = (
    r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
    r"message\.timestamp\.difference\.max\.ms, message\.timestamp\.type, unclean\.leader\.election\.enable, "
    r"min\.insync\.replicas"
)


@dataclass(frozen=True)
class Flow:
    """From one cluster to another."""

    source: str
    target: str
    values: Mapping[str, str]

    def get(self, name: str, default: str) -> str:
        for prefix in (f"{self.source}->{self.target}.", f"{self.target}.", ""):
            if prefix + name in self.values:
                return self.values[prefix + name].strip()
        return default

    def is_on(self, name: str, default: bool) -> bool:
        return self.get(name, str(default)).lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Raises Unusable."""
        text = self.get(name, str(default))
        try:
            return int(text)
        except ValueError:
            raise Unusable(f"Invalid value {text} for configuration {name}: Not a number of type INT") from None

    def client(self, cluster: str) -> tuple[str, dict[str, str]]:
        """Where that cluster is, and the properties of its client. Raises Unusable."""
        found = self.properties(cluster, "admin")
        if "bootstrap.servers" not in found:
            raise Unusable(f"{cluster}.bootstrap.servers is missing")
        return found["bootstrap.servers"], found

    def properties(self, cluster: str, role: str) -> dict[str, str]:
        """Of that cluster's client as admin, producer or consumer."""
        found = {key: text for key, text in self.values.items() if key.startswith(("ssl.", "sasl.", "security."))}
        flow, side = f"{self.source}->{self.target}.", "source." if cluster == self.source else "target."
        for prefix in (f"{cluster}.", f"{cluster}.{role}.", f"{flow}{role}.", f"{flow}{side}{role}."):
            found |= {key.removeprefix(prefix): text for key, text in self.values.items() if key.startswith(prefix)}
        return found

    def check(self) -> None:
        """That patterns are patterns, and words are known. Raises Unusable."""
        _ = self.syncs_topic
        for wants in (self.wants_topic, self.wants_group, self.wants_config):
            wants("")

    def wants_topic(self, name: str) -> bool:
        if name.split(self.separator)[-1] == "heartbeats":  # whoever wrote them
            return self.is_on("heartbeats.replication.enabled", True)
        return self._wants("topics", "topics.exclude", _TOPICS_EXCLUDED, name)

    def mirrors(self, name: str) -> bool:
        """Whether it is wanted, and has not come from the target."""
        return self.wants_topic(name) and not self.is_cycle(name)

    def wants_group(self, name: str) -> bool:
        return self._wants("groups", "groups.exclude", _GROUPS_EXCLUDED, name)

    def wants_config(self, name: str) -> bool:
        return not _matches(self.get("config.properties.exclude", _CONFIGS_EXCLUDED), name)

    def _wants(self, taken: str, left: str, by_default: str, name: str) -> bool:
        excluded = _matches(self.get(left, by_default), name)
        return _matches(self.get(taken, ".*"), name) and not excluded

    @property
    def syncs_at_target(self) -> bool:
        """Where it is kept which record has become which. Raises Unusable."""
        found = self.get("offset-syncs.topic.location", "source")
        if found not in ("source", "target"):
            raise Unusable(
                f"Invalid value {found} for configuration offset-syncs.topic.location: "
                "String must be one of: source, target"
            )
        return found == "target"

    @property
    def syncs_topic(self) -> str:
        other = self.source if self.syncs_at_target else self.target
        return f"mm2-offset-syncs{self.separator}{other}{self.separator}internal"

    @property
    def separator(self) -> str:
        return self.get("replication.policy.separator", ".")

    @property
    def keeps_names(self) -> bool:
        return self.get("replication.policy.class", "").endswith("IdentityReplicationPolicy")

    def remote(self, topic: str) -> str:
        """How the target calls a topic of the source."""
        if self.keeps_names and topic.split(self.separator)[-1] != "heartbeats":
            return topic
        return f"{self.source}{self.separator}{topic}"

    def is_cycle(self, topic: str) -> bool:
        """Whether the records have already come from the target."""
        if self.keeps_names and topic.split(self.separator)[-1] != "heartbeats":
            return False
        return self.target in topic.split(self.separator)[:-1]


def _matches(patterns: str, name: str) -> bool:
    """Raises Unusable."""
    try:
        compiled = [re.compile(each.strip()) for each in patterns.split(",") if each.strip()]
    except re.error as error:
        raise Unusable(f"{patterns} is no list of regular expressions: {error}") from None
    return any(each.fullmatch(name) for each in compiled)


def flows(values: Mapping[str, str], targets: list[str]) -> list[Flow]:
    """Those that are on, to these targets or to all. Raises Unusable."""
    return [each for each in _pairs(values, targets) if _enabled(each)]


def beating(values: Mapping[str, str], targets: list[str]) -> list[Flow]:
    """Those that are not on and all the same have heartbeats: what flows the other way shall have some to carry."""
    return [
        each for each in _pairs(values, targets) if not _enabled(each) and each.is_on("emit.heartbeats.enabled", True)
    ]


def _enabled(flow: Flow) -> bool:
    return flow.values.get(f"{flow.source}->{flow.target}.enabled", "").strip().lower() == "true"


def _pairs(values: Mapping[str, str], targets: list[str]) -> list[Flow]:
    clusters = [each.strip() for each in values.get("clusters", "").split(",") if each.strip()]
    if not clusters:
        raise Unusable('Missing required configuration "clusters" which has no default value.')
    unknown = [each for each in targets if each not in clusters]
    if unknown:
        raise Unusable(f"{unknown[0]} is none of the clusters {', '.join(clusters)}")
    return [Flow(a, b, values) for a in clusters for b in clusters if a != b and b in (targets or clusters)]
