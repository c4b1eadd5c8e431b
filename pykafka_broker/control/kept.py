"""What of the metadata outlives a reset.

Rule: topics that are kept are new ones without records, with the names, partitions and settings that they had.
"""

from __future__ import annotations

from collections.abc import Collection

from pykafka_broker.broker.node import Node
from pykafka_broker.cluster.image_records import image_records
from pykafka_broker.cluster.records import ApiMessageAndVersion, RecordType, ResourceType
from pykafka_broker.cluster.topic_names import INTERNAL_TOPICS

KEPT = {
    RecordType.CONFIG: "configs",
    RecordType.CLIENT_QUOTA: "quotas",
    RecordType.ACCESS_CONTROL_ENTRY: "acls",
    RecordType.USER_SCRAM_CREDENTIAL: "users",
    RecordType.TOPIC: "topics",
    RecordType.PARTITION: "topics",
}


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
        if kind is RecordType.CONFIG and message.resource_type == ResourceType.TOPIC:
            name = None if message.resource_name in INTERNAL_TOPICS else "topics"
        elif name == "topics":
            name = name if message.topic_id in new_ids else None
            message.topic_id = new_ids.get(message.topic_id, message.topic_id)
        if name in keep:
            records.append(record)
    return records
