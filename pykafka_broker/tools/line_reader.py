"""Lines that are records: what `org.apache.kafka.tools.LineMessageReader` makes of them.

Rule: a line is `[headers DELIMITER][key SEPARATOR]value`, of which the first two parts are there if that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pykafka_broker.client.errors import ClientError
from pykafka_broker.records.record import Headers


class Line(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers


class LineReader:
    """Raises ClientError for a line that lacks a part, unless `ignore.error`."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._keys = _is(properties, "parse.key")
        self._headers = _is(properties, "parse.headers")
        self._lenient = _is(properties, "ignore.error")
        self._key_separator = properties.get("key.separator", "\t")
        self._delimiter = properties.get("headers.delimiter", "\t")
        self._separator = properties.get("headers.separator", ",")
        self._pair_separator = properties.get("headers.key.separator", ":")
        self._null = properties.get("null.marker")
        self._number = 0
        self._check()

    def _check(self) -> None:
        """Separators that could not be told from each other. Raises ClientError."""
        named = {
            "headers.delimiter": self._delimiter,
            "headers.separator": self._separator,
            "headers.key.separator": self._pair_separator,
        }
        for first, second in (
            ("headers.delimiter", "headers.separator"),
            ("headers.delimiter", "headers.key.separator"),
            ("headers.separator", "headers.key.separator"),
        ):
            if named[first] == named[second]:
                raise ClientError(f"{first} and {second} may not be equal")
        if self._null is not None:
            for name, separator in {"key.separator": self._key_separator, **named}.items():
                if self._null == separator:
                    raise ClientError(f"null.marker and {name} may not be equal")

    def read(self, text: str) -> Line:
        self._number += 1
        headers, rest = self._cut(text, self._headers, self._delimiter, "headers delimiter")
        key, value = self._cut(rest, self._keys, self._key_separator, "key separator")
        found = [] if headers is None or headers == self._null else self._pairs(headers)
        return Line(None if key is None else self._bytes(key), self._bytes(value), found)

    def _cut(self, text: str, wanted: bool, separator: str, what: str) -> tuple[str | None, str]:
        if not wanted:
            return None, text
        if not separator:  # found at once, as by Java's String.indexOf
            return "", text
        before, found, after = text.partition(separator)
        if found:
            return before, after
        if self._lenient:
            return None, text
        raise ClientError(f"No {what} found on line number {self._number}: '{text}'")

    def _pairs(self, text: str) -> Headers:
        found: Headers = []
        for pair in text.split(self._separator) if self._separator else text:
            name, separator, value = pair.partition(self._pair_separator) if self._pair_separator else ("", "at", pair)
            if not separator and not self._lenient:
                raise ClientError(f"No header key separator found in pair '{pair}' on line number {self._number}")
            if name == self._null:
                raise ClientError(f"Header keys should not be equal to the null marker '{name}' as they can't be null")
            found.append((name, self._bytes(value) if separator else None))
        return found

    def _bytes(self, text: str) -> bytes | None:
        return None if text == self._null else text.encode("utf-8", "surrogateescape")


def _is(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"
