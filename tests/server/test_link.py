"""Links to a peer that follows a script: order, time, bad input, and the way back after a failure."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pykafka_broker.control.moving_time import MovableClock
from pykafka_broker.peers import (
    Address,
    LinkBroken,
    LinkClosed,
    LinkError,
    LinkFull,
    LinkTimeout,
    NotServed,
    Unsendable,
)
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.heartbeat_response import HeartbeatResponse
from pykafka_broker.protocol.messages.list_groups_request import ListGroupsRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.server.event_loop import EventLoop, SystemClock
from pykafka_broker.server.link import PLAIN, Link, LinkPeers, LinkSettings, LinkState, TransportSecurity
from pykafka_broker.server.transport import PlainTransport, Transport
from pykafka_broker.testing import KafkaBroker
from tests.server.support import run, until

SOON_MS = 100  # for what must not come
LATER_MS = 10_000  # for what must come


class Asked:
    """A request as the peer sees it."""

    def __init__(self, frame: bytes) -> None:
        self.api_key, self.version, self.correlation_id, length = struct.unpack_from(">hhih", frame)
        self.client_id = frame[10 : 10 + length].decode()
        self.number = 0
        if self.api_key == ApiKey.HEARTBEAT:
            body = 10 + length + (self.version >= 4)
            self.number = HeartbeatRequest.decode(frame[body:], self.version).generation_id

    def answer(self, correlation_id: int | None = None) -> bytes:
        """Answer the request; a heartbeat's number comes back as its throttle time."""
        header = struct.pack(">i", self.correlation_id if correlation_id is None else correlation_id)
        if self.api_key == ApiKey.API_VERSIONS:
            served = [ApiVersion(ApiKey.API_VERSIONS, 0, 4), ApiVersion(ApiKey.HEARTBEAT, 1, 4)]
            return framed(header + ApiVersionsResponse(0, served).encode(self.version))
        header += b"\0" * (self.version >= 4)
        return framed(header + HeartbeatResponse(throttle_time_ms=self.number).encode(self.version))


class Peer:
    """A server that answers with `answer(asked)`: None is no answer, an empty answer closes the connection."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        self.answer: Callable[[Asked], bytes | None] = Asked.answer
        self.writers: list[asyncio.StreamWriter] = []
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self, bound: socket.socket | None = None) -> None:
        at = {"host": "127.0.0.1", "port": self.port} if bound is None else {"sock": bound}
        self._server = await asyncio.start_server(self._serve, **at)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in self.writers:
                writer.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                asked = Asked(await reader.readexactly(size))
                self.asked.append(asked)
                answer = self.answer(asked)
                if answer == b"":
                    break
                if answer is not None:
                    writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    def heartbeats(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.api_key == ApiKey.HEARTBEAT]


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def heartbeat(number: int = 0) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=number, member_id="m")


@asynccontextmanager
async def linked(
    peer: Peer | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    admits: Callable[[], bool] = lambda: True,
    security: TransportSecurity = PLAIN,
    clock: SystemClock | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[Link, Peer]]:
    peer = Peer() if peer is None else peer
    if not port:
        await peer.start()
    turns = EventLoop(asyncio.get_running_loop(), clock or SystemClock())
    of_link = LinkSettings(**{"reconnect_backoff_ms": 5, **settings})
    link = Link(turns, host, port or peer.port, of_link, admits=admits, security=security)
    try:
        yield link, peer
    finally:
        link.close()
        await asyncio.sleep(0)
        turns.close()
        await peer.stop()


def test_several_are_in_flight_and_each_gets_its_own_answer() -> None:
    async def scenario() -> None:
        async with linked(max_in_flight_requests_per_connection=3) as (link, peer):
            peer.answer = lambda asked: asked.answer() if asked.api_key == ApiKey.API_VERSIONS else None
            answers = [asyncio.ensure_future(link.ask(heartbeat(number), LATER_MS)) for number in range(1, 51)]
            await until(lambda: len(peer.heartbeats()) == 3)
            await asyncio.sleep(0.02)
            assert [asked.number for asked in peer.heartbeats()] == [1, 2, 3]
            peer.answer = Asked.answer
            for asked in peer.heartbeats():
                peer.writers[0].write(asked.answer())
            assert [reply.throttle_time_ms for reply in await asyncio.gather(*answers)] == list(range(1, 51))
            assert peer.connections == 1
            assert peer.asked[0].client_id == "pykafka-broker"

    run(scenario)


def test_a_callback_comes_after_send_has_returned_and_may_send_again() -> None:
    async def scenario() -> None:
        async with linked() as (link, _):
            seen: list[Any] = []

            def on_reply(reply: Any) -> None:
                seen.append(reply.throttle_time_ms)
                if len(seen) < 5:
                    link.send(heartbeat(len(seen)), on_reply, LATER_MS)

            link.send(heartbeat(), on_reply, LATER_MS)
            assert seen == []
            await until(lambda: len(seen) == 5)
            assert seen == [0, 1, 2, 3, 4]

    run(scenario)


def test_a_defect_at_an_answer_stays_with_its_request(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with linked() as (link, peer):
            heard: list[Any] = []

            def stumble(reply: Any) -> None:
                heard.append(reply)
                if not isinstance(reply, LinkError):
                    raise RuntimeError("a defect")

            link.send(heartbeat(1), stumble, LATER_MS)
            answer = asyncio.ensure_future(link.ask(heartbeat(2), LATER_MS))
            assert (await answer).throttle_time_ms == 2
            assert [type(each).__name__ for each in heard] == ["HeartbeatResponse", "LinkBroken"]
            assert peer.connections == 1

    run(scenario)
    assert "a defect at HeartbeatResponse" in caplog.text


@pytest.mark.parametrize(
    ("served", "wanted", "version"),
    [((0, 2), None, 2), ((2, 9), None, 4), ((1, 4), (1, 3), 3)],
    ids=["the peer's highest", "our highest", "the caller's highest"],
)
def test_the_highest_version_in_common_is_taken(
    served: tuple[int, int], wanted: tuple[int, int] | None, version: int
) -> None:
    def answer(asked: Asked) -> bytes:
        if asked.api_key != ApiKey.API_VERSIONS:
            return asked.answer()
        keys = [ApiVersion(ApiKey.HEARTBEAT, *served)]
        return framed(struct.pack(">i", asked.correlation_id) + ApiVersionsResponse(0, keys).encode(asked.version))

    async def scenario() -> None:
        async with linked() as (link, peer):
            peer.answer = answer
            await link.ask(heartbeat(), LATER_MS, versions=wanted)
            assert peer.asked[-1].version == version

    run(scenario)


def test_what_the_peer_does_not_serve_is_refused_here() -> None:
    async def scenario() -> None:
        async with linked() as (link, peer):
            with pytest.raises(NotServed, match="Heartbeat: the peer serves versions 1 to 4, not 7 to 9"):
                await link.ask(heartbeat(), LATER_MS, versions=(7, 9))
            with pytest.raises(NotServed, match="the peer does not serve ListGroups"):
                await link.ask(ListGroupsRequest(), LATER_MS)
            with pytest.raises(NotServed, match="group_instance_id is set"):
                await link.ask(
                    HeartbeatRequest(group_id="g", member_id="m", group_instance_id="i"), LATER_MS, versions=(1, 1)
                )
            with pytest.raises(Unsendable, match="HeartbeatRequest version 4: "):
                await link.ask(HeartbeatRequest(group_id="g", generation_id=1 << 31), LATER_MS)
            await link.ask(heartbeat(), LATER_MS)
            assert peer.connections == 1

    run(scenario)


@pytest.mark.parametrize(("told", "second"), [([(18, 0, 2)], 2), ([], 0)], ids=["2.4 and newer", "older"])
def test_a_peer_that_does_not_know_our_greeting_is_asked_again(told: list[tuple[int, int, int]], second: int) -> None:
    def answer(asked: Asked) -> bytes:
        if asked.api_key == ApiKey.API_VERSIONS and asked.version > second:
            refusal = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [ApiVersion(*each) for each in told])
            return framed(struct.pack(">i", asked.correlation_id) + refusal.encode(0))
        return asked.answer()

    async def scenario() -> None:
        async with linked() as (link, peer):
            peer.answer = answer
            assert (await link.ask(heartbeat(7), LATER_MS)).throttle_time_ms == 7
            assert [asked.version for asked in peer.asked[:2]] == [5, second]
            assert peer.connections == 1

    run(scenario)


def test_a_peer_that_never_answers() -> None:
    clock = MovableClock()

    async def scenario() -> None:
        async with linked(clock=clock) as (link, peer):
            peer.answer = lambda asked: None if asked.number == 1 else asked.answer()
            await link.ask(heartbeat(), LATER_MS)
            clock.hold()
            late, behind = [
                asyncio.ensure_future(link.ask(heartbeat(number), timeout_ms))
                for number, timeout_ms in ((1, SOON_MS), (1, LATER_MS))
            ]
            await until(lambda: len(peer.heartbeats()) == 3)
            clock.release()
            with pytest.raises(LinkTimeout, match=r"did not answer Heartbeat within 100 ms") as caught:
                await late
            assert caught.value.sent
            with pytest.raises(LinkBroken, match="an answer before this one did not come in time"):
                await behind
            assert (await link.ask(heartbeat(2), LATER_MS)).throttle_time_ms == 2
            assert peer.connections == 2

    run(scenario)


def nonsense(asked: Asked) -> dict[str, bytes]:
    header = struct.pack(">i", asked.correlation_id)
    return {
        "closed": b"",
        "wrong correlation id": asked.answer(asked.correlation_id + 1),
        "too large": struct.pack(">i", 2**31 - 1),
        "larger than is allowed": struct.pack(">i", 1001) + b"x",
        "negative": struct.pack(">i", -5),
        "no header": framed(b"xx"),
        "empty": framed(b""),
        "too short": framed(header + b"\0\0"),
        "too long": framed(header + b"\0" * 100),
        "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    }


@pytest.mark.parametrize("kind", list(nonsense(Asked(struct.pack(">hhih", 12, 4, 1, 0) + b"\0\x02g\0\0\0\0\x02m\0\0"))))
@pytest.mark.parametrize("at", [ApiKey.API_VERSIONS, ApiKey.HEARTBEAT])
def test_an_answer_that_makes_no_sense_ends_the_connection_and_the_next_one_serves(at: ApiKey, kind: str) -> None:
    spoilt: list[str] = []

    def answer(asked: Asked) -> bytes:
        if asked.api_key != at or spoilt:
            return asked.answer()
        spoilt.append(kind)
        return nonsense(asked)[kind]

    async def scenario() -> None:
        async with linked(max_response_bytes=1000) as (link, peer):
            peer.answer = answer
            if at == ApiKey.HEARTBEAT:
                with pytest.raises(LinkBroken, match="was lost: "):
                    await link.ask(heartbeat(1), LATER_MS)
            assert (await link.ask(heartbeat(2), LATER_MS)).throttle_time_ms == 2
            assert spoilt
            assert peer.connections == 2

    run(scenario)


def test_the_peer_closes_in_the_middle_of_an_answer() -> None:
    async def scenario() -> None:
        async with linked() as (link, peer):
            peer.answer = lambda asked: asked.answer()[:-3] if asked.number == 1 else asked.answer()
            await link.ask(heartbeat(), LATER_MS)
            cut = asyncio.ensure_future(link.ask(heartbeat(1), LATER_MS))
            await until(lambda: len(peer.heartbeats()) == 2)
            peer.writers[0].close()
            with pytest.raises(LinkBroken, match="the peer has closed the connection"):
                await cut
            assert (await link.ask(heartbeat(2), LATER_MS)).throttle_time_ms == 2

    run(scenario)


def test_an_answer_to_no_request_ends_the_connection() -> None:
    async def scenario() -> None:
        async with linked() as (link, peer):
            await link.ask(heartbeat(), LATER_MS)
            peer.writers[0].write(peer.asked[-1].answer())
            await until(lambda: link.state is LinkState.RESTING)
            assert (await link.ask(heartbeat(2), LATER_MS)).throttle_time_ms == 2

    run(scenario)


def test_a_peer_that_does_not_greet_is_given_up_and_tried_again() -> None:
    async def scenario() -> None:
        async with linked(socket_connection_setup_timeout_ms=50) as (link, peer):
            peer.answer = lambda asked: None
            link.send(heartbeat(3), lambda reply: None, LATER_MS)  # so that the link tries on
            await until(lambda: peer.connections >= 2)
            with pytest.raises(LinkTimeout, match="not ready within 50 ms") as caught:
                await link.ask(heartbeat(1), SOON_MS)
            assert not caught.value.sent
            peer.answer = Asked.answer
            assert (await link.ask(heartbeat(2), LATER_MS)).throttle_time_ms == 2
            assert [asked.number for asked in peer.heartbeats()] == [3, 2]

    run(scenario)


def test_requests_wait_for_a_peer_that_is_not_there_yet() -> None:
    clock = MovableClock()

    async def scenario() -> None:
        kept = socket.socket()
        kept.bind(("127.0.0.1", 0))  # no other program gets this port meanwhile
        async with linked(port=kept.getsockname()[1], clock=clock) as (link, peer):
            clock.hold()
            early = asyncio.ensure_future(link.ask(heartbeat(1), SOON_MS))
            await until(lambda: link._failures)
            clock.release()
            with pytest.raises(LinkTimeout, match="Connection refused") as caught:
                await early
            assert not caught.value.sent
            waiting = asyncio.ensure_future(link.ask(heartbeat(2), LATER_MS))
            await asyncio.sleep(0.05)
            await peer.start(kept)
            assert (await waiting).throttle_time_ms == 2

    run(scenario)


def test_a_host_has_a_name_and_one_that_nobody_knows_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = MovableClock()

    async def scenario() -> None:
        peer = Peer()
        async with linked(peer, host="localhost") as (link, _):
            assert (await link.ask(heartbeat(2), LATER_MS)).throttle_time_ms == 2

        async def unknown(*args: Any, **options: Any) -> Any:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
        async with linked(host="nowhere", port=9, clock=clock) as (link, _):
            clock.hold()
            asked = asyncio.ensure_future(link.ask(heartbeat(), SOON_MS))
            await until(lambda: link._failures)
            clock.release()
            with pytest.raises(LinkTimeout, match=r"nowhere:9 .*Name or service not known"):
                await asked

    run(scenario)


def test_a_host_that_can_be_no_name_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with linked(host="ö" * 64, port=9, patient=False) as (link, _):
            with pytest.raises(LinkTimeout, match="label"):
                await link.ask(heartbeat(), LATER_MS)

    run(scenario)
    assert "defect" not in caplog.text


@pytest.mark.parametrize(("host", "asked"), [("localhost", b"localhost"), ("köln.invalid", "köln.invalid")])
def test_a_host_in_ascii_needs_no_table_of_all_characters(
    host: str, asked: str | bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(name: str | bytes, *_: object, **__: object) -> list[Any]:
        found.append(name)
        raise socket.gaierror

    found: list[str | bytes] = []

    async def main() -> None:
        async with linked(Peer(), host=host) as (link, _):
            monkeypatch.setattr(socket, "getaddrinfo", look)
            link.send(HeartbeatRequest(), lambda reply: None, LATER_MS)
            await until(lambda: bool(found))

    run(main)
    assert found[0] == asked


class OnceUnusable:
    """Plain sockets, of which the first is refused with `error`."""

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error

    def transport(self, sock: socket.socket, host: str) -> Transport:
        error, self.error = self.error, None
        if error is not None:
            raise error
        return PlainTransport(sock)

    def begin(self, wall: int, host: str) -> None:
        return None


@pytest.mark.parametrize("error", [OSError(errno.ECONNRESET, "reset"), ValueError("server_hostname")])
def test_a_socket_that_its_layers_refuse_is_closed_and_the_next_one_serves(error: Exception) -> None:
    async def scenario() -> None:
        security = OnceUnusable(error)
        async with linked(security=security) as (link, peer):
            assert (await link.ask(heartbeat(), LATER_MS)).throttle_time_ms == 0
            assert security.error is None
            await until(lambda: peer.writers[0].is_closing())

    run(scenario)


def test_pauses_grow_and_are_not_the_same_for_all() -> None:
    settings = LinkSettings(reconnect_backoff_ms=50, reconnect_backoff_max_ms=1000)
    assert [settings.pause_ms(failures, 0.5) for failures in (1, 2, 3, 5, 6, 1000)] == [50, 100, 200, 800, 1000, 1000]
    assert (settings.pause_ms(2, 0.0), settings.pause_ms(2, 1.0), settings.pause_ms(9, 1.0)) == (80, 120, 1000)


def test_there_is_a_pause_between_attempts_at_a_peer_that_refuses() -> None:
    async def scenario() -> None:
        async with linked(reconnect_backoff_ms=20, reconnect_backoff_max_ms=40) as (link, peer):
            peer.answer = lambda asked: b""
            loop = asyncio.get_running_loop()
            begun = loop.time()
            link.send(heartbeat(), lambda reply: None, LATER_MS)
            await until(lambda: peer.connections >= 6)
            assert loop.time() - begun >= 5 * 0.016  # pauses of 20 ms, less a fifth, and later of 40

    run(scenario)


def test_no_more_wait_than_may_and_a_closed_link_takes_none() -> None:
    async def scenario() -> None:
        async with linked(max_in_flight_requests_per_connection=1, max_waiting=2) as (link, peer):
            peer.answer = lambda asked: asked.answer() if asked.api_key == ApiKey.API_VERSIONS else None
            replies: list[Any] = []
            link.send(heartbeat(1), replies.append, LATER_MS)
            await until(lambda: peer.heartbeats())
            for number in (2, 3):
                link.send(heartbeat(number), replies.append, LATER_MS)
            with pytest.raises(LinkFull, match="2 requests wait for"):
                link.send(heartbeat(4), replies.append, LATER_MS)
            link.close()
            assert replies == []
            await until(lambda: len(replies) == 3)
            assert {type(reply) for reply in replies} == {LinkClosed}
            with pytest.raises(LinkClosed):
                await link.ask(heartbeat(5), LATER_MS)

    run(scenario)


def test_a_request_that_has_not_left_can_be_taken_back() -> None:
    async def scenario() -> None:
        async with linked(max_in_flight_requests_per_connection=1) as (link, peer):
            peer.answer = lambda asked: asked.answer() if asked.api_key == ApiKey.API_VERSIONS else None
            replies: list[Any] = []
            sent, waiting = heartbeat(1), heartbeat(2)
            link.send(sent, replies.append, LATER_MS)
            link.send(waiting, replies.append, LATER_MS)
            await until(lambda: peer.heartbeats())
            assert [link.withdraw(each) for each in (sent, waiting, waiting)] == [False, True, False]
            link.close()
            await until(lambda: bool(replies))
            assert len(replies) == 1

    run(scenario)


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_it_can_be_closed_at_any_time(asked: int) -> None:
    async def scenario() -> None:
        async with linked() as (link, peer):
            peer.answer = lambda request: None if len(peer.asked) >= asked else request.answer()
            waiting = asyncio.ensure_future(link.ask(heartbeat(), LATER_MS))
            if asked:
                await until(lambda: len(peer.asked) == asked)
            else:
                await asyncio.sleep(0)
            link.close()
            with pytest.raises(LinkClosed):
                await waiting

    run(scenario)


def test_who_has_gone_does_not_hold_up_the_others() -> None:
    async def scenario() -> None:
        async with linked() as (link, _):
            gone = asyncio.ensure_future(link.ask(heartbeat(1), LATER_MS))
            stays = asyncio.ensure_future(link.ask(heartbeat(2), LATER_MS))
            await asyncio.sleep(0)
            gone.cancel()
            assert (await stays).throttle_time_ms == 2

    run(scenario)


def test_a_broker_of_ours_is_asked_and_found_again_after_its_restart() -> None:
    with KafkaBroker() as broker:

        async def scenario() -> None:
            async with linked(host=broker.host, port=broker.port) as (link, _):
                replies: list[Any] = []
                for _ in range(100):
                    link.send(MetadataRequest(topics=None), replies.append, LATER_MS)
                await until(lambda: len(replies) == 100)
                assert {reply.cluster_id for reply in replies} == {replies[0].cluster_id}
                await asyncio.to_thread(broker.stop)
                await until(lambda: link.state is LinkState.RESTING)
                asked = asyncio.ensure_future(link.ask(MetadataRequest(topics=None), 5 * LATER_MS))
                await asyncio.sleep(0.05)
                await asyncio.to_thread(broker.start)
                assert (await asked).cluster_id == replies[0].cluster_id

        run(scenario)


def test_a_link_that_is_cut_fails_what_has_left_and_comes_back_when_it_may() -> None:
    async def scenario() -> None:
        admitted = True
        async with linked(admits=lambda: admitted) as (link, peer):
            peer.answer = lambda asked: asked.answer() if asked.api_key == ApiKey.API_VERSIONS else None
            asked = asyncio.ensure_future(link.ask(heartbeat(1), LATER_MS))
            await until(lambda: len(peer.heartbeats()) == 1)
            admitted = False
            link.cut()
            with pytest.raises(LinkBroken, match="cut off"):
                await asked
            with pytest.raises(LinkTimeout, match="cut off") as late:
                await link.ask(heartbeat(2), SOON_MS)
            assert not late.value.sent
            assert peer.connections == 1
            peer.answer, admitted = Asked.answer, True
            assert (await link.ask(heartbeat(3), LATER_MS)).throttle_time_ms == 3
            assert peer.connections == 2

    run(scenario)


def test_peers_cut_those_alone_that_are_not_admitted() -> None:
    async def scenario() -> None:
        first, second = Peer(), Peer()
        await first.start()
        await second.start()
        turns = EventLoop(asyncio.get_running_loop(), SystemClock())
        peers = LinkPeers(turns)
        links = [peers.open(Address("127.0.0.1", each.port, "PLAINTEXT"), "me") for each in (first, second)]
        try:
            for number, link in enumerate(links):
                assert isinstance(link, Link)
                assert (await link.ask(heartbeat(number), LATER_MS)).throttle_time_ms == number
                assert link.served(ApiKey.HEARTBEAT) == (1, 4)
            assert first.asked[0].client_id == "me"
            peers.admits = lambda address: address.port != first.port
            peers.cut()
            assert [link.state for link in links if isinstance(link, Link)] == [LinkState.RESTING, LinkState.READY]
        finally:
            for link in links:
                link.close()
            await asyncio.sleep(0)
            turns.close()
            await first.stop()
            await second.stop()

    run(scenario)
