"""The properties of a producer, with Kafka's defaults (Kafka docs, "Producer Configs"). Raises Unusable."""

from __future__ import annotations

from collections.abc import Mapping

from pykafka_broker.client.errors import Unusable
from pykafka_broker.client.properties import flag, number
from pykafka_broker.records.compression import CODEC_NAMES, codec_by_name

_ALL = -1
_LEVELS = {"gzip": (1, 9), "lz4": (1, 17), "zstd": (-131_072, 22)}  # the least and the greatest
_GZIPS_OWN_DEFAULT = ("gzip", -1)
_IDEMPOTENT = "the idempotent producer."


class ProducerSettings:
    def __init__(self, properties: Mapping[str, str]) -> None:
        self.acks = _acks(properties.get("acks", "all"))
        self.transactional_id = properties.get("transactional.id")
        self.idempotent = _idempotent(properties, self.acks)
        self.batch_size = number(properties, "batch.size", 16_384, least=0)
        self.linger_ms = number(properties, "linger.ms", 5, least=0)
        self.buffer_memory = number(properties, "buffer.memory", 33_554_432, least=0)
        self.max_block_ms = number(properties, "max.block.ms", 60_000, least=0)
        self.max_request_size = number(properties, "max.request.size", 1_048_576, least=0)
        self.max_in_flight = number(properties, "max.in.flight.requests.per.connection", 5, least=1)
        self.request_timeout_ms = number(properties, "request.timeout.ms", 30_000, least=0)
        self.delivery_timeout_ms = _delivery_timeout_ms(properties, self.linger_ms + self.request_timeout_ms)
        self.retries = number(properties, "retries", 2**31 - 1, least=0)
        self.ignore_keys = flag(properties, "partitioner.ignore.keys", False)
        self.codec = _codec(properties.get("compression.type", "none"))
        levels = {codec: _level(properties, codec) for codec in _LEVELS}
        self.level = levels.get(CODEC_NAMES[self.codec])

    def why_too_large(self, size: int) -> str:
        """Return why a record of that size can never be sent, in Java's words; empty where it can."""
        if size > self.max_request_size:
            what = f"{self.max_request_size}, which is the value of the max.request.size configuration."
        elif size > self.buffer_memory:
            what = "the total memory buffer you have configured with the buffer.memory configuration."
        else:
            return ""
        return f"The message is {size} bytes when serialized which is larger than {what}"


def _level(properties: Mapping[str, str], codec: str) -> int | None:
    """Return the level of a codec, None where none is set. Raises Unusable."""
    name, (least, most) = f"compression.{codec}.level", _LEVELS[codec]
    if name not in properties:
        return None
    found = number(properties, name, 0)
    if least <= found <= most or (codec, found) == _GZIPS_OWN_DEFAULT:
        return found
    if codec == "gzip":
        wrong = f"between {least} and {most} or equal to -1"
    else:
        wrong = f"at least {least}" if found < least else f"no more than {most}"
    raise Unusable(f"Invalid value {found} for configuration {name}: Value must be {wrong}")


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
    found = number(properties, "delivery.timeout.ms", max(120_000, least), least=0)
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
