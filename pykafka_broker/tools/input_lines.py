"""Lines of standard input, as they come.

Rule: whoever waits for a line keeps nothing else from going on, and Ctrl-C does not wait for one: bytes are read by a
thread that may be left behind. A line ends with LF, CR LF or CR, as Java's BufferedReader has it.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
import threading
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError
from contextlib import suppress
from io import UnsupportedOperation
from typing import TextIO

from pykafka_broker.client.errors import ClientError

_AT_ONCE = 64 << 10
_END = re.compile(rb"\r\n|\n|\r")


def size_of(stdin: TextIO) -> int | None:
    """Of the file that it is, in bytes; None where nobody knows."""
    try:
        found = os.fstat(stdin.fileno())
    except UnsupportedOperation:  # text of a test
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


async def lines_of(stdin: TextIO) -> AsyncIterator[list[bytes]]:
    """Those that have come, without their ends; the last one may have none. Raises ClientError."""
    rest = b""
    async for chunk in _chunks(stdin):
        found = _END.split(rest + chunk)
        rest = found.pop()
        if chunk.endswith(b"\r"):  # its LF may come later
            rest = found.pop() + b"\r"
        if found:
            yield found
    if rest:
        yield [rest.removesuffix(b"\r")]


async def _chunks(stdin: TextIO) -> AsyncIterator[bytes]:
    try:
        descriptor = stdin.fileno()
    except UnsupportedOperation:  # text of a test
        yield stdin.buffer.read()
        return
    loop, chunks = asyncio.get_running_loop(), asyncio.Queue[bytes | OSError](2)

    def hand_over(found: bytes | OSError) -> None:
        putting = chunks.put(found)
        try:
            asyncio.run_coroutine_threadsafe(putting, loop).result()
        finally:
            putting.close()  # of a loop that has ended it was never begun

    def read() -> None:
        with suppress(RuntimeError, CancelledError):  # nobody is there any more
            try:
                while chunk := os.read(descriptor, _AT_ONCE):
                    hand_over(chunk)
                hand_over(b"")
            except OSError as error:
                hand_over(error)

    threading.Thread(target=read, name="standard input", daemon=True).start()
    while chunk := await chunks.get():
        if isinstance(chunk, OSError):
            raise ClientError(f"standard input can't be read: {chunk.strerror}")
        yield chunk
