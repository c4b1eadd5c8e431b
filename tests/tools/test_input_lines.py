"""Standard input that can't be read, and a reader that nobody waits for any more."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from pykafka_broker.client.errors import ClientError
from pykafka_broker.tools.frame import Tool, parser_of
from pykafka_broker.tools.input_lines import lines_of


async def _read_all(descriptor: int) -> None:
    with os.fdopen(descriptor) as stdin:
        async for _ in lines_of(stdin):
            pass


def test_input_that_cannot_be_read_is_an_error() -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    with pytest.raises(ClientError, match="standard input can't be read"):
        asyncio.run(asyncio.wait_for(_read_all(read), 5))
    os.close(write)


def test_a_reader_that_is_left_behind_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    said: list[object] = []
    monkeypatch.setattr(threading, "excepthook", said.append)

    async def read_some() -> None:
        with os.fdopen(read, closefd=False) as stdin:
            async for _ in lines_of(stdin):
                await asyncio.sleep(0.1)  # until the reader waits for somebody to take more
                return  # as Ctrl-C does

    writer = threading.Thread(target=lambda: os.write(write, b"line\n" * 100_000), daemon=True)
    writer.start()
    asyncio.run(read_some())
    for reader in threading.enumerate():  # it may have gone already
        if reader.name == "standard input":
            reader.join(5)
            assert not reader.is_alive()
    assert not said
    os.close(read)
    writer.join(1)
    os.close(write)


def test_a_closed_standard_input_is_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert Tool(parser_of("topics").parse(["--list"])).stdin.read() == ""
