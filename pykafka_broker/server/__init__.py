"""The process: sockets, signals, one timer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka_broker.config import BrokerConfig
    from pykafka_broker.server.serving import Beside
    from pykafka_broker.server.signals import StopSignals


def run(
    config: BrokerConfig,
    *,
    on_ready: Callable[[str, int], None],
    signals: StopSignals,
    beside: Beside | None = None,
) -> int:
    """Serve until a signal asks for the end, or all log directories have failed; returns the exit code. `on_ready` is
    told host and port of the first listener. `beside` is opened on the same loop before that.
    """
    from pykafka_broker.server.serving import run_process

    return run_process(config, on_ready, signals, beside)


__all__ = ["run"]
