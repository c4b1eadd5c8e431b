"""Requests that no client sends. Rule: a bad request costs the connection on which it came and nothing else; a witness
connection, opened before, is asked again after every case.
"""

import contextlib
import struct
import time
from collections.abc import Iterator

import pytest

from interop.processes import process_at, resident_mb
from interop.raw import Closed, RawClient, framed, request_bytes
from interop.targets import Target
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

UNSUPPORTED_VERSION = 35


def header(api_key: int, version: int, correlation_id: int = 7) -> bytes:
    """Return a request header of version 1 (with a client id, without tags)."""
    return struct.pack(">hhih", api_key, version, correlation_id, 3) + b"raw"


def compact_header(api_key: int, version: int) -> bytes:
    return header(api_key, version) + b"\0"


@pytest.fixture(scope="module")
def witness(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as client:
        yield client


@pytest.fixture(autouse=True)
def the_rest_goes_on(witness: RawClient, bootstrap: str) -> Iterator[None]:
    yield
    assert witness.call(ApiVersionsRequest("witness", "1"), 3).error_code == 0
    with RawClient(bootstrap) as newcomer:
        assert newcomer.call(ApiVersionsRequest("newcomer", "1"), 3).error_code == 0


@pytest.mark.parametrize(
    "prefix",
    [
        pytest.param(struct.pack(">i", 104_857_601), id="above socket.request.max.bytes"),
        pytest.param(struct.pack(">i", 2**31 - 1), id="2 GiB"),
        pytest.param(struct.pack(">i", -1), id="negative"),
        pytest.param(struct.pack(">I", 2**31), id="most negative"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", id="http"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xaa" * 100, id="tls hello"),
    ],
)
def test_a_frame_of_impossible_size(bootstrap: str, prefix: bytes) -> None:
    with RawClient(bootstrap) as client:
        client.send_bytes(prefix)
        assert client.is_closed_by_broker()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(header(999, 0), id="unknown api"),
        pytest.param(header(-1, 0), id="negative api"),
        pytest.param(header(3, 99) + bytes(10), id="unknown version"),
        pytest.param(header(3, -1) + bytes(10), id="negative version"),
        pytest.param(b"\0", id="one byte"),
        pytest.param(b"\0\x03\0\x04\0\0\0\x01\x7f\xff", id="client id longer than the frame"),
        pytest.param(header(3, 4), id="no body"),
        pytest.param(header(3, 4) + struct.pack(">i", 2**31 - 1) + bytes(20), id="impossible count"),
        pytest.param(header(3, 4) + struct.pack(">i", 1_000_000) + bytes(20), id="count beyond the frame"),
        pytest.param(header(3, 4) + struct.pack(">ih", 1, 32767) + b"short", id="string beyond the frame"),
        pytest.param(header(3, 4) + struct.pack(">ih", 1, -1) + b"\0", id="null where none may be"),
        pytest.param(compact_header(3, 12) + b"\xff" * 12, id="endless varint"),
        pytest.param(compact_header(3, 12) + b"\xff\xff\xff\xff\x07" + bytes(20), id="impossible compact count"),
        pytest.param(compact_header(3, 12) + b"\x01\0\0\x05\x01\xff\xff\xff\xff\x0f", id="tags beyond the frame"),
    ],
)
def test_a_frame_that_makes_no_sense(bootstrap: str, body: bytes) -> None:
    with RawClient(bootstrap) as client:
        client.send_bytes(framed(body))
        assert client.is_closed_by_broker()


@pytest.mark.parametrize("api_key", [4, 7, 52, 56, 58, 59, 62, 63])
def test_an_api_of_another_role(bootstrap: str, api_key: int) -> None:
    """A request that only brokers and controllers send each other ends the connection of a client."""
    with RawClient(bootstrap) as client:
        client.send_bytes(framed(header(api_key, 1) + bytes(100)))
        assert client.is_closed_by_broker()


def test_an_empty_frame(bootstrap: str) -> None:
    with RawClient(bootstrap) as client:
        client.send_bytes(struct.pack(">i", 0))
        assert client.is_closed_by_broker()


@pytest.mark.ours_only
def test_one_line_in_the_log_for_each(broker: Target) -> None:
    bad = [struct.pack(">i", -1), framed(header(3, 4)), framed(header(999, 0)), b"GET / HTTP/1.1\r\n\r\n"]
    before = broker.log_path.read_text().count("\n")
    for data in bad:
        with RawClient(broker.bootstrap_servers) as client:
            client.send_bytes(data)
            assert client.is_closed_by_broker()
    lines = broker.log_path.read_text().splitlines()[before:]
    assert len([line for line in lines if "closing" in line]) == len(bad)
    assert not [line for line in lines if "Traceback" in line]


@pytest.mark.parametrize("version", [SPECS[ApiKey.API_VERSIONS].max_version + 1, 99, 32767])
def test_an_unknown_version_of_api_versions(bootstrap: str, version: int) -> None:
    """An unknown version of ApiVersions is answered in version 0 with the broker's range (KIP-511)."""
    with RawClient(bootstrap) as client:
        client.send_bytes(framed(compact_header(18, version) + b"\x02a\x02b\0"))
        body = client.receive_frame()
        correlation_id, error, count = struct.unpack_from(">ihi", body)
        offered = {struct.unpack_from(">hhh", body, 10 + 6 * i)[0]: i for i in range(count)}
        assert (correlation_id, error) == (7, UNSUPPORTED_VERSION)
        assert len(body) == 10 + 6 * count
        assert 18 in offered
        assert client.call(ApiVersionsRequest("raw", "1"), 3).error_code == 0


def test_a_connection_cut_in_the_middle_of_a_frame(bootstrap: str) -> None:
    for cut in (1, 3, 4, 5, 20):
        with RawClient(bootstrap) as client:
            client.send_bytes(framed(request_bytes(MetadataRequest(None), 12))[:cut])


def test_a_slow_drip_is_served(bootstrap: str) -> None:
    with RawClient(bootstrap) as client:
        for byte in framed(request_bytes(ApiVersionsRequest("drip", "1"), 3, 42)):
            client.send_bytes(bytes([byte]))
            time.sleep(0.002)
        assert client.receive_frame()[:4] == struct.pack(">i", 42)


def test_several_requests_in_one_packet_are_answered_in_order(bootstrap: str) -> None:
    with RawClient(bootstrap) as client:
        client.send_bytes(b"".join(framed(request_bytes(ApiVersionsRequest("x", "1"), 3, i)) for i in range(100)))
        assert [int.from_bytes(client.receive_frame()[:4], "big") for _ in range(100)] == list(range(100))


def test_a_good_request_behind_a_bad_one_is_not_served(bootstrap: str) -> None:
    good = framed(request_bytes(ApiVersionsRequest("x", "1"), 3, 1))
    with RawClient(bootstrap) as client:
        client.send_bytes(good + framed(header(999, 0)) + good)
        assert client.receive_frame()[:4] == struct.pack(">i", 1)
        assert client.is_closed_by_broker()


@pytest.mark.ours_only  # a real Kafka allocates as much as the request promises, and dies of it
def test_promised_megabytes_take_no_memory(bootstrap: str) -> None:
    broker = process_at(bootstrap)
    before = resident_mb(broker)
    clients = [RawClient(bootstrap) for _ in range(50)]
    for client in clients:
        client.send_bytes(struct.pack(">i", 100_000_000) + header(0, 8) + bytes(2000))
    time.sleep(0.5)
    grown = resident_mb(broker) - before
    for client in clients:
        client.close()
    assert grown < 100, f"50 connections that promise 100 MB each took {grown:.0f} MB"


def test_a_client_that_never_reads(bootstrap: str, topic: str) -> None:
    """A client that never reads can't fill the broker's memory: the broker stops reading the client's requests."""
    broker = process_at(bootstrap)
    with RawClient(bootstrap) as client:
        data = framed(request_bytes(MetadataRequest(None, False), 12)) * 200
        client.socket.settimeout(0.5)
        before = resident_mb(broker)
        try:
            for _ in range(500):
                client.send_bytes(data)
        except TimeoutError:
            pass
        assert resident_mb(broker) - before < 150


def test_a_name_that_is_no_utf_8(bootstrap: str) -> None:
    with RawClient(bootstrap) as client:
        client.send_bytes(framed(header(3, 4) + struct.pack(">ih", 1, 2) + b"\xff\xfe\0"))
        with contextlib.suppress(Closed):
            assert client.receive_frame()[:4] == struct.pack(">i", 7)  # a real Kafka answers about the topic "??"


def test_records_that_are_null_or_missing(bootstrap: str, topic: str) -> None:
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, None)])]
    with RawClient(bootstrap, timeout_s=2) as client:
        try:
            answer = client.call(ProduceRequest(None, -1, 1000, data), 9)
            assert answer.responses[0].partition_responses[0].error_code != 0
        except (Closed, TimeoutError):
            pass  # a real Kafka says nothing at all
