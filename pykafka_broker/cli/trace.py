"""`pykafka-broker trace`: requests of clients with their answers, live or from a capture.

Rule: one line for each request, in the order of the answers; `--bodies` adds both messages as JSON. An unreadable
source is one line on standard error and exit code 1.

A capture is a pcap or pcapng file, or the two directions of a connection. A gap in a capture makes the rest of its
direction unreadable; everything before the gap stands. A direction is the client's if its frames are requests. Packets
may be captured on Ethernet, Linux' "any" device, loopback, or as bare IP; packets other than TCP are skipped. A file
that is no capture is a ValueError; one that ends in the middle of a packet, as a capture still being written does, ends
before that packet.
"""

from __future__ import annotations

import argparse
import json
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path
from struct import error as StructError
from struct import unpack_from
from typing import NamedTuple

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.cli.addresses import URL_VARIABLE, control_client
from pykafka_broker.cli.commands import CommandParser, error_line
from pykafka_broker.control.answers import SeenRequestAnswer
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.traffic.exchange import Exchange, decoded_request
from pykafka_broker.control.traffic.faults import pattern
from pykafka_broker.control.traffic.readable import api_keys, line, seen
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.testing.control_client import ControlError
from pykafka_broker.tools import drop_output

_WAIT_MS = 60_000
_NOT_IN_TIME = 408
_NOWHERE = ("", 0)


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with `trace`. Returns the exit code."""
    own = parser()
    options = own.parse_args(arguments[1:])
    if options.responses and not options.requests:
        own.error("--responses FILE needs --requests FILE")
    sources = {"a capture": options.capture, "--requests": options.requests, "--url": options.url}
    if len(given := [name for name, value in sources.items() if value]) > 1:
        own.error(f"only one of them can be traced: {', '.join(given)}")
    try:
        for each in _seen(options):
            print(line(each))
            if options.bodies:
                print(
                    json.dumps({"request": each["request"], "response": each["response"]}, indent=2, ensure_ascii=False)
                )
            sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        drop_output()
    except (OSError, ValueError, ControlError) as error:
        print(f"pykafka-broker trace: {error_line(error, options.capture)}", file=sys.stderr)
        return 1
    return 0


def parser() -> CommandParser:
    command = CommandParser(
        prog="pykafka-broker trace",
        description="Print the requests of clients and the answers, live or from a capture.",
    )
    command.add_argument("capture", nargs="?", help="a pcap or pcapng file; without a file, watch a broker")
    command.option("--requests FILE", "the raw bytes that one client sent, instead of a capture")
    command.option("--responses FILE", "the raw bytes that the client received")
    command.add_argument("--url", help=f"address of the broker's control API; by default {URL_VARIABLE}")
    command.add_argument("--api", help="only this API; several with commas")
    command.add_argument("--client-id", help="only this client; * stands for any text")
    command.option("--bodies", "print requests and responses in full")
    return command


def _seen(options: argparse.Namespace) -> Iterator[SeenRequestAnswer]:
    if options.requests:
        found = _of_files(options.requests, options.responses)
    elif options.capture:
        found = of_packets(read_packets(Path(options.capture).read_bytes()))
    else:
        yield from _live(options)
        return
    yield from _fitting(found, options)


def _fitting(found: Iterable[Exchange], options: argparse.Namespace) -> Iterator[SeenRequestAnswer]:
    """Yield the exchanges that the options ask for. Raises ValueError for an unknown API."""
    client = options.client_id
    try:
        apis = api_keys(options.api.split(",") if options.api else None)
    except Problem as problem:
        raise ValueError(problem.detail) from None
    for each in found:
        if apis is not None and each.api_key not in apis:
            continue
        if client is None or (each.client_id is not None and pattern(client).fullmatch(each.client_id)):
            yield seen(each, options.bodies)


def _of_files(requests: str, responses: str | None) -> list[Exchange]:
    """Return the exchanges in the raw bytes of one connection. Raises ValueError for a file of other content."""
    sent, received = _raw(requests), _raw(responses)
    if not looks_like_requests(sent):
        raise ValueError(f"{requests}: it does not begin with a request of a Kafka client")
    found = exchanges(sent, received, _NOWHERE, _NOWHERE)
    if received.data and all(each.answer is None for each in found):
        raise ValueError(f"{responses}: it answers none of the requests")
    return found


def _raw(path: str | None) -> Direction:
    direction = Direction()
    if path is not None:
        direction.add(Path(path).read_bytes(), 0)
    return direction


def _live(options: argparse.Namespace) -> Iterator[SeenRequestAnswer]:
    """Yield the requests answered from now on."""
    client = control_client(parser(), options.url, needs="a capture")
    last = client.call("GET", "/requests", query={"limit": 1, "waiting": False})
    after = last[0]["number"] if last else 0
    asked = {"client_id": options.client_id, "api": options.api.split(",") if options.api else None}
    asked |= {"bodies": options.bodies, "timeout_ms": _WAIT_MS, "waiting": False}
    while True:
        try:
            found = client.call("POST", "/waits/request", {**asked, "after": after}, timeout_s=2 * _WAIT_MS / 1000)
        except ControlError as error:
            if error.status != _NOT_IN_TIME:
                raise
            continue
        for each in found:
            yield each
            after = max(after, each["number"])


# -- captures


Address = tuple[str, int]

_PCAP = {  # the first four bytes: byte order, and fractions of a second in its times
    b"\xd4\xc3\xb2\xa1": ("<", 1e-6),
    b"\xa1\xb2\xc3\xd4": (">", 1e-6),
    b"\x4d\x3c\xb2\xa1": ("<", 1e-9),
    b"\xa1\xb2\x3c\x4d": (">", 1e-9),
}
_SECTION, _INTERFACE, _SIMPLE, _PACKET = 0x0A0D0D0A, 1, 3, 6  # types of pcapng blocks
_LEAST_BODY_BYTES = {_INTERFACE: 8, _SIMPLE: 4, _PACKET: 20}  # a shorter block ends the capture
_TIME_RESOLUTION = 9  # an option of an interface
_PCAP_HEADER_BYTES = 24
# The bytes before the IP header, by link type (tcpdump.org/linktypes.html).
_LINK_BYTES = {1: 14, 113: 16, 276: 20, 0: 4, 108: 4, 101: 0, 12: 0, 14: 0, 228: 0, 229: 0}
_ETHERNET, _VLAN = 1, 0x8100
_TCP = 6
_FIN_OR_RST = 0b101


class Packet(NamedTuple):
    """The data of a TCP segment. time: in seconds since 1970; ends: whether the sender ends the connection."""

    time: float
    source: Address
    target: Address
    sequence: int
    data: bytes
    ends: bool = False


def is_capture(data: bytes) -> bool:
    """Return whether a file begins as a pcap or pcapng file does."""
    return data[:4] in (*_PCAP, _SECTION.to_bytes(4, "big"))


def read_packets(capture: bytes) -> Iterator[Packet]:
    """Yield the packets of a file. Raises ValueError."""
    if not is_capture(capture):
        raise ValueError("it is neither pcap nor pcapng")
    raw = _read_pcap(capture) if capture[:4] in _PCAP else _read_pcapng(capture)
    for time, link, frame in raw:
        try:
            packet = _tcp(time, link, frame)
        except (StructError, IndexError):
            continue  # cut short by the capture
        if packet is not None:
            yield packet


def _read_pcap(capture: bytes) -> Iterator[tuple[float, int, bytes]]:
    """Yield time, link type and frame of each packet."""
    order, fraction = _PCAP[capture[:4]]
    if len(capture) < _PCAP_HEADER_BYTES:
        return
    (link,) = unpack_from(order + "I", capture, 20)
    at = _PCAP_HEADER_BYTES
    while at + 16 <= len(capture):
        seconds, parts, size = unpack_from(order + "III", capture, at)
        if at + 16 + size > len(capture):
            return
        yield seconds + parts * fraction, link & 0xFFFF, capture[at + 16 : at + 16 + size]
        at += 16 + size


def _read_pcapng(capture: bytes) -> Iterator[tuple[float, int, bytes]]:
    """Yield time, link type and frame of each packet; a simple packet has no time."""
    at, order = 0, "<"
    interfaces: list[tuple[int, float]] = []
    while at + 12 <= len(capture):
        if capture[at : at + 4] == _SECTION.to_bytes(4, "big"):
            order = "<" if capture[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            interfaces = []
        kind, size = unpack_from(order + "II", capture, at)
        if size < 12 or at + size > len(capture):
            return
        body = capture[at + 8 : at + size - 4]
        if len(body) < _LEAST_BODY_BYTES.get(kind, 0):
            return
        if kind == _INTERFACE:
            interfaces.append((unpack_from(order + "H", body)[0], _resolution(body, order)))
        elif kind == _PACKET:
            interface, high, low, kept = unpack_from(order + "IIII", body)
            if interface < len(interfaces):
                link, resolution = interfaces[interface]
                yield ((high << 32) | low) * resolution, link, body[20 : 20 + kept]
        elif kind == _SIMPLE and interfaces:
            yield 0.0, interfaces[0][0], body[4:]  # after the length of the packet
        at += size


def _resolution(body: bytes, order: str) -> float:
    """Return the length of a tick of an interface's times, in seconds."""
    at = 8
    while at + 4 <= len(body):
        code, size = unpack_from(order + "HH", body, at)
        if code == _TIME_RESOLUTION and size and at + 4 < len(body):
            value = body[at + 4]  # an exponent: of 2 if the top bit is set, else of 10
            return float(2.0 ** -(value & 0x7F) if value & 0x80 else 10.0**-value)
        if code == 0:
            break
        at += 4 + size + (-size % 4)
    return 1e-6


def _tcp(time: float, link: int, frame: bytes) -> Packet | None:
    """Return the TCP segment in a frame; None for anything else."""
    at = _LINK_BYTES.get(link)
    if at is None:
        raise ValueError(f"captures of link type {link} are not read")
    if link == _ETHERNET and unpack_from(">H", frame, 12)[0] == _VLAN:
        at += 4
    version = frame[at] >> 4 if at < len(frame) else 0
    if version == 4:
        (total,) = unpack_from(">H", frame, at + 2)
        protocol, addresses, start = frame[at + 9], (frame[at + 12 : at + 16], frame[at + 16 : at + 20]), frame[at] & 15
        segment = frame[at + 4 * start : at + total] if total else frame[at + 4 * start :]
    elif version == 6:
        (length,) = unpack_from(">H", frame, at + 4)
        protocol, addresses = frame[at + 6], (frame[at + 8 : at + 24], frame[at + 24 : at + 40])
        segment = frame[at + 40 : at + 40 + length] if length else frame[at + 40 :]
    else:
        return None
    if protocol != _TCP:
        return None
    source, target, sequence = unpack_from(">HHI", segment)
    data = segment[4 * (segment[12] >> 4) :]
    hosts = [str(ip_address(each)) for each in addresses]
    ends = bool(segment[13] & _FIN_OR_RST)
    return Packet(time, (hosts[0], source), (hosts[1], target), sequence, data, ends)


_SIZE_BYTES = 4
_MOST_BYTES = 1 << 30  # of a frame; a longer length is nonsense
_HALF_OF_SEQUENCE = 1 << 31


class Direction:
    """The bytes sent by one end of a connection, with the time of each piece."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._offsets: list[int] = []
        self._times: list[float] = []

    def add(self, data: bytes, time: float) -> None:
        self._offsets.append(len(self.data))
        self._times.append(time)
        self.data += data

    def frames(self) -> Iterator[tuple[float, bytes]]:
        """Yield whole frames without length prefixes, each with the time of the first byte."""
        at = 0
        while at + _SIZE_BYTES <= len(self.data):
            (size,) = unpack_from(">i", self.data, at)
            if not 0 <= size <= _MOST_BYTES or at + _SIZE_BYTES + size > len(self.data):
                return
            time = self._times[bisect_right(self._offsets, at) - 1]
            yield time, bytes(self.data[at + _SIZE_BYTES : at + _SIZE_BYTES + size])
            at += _SIZE_BYTES + size


def exchanges(
    requests: Direction, responses: Direction, client: Address, server: Address, number: int = 0
) -> list[Exchange]:
    """Return the exchanges of a connection, which has a number in the capture."""
    connection = ConnectionContext(number, "", server, client)
    # A response begins with its correlation id; in a request the id follows API key and version.
    answers = {frame[:4]: (time, frame) for time, frame in responses.frames() if len(frame) >= _SIZE_BYTES}
    found: list[Exchange] = []
    for time, frame in requests.frames():
        answered, answer = answers.pop(frame[4:8], (time, None))
        pieces = None if answer is None else (len(answer).to_bytes(4, "big"), answer)
        took_ns = int((answered - time) * 1e9)
        exchange = Exchange((int(time * 1000), connection, frame, pieces, took_ns), len(found) + 1)
        if exchange.api_key == ApiKey.API_VERSIONS and exchange.request is not None:
            connection.software_name = exchange.request.client_software_name
            connection.software_version = exchange.request.client_software_version
        found.append(exchange)
    return found


def looks_like_requests(direction: Direction) -> bool:
    """Return whether the first frame of a direction decodes as a request."""
    first = next((frame for _, frame in direction.frames()), b"")
    spec = SPECS.get(unpack_from(">h", first)[0]) if len(first) > _SIZE_BYTES else None
    return spec is not None and decoded_request(first, spec) is not None


class Conversation(NamedTuple):
    """A connection in a capture: its exchanges, the time of each request, and when one side ended it, if ever."""

    exchanges: list[Exchange]
    times: list[float]
    ended: float | None


def conversations(packets: Iterator[Packet]) -> list[Conversation]:
    """Return all connections in a capture."""
    segments: dict[tuple[Address, Address], dict[int, tuple[float, bytes]]] = {}
    ended: dict[frozenset[Address], float] = {}
    for packet in packets:
        of_direction = segments.setdefault((packet.source, packet.target), {})
        known = of_direction.get(packet.sequence)
        if packet.data and (known is None or len(known[1]) < len(packet.data)):
            of_direction[packet.sequence] = (packet.time, packet.data)
        if packet.ends:
            ended.setdefault(frozenset({packet.source, packet.target}), packet.time)
    directions = {ends: joined(found) for ends, found in segments.items()}
    result: list[Conversation] = []
    for (source, target), direction in directions.items():
        if looks_like_requests(direction):
            answers = directions.get((target, source), Direction())
            found = exchanges(direction, answers, source, target, len(result) + 1)
            times = [time for time, _ in direction.frames()]
            result.append(Conversation(found, times, ended.get(frozenset({source, target}))))
    return result


def of_packets(packets: Iterator[Packet]) -> list[Exchange]:
    """Return the exchanges of all connections in a capture, in the order of time, by which they have their numbers."""
    found = [exchange for each in conversations(packets) for exchange in each.exchanges]
    found.sort(key=lambda each: each.wall_ms)
    for number, exchange in enumerate(found, 1):
        exchange.number = number
    return found


def joined(segments: dict[int, tuple[float, bytes]]) -> Direction:
    """Return segments, given by sequence number, joined up to the first gap.

    Sequence numbers wrap around: segments are ordered by their distance from any one of them.
    """
    direction = Direction()
    if not segments:
        return direction
    origin = next(iter(segments))
    expected: int | None = None
    for distance in sorted((sequence - origin + _HALF_OF_SEQUENCE) % (1 << 32) for sequence in segments):
        time, data = segments[(distance + origin - _HALF_OF_SEQUENCE) % (1 << 32)]
        if expected is not None and distance > expected:
            break  # a segment is missing
        data = data[expected - distance :] if expected is not None else data
        if data:
            direction.add(data, time)
            expected = (distance if expected is None else expected) + len(data)
    return direction
