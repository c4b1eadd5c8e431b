"""Times as Kafka's scripts take them.

Rule: a moment without a zone is in UTC; a duration is that of Java, which knows no months or years.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from pykafka_broker.client.errors import ClientError

_MOMENT = re.compile(
    r"(\d{1,4}-\d{1,2}-\d{1,2}T\d{1,2}:\d{1,2}:\d{1,2})\.(\d{1,3})(Z|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?)?"
)
_DURATION = re.compile(
    r"([+-]?)P(?:([+-]?\d+)D)?(T(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+)(?:[.,](\d{0,9}))?S)?)?", re.IGNORECASE
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Unparseable(ClientError):
    """A text that is no moment."""

    exception = "java.text.ParseException"


def timestamp_ms(text: str) -> int:
    """Of `YYYY-MM-DDThh:mm:ss.sss`, with or without a zone. Raises Unparseable."""
    if "T" not in text:
        raise Unparseable("Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
    match = _MOMENT.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        moment = datetime.strptime(match[1], "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        clock = text.partition("T")[2]
        zoned = text if any(sign in clock for sign in "Z+-") else f"{text}Z"
        raise Unparseable(f'Unparseable date: "{zoned}"') from None
    offset = timedelta()
    if match[4] is not None:
        offset = timedelta(hours=int(match[5]), minutes=int(match[6] or 0)) * (-1 if match[4] == "-" else 1)
    since = moment.replace(tzinfo=UTC) - offset - _EPOCH
    return since // timedelta(milliseconds=1) + int(match[2])


def duration_ms(text: str) -> int:
    """Of `PnDTnHnMn.nS`. Raises ClientError."""
    match = _DURATION.fullmatch(text)
    if match is None or match[3] in ("T", "t") or not any(match[at] for at in (2, 4, 5, 6)):
        raise ClientError("Text cannot be parsed to a Duration")
    days, hours, minutes, seconds = (int(match[at] or 0) for at in (2, 4, 5, 6))
    fraction = int((match[7] or "").ljust(3, "0")[:3]) * (-1 if (match[6] or "").startswith("-") else 1)
    sign = -1 if match[1] == "-" else 1
    return sign * ((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + fraction)
