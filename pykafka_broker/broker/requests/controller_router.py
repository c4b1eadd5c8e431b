"""From a frame to a reply, on the listeners of a controller.

Rule: what a controller does not serve it hangs up on, as Kafka does. A router of this kind is only there where a node
is a controller for others.
"""

from __future__ import annotations

from pykafka_broker.broker.requests.controller_routes import CONTROLLER_ROUTES, CONTROLLERS
from pykafka_broker.broker.requests.router import Endpoint, Router
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import ApiKey


class ControllerRouter(Router):
    """Dispatches the frames of all connections of brokers, controllers and tools to a controller."""

    def _new_endpoint(self, api_key: int) -> Endpoint:
        if api_key not in CONTROLLER_ROUTES:
            raise FrameError(f"API key {api_key} is not served by a controller")
        return Endpoint(ApiKey(api_key), CONTROLLERS)
