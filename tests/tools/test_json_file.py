"""Whatever a file has in it, it ends in values or in one line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.client.errors import ClientError
from pykafka_broker.tools.json_file import field, json_array, json_number, json_object, json_text, read_json, repeated


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"n": [2147483647, 9223372036854775807, "é"]}')
    small, large, text = json_array(field(json_object(read_json(str(file))), "n"))
    assert (json_number(small), json_number(large, long=True), json_text(text)) == (2**31 - 1, 2**63 - 1, "é")


def test_values_that_come_again() -> None:
    assert repeated(["b", "a", "c", "a", "b", "a"]) == ["a", "b"]
    assert repeated(map(int, "12")) == []


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000])
def test_no_json(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(content)
    with pytest.raises(ClientError, match="The input string is not a valid JSON"):
        read_json(str(file))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match=f"Unable to read file {tmp_path}"):
        read_json(str(tmp_path))


@pytest.mark.parametrize(
    ("read", "value", "says"),
    [
        (json_object, [1, 2], r"Expected JSON object, received \[1,2\]"),
        (json_array, {}, "Expected JSON array, received {}"),
        (json_number, True, "Expected `Integer` value, received true"),
        (json_number, 1.0, "Expected `Integer` value, received 1.0"),
        (json_number, 2**31, "Expected `Integer` value, received 2147483648"),
        (lambda value: json_number(value, long=True), 2**63, "Expected `Long` value"),
        (json_text, None, "Expected `String` value, received null"),
        (lambda value: field(value, "x"), {"y": 1}, "No such field exists: `x`"),
    ],
)
def test_another_kind_of_value(read: Callable[[Any], object], value: object, says: str) -> None:
    with pytest.raises(ClientError, match=says):
        read(value)
