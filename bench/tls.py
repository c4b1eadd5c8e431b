"""The cost of TLS: records in and out, and handshakes.

Rule: TLS 1.3 with an RSA key of 2048 bits, as most keys are, and a new handshake each time; the same clients for every
peer. The certificate is made for the run.
"""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.peers import KAFKAS_JVM, PEERS, Peer
from bench.running import Running
from interop.real_kafka import RealKafka, free_port
from tests.security.tls.certificates import authority, rsa_key

_DONE = re.compile(r"(\d+) connections in (\d+) real seconds")


class TlsRunning(Running):
    """A peer with a listener for TLS beside its plain one; `bootstrap` is the former."""

    def __init__(self, name: str) -> None:
        self._tls_port = free_port()
        super().__init__(Peer(name, self._command_of, PEERS[name].data))
        self.bootstrap = f"127.0.0.1:{self._tls_port}"

    @property
    def client_settings(self) -> list[str]:
        """Return librdkafka's settings."""
        return ["security.protocol=ssl", f"ssl.ca.location={self.directory / 'ca.pem'}"]

    def _command_of(self, directory: Path, port: int, _: Mapping[str, str]) -> list[str]:
        (directory / "ca.pem").write_text(authority().pem)
        key = authority().issue("broker", key=rsa_key()).write(directory / "broker.pem")
        controller = free_port()
        addresses = f"PLAINTEXT://127.0.0.1:{port},TLS://127.0.0.1:{self._tls_port}"
        settings = {
            "advertised.listeners": addresses,
            "listeners": f"{addresses},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,CONTROLLER:PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": key,
        }
        if self.name == "kafka":
            quorum = {"controller.quorum.voters": f"1@127.0.0.1:{controller}"}
            broker = RealKafka(settings | quorum, directory=directory, port=port, heap="1g", jvm=KAFKAS_JVM)
            broker.format()
            return broker.command
        overrides = (word for key, value in settings.items() for word in ("--override", f"{key}={value}"))
        return [sys.executable, "-m", "pykafka_broker", "--data-dir", str(directory / "data"), *overrides]


def handshakes(run: TlsRunning, seconds: int) -> dict[str, float]:
    """Measure one client that makes one handshake after the other, each with keys of its own."""
    command = ["openssl", "s_time", "-connect", run.bootstrap, "-new", "-time", str(seconds)]
    subprocess.run(
        [*command[:-1], str(max(1, seconds // 2))], capture_output=True, check=True
    )  # Java's compiler warms up
    before = run.cpu_s()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = _DONE.search(done.stdout)
    if found is None:
        raise RuntimeError(f"openssl s_time on {run.name}: {done.stdout[-500:]}")
    count = int(found[1])
    return {
        "handshakes_per_s": count / seconds,
        "handshake_cpu_ms": (run.cpu_s() - before) / count * 1e3,
    }
