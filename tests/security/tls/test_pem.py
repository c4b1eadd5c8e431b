"""PEM as files and values have it."""

from __future__ import annotations

import pytest

from pykafka_broker.security.tls.pem import armoured, blocks_of
from tests.security.tls.certificates import authority, server_certificate


def test_a_file_of_a_key_and_a_chain_has_its_blocks_in_order() -> None:
    text = "Bag Attributes\n" + server_certificate().pem()
    blocks = blocks_of(text)
    assert [(block.is_key, block.is_certificate) for block in blocks] == [(True, False), (False, True), (False, True)]
    assert blocks[2].read_der() == authority().der
    assert not blocks[0].is_encrypted
    assert blocks_of(server_certificate().pem("secret"))[0].is_encrypted


@pytest.mark.parametrize("change", [("\n", "\r\n"), ("\n", " "), ("\n", "")])
def test_lines_may_end_as_they_like_or_not_at_all(change: tuple[str, str]) -> None:
    (block,) = blocks_of(authority().pem.replace(*change))
    assert block.read_der() == authority().der
    assert block.text == authority().pem


def test_what_is_armoured_is_read_back() -> None:
    (block,) = blocks_of(armoured("CERTIFICATE", authority().der))
    assert block.text == authority().pem


def test_half_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="a CERTIFICATE has no end"):
        blocks_of(authority().pem[:-10])
    with pytest.raises(ValueError, match="base64 of a CERTIFICATE"):
        blocks_of("-----BEGIN CERTIFICATE-----\n?!\n-----END CERTIFICATE-----\n")[0].read_der()


def test_text_without_blocks_has_none() -> None:
    assert blocks_of("nothing here\n") == []
