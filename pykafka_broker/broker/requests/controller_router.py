"""The way from a frame to a reply, on the listeners of a controller.

Rule: a request that a controller does not serve closes its connection, as with Kafka. Only a node that is a controller
for other nodes has a router of this kind.
"""

from __future__ import annotations

from pykafka_broker.broker.requests.controller_routes import CONTROLLER_ROUTES, CONTROLLERS
from pykafka_broker.broker.requests.router import Endpoint, Router
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import ApiKey


class ControllerRouter(Router):
    """The router of all frames that a controller gets from brokers, other controllers and tools."""

    def _new_endpoint(self, api_key: int) -> Endpoint:
        if api_key not in CONTROLLER_ROUTES:
            raise FrameError(f"API key {api_key} is not served by a controller")
        return Endpoint(ApiKey(api_key), CONTROLLERS)
