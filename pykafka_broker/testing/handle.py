"""What all blocks of methods on a broker stand on."""

from __future__ import annotations

from pykafka_broker.testing.control_client import ControlClient


class Handle:
    """A broker that is reached by its control API."""

    @property
    def control(self) -> ControlClient:
        """The control API itself."""
        raise NotImplementedError
