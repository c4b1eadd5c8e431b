"""The nodes that a release of Kafka keeps in ZooKeeper: their paths, and the JSON in them.

Rule: functions of the metadata, without ZooKeeper and without a clock. Which release has which form is recorded from
the releases themselves (`interop/zookeeper_record.py`), and the tests compare the two.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from pykafka_broker.cluster.bootstrap import SECURITY_PROTOCOLS
from pykafka_broker.cluster.image import BrokerImage, MetadataImage, PartitionImage, QuotaEntity
from pykafka_broker.config.describe import is_secret
from pykafka_broker.config.extensions import OwnSettings
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.runtime import uuid_text

IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
CONFIGS = "/config"
CHANGES = "/config/changes"
CHANGE = f"{CHANGES}/config_change_"
DELETIONS = "/admin/delete_topics"
REASSIGNMENTS = "/admin/reassign_partitions"
ELECTIONS = "/admin/preferred_replica_election"
PRODUCER_IDS = "/latest_producer_id_block"

LAST_WITH_ZOOKEEPER = (3, 9)
_DEFAULT = "<default>"  # the entity of a config or a quota that stands for all others
_BLOCK = 1000  # producer ids
_PROTOCOLS = {number: name for name, number in SECURITY_PROTOCOLS.items()}
# Folders, and the release that made them first.
_FOLDERS: tuple[tuple[tuple[int, ...], str], ...] = (
    ((0, 8), "/consumers"),
    ((0, 8), IDS),
    ((0, 8), TOPICS),
    ((0, 8), CHANGES),
    ((0, 8), "/config/topics"),
    ((0, 8), DELETIONS),
    ((0, 9), "/brokers/seqid"),
    ((0, 9), "/config/clients"),
    ((0, 9), "/isr_change_notification"),
    ((0, 10, 1), "/config/users"),
    ((1, 1), "/config/brokers"),
    ((1, 1), "/log_dir_event_notification"),
    ((2, 8), "/config/ips"),
    ((3,), PRODUCER_IDS),
)
Number = tuple[int, ...]


def release_shown(own: OwnSettings) -> Number:
    """Return the release whose nodes are shown: the emulated one, or the last release with ZooKeeper."""
    return LAST_WITH_ZOOKEEPER if own.release is None else min(own.release.number, LAST_WITH_ZOOKEEPER)


def as_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class ShownTopic(NamedTuple):
    """A topic as it was at one moment. A partition that changes is replaced by another object."""

    id: bytes
    partitions: dict[int, PartitionImage]


def folders(release: Number) -> list[str]:
    """Return the folders that a release makes at its start."""
    return [path for since, path in _FOLDERS if release >= since]


def own_node(release: Number, broker: BrokerImage, started_ms: int) -> bytes:
    """Return the content of a broker's own node in /brokers/ids."""
    plain = [(host, port) for _, host, port, protocol in broker.endpoints if _PROTOCOLS[protocol] == "PLAINTEXT"]
    host, port = plain[0] if plain else (None, -1)
    content: dict[str, Any] = {"jmx_port": -1, "timestamp": str(started_ms), "host": host, "port": port}
    version = 1
    if release >= (0, 9):
        version = 2
        by_name = release >= (0, 10, 2)
        content["endpoints"] = [
            f"{name if by_name else _PROTOCOLS[protocol]}://{host}:{port}"
            for name, host, port, protocol in broker.endpoints
        ]
    if release >= (0, 10):
        version = 3
        if broker.rack is not None:
            content["rack"] = broker.rack
    if release >= (0, 10, 2):
        version = 4
        content["listener_security_protocol_map"] = {
            name: _PROTOCOLS[protocol] for name, _, _, protocol in broker.endpoints
        }
    if release >= (2, 7):
        version = 5
        content["features"] = {}
    return as_json(content | {"version": version})


def controller(release: Number, broker_id: int, since_ms: int) -> bytes:
    content: dict[str, Any] = {"version": 1, "brokerid": broker_id, "timestamp": str(since_ms)}
    if release >= (3, 4):
        content |= {"version": 2, "kraftControllerEpoch": -1}
    return as_json(content)


def fixed(release: Number, cluster_id: str, image: MetadataImage, broker_id: int) -> Iterable[tuple[str, bytes]]:
    """Yield path and content of the nodes about the cluster as a whole."""
    if release >= (0, 10, 1):
        yield CLUSTER_ID, as_json({"version": "1", "id": cluster_id})
    if release >= (0, 11) and image.next_producer_id:
        start, end = image.next_producer_id - _BLOCK, image.next_producer_id - 1
        block = {"version": 1, "broker": broker_id, "block_start": str(start), "block_end": str(end)}
        yield PRODUCER_IDS, as_json(block)
    if release >= (2, 7):
        yield "/feature", as_json({"features": {}, "version": 1 if release < (3,) else 2, "status": 1})


def topic(release: Number, view: ShownTopic) -> bytes:
    content: dict[str, Any] = {"version": 1, "partitions": _replicas(view, "replicas")}
    if release >= (2, 4):
        content["version"] = 2
        content |= {f"{what}_replicas": _replicas(view, f"{what}_replicas") for what in ("adding", "removing")}
    if release >= (2, 8):
        content |= {"version": 3, "topic_id": uuid_text(view.id)}
    return as_json(content)


def _replicas(view: ShownTopic, attribute: str) -> dict[str, list[int]]:
    """Return the brokers of each partition; partitions without any are left out."""
    all_of = {str(index): list(getattr(state, attribute)) for index, state in sorted(view.partitions.items())}
    return {index: brokers for index, brokers in all_of.items() if brokers}


def state(partition: PartitionImage, controller_epoch: int) -> bytes:
    content: dict[str, Any] = {"controller_epoch": controller_epoch, "leader": partition.leader, "version": 1}
    return as_json(content | {"leader_epoch": partition.leader_epoch, "isr": list(partition.isr)})


def state_differs(old: Any, new: Any) -> bool:
    """Return whether a partition has changed, apart from the controller that wrote its state."""
    return not isinstance(old, dict) or old | {"controller_epoch": 0} != new | {"controller_epoch": 0}


# -- configs

_RESOURCES = {"topics": ConfigResourceType.TOPIC, "brokers": ConfigResourceType.BROKER}
_QUOTAS = {"users": "user", "clients": "client-id", "ips": "ip"}


def config(values: Mapping[str, str]) -> bytes:
    return as_json({"version": 1, "config": dict(values)})


def resource_path(kind: int, name: str) -> str | None:
    """Return the path below /config of a resource's settings; None for a kind that ZooKeeper did not have."""
    return next((f"{folder}/{name or _DEFAULT}" for folder, number in _RESOURCES.items() if number == kind), None)


def quota_path(entity: QuotaEntity) -> str:
    """Return the path below /config of an entity's quotas; a user comes before its clients."""
    names: dict[str, str | None] = dict(entity)
    return "/".join(f"{folder}/{_sanitized(names[kind])}" for folder, kind in _QUOTAS.items() if kind in names)


def resource_of(path: str) -> tuple[int, str] | None:
    """Return the kind and the name of the resource at a path below /config; None for an entity with quotas."""
    folder, _, name = path.partition("/")
    return (_RESOURCES[folder], "" if name == _DEFAULT else name) if folder in _RESOURCES else None


def quota_of(path: str) -> QuotaEntity:
    """Return the entity of the quotas at a path below /config, () for none."""
    parts = path.split("/")
    folders, names = parts[::2], parts[1::2]
    if len(folders) != len(names) or any(folder not in _QUOTAS for folder in folders):
        return ()
    named = zip(folders, names, strict=True)
    return tuple(sorted((_QUOTAS[folder], None if name == _DEFAULT else unquote(name)) for folder, name in named))


def _sanitized(name: str | None) -> str:
    """Return a name as Kafka writes names of users and clients into paths."""
    return _DEFAULT if name is None else quote(name, safe="-_.~").replace("~", "%7E")


def is_hidden(name: str) -> bool:
    """Return whether a setting is neither shown in ZooKeeper nor read there: secrets, and credentials of users."""
    return name.startswith("SCRAM-") or is_secret(name)


def settings(image: MetadataImage, path: str) -> dict[str, str]:
    """Return the settings at a path below /config, without secrets and the setting that KRaft gives all brokers."""
    resource = resource_of(path)
    if resource is None:
        quotas = image.client_quotas.get(quota_of(path), {})
        return {name: str(int(value)) if value.is_integer() else str(value) for name, value in quotas.items()}
    of_kraft = "min.insync.replicas" if resource == (ConfigResourceType.BROKER, "") else None
    present = image.config(*resource)
    return {name: value for name, value in present.items() if name != of_kraft and not is_hidden(name)}


def is_shown(path: str, topics: Container[str]) -> bool:
    """Return whether settings at a path below /config belong to no topic, or to one of these."""
    folder, _, name = path.partition("/")
    return folder != "topics" or name in topics


def changed_path(notification: Any) -> str | None:
    """Return the path below /config that a notification names: all of it, or the name of a topic before 0.9."""
    match notification:
        case str():
            return f"topics/{notification}"
        case {"entity_path": str(path)}:
            return path
        case {"entity_type": str(folder), "entity_name": str(name)}:
            return f"{folder}/{name}"
    return None


def notification(release: Number, path: str) -> bytes:
    """Return the notification of a change of the settings at a path below /config."""
    if release >= (0, 10, 1):
        return as_json({"version": 2, "entity_path": path})
    folder, _, name = path.partition("/")
    return as_json({"version": 1, "entity_type": folder, "entity_name": name})
