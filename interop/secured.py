"""A broker of either target with named listeners of any protocol, and logins by each mechanism.

Rule: the messages of a mechanism are built here byte by byte, so that a test can send something else.
"""

import base64
import hashlib
import hmac
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaError, Producer

from interop.java import QUICK_JVM
from interop.raw import RawClient
from interop.real_kafka import RealKafka, free_port
from interop.targets import Target
from pykafka_broker.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from pykafka_broker.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from pykafka_broker.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from pykafka_broker.testing import KafkaBroker

_DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class Secured:
    """A running broker with named listeners."""

    def __init__(self, target: Target, ports: Mapping[str, int]) -> None:
        self.target = target
        self.ports = ports

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def connect(self, listener: str) -> RawClient:
        return RawClient(self.address(listener))


@contextmanager
def secured(
    target: str,
    protocols: Mapping[str, str],
    settings: Mapping[str, str],
    *,
    directory: Path | None = None,
    jvm: Sequence[str] = (),
) -> Iterator[Secured]:
    """Run a broker with these listeners until the block ends.

    `protocols`: the protocol of each listener, by name; a listener called PLAINTEXT is always there. `directory`: the
    folder of the data, if they are to outlive the broker. `jvm`: options of Kafka's JVM.
    """
    protocols = {"PLAINTEXT": "PLAINTEXT", **protocols}
    ports = {name: free_port() for name in protocols}
    addresses = [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
    values = {
        "listeners": ",".join(addresses),
        "advertised.listeners": ",".join(addresses),
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
        **settings,
    }
    if target == "kafka":
        controller = free_port()
        values["listeners"] += f",CONTROLLER://127.0.0.1:{controller}"
        values["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
        values["controller.quorum.voters"] = f"1@127.0.0.1:{controller}"
        with RealKafka(values, directory=directory, port=ports["PLAINTEXT"], jvm=(*QUICK_JVM, *jvm)) as kafka:
            yield Secured(kafka, ports)
        return
    data = None if directory is None else directory / "logs"
    with KafkaBroker(values, data_dir=data, quick_groups=False) as broker:
        yield Secured(broker, ports)


class NotAuthenticated(Exception):
    """A login that the broker has refused, with the broker's message."""


def deliver(producer: Producer, errors: Sequence[KafkaError]) -> None:
    """Wait until the broker has everything; raise PermissionError where logins are refused for eight seconds.

    A client may authenticate anew twice within a second, which Kafka refuses, and then connects again.
    """
    begun, earlier = time.monotonic(), len(errors)
    while producer.flush(1):
        took_s = time.monotonic() - begun
        refused = [error.str() for error in errors[earlier:] if error.code() == KafkaError._AUTHENTICATION]
        if refused and took_s > 8:
            raise PermissionError(refused[0])
        assert took_s < 60, "no record was delivered, and no login was refused"


def _shake_hands(client: RawClient, mechanism: str) -> None:
    answer = client.call(SaslHandshakeRequest(mechanism), 1)
    assert answer.error_code == 0, answer


def _show(client: RawClient, token: bytes) -> SaslAuthenticateResponse:
    answer: SaslAuthenticateResponse = client.call(SaslAuthenticateRequest(token), 2)
    if answer.error_code:
        raise NotAuthenticated(answer.error_message)
    return answer


def plain(client: RawClient, name: str, password: str) -> RawClient:
    """Log in by PLAIN."""
    _shake_hands(client, "PLAIN")
    _show(client, f"\0{name}\0{password}".encode())
    return client


def scram(client: RawClient, name: str, password: str, mechanism: str = "SCRAM-SHA-256", extensions: str = "") -> int:
    """Log in by SCRAM; return the session's lifetime in milliseconds."""
    digest = _DIGESTS[mechanism]
    _shake_hands(client, mechanism)
    bare = f"n={name},r=nonce{extensions}"
    first = _show(client, f"n,,{bare}".encode()).auth_bytes.decode()
    nonce, salt, iterations = (part[2:] for part in first.split(","))
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), base64.b64decode(salt), int(iterations))
    key = hmac.digest(salted, b"Client Key", digest)
    final = f"c=biws,r={nonce}"
    signature = hmac.digest(hashlib.new(digest, key).digest(), f"{bare},{first},{final}".encode(), digest)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    return _show(client, f"{final},p={proof}".encode()).session_lifetime_ms


def bearer(client: RawClient, token: str) -> int:
    """Log in by OAUTHBEARER; return the session's lifetime in milliseconds."""
    _shake_hands(client, "OAUTHBEARER")
    answer = _show(client, f"n,,\1auth=Bearer {token}\1\1".encode())
    if answer.auth_bytes:
        _show(client, b"\1")
    return answer.session_lifetime_ms
