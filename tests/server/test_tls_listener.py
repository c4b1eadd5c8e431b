"""TLS on one listener: mistakes are told when it is bound, changes hold for the next client, handshakes end in time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import re
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka_broker.broker.waiting.future import Purgatory
from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.control.moving_time import MovableClock
from pykafka_broker.server import tls_listener as handshakes
from pykafka_broker.server.event_loop import new_event_loop
from pykafka_broker.server.tls_listener import TlsListener, TooLong, cpu_limit
from tests.security.tls.certificates import Issued, authority, server_certificate, subject
from tests.server.support import Time, run, until
from tests.server.test_server import framed, serving
from tests.server.tls_support import client_context, tls_settings

FRONT = "listener.name.front."
LOCATION = FRONT + "ssl.keystore.location"


def with_settings(**texts: str) -> Any:
    config = BrokerConfig({"ssl.keystore.type": "PEM"} | {name.replace("_", "."): text for name, text in texts.items()})
    return SimpleNamespace(broker=SimpleNamespace(config=config))


def test_a_listener_whose_key_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"listener FRONT: Missing required configuration ssl\.keystore\.location"):
        TlsListener("FRONT", with_settings())


def test_rules_that_can_not_be_read_are_refused(tmp_path: Path) -> None:
    server = with_settings(
        ssl_keystore_location=server_certificate().write(tmp_path / "broker.pem"),
        listener_name_front_ssl_principal_mapping_rules="RULE:[/x/",
    )
    with pytest.raises(ConfigError, match=r"listener\.name\.front\.ssl\.principal\.mapping\.rules: listener FRONT"):
        TlsListener("FRONT", server)


def altered(server: Any, **texts: str) -> None:
    names = {name.replace("_", "."): text for name, text in texts.items()}
    server.broker.config = server.broker.config.with_dynamic({}, names)


async def shown(connect: Any) -> bytes:
    """Return the certificate that a new client sees."""
    client = await connect()
    seen: bytes = client.writer.get_extra_info("ssl_object").getpeercert(True)
    client.send(b"echo:a")
    assert await client.answer() == b"a"
    return seen


def test_a_key_that_is_altered_is_shown_to_the_next_client_and_connections_go_on(tmp_path: Path) -> None:
    path = tmp_path / "next.pem"

    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (server, connect, _):
            old = await connect()
            for _ in range(2):  # the second time under the same path
                renewed = authority().issue("broker")
                renewed.write(path)
                altered(server, listener_name_front_ssl_keystore_location=str(path))
                assert await shown(connect) == renewed.der()
            path.write_text("no key any more")
            altered(server, listener_name_front_ssl_keystore_location=str(path))
            assert await shown(connect) == renewed.der()
            old.send(b"echo:b")
            assert await old.answer() == b"b"

    run(scenario)


def test_who_is_trusted_no_more_does_not_come_in_again(tmp_path: Path) -> None:
    alice = client_context(ssl.TLSVersion.TLSv1_2, authority().issue("alice"), tmp_path)
    path = tmp_path / "trusted.pem"
    path.write_text(authority("Another").pem)

    async def scenario() -> None:
        settings = tls_settings(tmp_path, ssl_client_auth="required")
        async with serving(tmp_path, alice, **settings) as (server, connect, _):
            await shown(connect)
            altered(server, listener_name_front_ssl_truststore_certificates=authority("Another").pem)
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await connect()

    run(scenario)


def check(issued: Issued, changed: str = LOCATION, **texts: str) -> None:
    """Let a listener that has the certificate of `broker` check the change to the certificate `issued`."""
    old = server_certificate()
    inline = {"ssl_keystore_key": old.key_pem(), "ssl_keystore_certificate_chain": old.chain_pem}
    listener = TlsListener("FRONT", with_settings(**inline))
    now = {"ssl_keystore_key": issued.key_pem(), "ssl_keystore_certificate_chain": issued.chain_pem}
    listener.check(with_settings(**now | texts).broker.config, [changed])


def test_a_new_certificate_is_for_the_same_broker() -> None:
    check(authority().issue("broker"))
    check(authority("Another").issue("broker"))
    check(authority().issue("broker", ("localhost", "127.0.0.1", "more.example")))


def test_another_name_is_refused_unless_it_is_allowed() -> None:
    another = authority().issue("another")
    with pytest.raises(ConfigError) as refused:
        check(another)
    assert str(refused.value) == (
        "Validation of dynamic config update of SSLFactory failed: org.apache.kafka.common.config.ConfigException: "
        "Keystore DistinguishedName does not match:  existing={alias=kafka, DN=CN=broker}, "
        "new={alias=kafka, DN=CN=another}"
    )
    check(another, ssl_allow_dn_changes="true")


def test_a_lost_alternative_name_is_refused_unless_it_is_allowed() -> None:
    fewer = authority().issue("broker", ("localhost",))
    with pytest.raises(ConfigError) as refused:
        check(fewer)
    assert str(refused.value) == (
        "Validation of dynamic config update of SSLFactory failed: org.apache.kafka.common.config.ConfigException: "
        "Keystore SubjectAltNames do not match:  existing={alias=kafka, SAN=[[2, localhost], [7, 127.0.0.1]]}, "
        "new={alias=kafka, SAN=[[2, localhost]]}"
    )
    check(fewer, ssl_allow_san_changes="true")


def test_a_long_alternative_name_is_shown_whole() -> None:
    name = ".".join(("a" * 63, "b" * 63, "example"))
    with pytest.raises(ConfigError) as refused:
        check(authority().issue("broker", (name,)))
    assert f"new={{alias=kafka, SAN=[[2, {name}]]}}" in str(refused.value)


def test_what_concerns_another_listener_or_no_key_is_not_looked_at() -> None:
    another = authority().issue("another")
    for name in ("listener.name.back.ssl.keystore.location", "log.retention.ms", FRONT + "max.connections"):
        check(another, name)


@pytest.mark.posix("Windows has no timer of CPU time")
def test_an_expression_that_explodes_is_ended() -> None:
    begun = time.process_time()
    with pytest.raises(TooLong), cpu_limit(0.02):
        re.fullmatch("(a+)+b", "a" * 60)
    assert time.process_time() - begun < 2


@pytest.mark.posix("Windows has no timer of CPU time")
def test_what_is_done_in_time_leaves_no_trace() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    with cpu_limit(10):
        assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    assert signal.getsignal(signal.SIGVTALRM) == before


def test_in_another_thread_nothing_is_limited() -> None:
    done = []

    def work() -> None:
        with cpu_limit(0.000001):
            done.append(re.fullmatch("(a+)+b", "a" * 15))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [None]


ALICE = (("2.5.4.10", "Acme, Inc."), ("2.5.4.3", "Alice"), ("1.2.840.113549.1.9.1", "a@b.c"))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("auth", "rules", "principal"),
    [
        ("none", "DEFAULT", "User:ANONYMOUS"),
        ("required", "DEFAULT", r"User:1.2.840.113549.1.9.1=#16056140622e63,CN=Alice,O=Acme\, Inc."),
        ("requested", r"RULE:^.*CN=(\w+),.*$/$1/L,DEFAULT", "User:alice"),
    ],
)
def test_the_principal_is_the_subject_of_the_certificate_by_the_rules(
    tmp_path: Path, version: ssl.TLSVersion, auth: str, rules: str, principal: str
) -> None:
    alice = authority().issue(subject(*ALICE))
    settings = tls_settings(tmp_path, ssl_client_auth=auth, ssl_principal_mapping_rules=rules)

    async def scenario() -> None:
        async with serving(tmp_path, client_context(version, alice, tmp_path), **settings) as (_, connect, _):
            client = await connect()
            client.send(b"who:")
            assert (await client.answer()).decode() == principal

    run(scenario)


def test_who_shows_none_where_it_need_not_is_anonymous(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path, ssl_client_auth="requested")) as (
            _,
            connect,
            _,
        ):
            client = await connect()
            client.send(b"who:")
            assert await client.answer() == b"User:ANONYMOUS"

    run(scenario)


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("RULE:^CN=bob$/bob/", "No rules apply to CN=" + "a" * 40 + ", rules [RULE:^CN=bob$/bob]"),
        ("RULE:^CN=(a+)+b$/$1/,DEFAULT", "the expressions of ssl.principal.mapping.rules take too long for CN=aaa"),
    ],
)
def test_a_client_without_a_name_is_closed_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rules: str, why: str
) -> None:
    """The connection is closed too if finding the name would take for ever: other clients notice no delay."""
    settings = tls_settings(tmp_path, ssl_client_auth="required", ssl_principal_mapping_rules=rules)
    nameless = client_context(shows=authority().issue("a" * 40), folder=tmp_path)

    async def scenario() -> None:
        async with serving(tmp_path, nameless, **settings) as (server, connect, router):
            for _ in range(3):  # the verdict on a name is remembered
                client = await connect()
                client.send(b"echo:never")
                assert await client.closed()
            await until(lambda: not server.connection_count)
            assert router.served == []

    with caplog.at_level(logging.INFO):
        run(scenario)
    lines = [record.getMessage() for record in caplog.records]
    strangers = ": the client does not speak TLS"  # a client of a broker that had this port before
    own = [line for line in lines if not line.endswith(strangers)]
    assert len(own) == 3
    assert all(why in line for line in own)


def test_a_class_of_python_may_say_what_it_is_called(tmp_path: Path) -> None:
    settings = tls_settings(
        tmp_path,
        ssl_client_auth="required",
        principal_builder_class="tests.security.hooks.test_login:Department",
    )

    async def scenario() -> None:
        shown = client_context(ssl.TLSVersion.TLSv1_3, authority().issue("carol"), tmp_path)
        async with serving(tmp_path, shown, **settings) as (_, connect, _):
            client = await connect()
            client.send(b"who:")
            assert (await client.answer()).decode().startswith("User:CN=carol@")

    run(scenario)


HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100)


@pytest.mark.parametrize(("at_once", "closed"), [(500, [3]), (2, [2, 1])], ids=["together", "in several turns"])
def test_who_does_not_shake_hands_in_time_is_disconnected_and_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, at_once: int, closed: list[int]
) -> None:
    monkeypatch.setattr(handshakes, "TIMEOUT_MS", 300)
    monkeypatch.setattr(handshakes, "_CLOSED_AT_ONCE", at_once)
    clock = MovableClock()
    monkeypatch.setattr("tests.server.test_server.SystemClock", lambda: clock)

    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (server, connect, _):
            stands, port = Time(server, clock), server.listeners[0].port
            client = await connect()
            mute = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
            for sock in mute[1:]:
                sock.sendall(HALF_A_HELLO)
            await until(lambda: server.connection_count == 4)
            for _ in closed:
                stands.move(300)
            await until(lambda: server.connection_count == 1)
            client.send(b"echo:still here")
            assert await client.answer() == b"still here"
            for sock in mute:
                assert sock.recv(1) == b""
                sock.close()

    with caplog.at_level(logging.INFO):
        run(scenario)
    assert [record.getMessage() for record in caplog.records] == [
        f"listener FRONT: closed {count} connections without a TLS handshake after 300 ms" for count in closed
    ]


def test_a_broker_in_the_place_of_another_goes_on_watching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "TIMEOUT_MS", 500)
    clock = MovableClock()
    monkeypatch.setattr("tests.server.test_server.SystemClock", lambda: clock)

    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (server, _, _):
            stands = Time(server, clock)
            with socket.create_connection(("127.0.0.1", server.listeners[0].port)) as mute:
                await until(lambda: server.connection_count == 1)
                before, after = server.purgatory, Purgatory()
                server.purgatory = server.broker.purgatory = after  # type: ignore[attr-defined]
                before.answer_all(server.turns.clock.now)
                stands.move(499)
                assert server.connection_count == 1
                stands.move(1)
                await until(lambda: server.connection_count == 0)
                assert mute.recv(1) == b""

    run(scenario)


@pytest.mark.linux("2,000 descriptors, and memory in KiB")
def test_two_thousand_half_open_handshakes_cost_little_and_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    clock = MovableClock()
    monkeypatch.setattr("tests.server.test_server.SystemClock", lambda: clock)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 5000:
        pytest.skip("the system allows too few descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 5000), hard))

    async def scenario() -> None:
        settings = tls_settings(tmp_path, connections_max_idle_ms="600000")
        async with serving(tmp_path, client_context(), **settings) as (server, connect, _):
            Time(server, clock)  # however long it takes, all handshakes are in time
            port = server.listeners[0].port
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            half = []
            for number in range(2000):
                half.append(socket.create_connection(("127.0.0.1", port)))
                half[-1].sendall(HALF_A_HELLO)
                if number % 20 == 0:
                    await asyncio.sleep(0)
            await until(lambda: server.connection_count == 2000)
            client = await connect()
            client.send(b"echo:served")
            assert await client.answer() == b"served"
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000  # KiB
            for sock in half:
                sock.close()
            await until(lambda: server.connection_count == 1)

    try:
        run(scenario)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_turn_does_a_few_steps_only_and_the_next_one_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (_, connect, _):
            clients = await asyncio.gather(*(connect() for _ in range(60)))
            for number, client in enumerate(clients):
                client.send(b"echo:%d" % number)
            assert [await client.answer() for client in clients] == [b"%d" % number for number in range(60)]

    run(scenario)


def test_a_handshake_may_come_byte_by_byte(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (server, _, _):
            loop = asyncio.get_running_loop()
            sock = socket.create_connection(("127.0.0.1", server.listeners[0].port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setblocking(False)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            client = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
            steps: list[Callable[[], object]] = [
                client.do_handshake,
                lambda: client.write(framed(b"echo:slowly")),
                lambda: client.read(4 + len(b"slowly")),
            ]
            for step in steps:
                while True:
                    try:
                        found = step()
                        break
                    except ssl.SSLWantReadError:
                        for byte in outgoing.read():
                            await loop.sock_sendall(sock, bytes([byte]))
                            await asyncio.sleep(0)
                        incoming.write(await asyncio.wait_for(loop.sock_recv(sock, 65536), 60))
            assert found == framed(b"slowly")
            sock.close()

    run(scenario)


def starts(count: int, seed: int) -> list[bytes]:
    """Return the first bytes of connections: random, some of them beginning like TLS records."""
    made = random.Random(seed)
    beginnings = (
        b"",
        b"\x16\x03\x01",
        b"\x16\x03\x01\x00\x30\x01\x00\x00\x2c\x03\x03",
        b"\x80\x2e\x01\x03\x01",
        b"\x15\x03\x03",
    )
    return [made.choice(beginnings) + made.randbytes(made.choice((1, 5, 40, 300, 3000))) for _ in range(count)]


def damaged_hellos(count: int, seed: int) -> list[bytes]:
    """Return the first bytes of connections: a ClientHello, whole or changed or cut off, then random bytes."""
    made = random.Random(seed)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        client_context().wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    hello = outgoing.read()
    found = []
    for _ in range(count):
        damaged = bytearray(hello)
        for _ in range(made.choice((0, 1, 2, 8))):
            damaged[made.randrange(len(damaged))] = made.randrange(256)
        if made.random() < 0.2:
            del damaged[made.randrange(len(damaged)) :]
        found.append(bytes(damaged) + made.choice((b"", b"\x16\x03\x03\x00\x20", b"\x17\x03\x03")) + made.randbytes(32))
    return found


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("made", [starts, damaged_hellos])
def test_whatever_comes_before_or_in_a_handshake_others_are_served(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    request: pytest.FixtureRequest,
    made: Callable[[int, int], list[bytes]],
) -> None:
    count = 100_000 if request.config.getoption("--slow") else 1000

    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (server, connect, _):
            port = server.listeners[0].port
            client = await connect()
            for number, start in enumerate(made(count, 14)):
                sock = socket.create_connection(("127.0.0.1", port))
                sock.sendall(start)
                sock.close()
                if number % 25 == 0:
                    client.send(b"echo:%d" % number)
                    assert await client.answer() == b"%d" % number
            await until(lambda: server._next_id == count + 1 and server.connection_count == 1, 60)

    with caplog.at_level(logging.ERROR), asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(scenario())
    assert caplog.records == []


def test_what_comes_after_a_handshake_is_closed_if_it_is_no_tls(tmp_path: Path) -> None:
    """Records that nobody encrypted."""

    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (server, connect, _):
            client = await connect()
            raw = client.writer.get_extra_info("socket")
            client.send(b"echo:a")
            assert await client.answer() == b"a"
            raw = socket.socket(fileno=os.dup(raw.fileno()))
            raw.sendall(framed(b"echo:plain"))
            await until(lambda: not server.connection_count)
            raw.close()

    run(scenario)
