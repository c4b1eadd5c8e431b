"""`.properties` files as Java reads them (java.util.Properties.load).

Rule: a line is a natural line or several joined by an odd number of backslashes at their ends; the key ends at the
first `=`, `:` or blank that no backslash guards; escapes are undone last.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping

_BLANKS = " \t\f"
_ESCAPE = re.compile(r"\\(u([0-9a-fA-F]{0,4})|.?)", re.DOTALL)
_IN_KEY = re.compile(r"[\\=:#! ]|[^ -~]")
_IN_VALUE = re.compile(r"\\|^ |[^ -~]")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    r"""Return the pairs of a file, with the last of repeated keys; `ValueError` for a `\u` without four hex digits."""
    pairs = {}
    for line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        assert match is not None  # a lone backslash can't end a logical line
        pairs[_unescape(match[1])] = _unescape(match[2])
    return pairs


def read_properties_file(path: str) -> dict[str, str]:
    """Return the pairs of a file in Kafka's encoding, Latin-1.

    Java takes a byte order mark as a part of the first key, and finds none of Kafka's keys in UTF-16. A file that would
    lose settings in this way is refused.

    Raises:
        OSError: the file can't be read.
        ValueError: the text makes no sense.
    """
    with open(path, "rb") as file:
        data = file.read()
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in data[:4]:
        raise ValueError("it is UTF-16 or UTF-32: save it as UTF-8, without a byte order mark")
    text = data.removeprefix(codecs.BOM_UTF8).decode("latin-1")
    if data.startswith(codecs.BOM_UTF8) and text.lstrip(_BLANKS)[:1] not in "#!\r\n":
        raise ValueError("Kafka takes its byte order mark as a part of the first key: save it without the mark")
    return parse_properties(text)


def format_properties(pairs: Mapping[str, str]) -> str:
    """Return the text of a file with the pairs, in ASCII letters, readable by `parse_properties`."""
    return "".join(f"{_escape(key, _IN_KEY)}={_escape(value, _IN_VALUE)}\n" for key, value in pairs.items())


def _escape(text: str, special: re.Pattern[str]) -> str:
    def guarded(match: re.Match[str]) -> str:
        letter = match[0]
        if letter.isascii() and letter.isprintable():
            return f"\\{letter}"
        return "".join(f"\\u{unit:04x}" for unit in memoryview(letter.encode("utf-16-le", "surrogatepass")).cast("H"))

    return special.sub(guarded, text)


def _logical_lines(text: str) -> Iterator[str]:
    joined = ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANKS)
        if not joined and (not line or line[0] in "#!"):
            continue
        line = joined + line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined = line[:-1]
        else:
            joined = ""
            yield line
    if joined:
        yield joined


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        if match[2] is None:
            return _CONTROL.get(match[1], match[1])
        if len(match[2]) < 4:
            raise ValueError(f"Malformed \\uxxxx encoding: {match[0]}")
        return chr(int(match[2], 16))

    if "\\" not in text:
        return text
    units = _ESCAPE.sub(plain, text)  # a letter beyond the first 65,536 is a pair of units
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
