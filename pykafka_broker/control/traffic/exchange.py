"""One request and its answer.

Rule: what is kept while clients are served are bytes and times; what they mean is looked up when somebody asks. Records
are not kept: where a long piece stood are zeros of its length, which decodes all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import itemgetter
from struct import Struct
from typing import Any

from pykafka_broker.broker.context import ConnectionContext
from pykafka_broker.control.traffic.frames import decoded_request, decoded_response, error_codes, error_name
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.runtime import Pieces
from pykafka_broker.protocol.specs import ApiSpec

KEPT_REQUEST_BYTES = 16 << 10  # of one request
_KEPT_PIECE_BYTES = 4 << 10  # of an answer's pieces; longer ones are records or lists of a cluster's size
_KEY_VERSION_CORRELATION = Struct(">hhi")

# Broker's time at arrival, connection, the frame's beginning, its length, the answer if there is one, how long it took
# in nanoseconds, and which fault has met it.
Entry = tuple[int, ConnectionContext, bytes, int, bytes | Pieces | None, int, int | None]
CONNECTION, FRAME, _ANSWER = itemgetter(1), itemgetter(2), itemgetter(4)


class Exchange:
    """`number` counts the entries of a log; None while the request waits. `answer` is None where there is none."""

    def __init__(self, entry: Entry, number: int | None = None) -> None:
        self.wall_ms, self.connection, self.frame, self.request_bytes, answer, self.duration_ns, self.fault = entry
        self.answer: Pieces | None = [answer] if isinstance(answer, bytes) else answer
        self.number = number
        self.api_key, self.version, self.correlation_id = -1, -1, -1
        if len(self.frame) >= _KEY_VERSION_CORRELATION.size:
            self.api_key, self.version, self.correlation_id = _KEY_VERSION_CORRELATION.unpack_from(self.frame)

    @property
    def spec(self) -> ApiSpec | None:
        """Of its API; None for a key that nobody knows."""
        return SPECS.get(self.api_key)

    @property
    def api(self) -> str:
        """The name of the API, or its key."""
        spec = self.spec
        return str(self.api_key) if spec is None else spec.name

    @cached_property
    def client_id(self) -> str | None:
        return client_id_of(self.frame)

    @property
    def software(self) -> str:
        """Name and version, where the client has told them."""
        return f"{self.connection.software_name} {self.connection.software_version}".strip()

    @property
    def answer_bytes(self) -> int:
        """Without its length prefix, as the request's bytes are; 0 where there is no answer."""
        return sum(map(len, self.answer)) - 4 if self.answer else 0

    @cached_property
    def request(self) -> Any:
        """The request; None if it does not decode."""
        spec = self.spec
        if spec is None:
            return None
        return decoded_request(self.frame + bytes(self.request_bytes - len(self.frame)), spec)

    @cached_property
    def response(self) -> Any:
        """The answer; None if there is none or it does not decode."""
        spec = self.spec
        if spec is None or not self.answer:
            return None
        whole = b"".join(bytes(len(piece)) if isinstance(piece, Gap) else piece for piece in self.answer)
        return decoded_response(whole[4:], spec, self.version)

    @property
    def errors(self) -> list[str]:
        """The names of all errors in the answer, each once."""
        return [error_name(code) for code in error_codes(self.response)]


def client_id_of(frame: bytes) -> str | None:
    """What a request calls its client."""
    length = int.from_bytes(frame[8:10], "big", signed=True)
    return str(frame[10 : 10 + length], "utf-8", "replace") if length >= 0 else None


class Gap:
    """So many bytes that were not kept."""

    __slots__ = ("_length",)

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length


class Thinned(list[Any]):
    """The pieces of an answer, some of them gaps. `kept` is how many bytes the others have."""

    __slots__ = ("kept",)
    kept: int


def thinned(pieces: Pieces) -> Thinned:
    """An answer without its long pieces and without what holds a file open."""
    found = Thinned(
        Gap(len(piece)) if len(piece) > _KEPT_PIECE_BYTES or hasattr(piece, "fileno") else piece for piece in pieces
    )
    found.kept = sum(len(piece) for piece in found if not isinstance(piece, Gap))
    return found


def is_short(pieces: Pieces) -> bool:
    """Whether an answer is worth no thinning."""
    return sum(map(len, pieces)) <= _KEPT_PIECE_BYTES


def kept_bytes(entries: Sequence[Entry]) -> int:
    """What they take of the memory, about."""
    answers = [len(answer) if type(answer) is bytes else _kept(answer) for answer in map(_ANSWER, entries)]
    return sum(map(len, map(FRAME, entries))) + sum(answers)


def _kept(answer: Any) -> int:
    if not answer:
        return 0
    return answer.kept if isinstance(answer, Thinned) else sum(map(len, answer))
