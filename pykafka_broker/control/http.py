"""HTTP/1.1 on a socket: h11 knows the protocol, this module listens, reads and writes.

Rule: every request gets an answer, or the connection is closed; bytes other than HTTP get 400. The head of a request is
judged before the body is read, and a refusal is sent at once. Closing the connection then would reset it and lose the
answer, so the rest of the request is read and dropped for a while. A request is cancelled when its client has gone. The
bytes of a request, the time between its pieces, and the number of clients are bounded. A client that reads nothing of
its answer for a while is disconnected. A listener that closes waits for no client longer than `_LAST_BYTES_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import h11

from pykafka_broker.addresses import address_text
from pykafka_broker.platform import MOST_CONNECTIONS

log = logging.getLogger(__name__)

_MAX_HEAD_BYTES = 64 << 10
_READ_BYTES = 256 << 10
_IDLE_S = 300.0
_BODY_S = 60.0  # between two pieces of one request
_HEAD_S = 60.0  # from the first byte of a head to its last
_REQUEST_S = 600.0  # for a body, whatever its pieces
_LINGER_S = 10.0  # how long the rest of a refused request is dropped
_LINGER_BYTES = 1 << 30
_WRITE_BYTES = 256 << 10
_UNREAD_S = 60.0  # in which a client has to take a piece of `_WRITE_BYTES`
_LAST_BYTES_S = 1.0  # for the rest of an answer when the listener closes
_TEXT = "text/plain; charset=utf-8"


class Request(NamedTuple):
    """A request."""

    method: str
    target: str  # path and query
    headers: dict[str, str]  # names in lower case
    body: bytes


class Response(NamedTuple):
    """An answer, whole or in pieces."""

    status: int
    content_type: str
    body: bytes | AsyncIterator[bytes]
    headers: tuple[tuple[str, str], ...] = ()


Serve = Callable[[Request], Awaitable[Response]]
# Takes a request's head; returns its refusal, or how many bytes its body may have.
Judge = Callable[[Request], Response | int]


class HttpConnection:
    """A client's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, serve: Serve, judge: Judge) -> None:
        self._reader = reader
        self._writer = writer
        self._serve = serve
        self._judge = judge
        self._protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self._ahead: asyncio.Task[bytes] | None = None  # a read that has begun while a request was served

    async def run(self) -> None:
        """Serve request after request until the client goes."""
        patience_s = _UNREAD_S
        try:
            while await self._serve_one():
                self._protocol.start_next_cycle()
                await asyncio.sleep(0)  # the next request may be here already, with very many behind it
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            patience_s = _LAST_BYTES_S  # the client has gone, is silent, or takes no answer
        except h11.RemoteProtocolError as error:
            await self._refuse(Response(error.error_status_hint, _TEXT, f"{error}\n".encode()))
        except asyncio.CancelledError:
            patience_s = _LAST_BYTES_S
            raise
        except Exception:  # the client sees that the end of the answer is missing
            patience_s = _LAST_BYTES_S
            log.exception("an answer ends in the middle")
        finally:
            if self._ahead is not None:
                self._ahead.cancel()
                await asyncio.gather(self._ahead, return_exceptions=True)
            await self._close(patience_s)

    async def refuse(self, response: Response) -> None:
        """Send an answer before the request has come, and close the connection."""
        try:
            await self._refuse(response)
        finally:
            await self._close(_LAST_BYTES_S)

    async def _close(self, patience_s: float) -> None:
        """Close the connection, once the client has taken the rest of the answer or the time is over."""
        self._writer.close()
        try:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(patience_s):
                    await self._writer.wait_closed()
        finally:
            self._writer.transport.abort()  # bytes that are not taken would keep the connection open for ever

    async def _serve_one(self) -> bool:
        """Serve a request; return whether another may follow."""
        head = await self._head()
        if not isinstance(head, h11.Request):
            return False
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        request = Request(head.method.decode("latin-1"), head.target.decode("latin-1"), headers, b"")
        verdict, body = self._judge(request), bytearray()
        if isinstance(verdict, int) and int(headers.get("content-length", 0)) > verdict:
            verdict = _too_long(verdict)
        if isinstance(verdict, Response) and (
            headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        ):
            await self._refuse(verdict, with_body=request.method != "HEAD")
            return False
        async with asyncio.timeout(_REQUEST_S) as whole:
            while isinstance(event := await self._next(_BODY_S), h11.Data):
                body += event.data
                if isinstance(verdict, int) and len(body) > verdict:
                    whole.reschedule(None)
                    await self._refuse(_too_long(verdict))
                    return False
        if not isinstance(event, h11.EndOfMessage):
            return False
        response = (
            verdict if isinstance(verdict, Response) else await self._response(request._replace(body=bytes(body)))
        )
        if response is None:
            return False
        await self._send(response, with_body=request.method != "HEAD")
        return self._protocol.our_state is h11.DONE and self._protocol.their_state is h11.DONE

    async def _head(self) -> h11.Event | type[h11.PAUSED]:
        """Return the next head: a client may rest before it, but not within, since connections are few."""
        event = self._protocol.next_event()
        if event is not h11.NEED_DATA:
            return cast("h11.Event | type[h11.PAUSED]", event)
        if not self._protocol.trailing_data[0]:
            async with asyncio.timeout(_IDLE_S):
                self._protocol.receive_data(await self._read())
        async with asyncio.timeout(_HEAD_S):
            return await self._next(_HEAD_S)

    async def _next(self, timeout_s: float) -> h11.Event | type[h11.PAUSED]:
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            if self._protocol.they_are_waiting_for_100_continue:
                proceed = h11.InformationalResponse(status_code=100, headers=[])
                self._writer.write(self._protocol.send(proceed) or b"")
            async with asyncio.timeout(timeout_s):
                self._protocol.receive_data(await self._read())
        return event  # type: ignore[return-value]  # NEED_DATA is behind us

    async def _read(self) -> bytes:
        if self._ahead is None:
            return await self._reader.read(_READ_BYTES)
        ahead, self._ahead = self._ahead, None
        return await ahead

    async def _response(self, request: Request) -> Response | None:
        """Return the response, or None if the client has gone before."""
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
        finally:  # also where the client's connection was reset, or this one is closed
            if not serving.done():
                serving.cancel()
                await asyncio.wait({serving})

    async def _send(self, response: Response, with_body: bool) -> None:
        headers, body = [("content-type", response.content_type), *response.headers], response.body
        if isinstance(body, bytes):
            headers.append(("content-length", str(len(body))))
        send = self._protocol.send
        head = send(h11.Response(status_code=response.status, headers=headers)) or b""
        if isinstance(body, bytes):
            data = send(h11.Data(data=body)) if with_body else b""
            await self._write(head + (data or b"") + (send(h11.EndOfMessage()) or b""))
        else:
            await self._write(head)
            if with_body:
                async for piece in body:
                    await self._write(send(h11.Data(data=piece)) or b"")
            await self._write(send(h11.EndOfMessage()) or b"")

    async def _write(self, data: bytes) -> None:
        """Send bytes. Raises TimeoutError for a client that takes none of them for a while."""
        whole = memoryview(data)
        for begin in range(0, len(data), _WRITE_BYTES):
            self._writer.write(whole[begin : begin + _WRITE_BYTES])
            async with asyncio.timeout(_UNREAD_S):
                await self._writer.drain()

    async def _refuse(self, response: Response, with_body: bool = True) -> None:
        """Send the last answer of the connection, even before the end of the request."""
        if self._protocol.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            closing = response._replace(headers=(*response.headers, ("connection", "close")))
            with contextlib.suppress(OSError, TimeoutError, h11.LocalProtocolError):
                await self._send(closing, with_body)
                await self._linger()

    async def _linger(self) -> None:
        """Drop further bytes until the client has read the answer and closes."""
        if self._writer.can_write_eof():
            self._writer.write_eof()
        left = _LINGER_BYTES
        async with asyncio.timeout(_LINGER_S):
            while left > 0 and (data := await self._read()):
                left -= len(data)


async def ask(
    address: tuple[str, int], request: Request, silence_s: float | None = None, most_bytes: float = math.inf
) -> tuple[int, str, bytes]:
    """Return status, content type and body of the answer to a request, on a connection of its own.

    Args:
        silence_s: how long the other side may send or take nothing; None for any time.
        most_bytes: how long the body may be.

    Raises:
        OSError: there is no connection, or the body is longer.
        TimeoutError: the silence was longer.
        h11.RemoteProtocolError: there was half an answer, or none.
    """
    host, port = address
    async with asyncio.timeout(silence_s):
        reader, writer = await asyncio.open_connection(host, port)
    try:
        protocol = h11.Connection(h11.CLIENT)
        own = {"host": address_text(host, port), "connection": "close", "content-length": str(len(request.body))}
        # As HttpConnection has read them.
        headers = [(name.encode(), value.encode("latin-1")) for name, value in (own | request.headers).items()]
        asked = h11.Request(method=request.method, target=request.target, headers=headers)
        writer.write(protocol.send(asked) or b"")
        writer.write((protocol.send(h11.Data(data=request.body)) or b"") + (protocol.send(h11.EndOfMessage()) or b""))
        with contextlib.suppress(ConnectionError):  # refused before the end of the request: the answer says why
            async with asyncio.timeout(silence_s):
                await writer.drain()
        status, content_type, body = 0, "", bytearray()
        while not isinstance(event := protocol.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                async with asyncio.timeout(silence_s):
                    received = await reader.read(_READ_BYTES)
                if not received and not status:
                    raise h11.RemoteProtocolError("the broker has closed the connection without an answer")
                protocol.receive_data(received)
            elif isinstance(event, h11.Response):
                told = dict(event.headers)
                status, content_type = event.status_code, told.get(b"content-type", b"").decode("latin-1")
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > most_bytes:
                    raise OSError("an answer without end")
            elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:  # paused: it speaks HTTP no longer
                raise OSError("no answer will come")
        return status, content_type, bytes(body)
    finally:
        writer.transport.abort()  # one that reads nothing would keep the connection open
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _too_long(most: int) -> Response:
    return Response(413, _TEXT, f"a body may have at most {most} bytes\n".encode())


LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_OWN_SITES = frozenset({"same-origin", "none"})  # "none": typed in by the user
_SOCKETS_OF_WINDOWS = 10_000  # its numbers of errors of sockets begin here; `os.strerror` has no words for them
_NO_ROOM = Response(503, _TEXT, b"there are too many connections: close some that are unused\n")
_MOST_CONNECTIONS = min(256, MOST_CONNECTIONS // 8)
_MOST_REFUSED = min(64, MOST_CONNECTIONS // 32)  # above `_MOST_CONNECTIONS`, while they take their refusal


class HttpAddress(NamedTuple):
    """An address for HTTP, and the secret of its clients: a token, or `name:password`; None for none."""

    host: str
    port: int
    secret: str | None

    def __repr__(self) -> str:
        return address_text(self.host, self.port)

    @property
    def needs_secret(self) -> bool:
        """Return whether other machines can reach the address."""
        return self.host not in LOOPBACK


class HttpListener:
    """An address on which HTTP is spoken.

    Rule: the number of clients is bounded, and all are closed with the listener. `serve` answers the requests that
    `judge` lets in. Clients above the bound get 503; those above a second bound are disconnected.
    """

    def __init__(self, serve: Serve, judge: Judge) -> None:
        self._serve = serve
        self._judge = judge
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self._refused: set[asyncio.Task[None]] = set()
        self.url = ""

    async def open(self, address: HttpAddress, name: str) -> None:
        """Listen; port 0 takes a free port, shown in `url`. Raises OSError with the name of the listener."""
        host, port, _ = address
        try:
            self._server = await asyncio.start_server(self._on_client, host, port)
        except OSError as error:
            reason = error.strerror or str(error)
            if error.errno is not None and 0 < error.errno < _SOCKETS_OF_WINDOWS:  # else a host without an address
                reason = os.strerror(error.errno)  # asyncio has a sentence of its own
            raise OSError(error.errno or errno.EINVAL, f"{name} on {address!r}: {reason}") from error
        bound = self._server.sockets[0].getsockname()
        self.url = f"http://{address_text(host, bound[1])}"

    async def close(self) -> None:
        """Close the listener and all the connections."""
        if self._server is not None:
            self._server.close()
        clients = self._clients | self._refused
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_full = len(self._clients) >= _MOST_CONNECTIONS
        if is_full and len(self._refused) >= _MOST_REFUSED:
            writer.close()
            return
        connection = HttpConnection(reader, writer, self._serve, self._judge)
        client = asyncio.ensure_future(connection.refuse(_NO_ROOM) if is_full else connection.run())
        clients = self._refused if is_full else self._clients
        clients.add(client)
        client.add_done_callback(clients.discard)


def why_another_name(headers: Mapping[str, str]) -> str | None:
    """Return why a request is not for the machine, or None.

    An attacker may have made another host name lead to the machine (DNS rebinding).
    """
    try:
        host = urlsplit(f"//{headers.get('host', '')}").hostname
    except ValueError:
        host = None
    if host is None:
        return "the request does not say for which host it is"
    return None if host in LOOPBACK else f"{host} is not a name of this machine"


def why_not_of_this_machine(headers: Mapping[str, str]) -> str | None:
    """Return why a request needs a token, or None: it is for another host name, or from a page of another site."""
    if why := why_another_name(headers):
        return why
    own = f"http://{headers.get('host', '')}"
    if headers.get("origin", own) != own or headers.get("sec-fetch-site", "none") not in _OWN_SITES:
        return "a page of another site has sent the request"
    return None
