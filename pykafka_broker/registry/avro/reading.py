"""Avro's binary form, told as JSON by the schema that it was written with.

Rule: the data may be anybody's. What is nested deeper than `_DEEPEST`, or has more values than `_MOST_VALUES`, is not
told: neither the stack nor the memory grows by what a few bytes claim. What does not fit raises ValueError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

from pykafka_broker.registry.avro.types import Type

Json = Any
_DEEPEST = 200  # types within types
_MOST_VALUES = 1 << 20
_LONGEST_VARINT_BITS = 63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


class Reading:
    """One value, from the first byte on."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._values = 0

    def value(self, kind: Type, depth: int = 0) -> Json:
        """Raises ValueError."""
        if depth > _DEEPEST:
            raise ValueError(f"it is nested deeper than {_DEEPEST} levels")
        self._values += 1
        if self._values > _MOST_VALUES:
            raise ValueError(f"it has more than {_MOST_VALUES} values")
        match kind.kind:
            case "union":
                return self.value(_one_of(kind.branches, self._long()), depth + 1)
            case "record" | "error":
                return {each.name: self.value(each.type, depth + 1) for each in kind.fields}
            case "array":
                return [self.value(_items(kind), depth + 1) for _ in self._counted()]
            case "map":
                return {self._text(): self.value(_items(kind), depth + 1) for _ in self._counted()}
        return self._logical(kind, self._plain(kind))

    def _plain(self, kind: Type) -> Json:
        match kind.kind:
            case "null":
                return None
            case "boolean":
                return self._take(1) != b"\0"
            case "int" | "long":
                return self._long()
            case "float" | "double":
                form = _FLOAT if kind.kind == "float" else _DOUBLE
                number = form.unpack(self._take(form.size))[0]
                return number if isfinite(number) else str(number)  # JSON has no word for it
            case "enum":
                return _one_of(kind.symbols, self._long())
            case "string":
                return self._text()
        return self._take(kind.size if kind.kind == "fixed" else self._long())

    def _logical(self, kind: Type, plain: Json) -> Json:
        """What stands for a time or a decimal as text; bytes as Avro's own JSON has them, a character for each."""
        told = _LOGICAL.get((kind.kind, kind.properties.get("logicalType")))
        if told is not None:
            try:
                return told(plain, kind)
            except (ArithmeticError, ValueError, TypeError):
                pass  # no such time, or a logical type that makes no sense: then it is what it is without
        return plain.decode("latin-1") if isinstance(plain, bytes) else plain

    def _counted(self) -> Iterator[int]:
        """As often as an array or a map has items, which stand in blocks."""
        while count := self._long():
            if count < 0:
                count = -count
                self._long()  # the block's size in bytes
            yield from range(count)

    def _text(self) -> str:
        return self._take(self._long()).decode()

    def _long(self) -> int:
        data, at = self._data, self._at
        value = shift = 0
        while True:
            if at >= len(data) or shift > _LONGEST_VARINT_BITS:
                raise ValueError("it ends within a number")
            byte = data[at]
            value |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                self._at = at
                return (value >> 1) ^ -(value & 1)

    def _take(self, size: int) -> bytes:
        begin, end = self._at, self._at + size
        if not begin <= end <= len(self._data):
            raise ValueError("it is shorter than it says")
        self._at = end
        return self._data[begin:end]


def _one_of(among: list[Any], index: int) -> Any:
    if not 0 <= index < len(among):
        raise ValueError(f"it is number {index} of {len(among)}")
    return among[index]


def _items(kind: Type) -> Type:
    assert kind.items is not None
    return kind.items


def _decimal(plain: bytes, kind: Type) -> str:
    scale = kind.properties.get("scale", 0)
    if type(scale) is not int or len(plain) > 1 << 10:
        raise ValueError
    return str(Decimal(int.from_bytes(plain, "big", signed=True)).scaleb(-scale))


def _since_epoch(unit: str, local: bool) -> Callable[[int, Type], str]:
    epoch = _EPOCH.replace(tzinfo=None) if local else _EPOCH
    return lambda plain, kind: str(epoch + timedelta(**{unit: plain}))


def _since_midnight(unit: str) -> Callable[[int, Type], str]:
    return lambda plain, kind: str((_EPOCH + timedelta(**{unit: plain})).time())


_LOGICAL: dict[tuple[str, Any], Callable[[Any, Type], str]] = {
    ("int", "date"): lambda plain, kind: str(date(1970, 1, 1) + timedelta(plain)),
    ("int", "time-millis"): _since_midnight("milliseconds"),
    ("long", "time-micros"): _since_midnight("microseconds"),
    ("long", "timestamp-millis"): _since_epoch("milliseconds", local=False),
    ("long", "timestamp-micros"): _since_epoch("microseconds", local=False),
    ("long", "local-timestamp-millis"): _since_epoch("milliseconds", local=True),
    ("long", "local-timestamp-micros"): _since_epoch("microseconds", local=True),
    ("bytes", "decimal"): _decimal,
    ("fixed", "decimal"): _decimal,
}
