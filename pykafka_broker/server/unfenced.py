"""One broker of several, as a process: when it lets clients in, when they are told, when it goes.

Rule: clients are let in before the controller sends them, and told of when it does. What makes the controller refuse
this broker is the last line of its log, and it ends; one that is asked to stop asks the controller first.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka_broker.broker.startup import BrokerStartup
    from pykafka_broker.server.server import Server

log = logging.getLogger(__name__)


class Unfenced:
    """Waits for it. `stopped` is set when the process is to end."""

    def __init__(self, startup: BrokerStartup, server: Server, stopped: asyncio.Event) -> None:
        self.is_refused = False
        self._server = server
        self._stopped = stopped
        self._settled = asyncio.Event()  # it is unfenced, or never will be
        startup.on_serving = server.accept
        startup.on_unfenced = self._settled.set
        startup.on_refused = self._refuse

    def _refuse(self, why: str) -> None:
        if not self.is_refused:
            log.critical("%s: the broker ends", why)
        self.is_refused = True
        self._stopped.set()

    async def wait(self) -> None:
        """Until clients are sent here, or the process is to end."""
        self._server.begin()
        waits = [asyncio.ensure_future(event.wait()) for event in (self._settled, self._stopped)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()

    async def leave(self) -> None:
        """Until the controller says that the broker may go."""
        if not self.is_refused:
            left = asyncio.Event()
            self._server.turns.run(lambda: self._server.broker.leave(left.set))
            await left.wait()
