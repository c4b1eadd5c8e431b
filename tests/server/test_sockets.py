"""Addresses of clients, as Kafka writes them."""

from __future__ import annotations

import pytest

from pykafka_broker.server.sockets import as_java_writes, plain_address


@pytest.mark.parametrize(
    ("address", "written"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::a0:1", "2001:db8:0:0:0:0:a0:1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_a_client_is_known_by_the_address_that_acls_have(address: str, written: str) -> None:
    assert as_java_writes(plain_address(address)) == written
