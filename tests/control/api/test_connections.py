"""The control API's list of connections, and waits for them."""

from __future__ import annotations

import pytest

from pykafka_broker.control.traffic.request_log import SEALED_AT
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.testing import KafkaBroker, WaitTimeout
from tests.control.api.test_waits import meanwhile
from tests.control.raw_client import RawClient, raw_client


def test_a_wait_for_a_connection_ends_with_the_first_request_of_its_client(broker: KafkaBroker) -> None:
    clients: list[RawClient] = []

    def connect() -> None:
        clients.append(RawClient(broker, "wanted-1"))
        clients[0].ask(MetadataRequest([]), 12)

    step = meanwhile(connect)
    (found,) = broker.wait_for_connections("wanted-*")
    step.join()
    port = clients[0].socket.getsockname()[1]
    assert (found["client_id"], found["client"]) == ("wanted-1", f"127.0.0.1:{port}")
    step = meanwhile(clients[0].close)
    assert broker.wait_for_connections("wanted-1", n=0) == []
    step.join()


def test_a_client_that_was_silent_for_long_is_still_known(broker: KafkaBroker) -> None:
    with raw_client(broker, "silent") as silent, raw_client(broker, "loud") as loud:
        for client in (silent, *[loud] * (2 * SEALED_AT)):
            client.ask(MetadataRequest([]), 12)
        broker.clear_requests()
        assert [each["client_id"] for each in broker.connections("silent")] == ["silent"]
        assert len(broker.wait_for_connections("*", n=2)) >= 2


def test_a_wait_in_vain_says_who_is_there(broker: KafkaBroker) -> None:
    with raw_client(broker, "somebody") as client, raw_client(broker, "plain") as plain:
        plain.ask(MetadataRequest([]), 12)
        client.ask(ApiVersionsRequest("franz-go", "1.2"), 3)
        told = (
            r"after 50 ms 0 connections of client id else, expected 2; "
            r"connected are: .*plain, .*somebody \(franz-go 1\.2\)"
        )
        with pytest.raises(WaitTimeout, match=told):
            broker.wait_for_connections("else", n=2, timeout=0.05)
