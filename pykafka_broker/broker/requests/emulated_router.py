"""From a frame to a reply, as an older release of Kafka.

Rule: a router of this kind is only there where a release is emulated, so that nobody else pays for it. What the release
did not serve it hangs up on, as Kafka does. The brokers of a cluster have a listener of their own, where nothing is
emulated: they talk to each other as they always do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka_broker.broker.requests.context import ConnectionContext, RequestContext
from pykafka_broker.broker.requests.router import Endpoint, PendingReply, Pieces, Router
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from pykafka_broker.broker.requests.emulation import Emulation
    from pykafka_broker.broker.services import Services


class EmulatedEndpoint(Endpoint):
    """One API as a release served it."""

    __slots__ = ("_emulation",)

    def __init__(self, api_key: ApiKey, emulation: Emulation) -> None:
        super().__init__(api_key)
        self.min_version, self.max_version = emulation.versions[api_key]
        self._emulation = emulation

    def encode(self, context: RequestContext, reply: Any) -> Pieces:
        return super().encode(context, self._emulation.told(reply, self.response_type, context.api_version))


class EmulatedRouter(Router):
    """Dispatches the frames of all connections of a broker that passes for a release."""

    def __init__(self, services: Services, emulation: Emulation) -> None:
        super().__init__(services)
        self._emulation = emulation
        self._between_brokers = Router(services)

    def dispatch(self, connection: ConnectionContext, frame: memoryview | bytes) -> Pieces | PendingReply | None:
        """Serve one frame, as `Router.dispatch`."""
        if self._services.emulation_for(connection) is None:
            return self._between_brokers.dispatch(connection, frame)
        return super().dispatch(connection, frame)

    def _new_endpoint(self, api_key: int) -> Endpoint:
        if api_key not in self._emulation.versions:
            raise FrameError(f"API key {api_key} is unknown to Kafka {self._emulation.release.name}")
        return EmulatedEndpoint(ApiKey(api_key), self._emulation)


def new_router(services: Services) -> Router:
    """The router for the clients of a broker."""
    emulation = services.emulation
    return Router(services) if emulation is None else EmulatedRouter(services, emulation)
