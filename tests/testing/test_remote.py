"""`RemoteBroker`: a broker that runs already, or does not."""

from __future__ import annotations

import pytest

from pykafka_broker.testing import KafkaBroker, RemoteBroker
from tests.control.test_other_nodes import answering


def test_the_broker_runs_on_after_the_end_of_the_block() -> None:
    with KafkaBroker() as broker:
        with RemoteBroker(broker.control_url) as remote:
            assert remote.bootstrap_servers == broker.bootstrap_servers
        assert broker.topics() == []


@pytest.mark.parametrize("answer", [b"", b"no HTTP\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort"])
def test_an_answer_that_is_not_whole_is_a_connection_error(answer: bytes) -> None:
    """An answer as a killed broker leaves it."""
    with answering(answer) as (host, port), pytest.raises(ConnectionError, match=f"http://{host}:{port}: "):
        RemoteBroker(f"http://{host}:{port}").topics()


def test_who_is_not_there_is_named() -> None:
    with pytest.raises(ConnectionRefusedError, match=r"'http://127\.0\.0\.1:1'"):
        RemoteBroker("http://127.0.0.1:1").topics()
    with KafkaBroker() as broker, pytest.raises(ConnectionError, match=f"^http://{broker.bootstrap_servers}: "):
        RemoteBroker(f"http://{broker.bootstrap_servers}").topics()
