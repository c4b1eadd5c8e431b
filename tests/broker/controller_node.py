"""A controller without sockets, that is asked as brokers and tools ask it: frames go in on its own listener."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.controller_routes import ControllerRouter
from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.cluster.features import SUPPORTED
from pykafka_broker.config import BrokerConfig
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from pykafka_broker.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.server.listeners import Listener as BoundListener
from tests.broker.api.real_broker import UnsyncedFileSystem
from tests.broker.driven import DrivenBroker
from tests.broker.frames import decoded, framed

NOW = 1_700_000_000_000
NODE = 101
CONNECTION = ConnectionContext(1, "CONTROLLER", ("127.0.0.1", 9093), ("127.0.0.1", 50000))


class Waiting:
    """An answer that has not come yet."""

    def __init__(self, pending: PendingReply, api_key: ApiKey, version: int) -> None:
        self.reply: Any = None
        self._api_key, self._version = api_key, version
        self._pending = pending
        pending.future.add_done_callback(self._answered)

    @property
    def is_answered(self) -> bool:
        return self.reply is not None

    def _answered(self, _: object) -> None:
        self.reply = decoded(self._pending.pieces(), self._api_key, self._version)


class ControllerNode(DrivenBroker):
    """Node 101, a controller and nothing else. Time is moved by `on_deadline`."""

    def __init__(self, directory: Path, *, roles: str = "controller", **config: str) -> None:
        ids = itertools.count(1)
        values = {
            "process.roles": roles,
            "node.id": str(NODE),
            "log.dirs": str(directory),
            "controller.listener.names": "CONTROLLER",
            "listeners": "CONTROLLER://127.0.0.1:9093",
            **{key.replace("_", "."): value for key, value in config.items()},
        }
        super().__init__(BrokerConfig(values), new_uuid=lambda: next(ids).to_bytes(16, "big"), fs=UnsyncedFileSystem())
        self.controller_router = ControllerRouter(self.services)
        self.clock.set(NOW)
        self.whole.start(self.listeners, [BoundListener("CONTROLLER", "127.0.0.1", 9093)])
        if self.whole.startup is not None:
            unfenced: list[bool] = []
            self.whole.startup.on_unfenced = lambda: unfenced.append(True)
            while not unfenced:
                self.on_deadline(max(self.clock.now, self.whole.next_deadline() or 0))
        while (due := self.next_deadline()) is not None and due <= self.clock.now:  # the first work of a controller
            self.on_deadline(self.clock.now)

    def ask(self, request: Message, version: int | None = None, connection: ConnectionContext = CONNECTION) -> Any:
        """Send a request and return its answer, or a `Waiting`."""
        api_key = ApiKey(request.API_KEY)
        if version is None:
            version = SPECS[api_key].stable_max_version
        answer = self.controller_router.dispatch(connection, framed(request, version, "c"))
        if isinstance(answer, PendingReply):
            return Waiting(answer, api_key, version)
        return decoded(answer or [], api_key, version)

    def register(self, broker_id: int, incarnation: int = 1, *, previous: int = -1, **fields: Any) -> Any:
        """Register a broker with a directory of its own and return the answer."""
        return self.ask(registration(broker_id, incarnation, previous, **{"cluster_id": self.cluster_id, **fields}))

    def beat(self, broker_id: int, epoch: int | None = None, **fields: Any) -> Any:
        """Send a heartbeat of a broker that has applied all metadata and return the answer."""
        if epoch is None:
            epoch = self.image.brokers[broker_id].epoch
        fields = {"current_metadata_offset": self.metadata.applied_offset, **fields}
        return self.ask(BrokerHeartbeatRequest(broker_id, epoch, **fields))

    def join(self, *broker_ids: int) -> None:
        """Register these brokers and have them unfenced."""
        for broker_id in broker_ids:
            assert self.register(broker_id).error_code == 0
            assert self.beat(broker_id).is_fenced is False

    @property
    def written(self) -> list[Any]:
        """Return the records of the metadata log, without control records."""
        from tests.cluster.support import log_records

        return log_records(self.metadata.log.log)


def registration(broker_id: int, incarnation: int = 1, previous: int = -1, **fields: Any) -> BrokerRegistrationRequest:
    values: dict[str, Any] = {
        "incarnation_id": bytes([incarnation]) * 16,
        "listeners": [Listener("PLAINTEXT", "127.0.0.1", 9000 + broker_id, 0)],
        "features": [Feature(name, *levels) for name, levels in SUPPORTED.items()],
        "rack": None,
        "log_dirs": [directory(broker_id)],
        "previous_broker_epoch": previous,
    }
    return BrokerRegistrationRequest(broker_id, **(values | fields))


def directory(broker_id: int) -> bytes:
    return b"d" * 15 + bytes([broker_id])
