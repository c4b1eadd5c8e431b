"""Secured brokers: `KafkaBroker(security=..., users=..., acls=...)`, and a real Kafka with the same settings and files.

Rule: the configuration, the first records and the settings for clients come from
`pykafka_broker.testing.security_spec` for both, so that Kafka takes everything that module writes.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from interop.real_kafka import RealKafka, free_port
from pykafka_broker.config.properties import format_properties
from pykafka_broker.testing import KafkaBroker
from pykafka_broker.testing.client_settings import client_settings
from pykafka_broker.testing.security_spec import SecuritySpec

# Of the broker's own connections, which are plain: its other listeners and its controller are for nobody else.
_OWN = "User:ANONYMOUS"


class SecuredTarget(Protocol):
    """The members of `KafkaBroker` that these tests use."""

    def client_config(self, client: str, user: str | None = None, mechanism: str | None = None) -> dict[str, Any]: ...


class SecuredKafka:
    """A real Kafka with the settings and files of a `SecuritySpec`."""

    def __init__(self, directory: Path, security: str, config: Mapping[str, str], **wanted: Any) -> None:
        self._security = SecuritySpec(security, **wanted)
        self._certificates = directory / "security"
        self.port, internal = free_port(), free_port()
        written = self._security.write(self._certificates)
        listener = self._security.listener
        settings = {
            "listeners": f"{listener}://127.0.0.1:{self.port},INTERNAL://127.0.0.1:{internal},"
            f"CONTROLLER://127.0.0.1:{free_port()}",
            "advertised.listeners": f"{listener}://127.0.0.1:{self.port},INTERNAL://127.0.0.1:{internal}",
            "listener.security.protocol.map": f"{listener}:{listener},INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            **written,
            **config,
        }
        if "authorizer.class.name" in settings:
            settings["super.users"] = ";".join(filter(None, (settings.get("super.users"), _OWN)))
        escaped = dict(line.split("=", 1) for line in format_properties(settings).splitlines())
        controller = settings["listeners"].rpartition(":")[2]
        escaped["controller.quorum.voters"] = f"1@127.0.0.1:{controller}"
        self.kafka = RealKafka(escaped, directory=directory, port=internal)
        self.kafka.format_quickly()
        shutil.rmtree(self.kafka.data_dir / "__cluster_metadata-0", ignore_errors=True)  # the first records since 4.4
        (self.kafka.data_dir / "bootstrap.checkpoint").unlink(missing_ok=True)
        self._security.write_first_records(self.kafka.data_dir)

    def client_config(self, client: str, user: str | None = None, mechanism: str | None = None) -> dict[str, Any]:
        address = f"127.0.0.1:{self.port}"
        return client_settings(client, address, self._security.login(self._certificates, user, mechanism))


@contextlib.contextmanager
def secured(
    target: str, security: str, config: Mapping[str, str] | None = None, **wanted: Any
) -> Iterator[SecuredTarget]:
    """Run a broker of the target's kind, with these options of `KafkaBroker`."""
    if target == "kafka":
        directory = Path(tempfile.mkdtemp(prefix="secured-kafka-"))
        try:
            secured = SecuredKafka(directory, security, config or {}, **wanted)
            with secured.kafka:
                yield secured
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        return
    with KafkaBroker(config, security=security, quick_groups=False, **wanted) as broker:
        yield broker
