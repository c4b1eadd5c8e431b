"""Topics named by a regular expression, as `--topic` and `--include` take them.

Rule: a comma stands for `|`, quotes at both ends and spaces do not count, and the whole name has to match.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pykafka_broker.client.errors import ClientError


def matcher(text: str) -> Callable[[str], bool]:
    """Whether a name is one of those that are meant. Raises ClientError."""
    pattern = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        compiled = re.compile(pattern)
    except re.error:
        raise ClientError(f"{pattern} is an invalid regex.") from None
    return lambda name: compiled.fullmatch(name) is not None


def subscribed(text: str) -> Callable[[str], bool]:
    """Return which topics a consumer reads that subscribes to a regular expression. Raises ClientError."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ClientError(f"{text} is an invalid regex: {error}") from None
    return lambda name: pattern.fullmatch(name) is not None
