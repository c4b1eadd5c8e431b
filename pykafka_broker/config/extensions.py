"""Settings that Kafka does not have: their names begin with `pykafka.`.

Rule: no answer to a client shows them. Without any, this broker behaves as the newest release, with the differences for
speed and comfort that docs/differences.md lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from pykafka_broker.config.values import ConfigError, ConfigType, invalid, parse_type

if TYPE_CHECKING:
    from pykafka_broker.releases.release import Release

PREFIX = "pykafka."
EMULATE = "pykafka.emulate"
STRICT = "pykafka.strict"  # the default of the switches below
PARKED_FETCH = "pykafka.strict.parked.fetch"
AUTO_CREATION = "pykafka.strict.auto.creation"
TELEMETRY = "pykafka.telemetry"
VALIDATE_RECORDS = "pykafka.validate.records"
OWN_NAMES = frozenset((EMULATE, STRICT, PARKED_FETCH, AUTO_CREATION, TELEMETRY, VALIDATE_RECORDS))


class OwnSettings(NamedTuple):
    """The settings of a broker beyond Kafka's.

    `release`: the release that clients are to see, None for this broker as it is.

    Done as in Kafka, where it costs a little: `parked_fetch`, a waiting fetch holds its connection back;
    `auto_creation`, the answer that creates a topic does not have it yet. `telemetry`: clients are offered to push
    their metrics (KIP-714). `validate_records`: every record of a produced batch is checked.
    """

    release: Release | None = None
    parked_fetch: bool = False
    auto_creation: bool = False
    telemetry: bool = False
    validate_records: bool = True


def own_settings(static: Mapping[str, str]) -> tuple[OwnSettings, list[ConfigError]]:
    """Return the settings in a static configuration, and the errors."""
    errors: list[ConfigError] = []
    chosen: Release | None = None
    try:
        if static.get(EMULATE):
            from pykafka_broker.releases.release import release

            chosen = release(static[EMULATE])
    except ValueError as error:
        errors.append(invalid(EMULATE, static[EMULATE], str(error)))

    def switch(name: str, unset: bool) -> bool:
        try:
            return bool(parse_type(name, static[name], ConfigType.BOOLEAN)) if name in static else unset
        except ConfigError as error:
            errors.append(error)
            return unset

    strict = switch(STRICT, False)
    settings = OwnSettings(
        release=chosen,
        parked_fetch=switch(PARKED_FETCH, strict),
        auto_creation=switch(AUTO_CREATION, strict),
        telemetry=switch(TELEMETRY, False),
        validate_records=switch(VALIDATE_RECORDS, True),
    )
    return settings, errors
