"""Configs as records.

Rule: who is eligible to lead (KIP-966) follows from `min.insync.replicas`, so with another value nobody is any more. A
ClearElrRecord says so behind it, for one topic or for all.
"""

from __future__ import annotations

from collections.abc import Mapping

from pykafka_broker.cluster.features import ELR_VERSION
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.cluster.records import ApiMessageAndVersion, ResourceType
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
            records += _nobody_eligible(kind, name)
    return records


def _nobody_eligible(kind: int, name: str) -> list[ApiMessageAndVersion]:
    from pykafka_broker.protocol.stored.clear_elr_record import ClearElrRecord

    of_topic, of_cluster = kind == ResourceType.TOPIC, kind == ResourceType.BROKER and not name
    return [ApiMessageAndVersion(ClearElrRecord(name), 0)] if of_topic or of_cluster else []
