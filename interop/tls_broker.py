"""A broker with TLS of every kind, as both targets start it.

Rule: one listener for each way of keeping keys and of asking for certificates; keys are made when they are needed, and
stores of Java's types by keytool.
"""

import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from interop.java import java_command
from interop.raw import RawClient
from interop.real_kafka import RealKafka, free_port
from interop.targets import Target
from pykafka_broker.testing import KafkaBroker
from tests.security.tls.certificates import Issued, authority
from tests.security.tls.java_stores import p12

PASSWORD = "store-secret"
KEYTOOL_S = 60
PLAIN = "PLAINTEXT"
TLS = ("PEM", "INLINE", "ENCRYPTED", "OLDER", "WANTED", "MUTUAL", "PKCS", "JKS")
OWN_NAME = "RULE:^CN=(.*?),OU=Test.*$/$1/L,DEFAULT"


class TlsBroker:
    """A running broker with TLS listeners; `ca` is the file with the certificate of the authority."""

    def __init__(self, target: Target, ports: Mapping[str, int], folder: Path) -> None:
        self.target = target
        self.ports = ports
        self.folder = folder
        self.ca = folder / "ca.pem"

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def file(self, name: str, issued: Issued) -> str:
        return issued.write(self.folder / f"{name}.pem")

    def context(self, shows: str | None = None, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
        """Return the TLS context of a Python client that shows the certificate in that file, if any."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if version is not None:
            context.minimum_version = context.maximum_version = version
        if shows is not None:
            context.load_cert_chain(shows)
        return context

    def java(self, listener: str, shows: str | None = None) -> dict[str, str]:
        """Return the properties of a Java client that shows the certificate in that file, if any."""
        own = {} if shows is None else {"ssl.keystore.type": "PEM", "ssl.keystore.location": shows}
        return own | {
            "bootstrap.servers": self.address(listener),
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
        }

    def confluent(self, listener: str, shows: str | None = None) -> dict[str, str]:
        own = {} if shows is None else {"ssl.certificate.location": shows, "ssl.key.location": shows}
        return own | {
            "bootstrap.servers": self.address(listener),
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.ca),
            "log_level": "0",
        }

    def kafka_python(self, listener: str, shows: str | None = None) -> dict[str, str]:
        own = {} if shows is None else {"ssl_certfile": shows, "ssl_keyfile": shows}
        return own | {
            "bootstrap_servers": self.address(listener),
            "security_protocol": "SSL",
            "ssl_cafile": str(self.ca),
        }


class TlsClient(RawClient):
    """The client of a few lines, over TLS."""

    def __init__(self, address: str, context: ssl.SSLContext) -> None:
        super().__init__(address)
        self.socket: ssl.SSLSocket = context.wrap_socket(self.socket, server_hostname="localhost")


def keytool(*arguments: str) -> None:
    program = Path(java_command()[0]).resolve().with_name("keytool")
    if not program.exists():
        pytest.skip("a Java without keytool")
    subprocess.run([str(program), *arguments, "-noprompt"], check=True, capture_output=True, timeout=KEYTOOL_S)


def java_store(folder: Path, kind: str, issued: Issued) -> dict[str, str]:
    """Make a key store and a trust store with keytool; return the settings for them."""
    source, keys, trusted = folder / "source.p12", folder / f"keys.{kind}", folder / f"trusted.{kind}"
    source.write_bytes(p12(PASSWORD, issued))
    passwords = ("-srcstorepass", PASSWORD, "-deststorepass", PASSWORD)
    stores = (
        "-srckeystore",
        str(source),
        "-srcstoretype",
        "PKCS12",
        "-destkeystore",
        str(keys),
        "-deststoretype",
        kind,
    )
    keytool("-importkeystore", *stores, *passwords)
    certificate = ("-alias", "ca", "-file", str(folder / "ca.pem"), "-storepass", PASSWORD)
    keytool("-importcert", *certificate, "-keystore", str(trusted), "-storetype", kind)
    found = {"type": kind, "password": PASSWORD}
    return {
        **{f"ssl.keystore.{name}": value for name, value in {**found, "location": str(keys)}.items()},
        **{f"ssl.truststore.{name}": value for name, value in {**found, "location": str(trusted)}.items()},
        "ssl.client.auth": "required",
    }


def in_a_file(pem: str) -> str:
    """Return PEM text as one value of a properties file."""
    return pem.strip().replace("\n", "\\n")


def settings(ports: Mapping[str, int], folder: Path, target: str) -> dict[str, str]:
    """Return the settings of the broker."""
    issued = authority().issue("broker")
    inline = in_a_file if target == "kafka" else str
    pem = {"ssl.keystore.type": "PEM", "ssl.keystore.location": issued.write(folder / "broker.pem")}
    trusting = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "ca.pem")}
    of: dict[str, dict[str, str]] = {
        "PEM": pem,
        "INLINE": {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": inline(issued.key_pem()),
            "ssl.keystore.certificate.chain": inline(issued.chain_pem),
        },
        "ENCRYPTED": {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(folder / "encrypted.pem"),
            "ssl.key.password": PASSWORD,
        },
        "OLDER": pem
        | {
            "ssl.enabled.protocols": "TLSv1.2",
            "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        },
        "WANTED": {**pem, **trusting, "ssl.client.auth": "requested"},
        "MUTUAL": {**pem, **trusting, "ssl.client.auth": "required"},
        "PKCS": java_store(folder, "PKCS12", issued),
        "JKS": java_store(folder, "JKS", issued),
    }
    # Java 17 reads only the old encryption of keys in PEM
    (folder / "encrypted.pem").write_text(old_encryption(folder, issued) + issued.chain_pem)
    names = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    values = {
        "listeners": names,
        "advertised.listeners": names.replace("127.0.0.1", "localhost"),
        "listener.security.protocol.map": ",".join([f"{PLAIN}:{PLAIN}", *(f"{name}:SSL" for name in TLS)]),
        "ssl.principal.mapping.rules": OWN_NAME,
    }
    for name, own in of.items():
        values |= {f"listener.name.{name.lower()}.{key}": value for key, value in own.items()}
    return values


def old_encryption(folder: Path, issued: Issued) -> str:
    plain = folder / "plain.pem"
    plain.write_text(issued.key_pem())
    command = ["openssl", "pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-passout", f"pass:{PASSWORD}", "-in", str(plain)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=KEYTOOL_S).stdout


@contextmanager
def tls_broker(target: str, folder: Path) -> Iterator[TlsBroker]:
    """Run a broker of the target's kind until the block ends."""
    (folder / "ca.pem").write_text(authority().pem)
    ports = {name: free_port() for name in (PLAIN, *TLS)}
    values = settings(ports, folder, target)
    if target == "kafka":
        controller = free_port()
        values["listeners"] += f",CONTROLLER://127.0.0.1:{controller}"
        values["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
        values["controller.quorum.voters"] = f"1@127.0.0.1:{controller}"
        with RealKafka(values, port=ports[PLAIN]) as kafka:
            yield TlsBroker(kafka, ports, folder)
        return
    with KafkaBroker(values, quick_groups=False) as broker:
        yield TlsBroker(broker, ports, folder)
