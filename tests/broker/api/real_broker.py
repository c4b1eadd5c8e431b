"""A whole broker without sockets: requests go in as frames and answers come out as bytes, as on a connection."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pykafka_broker import platform
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.setup import NO_SETUP, Setup
from pykafka_broker.config import BrokerConfig
from pykafka_broker.log.filesystem import OsFile, OsFileSystem
from pykafka_broker.log.jobs import Job, run_inline
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.server.listeners import Listener
from tests.broker.driven import DrivenBroker
from tests.broker.frames import body_of, frame_of, framed

NOW = 1_700_000_000_000
HOST, PORT = "127.0.0.1", 29092


class UnsyncedFile(OsFile):
    """A file that is never synced: enough for a test, which never loses power."""

    __slots__ = ()

    def sync(self) -> None:
        pass


class UnsyncedFileSystem(OsFileSystem):
    def open(self, path: str, *, create: bool = False, writable: bool = True) -> OsFile:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0)
        return UnsyncedFile(platform.open_file(path, flags))

    def sync_directory(self, path: str) -> None:
        pass

    def sync_all(self, path: str) -> bool:
        return True


class RealBroker:
    """A broker that is asked in frames; `now` is moved by hand.

    submit: does what the broker has to do beside its turns, such as syncs; a form may keep the jobs for later.
    """

    listeners: Mapping[str, Listener] = {}
    setup: Setup = NO_SETUP

    def __init__(self, directory: Path, **settings: str) -> None:
        self.directory = directory
        self.settings = {"log.dirs": str(directory), "node.id": "1", **settings}
        self.now = NOW
        self._uuids: Iterator[int] = itertools.count(1)
        self.connection = ConnectionContext(1, "PLAINTEXT", (HOST, PORT), (HOST, 50000))
        self.start()

    # -- life and time

    def start(self) -> None:
        """Start another broker on the same files."""
        self.broker = DrivenBroker(
            BrokerConfig(self.settings),
            new_uuid=self.new_uuid,
            new_session_id=lambda: 1,
            submit=self.submit,
            fs=UnsyncedFileSystem(),
            setup=self.setup,
        )
        self.broker.listeners.update(self.listeners)
        self.broker.start(self.now)

    def submit(self, job: Job) -> None:
        run_inline(job)

    def new_uuid(self) -> bytes:
        return next(self._uuids).to_bytes(16, "big")

    def draw_distant_ids(self) -> None:
        """Make the next 255 ids differ in every byte, as random ids do."""
        step = int.from_bytes(b"\1" * 16, "big")
        self._uuids = itertools.count(step, step)

    def restart(self) -> None:
        self.broker.stop(self.now)
        self.start()

    def crash(self) -> None:
        """End as kill -9 does: nothing is written any more; the next broker finds what is on disk."""
        for directory in self.broker.logs.directories:
            directory.release()
        self.start()

    def stop(self) -> None:
        self.broker.stop(self.now)

    def wait(self, ms: int) -> None:
        """Let the time pass, deadline by deadline."""
        end = self.now + ms
        while (due := self.broker.next_deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            self.broker.on_deadline(self.now)
            self.broker.settle(self.now)
        self.now = end

    # -- requests

    def call(self, request: Message, version: int) -> Any:
        """Return the decoded answer to one request."""
        api_key = ApiKey(request.API_KEY)
        answer = self.answer_to(api_key, version, request.encode(version))
        return SPECS[api_key].response_class().decode(answer, version)

    @staticmethod
    def frame(request: Message, version: int) -> memoryview:
        return framed(request, version)

    def answer_to(self, api_key: ApiKey, version: int, body: bytes) -> bytes:
        """Return the body of the answer to the body of a request."""
        pieces = self.broker.dispatch(self.connection, frame_of(api_key, version, body), self.now)
        assert isinstance(pieces, list), "the request waits"
        return body_of(pieces, api_key, version)
