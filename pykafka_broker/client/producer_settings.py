"""The properties of a producer, with Kafka's defaults (Kafka docs, "Producer Configs"). Raises Unusable."""

from __future__ import annotations

from collections.abc import Mapping

from pykafka_broker.client.errors import Unusable
from pykafka_broker.client.properties import flag, number
from pykafka_broker.records.compression import CODEC_NAMES, codec_by_name

_ALL = -1
_IDEMPOTENT = "the idempotent producer."


class ProducerSettings:
    def __init__(self, properties: Mapping[str, str]) -> None:
        self.acks = _acks(properties.get("acks", "all"))
        self.transactional_id = properties.get("transactional.id")
        self.idempotent = _idempotent(properties, self.acks)
        self.batch_size = number(properties, "batch.size", 16_384)
        self.linger_ms = number(properties, "linger.ms", 5)
        self.buffer_memory = number(properties, "buffer.memory", 33_554_432)
        self.max_block_ms = number(properties, "max.block.ms", 60_000)
        self.max_request_size = number(properties, "max.request.size", 1_048_576)
        self.max_in_flight = number(properties, "max.in.flight.requests.per.connection", 5)
        self.request_timeout_ms = number(properties, "request.timeout.ms", 30_000)
        self.delivery_timeout_ms = _delivery_timeout_ms(properties, self.linger_ms + self.request_timeout_ms)
        self.retries = number(properties, "retries", 2**31 - 1)
        self.ignore_keys = flag(properties, "partitioner.ignore.keys", False)
        self.codec = _codec(properties.get("compression.type", "none"))
        name = f"compression.{CODEC_NAMES[self.codec]}.level"
        self.level = number(properties, name, 0) if name in properties else None

    def too_large(self, size: int) -> str:
        """In Java's words."""
        return (
            f"The message is {size} bytes when serialized which is larger than {self.max_request_size}, "
            "which is the value of the max.request.size configuration."
        )


def _acks(text: str) -> int:
    if text not in ("all", "-1", "0", "1"):
        raise Unusable(f"Invalid value {text} for configuration acks: String must be one of: all, -1, 0, 1")
    return _ALL if text == "all" else int(text)


def _idempotent(properties: Mapping[str, str], acks: int) -> bool:
    """By default, unless another property that was set speaks against it."""
    wanted = flag(properties, "enable.idempotence", True)
    asked = "enable.idempotence" in properties or "transactional.id" in properties
    if "transactional.id" in properties and not wanted:
        raise Unusable("Cannot set a transactional.id without also enabling idempotence.")
    if wanted and acks != _ALL:
        if asked:
            raise Unusable(
                f"Must set acks to all in order to use {_IDEMPOTENT} Otherwise we cannot guarantee idempotence."
            )
        return False
    if wanted and number(properties, "max.in.flight.requests.per.connection", 5) > 5:
        raise Unusable(f"Must set max.in.flight.requests.per.connection to at most 5 to use {_IDEMPOTENT}")
    return wanted and (asked or number(properties, "retries", 1) != 0)


def _delivery_timeout_ms(properties: Mapping[str, str], least: int) -> int:
    found = number(properties, "delivery.timeout.ms", max(120_000, least))
    if found < least:
        raise Unusable("delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms")
    return found


def _codec(name: str) -> int:
    try:
        return codec_by_name(name)
    except ValueError:
        raise Unusable(
            f"Invalid value {name} for configuration compression.type: "
            "String must be one of: none, gzip, snappy, lz4, zstd"
        ) from None
