import socket

import pytest

from pykafka_broker.addresses import address_text, as_java_writes, java_address, split_address


@pytest.mark.parametrize(("host", "text"), [("a.example", "a.example:9092"), ("::1", "[::1]:9092"), ("", ":9092")])
def test_an_address_is_read_as_it_was_written(host: str, text: str) -> None:
    assert address_text(host, 9092) == text
    assert split_address(text) == (host, "9092")


def test_a_port_alone_has_no_host() -> None:
    assert split_address("9092") == ("", "9092")


@pytest.mark.parametrize(
    ("address", "written"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("0:0:0:0:0:0:0:1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::a0:1", "2001:db8:0:0:0:0:a0:1"),
        ("2001:DB8::A0:1", "2001:db8:0:0:0:0:a0:1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("a.example", "a.example"),
        ("a:b", "a:b"),
    ],
)
def test_a_client_is_known_by_the_address_that_acls_have(address: str, written: str) -> None:
    assert as_java_writes(address) == written


def test_an_address_in_a_message_is_written_like_one_of_a_socket() -> None:
    assert java_address(bytes([10, 1, 2, 3])) == "10.1.2.3"
    assert java_address(socket.inet_pton(socket.AF_INET6, "2001:db8::a0:1")) == as_java_writes("2001:db8::a0:1")
    with pytest.raises(ValueError, match="3 bytes"):
        java_address(b"abc")
