"""The control API as something that the process opens beside its listeners."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import NamedTuple

from pykafka_broker.control.control import Control, Decode
from pykafka_broker.control.door import ControlDoor
from pykafka_broker.control.http import LOOPBACK
from pykafka_broker.control.moving_time import MovableClock
from pykafka_broker.control.state import DataDirLease
from pykafka_broker.log.jobs import Submit
from pykafka_broker.server.serving import BrokerShare, Running


class ControlAddress(NamedTuple):
    """The address of the control API, and the token."""

    host: str
    port: int
    token: str | None

    @property
    def needs_token(self) -> bool:
        """Return whether other machines can reach the address."""
        return self.host not in LOOPBACK


class ControlExtension:
    """The control API as an extension of the process.

    `announce` is told the URL once the API is open; `decode` reads values that have a schema.
    """

    def __init__(self, address: ControlAddress, announce: Callable[[str], None], decode: Decode | None = None) -> None:
        self._address = address
        self._announce = announce
        self._decode = decode
        self._door: ControlDoor | None = None
        self.control: Control | None = None  # once it is open
        self._clock = MovableClock()
        self._tenure: DataDirLease

    def new_clock(self) -> MovableClock:
        return self._clock

    def share(self, submit: Submit) -> BrokerShare:
        self._tenure = DataDirLease(submit)
        return self._tenure.share

    async def open(self, running: Running) -> None:
        host, port, token = self._address
        self.control = Control(running, self._clock, self._tenure)
        self.control.decode = self._decode
        door = self._door = ControlDoor(self.control, token)
        try:
            await door.open(host, port)
        except OSError as error:
            reason = error.strerror or str(error)
            raise OSError(error.errno or errno.EINVAL, f"control on {host}:{port}: {reason}") from error
        self._announce(door.url)

    async def close(self) -> None:
        if self._door is not None:
            await self._door.close()
