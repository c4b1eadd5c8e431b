"""The router of a broker that passes for an older release of Kafka.

Rule: imported where a release is emulated. A request that the release did not serve closes its connection, as with
Kafka; the brokers of a cluster have a listener of their own, where nothing is emulated.

Apart from `router.py`, since a start without emulation must not import the classes; apart from `emulation.py`, since
services know the emulation, and a router knows the services.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka_broker.broker.requests.context import ConnectionContext, RequestContext
from pykafka_broker.broker.requests.router import Endpoint, PendingReply, Router
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import Pieces

if TYPE_CHECKING:
    from pykafka_broker.broker.requests.emulation import Emulation
    from pykafka_broker.broker.services import Services


class EmulatedEndpoint(Endpoint):
    """An API as a release served it."""

    __slots__ = ("_emulation",)

    def __init__(self, api_key: ApiKey, emulation: Emulation) -> None:
        super().__init__(api_key)
        self.min_version, self.max_version = emulation.versions[api_key]
        self._emulation = emulation
        self.short_way = None  # its answers are not told in the release's codes

    def encode(self, context: RequestContext, reply: Any) -> Pieces:
        return super().encode(context, self._emulation.told(reply, self.response_type, context.api_version))


class EmulatedRouter(Router):
    """The router of a broker that passes for a release."""

    def __init__(self, services: Services, emulation: Emulation) -> None:
        super().__init__(services)
        self._emulation = emulation
        self._between_brokers = Router(services)

    def dispatch(self, connection: ConnectionContext, frame: memoryview | bytes) -> Pieces | PendingReply | None:
        """Serve a frame, as `Router.dispatch` does."""
        if self._services.emulation_for(connection) is None:
            return self._between_brokers.dispatch(connection, frame)
        return super().dispatch(connection, frame)

    def _new_endpoint(self, api_key: int) -> Endpoint:
        if api_key not in self._emulation.versions:
            raise FrameError(f"API key {api_key} is unknown to Kafka {self._emulation.release.name}")
        return EmulatedEndpoint(ApiKey(api_key), self._emulation)
