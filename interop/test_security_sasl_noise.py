"""Thousands of logins with random bytes instead of requests and tokens. Other clients are served meanwhile, and the log
has neither a stack trace nor a password.
"""

import random
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interop.conftest import NUMBER
from interop.processes import cpu_seconds, process_at, resident_mb
from interop.raw import Closed, RawClient, framed, request_bytes
from interop.sasl_broker import MECHANISMS, PASSWORDS, SaslBroker, sasl_broker
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from pykafka_broker.protocol.messages.sasl_handshake_request import SaslHandshakeRequest

pytestmark = pytest.mark.ours_only

QUICK, WHOLE = 6_000, 100_000
AT_ONCE = 50
GROWTH_MB = 60
PLAIN_TOKEN = b"\0alice\0alice-secret"
Noise = Callable[[random.Random], bytes]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    folder = tmp_path_factory.mktemp("noise")
    with sasl_broker("pykafka", folder, connection__failed__authentication__delay__ms="1") as broker:
        yield broker


def some_bytes(draw: random.Random) -> bytes:
    return draw.randbytes(draw.choice((1, 3, 4, 9, 40, 300)))


def some_frame(draw: random.Random) -> bytes:
    return framed(draw.randbytes(draw.choice((0, 1, 8, 14, 60, 3000))))


def some_request(draw: random.Random) -> bytes:
    """Return a frame with a valid header and random bytes behind it."""
    header = struct.pack(">hhihx", draw.choice((17, 18, 36, 3, 0, 60)), draw.randrange(6), 7, 0)
    return framed(header + draw.randbytes(draw.randrange(60)))


def damaged(draw: random.Random, body: bytes) -> bytes:
    body_ = bytearray(body)
    for _ in range(draw.randrange(1, 4)):
        body_[draw.randrange(len(body_))] = draw.randrange(256)
    return bytes(body_[: draw.randrange(1, len(body_) + 1)] if draw.random() < 0.3 else body_)


def handshake(mechanism: str, version: int) -> bytes:
    return framed(request_bytes(SaslHandshakeRequest(mechanism), version))


def some_token(draw: random.Random) -> bytes:
    """Return a frame with a damaged token, or with random bytes."""
    nearly = draw.choice((PLAIN_TOKEN, b"n,,n=alice,r=0123456789abcdef", b"n,a=alice,n=alice,r=x,tokenauth=true"))
    return damaged(draw, nearly) if draw.random() < 0.7 else draw.randbytes(draw.randrange(200))


def wrapped_token(draw: random.Random) -> bytes:
    request = SaslAuthenticateRequest(some_token(draw))
    tokens = b"".join(framed(request_bytes(request, draw.randrange(3))) for _ in range(2))
    return handshake(draw.choice(MECHANISMS), 1) + tokens


def bare_token(draw: random.Random) -> bytes:
    return handshake(draw.choice(MECHANISMS), 0) + framed(some_token(draw)) + framed(some_token(draw))


def damaged_login(draw: random.Random) -> bytes:
    versions = framed(request_bytes(ApiVersionsRequest("noise", "1"), 3))
    token = framed(request_bytes(SaslAuthenticateRequest(PLAIN_TOKEN), 2))
    return damaged(draw, versions + handshake("PLAIN", 1) + token)


NOISES = (some_bytes, some_frame, some_request, wrapped_token, bare_token, damaged_login)


def send_all(address: tuple[str, int], noise: Noise, count: int, seed: int, between: Callable[[], None]) -> None:
    """Send noise on `count` connections, some at once; each new connection closes the oldest."""
    draw = random.Random(seed)
    open_: list[socket.socket] = []
    for number in range(count):
        client = socket.create_connection(address, timeout=10)
        client.sendall(noise(draw))
        open_.append(client)
        if len(open_) == AT_ONCE:
            open_.pop(0).close()
        if number % 500 == 0:
            between()
    for client in open_:
        client.close()


def log_in(broker: SaslBroker) -> float:
    """Log in and get metadata; return the CPU seconds that the broker spends meanwhile, for anybody."""
    pid = process_at(broker.address("PLAINTEXT")).pid
    began = cpu_seconds(pid)
    with RawClient(broker.address("SASL_PLAINTEXT")) as client:
        assert client.call(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
        assert client.call(SaslAuthenticateRequest(PLAIN_TOKEN), 2).error_code == 0
        assert client.call(MetadataRequest([]), 9).brokers
    return cpu_seconds(pid) - began


def withstand(broker: SaslBroker, noise: Noise, count: int) -> None:
    served: list[float] = []
    process = process_at(broker.address("PLAINTEXT"))
    before = resident_mb(process)
    address = ("127.0.0.1", broker.ports["SASL_PLAINTEXT"])
    send_all(address, noise, count, next(NUMBER), lambda: served.append(log_in(broker)))
    assert max(served) < 5
    assert resident_mb(process) < before + GROWTH_MB
    check_log(broker.target.log_path)


def check_log(path: Path) -> None:
    with path.open(errors="replace") as log:
        for line in log:
            assert "Traceback" not in line
            assert "a defect" not in line
            assert not any(password in line for password in PASSWORDS.values()), "a password is in the log"


@pytest.mark.parametrize("noise", NOISES)
def test_noise_is_withstood(broker: SaslBroker, noise: Noise) -> None:
    withstand(broker, noise, QUICK // len(NOISES))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("noise", NOISES)
def test_much_noise_is_withstood(broker: SaslBroker, noise: Noise) -> None:
    withstand(broker, noise, WHOLE // len(NOISES))


@pytest.mark.parametrize("begun", [b"", handshake("PLAIN", 1), handshake("SCRAM-SHA-512", 0)], ids=["first", "1", "0"])
def test_a_token_of_100_mb_is_refused_at_its_length(broker: SaslBroker, begun: bytes) -> None:
    before = resident_mb(process_at(broker.address("PLAINTEXT")))
    with RawClient(broker.address("SASL_PLAINTEXT")) as client:
        client.send_bytes(begun)
        if begun:
            client.receive_frame()
        client.send_bytes((100 << 20).to_bytes(4, "big"))
        assert client.is_closed_by_broker()
    assert resident_mb(process_at(broker.address("PLAINTEXT"))) < before + 50  # what earlier tests left may take some


def test_thousands_that_say_nothing_keep_nobody_out(broker: SaslBroker) -> None:
    address = ("127.0.0.1", broker.ports["SASL_PLAINTEXT"])
    silent = [socket.create_connection(address, timeout=10) for _ in range(900)]
    try:
        for client in silent[::2]:
            client.sendall(handshake("PLAIN", 1)[:-3])
        assert log_in(broker) < 5
    finally:
        for client in silent:
            client.close()


def test_tokens_that_lie_about_their_length_end_the_connection(broker: SaslBroker) -> None:
    request = bytearray(request_bytes(SaslAuthenticateRequest(b"x" * 8), 1))
    request[-12:-8] = (1 << 30).to_bytes(4, "big")
    with RawClient(broker.address("SASL_PLAINTEXT")) as client:
        client.send_bytes(handshake("PLAIN", 1))
        client.receive_frame()
        client.send_bytes(framed(bytes(request)))
        with pytest.raises(Closed):
            client.receive_frame()
