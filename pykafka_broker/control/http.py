"""HTTP/1.1 on a socket: h11 knows the protocol, this reads and writes.

Rule: every request gets an answer, or its connection is closed; one that is not HTTP gets 400. A request whose client
has gone is cancelled, so that nobody waits for nobody. What a request may cost is bounded here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

import h11

log = logging.getLogger(__name__)

STRANGERS_BODY_BYTES = 64 << 10  # of who will be refused: enough to be told so
_MAX_HEAD_BYTES = 64 << 10
_READ_BYTES = 256 << 10
_IDLE_S = 300.0
_BODY_S = 60.0  # between two pieces of one request


class Request(NamedTuple):
    method: str
    target: str  # path and query
    headers: dict[str, str]  # names in lower case
    body: bytes


class Response(NamedTuple):
    status: int
    content_type: str
    body: bytes | AsyncIterator[bytes]
    headers: tuple[tuple[str, str], ...] = ()


Serve = Callable[[Request], Awaitable[Response]]
MostBytes = Callable[[Request], int]  # that the body of this request may have, of which only the head is there


class TooLong(Exception):
    """The body is longer than this, which is what may be sent."""


class HttpConnection:
    """One client, as long as it stays."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        serve: Serve,
        most_bytes: MostBytes,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._serve = serve
        self._most_bytes = most_bytes
        self._protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self._ahead: asyncio.Task[bytes] | None = None  # a read that has begun while a request was served

    async def run(self) -> None:
        """Serve request after request until the client goes."""
        try:
            while await self._serve_one():
                self._protocol.start_next_cycle()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the client has gone, or says nothing
        except h11.RemoteProtocolError as error:
            await self._refuse(error.error_status_hint, str(error))
        except TooLong as error:
            await self._refuse(413, f"a body may have at most {error} bytes")
        finally:
            if self._ahead is not None:
                self._ahead.cancel()
                await asyncio.gather(self._ahead, return_exceptions=True)
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()

    async def _serve_one(self) -> bool:
        """Whether another request may follow."""
        head = await self._next(_IDLE_S)
        if not isinstance(head, h11.Request):
            return False
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        request = Request(head.method.decode("latin-1"), head.target.decode("latin-1"), headers, b"")
        most, body = self._most_bytes(request), bytearray()
        while isinstance(event := await self._next(_BODY_S), h11.Data):
            body += event.data
            if len(body) > most:
                raise TooLong(most)
        if not isinstance(event, h11.EndOfMessage):
            return False
        response = await self._while_there(request._replace(body=bytes(body)))
        if response is None:
            return False
        await self._send(response, with_body=request.method != "HEAD")
        return self._protocol.our_state is h11.DONE and self._protocol.their_state is h11.DONE

    async def _next(self, timeout_s: float) -> h11.Event | type[h11.PAUSED]:
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            if self._protocol.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[])
                self._writer.write(self._protocol.send(go_on) or b"")
            async with asyncio.timeout(timeout_s):
                self._protocol.receive_data(await self._read())
        return event  # type: ignore[return-value]  # NEED_DATA is behind us

    async def _read(self) -> bytes:
        if self._ahead is None:
            return await self._reader.read(_READ_BYTES)
        ahead, self._ahead = self._ahead, None
        return await ahead

    async def _while_there(self, request: Request) -> Response | None:
        """The response, or None if the client has gone before it was ready."""
        serving = asyncio.ensure_future(self._serve(request))
        try:
            await asyncio.sleep(0)
            if not serving.done() and self._ahead is None:
                self._ahead = asyncio.create_task(self._reader.read(_READ_BYTES))
            while not serving.done():
                waiting = {serving} if self._ahead is None or self._ahead.done() else {serving, self._ahead}
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if self._ahead is not None and self._ahead.done() and not self._ahead.result() and not serving.done():
                    return None
            return serving.result()
        finally:  # also where its connection was reset, and where this connection is given up
            if not serving.done():
                serving.cancel()
                await asyncio.wait({serving})

    async def _send(self, response: Response, with_body: bool) -> None:
        headers, body = [("content-type", response.content_type), *response.headers], response.body
        if isinstance(body, bytes):
            headers.append(("content-length", str(len(body))))
        send, write = self._protocol.send, self._writer.write
        head = send(h11.Response(status_code=response.status, headers=headers)) or b""
        if isinstance(body, bytes):
            data = send(h11.Data(data=body)) if with_body else b""
            write(head + (data or b"") + (send(h11.EndOfMessage()) or b""))
        else:
            write(head)
            async for piece in body:
                write(send(h11.Data(data=piece)) or b"")
                await self._writer.drain()
            write(send(h11.EndOfMessage()) or b"")
        await self._writer.drain()

    async def _refuse(self, status: int, why: str) -> None:
        if self._protocol.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = f"{why}\n".encode()
            with contextlib.suppress(OSError, h11.LocalProtocolError):
                await self._send(Response(status, "text/plain; charset=utf-8", body, (("connection", "close"),)), True)
