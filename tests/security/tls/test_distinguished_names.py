"""Names of certificates: as Java writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pykafka_broker.security.tls.distinguished_names import text_of

ANSWERS: dict[str, str] = json.loads(Path(__file__).with_name("names.json").read_text())["subjects"]


def test_every_subject_is_written_as_java_does() -> None:
    assert {der: text_of(bytes.fromhex(der)) for der in ANSWERS} == ANSWERS


def test_what_is_no_name_is_refused() -> None:
    for der in ("", "30", "3005310330", "300d310b300906035504031302"):
        with pytest.raises(ValueError, match=r"DER|unpack"):
            text_of(bytes.fromhex(der))
