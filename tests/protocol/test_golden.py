"""Every message in every version, compared with Kafka's own classes, both ways."""

from __future__ import annotations

import pytest

from pykafka_broker.protocol.runtime import DecodeError
from tests.protocol.golden import golden, golden_names
from tests.protocol.values import from_json, message_class, messages


def test_every_version_has_cases() -> None:
    versions = {name: {case.version for case in golden()[name]} for name in golden_names()}
    assert versions == {name: set(messages()[name].versions) for name in golden_names()}


@pytest.mark.parametrize("name", golden_names())
def test_the_bytes_and_the_values_are_the_same(name: str) -> None:
    message = messages()[name]
    for case in golden()[name]:
        expected = from_json(message, case.values)
        assert expected.encode(case.version) == case.bytes, case
        for buffer in (case.bytes, bytearray(case.bytes), memoryview(case.bytes)):
            assert message_class(message).decode(buffer, case.version) == expected, case
        in_the_middle = memoryview(b"\xff\xff\xff" + case.bytes + b"\xff" * 20)
        assert message_class(message).read(in_the_middle, 3, case.version) == (expected, 3 + len(case.bytes)), case


@pytest.mark.parametrize("name", golden_names())
def test_refuses_every_proper_prefix_and_a_byte_too_many(name: str, slow: bool) -> None:
    decode = message_class(messages()[name]).decode
    for case in golden()[name]:
        with pytest.raises(DecodeError, match="1 bytes too many"):
            decode(case.bytes + b"\0", case.version)
        taken = []
        # Of long ones every so many, as each takes as long as it is. `pytest.raises` would be a third of the time.
        for end in range(0, len(case.bytes), 1 + len(case.bytes) // (4_000 if slow else 400)):
            try:
                decode(case.bytes[:end], case.version)
            except DecodeError:
                continue
            taken.append(end)
        assert not taken, case
