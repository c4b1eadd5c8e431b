"""`RemoteBroker`: a broker that runs already, or does not."""

from __future__ import annotations

import asyncio

import pytest

from pykafka_broker.testing import AsyncRemoteBroker, KafkaBroker, RemoteBroker
from pykafka_broker.testing.async_client import AsyncControlClient
from pykafka_broker.testing.control_client import ControlClient, address_of
from tests.control.test_other_nodes import answering


def test_the_broker_runs_on_after_the_end_of_the_block() -> None:
    with KafkaBroker() as broker:
        with RemoteBroker(broker.control_url) as remote:
            assert remote.bootstrap_servers == broker.bootstrap_servers
        assert broker.topics() == []


@pytest.mark.parametrize("answer", [b"", b"no HTTP\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort"])
def test_an_answer_that_is_not_whole_is_a_connection_error(answer: bytes) -> None:
    """A cut answer, as a killed broker leaves it, raises ConnectionError."""
    with answering(answer) as (host, port), pytest.raises(ConnectionError, match=f"http://{host}:{port}: "):
        RemoteBroker(f"http://{host}:{port}").topics()
    with answering(answer) as (host, port), pytest.raises(ConnectionError, match=f"http://{host}:{port}: "):
        asyncio.run(AsyncRemoteBroker(f"http://{host}:{port}").topics())


def test_a_connection_without_an_answer_is_told_plainly() -> None:
    says = "the broker has closed the connection without an answer$"
    with answering(b"") as (host, port), pytest.raises(ConnectionError, match=says):
        asyncio.run(AsyncRemoteBroker(f"http://{host}:{port}").topics())


def test_an_answer_that_does_not_come_in_time_is_told() -> None:
    with KafkaBroker(in_process=True) as broker:
        wait = {"group": "billing", "timeout_ms": 5_000}
        url, says = broker.control_url, f"^{broker.control_url}: no answer within 0.1 s$"
        with pytest.raises(TimeoutError, match=says):
            ControlClient(url).call("POST", "/waits/group", wait, timeout_s=0.1)
        with pytest.raises(TimeoutError, match=says):
            asyncio.run(AsyncControlClient(url).call("POST", "/waits/group", wait, timeout_s=0.1))


def test_who_is_not_there_is_named() -> None:
    for url in ("http://127.0.0.1:1", "http://nowhere.invalid:1"):
        with pytest.raises(OSError, match=f"'{url}'"):
            RemoteBroker(url).topics()
        with pytest.raises(OSError, match=f"'{url}'"):
            asyncio.run(AsyncRemoteBroker(url).topics())
    with KafkaBroker() as broker, pytest.raises(ConnectionError, match=f"^http://{broker.bootstrap_servers}: "):
        RemoteBroker(f"http://{broker.bootstrap_servers}").topics()


def test_a_url_without_a_port_has_that_of_http() -> None:
    assert address_of("http://broker.example") == ("broker.example", 80)
