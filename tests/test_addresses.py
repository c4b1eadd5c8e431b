import pytest

from pykafka_broker.addresses import address_text, split_address


@pytest.mark.parametrize(("host", "text"), [("a.example", "a.example:9092"), ("::1", "[::1]:9092"), ("", ":9092")])
def test_an_address_is_read_as_it_was_written(host: str, text: str) -> None:
    assert address_text(host, 9092) == text
    assert split_address(text) == (host, "9092")


def test_a_port_alone_has_no_host() -> None:
    assert split_address("9092") == ("", "9092")
