"""Times as Kafka's scripts read and print them.

Rule: a time without a zone is in UTC; a duration is one of Java, without months or years.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from pykafka_broker.client.errors import ClientError
from pykafka_broker.config.values import is_long, java_duration_ms

_FIELD = r"[ \t]*(\d+)"
_MOMENT = re.compile(
    rf"{_FIELD}-{_FIELD}-{_FIELD}T{_FIELD}:{_FIELD}:{_FIELD}\.{_FIELD}"
    r"[ \t]*(?:Z|([+-])([01]\d|2[0-3])(?::([0-5]\d))?)"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_SECOND, _LAST_SECOND = -31_557_014_167_219_200, 31_556_889_864_403_199  # of Java's Instant


class Unparseable(ClientError):
    """A text without a time."""

    exception = "java.text.ParseException"


def timestamp_ms(text: str) -> int:
    """Read `YYYY-MM-DDThh:mm:ss.sss`, with or without a zone. Raises Unparseable.

    As by Java's SimpleDateFormat: blanks before a number are skipped, and so is all that comes behind the zone.
    """
    parts = text.rstrip("T").split("T")
    if len(parts) < 2:
        raise Unparseable("Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
    zoned = text if any(sign in parts[1] for sign in "Z+-") else f"{text}Z"
    try:
        if (match := _MOMENT.match(zoned)) is None:
            raise ValueError(text)
        year, month, day, hour, minute, second, ms = map(int, match.groups()[:7])
        moment = datetime(year, month, day, hour, minute, second, ms * 1000, tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Unparseable(f'Unparseable date: "{zoned}"') from None
    offset = timedelta(hours=int(match[9] or 0), minutes=int(match[10] or 0)) * (-1 if match[8] == "-" else 1)
    return (moment - _EPOCH - offset) // timedelta(milliseconds=1)  # in this order: no datetime has a year 0 or 10000


def moment_before(now_ms: int, text: str) -> int:
    """Return the moment a duration before another one. Raises ClientError, also where Java has no such moment."""
    try:
        moment = now_ms - java_duration_ms(text)
    except ValueError as error:
        raise ClientError(str(error)) from None
    if not is_long(moment // 1000):
        raise ClientError("long overflow")
    if not _FIRST_SECOND <= moment // 1000 <= _LAST_SECOND:
        raise ClientError("Instant exceeds minimum or maximum instant")
    if not is_long(moment):
        raise ClientError("long overflow")
    return moment


def date_form(pattern: str) -> Callable[[datetime], str]:
    """Return a function to write a date as Java's SimpleDateFormat of the pattern, in English. Raises ClientError."""
    parts: list[str | Callable[[datetime], str]] = []
    for literal, run, _ in _PARTS.findall(pattern):
        if run:
            parts.append(_written(run))
        elif literal[0] != "'":
            parts.append(literal)
        elif len(literal) == 1:
            raise ClientError("Unterminated quote")
        else:
            parts.append("'" if literal == "''" else literal[1:-1].replace("''", "'"))
    return lambda moment: "".join(each if isinstance(each, str) else each(moment) for each in parts)


def _written(run: str) -> Callable[[datetime], str]:
    """Return a function to write a field of a date. run: the letter, as often as in the pattern."""
    letter, width = run[0], len(run)
    if letter == "X" and width > 3:
        raise ClientError(f"invalid ISO 8601 format: length={width}")
    if letter in _WORDS:
        return lambda moment: _WORDS[letter](moment, width)
    if letter not in _FIELDS:
        raise ClientError(f"Illegal pattern character '{letter}'")
    return lambda moment: f"{_FIELDS[letter](moment):0{width}}"


def _year(year: int, width: int) -> str:
    return f"{year % 100:02}" if width == 2 else f"{year:0{width}}"


def _month(moment: datetime, width: int) -> str:
    return f"{moment.month:0{width}}" if width < 3 else _name(moment, "%b", "%B", width)


def _name(moment: datetime, short: str, full: str, width: int) -> str:
    return moment.strftime(full if width > 3 else short)


def _iso_zone(moment: datetime, width: int) -> str:
    offset = moment.strftime("%z")
    if offset == "+0000":
        return "Z"
    return offset[:3] if width == 1 else offset if width == 2 else f"{offset[:3]}:{offset[3:]}"


def _days_before_week(moment: datetime) -> int:
    """Return how many days have passed in the week, which begins on Sunday."""
    return moment.isoweekday() % 7


def _week_year(moment: datetime) -> tuple[int, int]:
    """Return the year and the number of the week. The first week of a year has the first of January."""
    saturday = moment + timedelta(days=6 - _days_before_week(moment))
    return saturday.year, (saturday.timetuple().tm_yday + 6) // 7


_PARTS = re.compile(r"(''|'(?:[^']|'')+'|'|[^A-Za-z']+)|(([A-Za-z])\3*)")
_FIELDS: dict[str, Callable[[datetime], int]] = {
    "d": lambda moment: moment.day,
    "D": lambda moment: moment.timetuple().tm_yday,
    "F": lambda moment: (moment.day + 6) // 7,
    "H": lambda moment: moment.hour,
    "h": lambda moment: moment.hour % 12 or 12,
    "k": lambda moment: moment.hour or 24,
    "K": lambda moment: moment.hour % 12,
    "m": lambda moment: moment.minute,
    "s": lambda moment: moment.second,
    "S": lambda moment: moment.microsecond // 1000,
    "u": lambda moment: moment.isoweekday(),
    "w": lambda moment: _week_year(moment)[1],
    "W": lambda moment: (moment.day + 6 + (_days_before_week(moment) - moment.day + 1) % 7) // 7,
}
_WORDS: dict[str, Callable[[datetime, int], str]] = {
    "a": lambda moment, _: "AM" if moment.hour < 12 else "PM",
    "E": lambda moment, width: _name(moment, "%a", "%A", width),
    "G": lambda _, __: "AD",
    "L": _month,
    "M": _month,
    "X": _iso_zone,
    "y": lambda moment, width: _year(moment.year, width),
    "Y": lambda moment, width: _year(_week_year(moment)[0], width),
    "z": lambda moment, _: moment.strftime("%Z"),
    "Z": lambda moment, _: moment.strftime("%z"),
}
