"""What a link can be told. Rule: names, units and defaults are those of Kafka's client configs."""

from __future__ import annotations

_MOST_DOUBLINGS = 20


class LinkSettings:
    """Kafka's client configs of these names, with their defaults there; `max_waiting` requests wait for their turn."""

    def __init__(
        self,
        *,
        client_id: str | None = "pykafka-broker",
        reconnect_backoff_ms: int = 50,
        reconnect_backoff_max_ms: int = 1_000,
        socket_connection_setup_timeout_ms: int = 10_000,
        max_in_flight_requests_per_connection: int = 5,
        max_waiting: int = 1_000,
        max_response_bytes: int = 100 << 20,
        patient: bool = True,
    ) -> None:
        self.client_id = client_id
        self.reconnect_backoff_ms = reconnect_backoff_ms
        self.reconnect_backoff_max_ms = reconnect_backoff_max_ms
        self.socket_connection_setup_timeout_ms = socket_connection_setup_timeout_ms
        self.max_in_flight_requests_per_connection = max_in_flight_requests_per_connection
        self.max_waiting = max_waiting
        self.max_response_bytes = max_response_bytes
        self.patient = patient  # requests wait for the next connection when one can't be made

    def pause_ms(self, failures: int, drawn: float) -> int:
        """Before the next attempt after so many; a fifth up or down (`drawn` is within 0 to 1), so that those who lost
        the same peer don't come back at once.
        """
        grown = self.reconnect_backoff_ms << min(failures - 1, _MOST_DOUBLINGS)
        return int(min(grown, self.reconnect_backoff_max_ms) * (0.8 + 0.4 * drawn))
