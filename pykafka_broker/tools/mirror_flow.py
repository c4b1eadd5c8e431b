"""The settings of a flow of `pykafka-broker mirror`: which topics, groups and configs are mirrored, under which names.

Rule: names, defaults and patterns are MirrorMaker's (Kafka docs, "MirrorMaker Configs"). Nothing here asks a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pykafka_broker.client.errors import Unusable
from pykafka_broker.client.properties import integer, invalid
from pykafka_broker.config.java_regex import JavaRegexError, compile_java

_TOPICS_EXCLUDED = r"mm2.*\.internal, .*\.replica, __.*"  # Kafka docs, "MirrorMaker Common Configs"
_GROUPS_EXCLUDED = "console-consumer-.*, connect-.*, __.*"
_CONFIGS_EXCLUDED = (
    r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
    r"message\.timestamp\.difference\.max\.ms, message\.timestamp\.type, unclean\.leader\.election\.enable, "
    r"min\.insync\.replicas"
)


@dataclass(frozen=True)
class Flow:
    """The way from a source cluster to a target cluster."""

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
        """Return an integer property. Raises Unusable."""
        text = self.get(name, str(default))
        try:
            return integer(text)
        except ValueError:
            raise invalid(name, text, "Not a number of type INT") from None

    def client(self, cluster: str) -> tuple[str, dict[str, str]]:
        """Return address and client properties of a cluster. Raises Unusable."""
        found = self.properties(cluster, "admin")
        if "bootstrap.servers" not in found:
            raise Unusable(f"{cluster}.bootstrap.servers is missing")
        return found["bootstrap.servers"], found

    def properties(self, cluster: str, role: str) -> dict[str, str]:
        """Return the properties of a cluster's client as admin, producer or consumer."""
        found = {key: text for key, text in self.values.items() if key.startswith(("ssl.", "sasl.", "security."))}
        flow, side = f"{self.source}->{self.target}.", "source." if cluster == self.source else "target."
        for prefix in (f"{cluster}.", f"{cluster}.{role}.", f"{flow}{role}.", f"{flow}{side}{role}."):
            found |= {key.removeprefix(prefix): text for key, text in self.values.items() if key.startswith(prefix)}
        return found

    def check(self) -> None:
        """Check patterns and words. Raises Unusable."""
        if not self.separator:
            raise invalid("replication.policy.separator", "", "no name of a topic is divided by nothing")
        _ = self.syncs_topic
        for wants in (self.wants_topic, self.wants_group, self.wants_config):
            wants("")

    def wants_topic(self, name: str) -> bool:
        if self._has_heartbeats(name) and self.is_on("heartbeats.replication.enabled", True):
            return True
        return self._wants("topics", "topics.exclude", _TOPICS_EXCLUDED, name)

    def mirrors(self, name: str) -> bool:
        """Return whether a topic is mirrored: wanted, not internal, and not from the target."""
        return self.wants_topic(name) and not self._is_internal(name) and not self.is_cycle(name)

    def _has_heartbeats(self, name: str) -> bool:
        """Return whether a topic has heartbeats, of this mirror or of another."""
        return name.split(self.separator)[-1] == "heartbeats"

    def _keeps(self, name: str) -> bool:
        """Return whether a topic has the same name in the target; what looks like heartbeats never has."""
        return self.keeps_names and not name.endswith("heartbeats")

    def _is_internal(self, name: str) -> bool:
        """Return whether a topic is Kafka's own or a mirror's, and never mirrored (Kafka: ReplicationPolicy)."""
        internal = f"{self._internal_separator}internal"
        if name.startswith("mm2") and name.endswith(internal):
            return True
        return name.startswith(("__", ".")) or name.endswith(f"{self._internal_separator}checkpoints{internal}")

    def wants_group(self, name: str) -> bool:
        return self._wants("groups", "groups.exclude", _GROUPS_EXCLUDED, name)

    def wants_config(self, name: str) -> bool:
        return not _matches(self.get("config.properties.exclude", _CONFIGS_EXCLUDED), name)

    def _wants(self, taken: str, left: str, by_default: str, name: str) -> bool:
        excluded = _matches(self.get(left, by_default), name)
        return _matches(self.get(taken, ".*"), name) and not excluded

    @property
    def copies_defaults(self) -> bool:
        """Return whether the defaults of the source are set in the target."""
        return self.get("use.defaults.from", "target") == "source"

    @property
    def syncs_at_target(self) -> bool:
        """Return whether offset syncs are kept in the target. Raises Unusable."""
        found = self.get("offset-syncs.topic.location", "source")
        if found not in ("source", "target"):
            raise invalid("offset-syncs.topic.location", found, "String must be one of: source, target")
        return found == "target"

    @property
    def syncs_topic(self) -> str:
        other = self.source if self.syncs_at_target else self.target
        return f"mm2-offset-syncs{self._internal_separator}{other}{self._internal_separator}internal"

    @property
    def checkpoints_topic(self) -> str:
        return f"{self.source}{self._internal_separator}checkpoints{self._internal_separator}internal"

    @property
    def separator(self) -> str:
        return self.get("replication.policy.separator", ".")

    @property
    def _internal_separator(self) -> str:
        """Return the separator in the names of the mirror's own topics."""
        return self.separator if self.is_on("replication.policy.internal.topic.separator.enabled", True) else "."

    @property
    def keeps_names(self) -> bool:
        return self.get("replication.policy.class", "").endswith("IdentityReplicationPolicy")

    def remote(self, topic: str) -> str:
        """Return the target's name for a topic of the source."""
        return topic if self._keeps(topic) else f"{self.source}{self.separator}{topic}"

    def is_cycle(self, topic: str) -> bool:
        """Return whether the records of a topic have come from the target."""
        if self._keeps(topic):
            return False
        while topic.endswith(self.separator):  # `B.` is a topic of its own, of no cluster B
            topic = topic.removesuffix(self.separator)
        return self.target in topic.split(self.separator)[:-1]


def _matches(patterns: str, name: str) -> bool:
    """Return whether a name matches a list of patterns. Raises Unusable."""
    try:
        compiled = [compile_java(each.strip()) for each in patterns.split(",") if each.strip()]
    except JavaRegexError as error:
        raise Unusable(f"{patterns} is no list of regular expressions: {error}") from None
    return any(each.fullmatch(name) for each in compiled)


def flows(values: Mapping[str, str], targets: list[str]) -> list[Flow]:
    """Return the enabled flows to the given targets, or to all for none. Raises Unusable."""
    return [each for each in _pairs(values, targets) if _enabled(each)]


def beating(values: Mapping[str, str], targets: list[str]) -> list[Flow]:
    """Return disabled flows with heartbeats, which the opposite flow carries."""
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
