"""Large requests that a client may send, each with one array of as many elements as every API serves, with what is in
them (`FEWER_ELEMENTS` in protocol/runtime.py), or of two megabytes. Rule: everything
around the array is right, so that the broker gets as far as its elements, which are all the same or all different.
"""

import inspect
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice, product
from typing import Any

from interop.batches import batch
from interop.raw import RawClient, request_bytes
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.request_header import RequestHeader
from pykafka_broker.protocol.runtime import ZERO_UUID, EncodeError, Fields, Message, uvarint

SIZE = 2_000_000
ELEMENTS = 10_000  # each element may hold two others
TOPIC = "giant"
PARTITIONS = 8
LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
# The mark where elements differ, as text, as a number and in an id: four bytes, replaced by others in each element.
MARK = b"z{|}"
MARKS: dict[str, Any] = {"str": MARK.decode(), "int": int.from_bytes(MARK, "big"), "bytes": MARK * 4}
# Values of fields whose defaults would change the results of other requests, or wait for ever.
CHOSEN: dict[str, Any] = {
    "acks": -1,
    "allow_auto_topic_creation": False,
    "num_partitions": 1,
    "rebalance_timeout_ms": 10_000,
    "replication_factor": 1,
    "session_timeout_ms": 10_000,
    "timeout_ms": 1_000,
    "validate_only": True,
}
OF_A_TOPIC = {"partitions", "partition_data", "partition_indexes"}  # these get one element where they are not the array
NAMES_WHAT_IS_NOT_THERE = {ApiKey.DELETE_TOPICS}


@dataclass(frozen=True)
class Array:
    """An array of a request: the names of the fields that lead to it, and what it holds."""

    path: tuple[str, ...]
    element: str


@dataclass(frozen=True)
class Giant:
    """One request as bytes, without the length in front."""

    name: str
    body: bytes
    elements: int


@dataclass(frozen=True)
class Field:
    """A parameter of a message's constructor: its type without null and `list`."""

    name: str
    type: str
    is_array: bool
    default: Any
    inner: Any  # the class, where it is one of a message's structs

    @property
    def is_id(self) -> bool:
        return self.type == "bytes" and self.default == ZERO_UUID


def _fields(kind: type[Fields]) -> Iterator[Field]:
    for name, parameter in list(inspect.signature(kind.__init__).parameters.items())[1:]:
        annotation = str(parameter.annotation).removesuffix(" | None")
        element = annotation.removeprefix("list[").removesuffix("]")
        inner = getattr(sys.modules[kind.__module__], element, None)
        struct_of = inner if isinstance(inner, type) and issubclass(inner, Fields) else None
        yield Field(name, element, element != annotation, parameter.default, struct_of)


def arrays_of(kind: type[Fields], path: tuple[str, ...] = ()) -> Iterator[Array]:
    for field in _fields(kind):
        if field.is_array:
            yield Array((*path, field.name), field.type)
        if field.inner is not None:
            yield from arrays_of(field.inner, (*path, field.name))


class GiantMaker:
    """A maker of giants for a topic and the API versions that the broker offers."""

    def __init__(self, bootstrap_servers: str) -> None:
        with RawClient(bootstrap_servers) as client:
            offered = client.call(ApiVersionsRequest("giants", "1"), 3).api_keys
            [topic] = client.call(MetadataRequest([MetadataRequestTopic(name=TOPIC)], False)).topics
        self._versions = {v.api_key: range(v.min_version, v.max_version + 1) for v in offered if v.api_key in SPECS}
        self._topic_id = topic.topic_id

    def biggest(self) -> Iterator[Giant]:
        """Yield for each API the array that holds most; with different elements, where they can differ."""
        for key in self._versions:
            giants = [*self._of(key, True)] or [*self._of(key, False)]
            yield from sorted(giants, key=lambda giant: giant.elements)[-1:]

    def all(self) -> Iterator[Giant]:
        for key, different in product(self._versions, (False, True)):
            yield from self._of(key, different)

    def _of(self, key: int, different: bool) -> Iterator[Giant]:
        for array in arrays_of(SPECS[key].request_class()):
            giant = self._giant(key, array, different)
            if giant is not None:
                yield giant

    def _giant(self, key: int, array: Array, different: bool) -> Giant | None:
        """Return a request of the newest version that has the array; None without one, or where nothing can differ."""
        spec = SPECS[key]
        text = "gone" if key in NAMES_WHAT_IS_NOT_THERE else TOPIC
        # The second try fills less around the array: newer versions lack fields that older versions had.
        fillings = [Filling(self._topic_id, text, array, different), Filling(self._topic_id, "", array, different)]
        for version, filling in product(reversed(self._versions[key]), fillings):
            try:
                one, two = (request_bytes(filling.request(spec.request_class(), n), version) for n in (1, 2))
            except (EncodeError, struct.error):
                continue  # a version that can't carry it
            if len(one) == len(two):
                continue
            body, elements = stretched(one, two, compact=spec.request_header_version(version) == 2)
            if different and MARK not in two:
                return None
            kind = "different" if different else "equal"
            name = f"{spec.name} v{version}: {elements:,} {kind} {'.'.join(array.path)}"
            return Giant(name, told_apart(body, filling.marked == "str") if different else body, elements)
        return None


class Filling:
    """A maker of requests around one array."""

    def __init__(self, topic_id: bytes, text: str, array: Array, different: bool) -> None:
        self._topic_id, self._text, self._array, self._different = topic_id, text, array, different
        self.marked = ""  # the type of the field that differs

    def request(self, kind: type[Fields], elements: int) -> Message:
        made = self._object(kind, self._array.path, elements)
        assert isinstance(made, Message)
        return made

    def _object(self, kind: type[Fields], path: tuple[str, ...], elements: int, mark: bool = False) -> Fields:
        values: dict[str, Any] = {}
        for field in _fields(kind):
            if path and field.name == path[0]:
                values[field.name] = self._on_the_way(field, path[1:], elements)
            elif mark and not field.is_array and field.type in MARKS and (field.type != "bytes" or field.is_id):
                values[field.name], mark, self.marked = MARKS[field.type], False, field.type
            else:
                values |= self._usual(field)
        return kind(**values)

    def _on_the_way(self, field: Field, rest: tuple[str, ...], elements: int) -> Any:
        """Return the field that leads to the array, or the array itself."""
        if not field.is_array:
            return self._object(field.inner, rest, elements)
        if rest:
            return [self._object(field.inner, rest, elements)]
        return [self._element(field.inner) for _ in range(elements)]

    def _usual(self, field: Field) -> dict[str, Any]:
        """Return the name and value of a field beside the array; an empty dict where the default will do."""
        if field.name in CHOSEN:
            return {field.name: CHOSEN[field.name]}
        if field.name in OF_A_TOPIC and field.default is not None:
            return {field.name: [self._object(field.inner, (), 0) if field.inner else 0]}
        if field.type == "str" and not field.is_array and field.default is not None:
            return {field.name: self._text}
        if field.is_id:
            return {field.name: self._topic_id}
        return {field.name: batch(b"x")} if field.type == "Records" else {}

    def _element(self, kind: type[Fields] | None) -> Any:
        if kind is not None:
            return self._object(kind, (), 0, mark=self._different)
        simple = self._array.element
        if self._different and simple in MARKS:
            self.marked = simple
            return MARKS[simple]
        return {"str": self._text, "int": 0, "bytes": self._topic_id}[simple]


def stretched(one: bytes, two: bytes, *, compact: bool) -> tuple[bytes, int]:
    """Return a large request, made of one with one element and the same with two, and how many it has."""
    size = len(two) - len(one)
    at = next(i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)  # in the count, at its last byte
    elements = min(ELEMENTS, (SIZE - len(one)) // size)
    before, counted = (one[:at], uvarint(elements + 1)) if compact else (one[: at - 3], struct.pack(">i", elements))
    return before + counted + one[at + 1 : at + 1 + size] * elements + one[at + 1 + size :], elements


def told_apart(body: bytes, as_text: bool) -> bytes:
    """Return the request with each mark replaced by a different value."""
    parts = body.split(MARK)
    own = (_texts() if as_text else _numbers())[: len(parts) - 1]
    return b"".join(chain.from_iterable(zip(parts, [*own, b""], strict=True)))


@cache
def _texts() -> list[bytes]:
    return [bytes(letters) for letters in islice(product(LETTERS, repeat=len(MARK)), SIZE // len(MARK))]


@cache
def _numbers() -> list[bytes]:
    return [struct.pack(">i", number) for number in range(SIZE // len(MARK))]


def many_tags() -> Giant:
    """Return a header with as many tags as one may have, all of them unknown."""
    body = ApiVersionsRequest("giants", "1").encode(3)
    header = RequestHeader(ApiKey.API_VERSIONS, 3, 1, "raw").encode(2)[:-1]  # without its number of tags
    tags = [uvarint(number) + b"\0" for number in range(1_000, 1_000 + ELEMENTS)]
    return Giant(f"a header with {len(tags):,} tags", b"".join([header, uvarint(len(tags)), *tags, body]), len(tags))
