"""The properties of a consumer, with Kafka's defaults (Kafka docs, "Consumer Configs"). Raises Unusable."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pykafka_broker.client.errors import Unusable
from pykafka_broker.client.properties import flag, number
from pykafka_broker.protocol.enums import EARLIEST, LATEST, IsolationLevel

_DURATION = re.compile(r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.IGNORECASE)
_SECONDS = (86_400, 3_600, 60, 1)


class ConsumerSettings:
    def __init__(self, properties: Mapping[str, str]) -> None:
        self.isolation_level = _isolation(properties.get("isolation.level", "read_uncommitted"))
        self.reset_time = _reset(properties.get("auto.offset.reset", "latest"))
        self.fetch_min_bytes = number(properties, "fetch.min.bytes", 1, least=0)
        self.fetch_max_bytes = number(properties, "fetch.max.bytes", 52_428_800, least=0)
        self.fetch_max_wait_ms = number(properties, "fetch.max.wait.ms", 500, least=0)
        self.max_partition_fetch_bytes = number(properties, "max.partition.fetch.bytes", 1_048_576, least=0)
        self.max_poll_records = number(properties, "max.poll.records", 500, least=1)
        self.check_crcs = flag(properties, "check.crcs", True)
        self.rack = properties.get("client.rack", "")


def _isolation(name: str) -> int:
    if name.lower() not in ("read_committed", "read_uncommitted"):
        raise Unusable(
            f"Invalid value {name} for configuration isolation.level: "
            "String must be one of: read_committed, read_uncommitted"
        )
    return IsolationLevel.READ_COMMITTED if name.lower() == "read_committed" else IsolationLevel.READ_UNCOMMITTED


def _reset(name: str) -> Callable[[int], int | None]:
    """The time, by the wall clock, from which is read where no offset is known; None if nobody may choose it."""
    fixed = {"earliest": EARLIEST, "latest": LATEST, "none": None}
    if name.lower() in fixed:
        found = fixed[name.lower()]
        return lambda _: found
    if (match := _DURATION.fullmatch(name)) is None or name.upper().endswith(("P", "T")):
        raise Unusable(
            f"Invalid value {name} for configuration auto.offset.reset: Invalid value `{name}` for configuration "
            "auto.offset.reset. The value must be either 'earliest', 'latest', 'none' or of the format "
            "'by_duration:<PnDTnHnMn.nS.>'."
        )
    ago = sum(int(amount or 0) * seconds for amount, seconds in zip(match.groups(), _SECONDS, strict=True))
    return lambda wall: wall - ago * 1000
