"""What everything stands on that asks a broker by its control API."""

from __future__ import annotations

from pykafka_broker.testing.control_client import ControlClient


class BrokerError(RuntimeError):
    """The broker did not start or did not end, or is not running; the text carries the end of its log."""


class Handle:
    """A broker, or a part of one."""

    @property
    def control(self) -> ControlClient:
        """The control API itself."""
        raise NotImplementedError
