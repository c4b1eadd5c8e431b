"""A request with its answer: frames read as messages, and the parts of both that the log keeps.

Rule: while clients are served, only bytes and times are kept; they are decoded when somebody asks. Records are not
kept: zeros of the same length stand in for a long piece, which decodes all the same. A frame that does not decode is
None and never an error, since the traffic may come from any client.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cached_property
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.request_header import RequestHeader
from pykafka_broker.protocol.runtime import DecodeError, EncodeError, Message, Pieces, leaves
from pykafka_broker.protocol.specs import ApiSpec
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import BatchHeader, read_header
from pykafka_broker.server.link_codec import decode_response

_SIZE_AND_CORRELATION = Struct(">ii")
_VERSION = Struct(">h")


def decoded_request(frame: bytes | memoryview, spec: ApiSpec) -> Any:
    """Return the body of a request; None if the frame does not decode."""
    try:
        version: int = _VERSION.unpack_from(frame, 2)[0]
        _, body = RequestHeader.read(frame, 0, spec.request_header_version(version))
        message, end = spec.request_class().read(frame, body, version)
    except (DecodeError, StructError):
        return None
    return message if end == len(frame) else None


def encoded_request(frame: bytes, spec: ApiSpec, version: int, body: Message) -> bytearray:
    """Return the frame with another body."""
    _, start = RequestHeader.read(frame, 0, spec.request_header_version(version))
    return bytearray(frame[:start] + body.encode(version))


def decoded_response(frame: bytes | memoryview, spec: ApiSpec, version: int) -> Any:
    """Return the body of a response; None if the frame does not decode.

    A version of ApiVersions that the broker does not know is answered in version 0.
    """
    for each in (version, 0) if spec.api_key == ApiKey.API_VERSIONS else (version,):
        with suppress(FrameError):
            return decode_response(frame, spec, each)
    return None


def encoded_response(response: Message, spec: ApiSpec, version: int, correlation_id: int) -> Pieces | None:
    """Return length prefix, header and body, or None if the version has no room for a field."""
    pieces: Pieces = [b""]
    if spec.response_header_version(version):
        pieces.append(b"\0")
    try:
        response.write(version, pieces.append)
    except EncodeError:
        return None
    pieces[0] = _SIZE_AND_CORRELATION.pack(4 + sum(map(len, pieces)), correlation_id)
    return pieces


def first_header(records: Any) -> BatchHeader | None:
    """Return the header of the first batch in a field of records; None for a part of a batch, or an older format."""
    with suppress(CorruptBatch):
        return None if records is None else read_header(records)
    return None


def error_codes(message: Message | None) -> dict[int, None]:
    """Return all errors of a message, in order, each once."""
    if message is None:
        return {}
    return {value: None for _, name, value in leaves(message) if name.endswith("error_code") and value}


def error_name(code: int) -> str:
    """Return Kafka's name of an error, or the number."""
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else str(code)


KEPT_REQUEST_BYTES = 16 << 10  # a longer request is kept up to here
_LONG_BYTES = 32 << 10  # of request and answer: more than a few milliseconds to decode
_KEPT_PIECE_BYTES = 4 << 10  # of an answer's pieces; longer ones are records or lists of a cluster's size
_KEY_VERSION_CORRELATION = Struct(">hhi")

# An answer in the log: its body, where one piece may be sent again and again; or all of its pieces,
# with the length in the place of a piece that is not kept.
Kept = bytes | tuple[bytes | int, ...]
# Broker's time at arrival, connection, the frame or its beginning, the answer if there is one, and how long it took in
# nanoseconds.
Entry = tuple[int, ConnectionContext, bytes, Kept | None, int]
FIELDS = 5
CONNECTION: Final = 1  # its index
FRAME: Final = 2


class Mark(NamedTuple):
    """Rare facts of an entry: the length of the whole frame, and a fault."""

    request_bytes: int
    fault: int | None


class Exchange:
    """A request and the answer.

    `number` counts the entries of a log, and is None while the request waits. `answer` is None where there is none.
    `served` is the frame that the broker carries out, which a fault may change; None where it carries out none.
    `recorded` is where a recording has the whole frame.
    """

    recorded: tuple[bytes | tuple[int, int, int], ...] | bytes | None = None

    def __init__(self, entry: Entry, number: int | None = None, mark: Mark | None = None) -> None:
        self.wall_ms, self.connection, self.frame, answer, self.duration_ns = entry
        self.request_bytes = len(self.frame) if mark is None else mark.request_bytes
        self.fault = None if mark is None else mark.fault
        self.number = number
        self.api_key, self.version, self.correlation_id = -1, -1, -1
        if len(self.frame) >= _KEY_VERSION_CORRELATION.size:
            self.api_key, self.version, self.correlation_id = _KEY_VERSION_CORRELATION.unpack_from(self.frame)
        self.served: bytes | None = self.frame
        self.answer: Pieces | None = None
        if answer is not None:
            self.answer = list(answer) if isinstance(answer, tuple) else [self._head(answer), answer]

    def _head(self, body: bytes) -> bytes:
        """Return the bytes sent before the body."""
        tags = b"\0" if self.spec is not None and self.spec.response_header_version(self.version) else b""
        return _SIZE_AND_CORRELATION.pack(4 + len(tags) + len(body), self.correlation_id) + tags

    @property
    def mark(self) -> Mark | None:
        """Return the entry's mark for the log, or None."""
        is_usual = self.fault is None and self.request_bytes < KEPT_REQUEST_BYTES
        return None if is_usual else Mark(self.request_bytes, self.fault)

    @property
    def spec(self) -> ApiSpec | None:
        """Return the spec of the API; None for an unknown key."""
        return SPECS.get(self.api_key)

    @property
    def api(self) -> str:
        """Return the name of the API, or the key."""
        spec = self.spec
        return str(self.api_key) if spec is None else spec.name

    @cached_property
    def client_id(self) -> str | None:
        return client_id_of(self.frame)

    @property
    def software(self) -> str:
        """Return name and version of the client's software, as told by the client."""
        return f"{self.connection.software_name} {self.connection.software_version}".strip()

    @property
    def answer_bytes(self) -> int:
        """Return the size of the answer without the length prefix; 0 without an answer."""
        return sum(each if isinstance(each, int) else len(each) for each in self.answer) - 4 if self.answer else 0

    @cached_property
    def request(self) -> Any:
        """Return the decoded request; None if the frame does not decode."""
        spec = self.spec
        if spec is None:
            return None
        request = decoded_request(self.frame + bytes(self.request_bytes - len(self.frame)), spec)
        if request is not None and self.api_key == ApiKey.METADATA and not self.version:
            request.topics = request.topics or None  # which is all topics in later versions
        return request

    @cached_property
    def response(self) -> Any:
        """Return the decoded answer, or None for a missing or undecodable answer."""
        spec = self.spec
        if spec is None or not self.answer:
            return None
        whole = b"".join(map(bytes, self.answer))  # `bytes` of a length are as many zeros
        return decoded_response(whole[4:], spec, self.version)

    @cached_property
    def errors(self) -> list[str]:
        """Return the names of all errors in the answer, each once."""
        return [error_name(code) for code in error_codes(self.response)]

    @property
    def is_long(self) -> bool:
        """Return whether request and answer take long to decode. Records that are not kept do not."""
        kept = sum(len(each) for each in self.answer or () if not isinstance(each, int))
        return len(self.frame) + kept > _LONG_BYTES

    @property
    def is_decoded(self) -> bool:
        return "errors" in self.__dict__

    def decode(self) -> None:
        """Decode request and answer; may be called in a thread."""
        _ = self.request, self.errors

    def forget_response(self) -> None:
        """Forget what was decoded of an answer that has changed."""
        self.__dict__.pop("response", None)
        self.__dict__.pop("errors", None)


def client_id_of(frame: bytes) -> str | None:
    length = int.from_bytes(frame[8:10], "big", signed=True)
    return str(frame[10 : 10 + length], "utf-8", "replace") if length >= 0 else None


# Client ids of brokers' links to other brokers, as Kafka names them.
_OF_BROKERS = re.compile(
    r"(broker-\d+-.+)|((AddPartitionsManager|Persister|raft)-client-\d+)|((share-dlq|end-offsets)-\d+)"
)


def is_of_a_broker(frame: bytes) -> bool:
    """Return whether a request is of a broker's link to another one."""
    return _OF_BROKERS.fullmatch(client_id_of(frame) or "") is not None


def bytes_of(piece: Any) -> bytes:
    """Return a piece of an answer as bytes; a slice of a file is read."""
    return piece.read() if hasattr(piece, "fileno") else bytes(piece)


def thinned(pieces: Pieces) -> tuple[bytes | int, ...]:
    """Return an answer without the long pieces and open files."""
    return tuple(
        [piece if type(piece) is bytes and len(piece) <= _KEPT_PIECE_BYTES else _thin(piece) for piece in pieces]
    )


def _thin(piece: Any) -> bytes | int:
    return len(piece) if len(piece) > _KEPT_PIECE_BYTES or hasattr(piece, "fileno") else bytes(piece)
