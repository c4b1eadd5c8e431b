"""Captures as exchanges: files made here, byte by byte."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from struct import pack

import pytest

from pykafka_broker.cli import main
from pykafka_broker.cli.trace import Direction, exchanges, of_packets, read_packets
from pykafka_broker.control.traffic.exchange import encoded_response
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.api_versions_response import ApiVersionsResponse
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.heartbeat_response import HeartbeatResponse
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.server.link_codec import encode_request

CLIENT, SERVER = ("127.0.0.1", 50000), ("127.0.0.1", 9092)


def request(message: Message, version: int, correlation_id: int) -> bytes:
    return b"".join(encode_request(message, version, correlation_id, "client"))


def response(message: Message, key: int, version: int, correlation_id: int) -> bytes:
    return b"".join(encoded_response(message, SPECS[key], version, correlation_id) or [])


ASKED = [
    request(ApiVersionsRequest("client-software", "1.0"), 3, 1),
    request(HeartbeatRequest("g", 1, "m"), 4, 2),
    request(HeartbeatRequest("h", 1, "m"), 4, 3),
]
ANSWERED = [response(ApiVersionsResponse(), 18, 3, 1), response(HeartbeatResponse(error_code=25), 12, 4, 2)]
LINES = [
    "00:16:40.000 ApiVersions v3 client 127.0.0.1:50000",
    "00:16:40.010 Heartbeat v4 client 127.0.0.1:50000",
    "00:16:40.020 Heartbeat v4 client 127.0.0.1:50000",
]


def segment(source: tuple[str, int], target: tuple[str, int], sequence: int, data: bytes, version: int = 4) -> bytes:
    tcp = pack(">HHIIBBHHH", source[1], target[1], sequence % (1 << 32), 0, 5 << 4, 0x18, 0, 0, 0) + data
    if version == 6:
        return pack(">IHBB", 6 << 28, len(tcp), 6, 64) + 2 * (bytes(15) + b"\x01") + tcp
    addresses = ip_address(source[0]).packed + ip_address(target[0]).packed
    return pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + addresses + tcp


def conversation(first: int = 0xFFFFFFF0) -> list[tuple[float, bytes]]:
    """Segments of both directions: split anywhere, late, twice, and with numbers that wrap."""
    sent, back = b"".join(ASKED), b"".join(ANSWERED)
    cuts = [0, 5, len(ASKED[0]), len(ASKED[0]) + len(ASKED[1]), len(sent)]
    pieces = [(first + a, sent[a:b]) for a, b in pairwise(cuts)]
    times = [1000.0, 1000.001, 1000.01, 1000.02]
    packets = [(time, segment(CLIENT, SERVER, at, data)) for time, (at, data) in zip(times, pieces, strict=True)]
    packets.append((1000.015, segment(SERVER, CLIENT, 7, back)))
    packets.append((1000.03, segment(CLIENT, SERVER, pieces[1][0], pieces[1][1])))
    packets[1], packets[2] = packets[2], packets[1]
    return packets


def pcap(packets: Iterable[tuple[float, bytes]], link: int = 1) -> bytes:
    head = {1: bytes(12) + b"\x08\x00", 113: bytes(14) + b"\x08\x00", 101: b""}[link]
    file = pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link)
    for time, data in packets:
        size = len(head) + len(data)
        file += pack("<IIII", int(time), round(time % 1 * 1e6), size, size) + head + data
    return file


def pcapng(packets: Iterable[tuple[float, bytes]]) -> bytes:
    file = pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    options = pack("<HHB3xHH", 9, 1, 9, 0, 0)
    file += pack("<IIHHI", 1, 20 + len(options), 101, 0, 0) + options + pack("<I", 20 + len(options))
    for time, data in packets:
        ticks, padded = round(time * 1e9), data + bytes(-len(data) % 4)
        size = 32 + len(padded)
        file += pack("<IIIIIII", 6, size, 0, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data)) + padded
        file += pack("<I", size)
    return file


@pytest.mark.parametrize(
    "capture",
    [pcap(conversation()), pcap(conversation(), 113), pcap(conversation(), 101), pcapng(conversation())],
    ids=["ethernet", "any device", "raw", "pcapng"],
)
def test_a_capture_is_traced(capture: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "traffic"
    path.write_bytes(capture)
    assert main(["trace", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [each[: len(begin)] for each, begin in zip(lines, LINES, strict=True)] == LINES
    assert lines[0].endswith("in 15.0 ms")
    assert lines[1].endswith("in 5.0 ms UNKNOWN_MEMBER_ID")
    assert lines[2].endswith("no answer in 0.0 ms")


def test_only_what_is_wanted_is_traced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "traffic"
    path.write_bytes(pcap(conversation()))
    assert main(["trace", str(path), "--api", "apiversions", "--client-id", "cl*", "--bodies"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("ApiVersions v3") == 1
    assert '"client_software_name": "client-software"' in shown
    assert "Heartbeat" not in shown
    assert main(["trace", str(path), "--client-id", "client-2"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["trace", str(path), "--api", "18,Heartbeat"]) == 0  # by key too, as on a broker that runs
    assert capsys.readouterr().out.count("\n") == 3
    assert main(["trace", str(path), "--api", "Hartbeat"]) == 1
    assert "there is no API Hartbeat; did you mean Heartbeat" in capsys.readouterr().err


def test_a_pair_of_raw_streams_is_traced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent, back = tmp_path / "sent", tmp_path / "back"
    sent.write_bytes(b"".join(ASKED) + b"\x00\x00\x00\xff a frame that is not whole")
    back.write_bytes(b"".join(ANSWERED))
    assert main(["trace", "--requests", str(sent), "--responses", str(back)]) == 0
    assert "UNKNOWN_MEMBER_ID" in capsys.readouterr().out.splitlines()[1]


@pytest.mark.parametrize("content", [b"", b"something else", None])
def test_what_is_no_capture_is_told(content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "traffic"
    if content is not None:
        path.write_bytes(content)
    assert main(["trace", str(path)]) == 1
    assert capsys.readouterr().err.startswith("pykafka-broker trace: ")


def test_what_comes_after_a_gap_is_not_read() -> None:
    packets = conversation()
    found = of_packets(read_packets(pcap([packets[0], packets[2], packets[3], packets[4]])))
    assert [each.api for each in found] == ["ApiVersions"]
    whole = of_packets(read_packets(pcap(packets)))
    assert [each.software for each in whole] == ["client-software 1.0"] * 3


def test_ipv6_is_read() -> None:
    sent = b"".join(ASKED)
    packets = [(1.0, segment(CLIENT, SERVER, 1, sent, 6))]
    (first, *_) = of_packets(read_packets(pcap(packets, 101)))
    assert (first.api, first.connection.client_host) == ("ApiVersions", "::1")


def test_a_capture_may_end_anywhere() -> None:
    whole = pcapng(conversation())
    for end in range(28, len(whole), 7):
        of_packets(read_packets(whole[:end]))
    whole = pcap(conversation())
    for end in range(4, len(whole), 7):
        of_packets(read_packets(whole[:end]))


def test_any_byte_of_a_capture_may_be_wrong() -> None:
    for whole in (pcapng(conversation()), pcap(conversation())):
        for at in range(250):  # the headers of the file and of the first packets
            for byte in (0, 1, 12, 255):
                with contextlib.suppress(ValueError):  # no capture any more, or of a link that is not read
                    of_packets(read_packets(whole[:at] + bytes([byte]) + whole[at + 1 :]))


@pytest.mark.parametrize("version", [4, 6])
def test_a_frame_that_the_capture_cut_short_is_skipped(version: int) -> None:
    whole = segment(CLIENT, SERVER, 1, b"".join(ASKED), version)
    headers = 20 + (20 if version == 4 else 40)
    for size in range(headers + 1):
        assert of_packets(read_packets(pcap([(1.0, whole[:size])], 101))) == []


def test_times_are_those_of_the_first_byte_of_a_frame() -> None:
    requests = Direction()
    requests.add(ASKED[0][:3], 1.0)
    requests.add(ASKED[0][3:] + ASKED[1], 2.0)
    assert [each.wall_ms for each in exchanges(requests, Direction(), CLIENT, SERVER)] == [1000, 2000]
