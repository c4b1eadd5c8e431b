"""The control API of a broker that passes for an older release: it asks as always."""

from __future__ import annotations

import socket

from pykafka_broker.testing import KafkaBroker


def test_data_of_a_broker_that_emulates() -> None:
    with KafkaBroker(emulate="0.9", in_process=True) as broker:
        broker.create_topic("t", partitions=2)
        broker.produce("t", [{"key": "k", "value": "v"}])
        [record] = broker.records("t")
        assert (record.key, record.value) == ("k", "v")
        assert broker.groups() == []
        host, port = broker.bootstrap_servers.split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(bytes.fromhex("0000000a00120000000000010000"))  # ApiVersions v0, which 0.9 does not know
            assert client.recv(1) == b""
