"""The registry as something that the process opens beside its listeners."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

from pykafka_broker.control.http import LOOPBACK
from pykafka_broker.control.opening import Opening as ControlOpening
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.jobs import Submit
from pykafka_broker.registry.decoding import Decoder, OwnSchemas
from pykafka_broker.registry.door import RegistryDoor
from pykafka_broker.registry.problems import Refused
from pykafka_broker.registry.registry import Registry
from pykafka_broker.registry.topic import SchemasTopic
from pykafka_broker.server.serving import Beside, Running, Share
from pykafka_broker.server.system_clock import SystemClock


class Address(NamedTuple):
    """Where the registry is, and the `name:password` that is asked for there."""

    host: str
    port: int
    user: str | None

    def __repr__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def needs_user(self) -> bool:
        """Whether others than this machine can reach it."""
        return self.host not in LOOPBACK


class Opening:
    """`server.serving.Beside`, beside the `other` that there may be. `announce` is told the URL once the door is
    open."""

    def __init__(self, address: Address, announce: Callable[[str], None], other: Beside | None) -> None:
        self._address = address
        self._announce = announce
        self._other = other
        self._door: RegistryDoor | None = None
        self._greetings: set[asyncio.Task[None]] = set()

    def new_clock(self) -> SystemClock:
        return SystemClock() if self._other is None else self._other.new_clock()

    def share(self, submit: Submit) -> Share:
        return Share(OsFileSystem(), submit) if self._other is None else self._other.share(submit)

    async def open(self, running: Running) -> None:
        if self._other is not None:
            await self._other.open(running)
        host, port, user = self._address
        topic = SchemasTopic(running)
        try:
            if topic.alone:  # in a cluster it is made with the first schema, when the other brokers are there
                await topic.make()
        except Refused as refused:
            raise OSError(errno.EIO, f"schema registry: {refused.message}") from None
        with contextlib.suppress(Refused):  # it may not be readable yet, which each answer tells
            topic.state()
        door = self._door = RegistryDoor(Registry(topic), user)
        try:
            await door.open(host, port)
        except OSError as error:
            reason = error.strerror or str(error)
            raise OSError(error.errno or errno.EINVAL, f"schema registry on {host}:{port}: {reason}") from error
        topic.port = urlsplit(door.url).port or 0
        if not topic.alone:
            running.server.broker.node.subscribe(lambda delta: self._greet(topic, running))
        if isinstance(self._other, ControlOpening) and self._other.control is not None:
            self._other.control.decode = Decoder(OwnSchemas(door.registry)).decode
        self._announce(door.url)

    def _greet(self, topic: SchemasTopic, running: Running) -> None:
        if topic.other_leader is None:
            greeting = running.turns.loop.create_task(topic.greet())
            self._greetings.add(greeting)
            greeting.add_done_callback(self._greetings.discard)

    async def close(self) -> None:
        for greeting in self._greetings:
            greeting.cancel()
        if self._door is not None:
            await self._door.close()
        if self._other is not None:
            await self._other.close()
