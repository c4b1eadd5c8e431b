"""A broker in a container, for tests with all services in containers (testcontainers-python).

    with PykafkaContainer() as kafka:
        producer = Producer({"bootstrap.servers": kafka.get_bootstrap_server()})

Rule: clients on this machine are told to come back to the port that they see; those in the container's network reach
the broker under its alias on port 9094. A `KafkaBroker` needs no container and starts sooner.
"""

from __future__ import annotations

import socket
from typing import Any, Self

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

IMAGE = "pykafka-broker:latest"
PORT = 9092
NETWORK_PORT = 9094
_READY = "listening on "


class PykafkaContainer(DockerContainer):
    """The image of `packaging/Containerfile`; `config` are settings of the broker, by Kafka's names."""

    def __init__(
        self, image: str = IMAGE, config: dict[str, Any] | None = None, port: int | None = None, **options: Any
    ) -> None:
        super().__init__(image, **options)
        self.host_port = _free_port() if port is None else port
        self.with_bind_ports(PORT, self.host_port)
        self.with_exposed_ports(NETWORK_PORT)
        for name, value in (config or {}).items():
            self.with_env(variable(name), str(value))
        self.waiting_for(LogMessageWaitStrategy(_READY))

    def start(self) -> Self:
        """Start the container and wait until clients may connect."""
        self.with_env("KAFKA_LISTENERS", f"PLAINTEXT://:{PORT},NETWORK://:{NETWORK_PORT}")
        self.with_env("KAFKA_ADVERTISED_LISTENERS", f"PLAINTEXT://{self.get_bootstrap_server()}")
        self.with_env("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "PLAINTEXT:PLAINTEXT,NETWORK:PLAINTEXT")
        super().start()
        return self

    def get_bootstrap_server(self) -> str:
        """Return the address for clients on the machine of the test."""
        return f"{self.get_container_host_ip()}:{self.host_port}"

    get_bootstrap_servers = get_bootstrap_server  # the name in testcontainers' own Kafka


def variable(name: str) -> str:
    """Return the variable of a setting: `log.retention.ms` is KAFKA_LOG_RETENTION_MS."""
    return "KAFKA_" + name.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def _free_port() -> int:
    """Return a free port: the broker needs the port before the container is made."""
    with socket.socket() as sock:
        sock.bind(("", 0))
        return int(sock.getsockname()[1])
