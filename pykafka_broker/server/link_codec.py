"""Requests as bytes and answers from bytes, for the client side of a connection.

Rule: the version of each request is chosen here. It is the highest that the peer serves and the caller accepts; a
caller without a range accepts all stable versions of this project.
"""

from __future__ import annotations

from struct import Struct

from pykafka_broker import __version__
from pykafka_broker.errors import FrameError
from pykafka_broker.peers import NotServed, Unsendable, Versions
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.api_versions_response import ApiVersionsResponse
from pykafka_broker.protocol.messages.request_header import RequestHeader
from pykafka_broker.protocol.messages.response_header import ResponseHeader
from pykafka_broker.protocol.runtime import Buffer, DecodeError, EncodeError, Message, Pieces, VersionLacksField
from pykafka_broker.protocol.specs import ApiSpec

_SIZE = Struct(">i")
_CORRELATION_ID = Struct(">i")
_ERROR_CODE = Struct(">h")
_GREETING = SPECS[ApiKey.API_VERSIONS]


def encode_request(request: Message, version: int, correlation_id: int, client_id: str | None) -> Pieces:
    """Return a request as bytes: length prefix, header and body.

    Raises NotServed if the version lacks a field that is set, Unsendable if a value does not fit its field.
    """
    spec = SPECS[request.API_KEY]
    pieces: Pieces = [b""]
    header = RequestHeader(spec.api_key, version, correlation_id, client_id)
    header.write(spec.request_header_version(version), pieces.append)
    try:
        request.write(version, pieces.append)
    except VersionLacksField as error:
        raise NotServed(str(error)) from error
    except EncodeError as error:
        raise Unsendable(str(error)) from error
    pieces[0] = _SIZE.pack(sum(map(len, pieces)))
    return pieces


def correlation_id_of(frame: Buffer) -> int:
    """Return the correlation id of an answer. Raises FrameError if the frame is too short."""
    if len(frame) < 4:
        raise FrameError(f"an answer of {len(frame)} bytes has no header")
    (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
    return int(correlation_id)


def decode_response(frame: Buffer, spec: ApiSpec, version: int) -> Message:
    """Decode an answer. Raises FrameError if the frame is not the whole answer."""
    try:
        _header, body = ResponseHeader.read(frame, 0, spec.response_header_version(version))
        response, end = spec.response_class().read(frame, body, version)
    except DecodeError as error:
        raise FrameError(f"an answer does not decode: {error}") from None
    if end != len(frame):
        raise FrameError(f"an answer to {spec.name} v{version} has {len(frame)} bytes, and not {end}")
    return response


class Greeting:
    """The request for the peer's versions, the first on every connection (KIP-35, KIP-511).

    A peer that does not know our version of this request refuses it, with an answer in version 0. From 2.4 on, this
    answer names the versions that the peer knows. The request is then repeated in the newest of them, or in version 0.
    """

    def __init__(self) -> None:
        self.version = _GREETING.stable_max_version
        self._asked_again = False

    def request(self) -> Message:
        return ApiVersionsRequest(client_software_name="pykafka-broker", client_software_version=__version__)

    def answered(self, frame: Buffer) -> dict[int, Versions] | None:
        """Return the versions the peer serves by API key, or None if the request has to be repeated.

        Raises FrameError if the peer answers another error, or refuses a second time.
        """
        code = _ERROR_CODE.unpack_from(frame, 4)[0] if len(frame) >= 6 else None
        refused = code == ErrorCode.UNSUPPORTED_VERSION
        response = decode_response(frame, _GREETING, 0 if refused else self.version)
        assert isinstance(response, ApiVersionsResponse)
        served = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        if refused and not self._asked_again:
            self._asked_again = True
            self.version = min(self.version, served.get(ApiKey.API_VERSIONS, (0, 0))[1])
            return None
        if code != ErrorCode.NONE:
            raise FrameError(f"the peer does not tell its versions: error {code}")
        return served


def choose_version(served: dict[int, Versions], spec: ApiSpec, wanted: Versions | None) -> int:
    """Return the highest version that both sides accept. Raises NotServed.

    Args:
        wanted: the lowest and the highest version that the caller accepts; None for all stable versions of this
            project.
    """
    ours = (spec.min_version, spec.stable_max_version) if wanted is None else wanted
    theirs = served.get(spec.api_key)
    if theirs is None:
        raise NotServed(f"the peer does not serve {spec.name}")
    version = min(ours[1], theirs[1])
    if version < max(ours[0], theirs[0]):
        what = f"versions {theirs[0]} to {theirs[1]}, not {ours[0]} to {ours[1]}"
        raise NotServed(f"{spec.name}: the peer serves {what}", theirs)
    return version
