"""`.properties` files, case by case as java.util.Properties reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.config.properties import format_properties, parse_properties, read_properties_file


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=b", {"a": "b"}),
        ("a:b\nc d", {"a": "b", "c": "d"}),
        ("  a \t= b ", {"a": "b "}),
        ("a = = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("# a=b\n ! c=d\n\n \t\ne=f # g", {"e": "f # g"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b\\\n   c,\\\r\n\td\ne=f", {"a": "bc,d", "e": "f"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# not a comment", {"a": "b# not a comment"}),
        ("\\\n# a comment\n \\\n\na=b", {"a": "b"}),
        ("a=b\\", {"a": "b"}),
        ("a\\ b\\:c\\=d=e", {"a b:c=d": "e"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u00e9\\u4E2D", {"a": "é中"}),
        ("a=b\rc=d\n", {"a": "b", "c": "d"}),
        ("path=C:\\\\data", {"path": "C:\\data"}),
    ],
)
def test_line_forms(text: str, pairs: dict[str, str]) -> None:
    assert parse_properties(text) == pairs


def test_short_unicode_escape_is_refused() -> None:
    with pytest.raises(ValueError, match="uxxxx"):
        parse_properties("a=\\u12")


def test_what_is_written_is_read_again() -> None:
    pairs = {"a key=:#!": " =b\\\n\t# ü中😀", "c": "", "d": "e f "}
    text = format_properties(pairs)
    assert text.isascii()
    assert parse_properties(text) == pairs


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_a_file_whose_keys_kafka_would_not_find_is_refused(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=7\n", encoding=encoding)
    with pytest.raises(ValueError, match="it is UTF-16 or UTF-32: save it as UTF-8"):
        read_properties_file(str(file))


@pytest.mark.parametrize("first", ["# a comment\n", "\n", "  \t! another\r\n"])
def test_a_byte_order_mark_costs_a_comment_and_no_key(first: str, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"{first}num.partitions=7\n", encoding="utf-8-sig")
    assert read_properties_file(str(file)) == {"num.partitions": "7"}
    file.write_text(f"num.partitions=7\n{first}", encoding="utf-8-sig")
    with pytest.raises(ValueError, match="its byte order mark as a part of the first key"):
        read_properties_file(str(file))
    file.write_text("", encoding="utf-8-sig")
    assert read_properties_file(str(file)) == {}
