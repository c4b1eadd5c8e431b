"""The process: sockets, signals, one timer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pykafka_broker.broker.setup import NO_SETUP, Setup

if TYPE_CHECKING:
    from pykafka_broker.config import BrokerConfig
    from pykafka_broker.server.serving import ProcessExtension
    from pykafka_broker.server.signals import StopSignals

Announce = Callable[[Sequence[tuple[str, int]]], None]  # takes host and port of every listener


def run(
    config: BrokerConfig,
    *,
    on_ready: Announce,
    signals: StopSignals,
    setup: Setup = NO_SETUP,
    beside: ProcessExtension | None = None,
) -> int:
    """Serve until a signal asks for the end or all log directories have failed; return the exit code.

    Args:
        on_ready: called with the addresses of all listeners.
        beside: an extension, opened on the same loop before.
    """
    from pykafka_broker.server.serving import run_process

    return run_process(config, on_ready, signals, setup, beside)


__all__ = ["Announce", "run"]
