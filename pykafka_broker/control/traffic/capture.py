"""Traffic that was captured: a pcap or pcapng file, or the two directions of one connection, as exchanges.

Rule: what is missing in a capture makes the rest of its direction unreadable, and what was read before it stands. A
direction is that of the client if its frames are requests.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from struct import unpack_from

from pykafka_broker.broker.context import ConnectionContext
from pykafka_broker.control.traffic.exchange import Exchange
from pykafka_broker.control.traffic.frames import decoded_request
from pykafka_broker.control.traffic.packets import Address, Packet
from pykafka_broker.protocol.api_keys import SPECS, ApiKey

_SIZE_BYTES = 4
_MOST_BYTES = 1 << 30  # of a frame: a length beyond it is none
_HALF_OF_SEQUENCE = 1 << 31


class Direction:
    """The bytes that one end has sent, and when."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._offsets: list[int] = []
        self._times: list[float] = []

    def add(self, data: bytes, time: float) -> None:
        self._offsets.append(len(self.data))
        self._times.append(time)
        self.data += data

    def frames(self) -> Iterator[tuple[float, bytes]]:
        """Whole frames without their length prefixes, each with the time of its first byte."""
        at = 0
        while at + _SIZE_BYTES <= len(self.data):
            (size,) = unpack_from(">i", self.data, at)
            if not 0 <= size <= _MOST_BYTES or at + _SIZE_BYTES + size > len(self.data):
                return
            time = self._times[bisect_right(self._offsets, at) - 1]
            yield time, bytes(self.data[at + _SIZE_BYTES : at + _SIZE_BYTES + size])
            at += _SIZE_BYTES + size


def exchanges(requests: Direction, responses: Direction, client: Address, server: Address) -> list[Exchange]:
    """What was asked and answered on one connection."""
    connection = ConnectionContext(0, "", server, client)
    answers = {frame[:4]: (time, frame) for time, frame in responses.frames() if len(frame) >= _SIZE_BYTES}
    found: list[Exchange] = []
    for time, frame in requests.frames():
        answered, answer = answers.pop(frame[4:8], (time, None))
        pieces = None if answer is None else (len(answer).to_bytes(4, "big"), answer)
        took_ns = int((answered - time) * 1e9)
        one = Exchange((int(time * 1000), connection, frame, pieces, took_ns), len(found) + 1)
        if one.api_key == ApiKey.API_VERSIONS and one.request is not None:
            connection.software_name = one.request.client_software_name
            connection.software_version = one.request.client_software_version
        found.append(one)
    return found


def looks_like_requests(direction: Direction) -> bool:
    """Whether its first frame decodes as a request."""
    first = next((frame for _, frame in direction.frames()), b"")
    spec = SPECS.get(unpack_from(">h", first)[0]) if len(first) > _SIZE_BYTES else None
    return spec is not None and decoded_request(first, spec) is not None


def of_packets(packets: Iterator[Packet]) -> list[Exchange]:
    """All connections of a capture, their requests in the order of time."""
    segments: dict[tuple[Address, Address], dict[int, tuple[float, bytes]]] = {}
    for packet in packets:
        of_direction = segments.setdefault((packet.source, packet.target), {})
        known = of_direction.get(packet.sequence)
        if packet.data and (known is None or len(known[1]) < len(packet.data)):
            of_direction[packet.sequence] = (packet.time, packet.data)
    directions = {ends: joined(found) for ends, found in segments.items()}
    result: list[Exchange] = []
    for (source, target), direction in directions.items():
        if looks_like_requests(direction):
            result += exchanges(direction, directions.get((target, source), Direction()), source, target)
    result.sort(key=lambda each: each.wall_ms)
    return result


def joined(segments: dict[int, tuple[float, bytes]]) -> Direction:
    """Segments by sequence number, put together up to the first gap."""
    direction = Direction()
    if not segments:
        return direction
    some = next(iter(segments))
    expected: int | None = None
    for distance in sorted((sequence - some + _HALF_OF_SEQUENCE) % (1 << 32) for sequence in segments):
        time, data = segments[(distance + some - _HALF_OF_SEQUENCE) % (1 << 32)]
        if expected is not None and distance > expected:
            break  # something is missing
        data = data[expected - distance :] if expected is not None else data
        if data:
            direction.add(data, time)
            expected = (distance if expected is None else expected) + len(data)
    return direction
