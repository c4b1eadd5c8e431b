"""What everything stands on that asks a broker by its control API."""

from __future__ import annotations

from pykafka_broker.testing.control_client import ControlClient


class Handle:
    """A broker, or a part of one."""

    @property
    def control(self) -> ControlClient:
        """The control API itself."""
        raise NotImplementedError
