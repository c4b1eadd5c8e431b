"""A broker whose clients log in by SASL, of either target.

Rule: one listener for each protocol and one with short sessions, all with PLAIN and both SCRAMs; users are alice and
bob by PLAIN, and the users that a test adds.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from interop.real_kafka import RealKafka, free_port
from interop.targets import Target
from pykafka_broker.testing import KafkaBroker
from tests.security.tls.certificates import authority, server_certificate

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORDS = {"alice": "alice-secret", "bob": "bob-secret"}
SESSION_MS = 3000
PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "REAUTH": "SASL_PLAINTEXT",
    "REAUTH_SSL": "SASL_SSL",
}
_MODULES = "org.apache.kafka.common.security"
_ACCOUNTS = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())


def login_line(mechanism: str, options: str) -> str:
    kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    return f"{_MODULES}.{kind}LoginModule required {options};"


class SaslBroker:
    """A running broker with logins; `ca` is the file with the certificate of the authority."""

    def __init__(self, target: Target, ports: Mapping[str, int], ca: Path) -> None:
        self.target = target
        self.ports = ports
        self.ca = ca

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def java(self, listener: str, mechanism: str, name: str, password: str) -> dict[str, str]:
        """Return the properties of a Java client."""
        return {
            "bootstrap.servers": self.address(listener),
            "security.protocol": PROTOCOLS[listener],
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": login_line(mechanism, f'username="{name}" password="{password}"'),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
        }

    def confluent(self, listener: str, mechanism: str, name: str, password: str) -> dict[str, str]:
        return {
            "bootstrap.servers": self.address(listener),
            "security.protocol": PROTOCOLS[listener],
            "sasl.mechanism": mechanism,
            "sasl.username": name,
            "sasl.password": password,
            "ssl.ca.location": str(self.ca),
            "log_level": "0",
            "reconnect.backoff.ms": "500",
        }

    def kafka_python(self, listener: str, mechanism: str, name: str, password: str) -> dict[str, str]:
        return {
            "bootstrap_servers": self.address(listener),
            "security_protocol": PROTOCOLS[listener],
            "sasl_mechanism": mechanism,
            "sasl_plain_username": name,
            "sasl_plain_password": password,
            "ssl_cafile": str(self.ca),
        }


def settings(ports: Mapping[str, int], folder: Path) -> dict[str, str]:
    """Return the settings of the broker."""
    values = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in PROTOCOLS.items()),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    }
    for name, protocol in PROTOCOLS.items():
        prefix = f"listener.name.{name.lower()}."
        if protocol.startswith("SASL"):
            for mechanism in MECHANISMS:
                options = _ACCOUNTS if mechanism == "PLAIN" else ""
                values[f"{prefix}{mechanism.lower()}.sasl.jaas.config"] = login_line(mechanism, options)
        if name.startswith("REAUTH"):
            values[prefix + "connections.max.reauth.ms"] = str(SESSION_MS)
        if protocol == "SASL_SSL":
            values[prefix + "ssl.keystore.type"] = "PEM"
            values[prefix + "ssl.keystore.location"] = str(folder / "keystore.pem")
    return values


@contextmanager
def sasl_broker(target: str, folder: Path, *, keeps: bool = False, **more: str) -> Iterator[SaslBroker]:
    """Run a broker. more: further settings, with `__` for dots; keeps: its data are in `folder`, for another broker."""
    ca = folder / "ca.pem"
    ca.write_text(authority().pem)
    server_certificate().write(folder / "keystore.pem")
    ports = {name: free_port() for name in PROTOCOLS}
    values = settings(ports, folder) | {name.replace("__", "."): text for name, text in more.items()}
    if target == "kafka":
        controller = free_port()
        values["listeners"] += f",CONTROLLER://127.0.0.1:{controller}"
        values["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
        values["controller.quorum.voters"] = f"1@127.0.0.1:{controller}"
        kafka = RealKafka(values, port=ports["PLAINTEXT"], directory=folder if keeps else None)
        with kafka:
            yield SaslBroker(kafka, ports, ca)
        return
    with KafkaBroker(values, quick_groups=False, data_dir=folder / "logs" if keeps else None) as broker:
        yield SaslBroker(broker, ports, ca)
