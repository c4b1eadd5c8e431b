"""From a frame to a reply, on the listeners of a controller.

Rule: what a controller does not serve it hangs up on, as Kafka does. A router of this kind is only there where a node
is a controller for others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka_broker.broker.context import NO_CONNECTION, ConnectionContext, RequestContext
from pykafka_broker.broker.controller_routes import CONTROLLER_ROUTES, CONTROLLERS
from pykafka_broker.broker.router import Endpoint, Router
from pykafka_broker.cluster.authorizer import INSIDE
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import Message

_INSIDE = ConnectionContext(NO_CONNECTION, "", ("", 0), ("", 0), INSIDE)


class ControllerRouter(Router):
    """Dispatches the frames of all connections of brokers, controllers and tools to a controller."""

    def _new_endpoint(self, api_key: int) -> Endpoint:
        if api_key not in CONTROLLER_ROUTES:
            raise FrameError(f"API key {api_key} is not served by a controller")
        return Endpoint(ApiKey(api_key), CONTROLLERS)

    def answer(self, request: Message, on_reply: Callable[[Any], None]) -> None:
        """What this node asks of itself, as a broker of its controller: `on_reply` is given the response, maybe at
        once."""
        api_key = request.API_KEY
        endpoint = self._endpoints.get(api_key) or self._load(api_key)
        context = RequestContext(api_key, endpoint.max_version, 0, None, _INSIDE, self._services.clock.now)
        pending = self.answered(endpoint, context, request)
        pending.future.add_done_callback(lambda _: on_reply(pending.response()))
