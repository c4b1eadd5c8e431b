"""Every message in every version, compared with Kafka's own classes, both ways."""

from __future__ import annotations

import pytest

from pykafka_broker.protocol.runtime import DecodeError
from tests.protocol.golden import golden, golden_names
from tests.protocol.values import from_json, message_class, messages


@pytest.mark.parametrize("name", golden_names())
def test_every_version_has_cases(name: str) -> None:
    assert {case.version for case in golden()[name]} == set(messages()[name].versions)


@pytest.mark.parametrize("name", golden_names())
def test_encodes_the_same_bytes(name: str) -> None:
    for case in golden()[name]:
        assert from_json(messages()[name], case.values).encode(case.version) == case.bytes, case


@pytest.mark.parametrize("name", golden_names())
def test_decodes_the_same_values(name: str) -> None:
    message = messages()[name]
    for case in golden()[name]:
        expected = from_json(message, case.values)
        for buffer in (case.bytes, bytearray(case.bytes), memoryview(case.bytes)):
            assert message_class(message).decode(buffer, case.version) == expected, case


@pytest.mark.parametrize("name", golden_names())
def test_reads_in_the_middle_of_a_buffer(name: str) -> None:
    message = messages()[name]
    for case in golden()[name]:
        buffer = memoryview(b"\xff\xff\xff" + case.bytes + b"\xff" * 20)
        read, end = message_class(message).read(buffer, 3, case.version)
        assert end == 3 + len(case.bytes)
        assert read == from_json(message, case.values)


@pytest.mark.parametrize("name", golden_names())
def test_refuses_every_proper_prefix(name: str, slow: bool) -> None:
    decode = message_class(messages()[name]).decode
    for case in golden()[name]:
        taken = []
        # Of long ones every so many, as each takes as long as it is. `pytest.raises` would be a third of the time.
        for end in range(0, len(case.bytes), 1 + len(case.bytes) // (4_000 if slow else 400)):
            try:
                decode(case.bytes[:end], case.version)
            except DecodeError:
                continue
            taken.append(end)
        assert not taken, case


@pytest.mark.parametrize("name", golden_names())
def test_refuses_a_byte_too_many(name: str) -> None:
    decode = message_class(messages()[name]).decode
    for case in golden()[name]:
        with pytest.raises(DecodeError, match="1 bytes too many"):
            decode(case.bytes + b"\0", case.version)
