"""What of the metadata outlives a reset.

Rule: topics that are kept are new ones without records, with the names, partitions and settings that they had. A
cluster goes on with its metadata, so its settings are taken back by more records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from pykafka_broker.broker.node import Node
from pykafka_broker.cluster.bootstrap import bootstrap_records, first_records
from pykafka_broker.cluster.image_records import image_records
from pykafka_broker.cluster.records import ApiMessageAndVersion, RecordType
from pykafka_broker.cluster.topic_names import INTERNAL_TOPICS
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.protocol.stored.client_quota_record import ClientQuotaRecord
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from pykafka_broker.protocol.stored.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from pykafka_broker.protocol.stored.remove_user_scram_credential_record import RemoveUserScramCredentialRecord

KEPT = {
    RecordType.CONFIG: "configs",
    RecordType.CLIENT_QUOTA: "quotas",
    RecordType.ACCESS_CONTROL_ENTRY: "acls",
    RecordType.USER_SCRAM_CREDENTIAL: "users",
    RecordType.TOPIC: "topics",
    RecordType.PARTITION: "topics",
}

SETTINGS = frozenset({*KEPT.values()} - {"topics"})


def kept_records(node: Node, keep: Collection[str]) -> list[ApiMessageAndVersion]:
    """As they are to be committed in an empty cluster."""
    if not {*KEPT.values()} & {*keep}:
        return []
    image, controller = node.image, node.led_metadata.controller
    new_ids = {topic.id: node.new_uuid() for topic in image.topics.values() if topic.name not in INTERNAL_TOPICS}
    records = []
    for record in image_records(image, controller.partition_record_version(), controller.broker_record_version()):
        message = record.message
        kind = RecordType(message.API_KEY)
        name = KEPT.get(kind)
        if kind is RecordType.CONFIG and message.resource_type == ConfigResourceType.TOPIC:
            name = None if message.resource_name in INTERNAL_TOPICS else "topics"
        elif name == "topics":
            name = name if message.topic_id in new_ids else None
            message.topic_id = new_ids.get(message.topic_id, message.topic_id)
        if name in keep:
            records.append(record)
    return records


def settings_taken_back(node: Node, keep: Collection[str]) -> list[ApiMessageAndVersion]:
    """Return the records after which a cluster has the settings of its first start, except for `keep`; those of topics
    go with their topics.
    """
    image, controller = node.image, node.led_metadata.controller
    directory = node.logs.directory_of_metadata_log().path
    begun = first_records(controller, bootstrap_records(OsFileSystem(), directory, node.clock.wall))
    there = image_records(image, controller.partition_record_version(), controller.broker_record_version())
    first, now = _settings(begun, keep), _settings(there, keep)
    removed = [_removal(message) for message in now if message not in first]
    return [ApiMessageAndVersion(message, 0) for message in (*removed, *(each for each in first if each not in now))]


def _settings(records: Iterable[ApiMessageAndVersion], keep: Collection[str]) -> list[Any]:
    """Return the settings among records that are not kept."""
    found = []
    for record in records:
        message = record.message
        name = KEPT.get(RecordType(message.API_KEY))
        of_topic = name == "configs" and message.resource_type == ConfigResourceType.TOPIC
        if name in SETTINGS and name not in keep and not of_topic:
            found.append(message)
    return found


def _removal(message: Any) -> Message:
    """Return the record that takes a setting back."""
    if isinstance(message, ConfigRecord):
        return ConfigRecord(message.resource_type, message.resource_name, message.name, None)
    if isinstance(message, ClientQuotaRecord):
        return ClientQuotaRecord(message.entity, message.key, 0.0, True)
    if KEPT[RecordType(message.API_KEY)] == "acls":
        return RemoveAccessControlEntryRecord(message.id)
    return RemoveUserScramCredentialRecord(message.name, message.mechanism)
