"""Login modules as `sasl.jaas.config` names them.

Rule: the text is read as Kafka reads it (`JaasConfig`, over Java's StreamTokenizer): `Class flag key=value ... ;` with
one module. On a broker the key has the listener and the mechanism in its name:
`listener.name.<listener>.<mechanism>.sasl.jaas.config`. An error never shows the text, which may contain passwords.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pykafka_broker.config import ConfigError
from pykafka_broker.security.listener_settings import ListenerSettings

_FLAGS = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
# As for Java, a single slash begins a comment too, and a quoted text ends with its line at the latest.
_TOKEN = re.compile(
    r"""
    (?P<blank>[\x00-\x20]+|/\*.*?(?:\*/|\Z)|/[^\r\n]*)
    |"(?P<quoted>(?:[^"\\\r\n]|\\.)*)"?
    |'(?P<single>(?:[^'\\\r\n]|\\.)*)'?
    |(?P<number>-?(?:[0-9]+\.?[0-9]*|\.[0-9]+))
    |(?P<word>[A-Za-z_$\xa0-\U0010ffff][A-Za-z0-9_.$\-\xa0-\U0010ffff]*)
    |(?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class LoginModule(NamedTuple):
    """A login module: class and options."""

    name: str
    options: dict[str, str]

    def __repr__(self) -> str:  # options hold passwords
        return f"LoginModule({self.name})"


def login_module(settings: ListenerSettings, mechanism: str) -> LoginModule:
    """Return the module of a listener for a mechanism. Raises ConfigError."""
    name = settings.full_name("sasl.jaas.config", mechanism)
    found = settings.text("sasl.jaas.config", mechanism)
    if found is None or found[0] != name:
        raise ConfigError(f"{settings.before_error}there is no login module for {mechanism}: {name} is not set")
    try:
        return parse_login_module(found[1])
    except ValueError as error:
        raise ConfigError(f"Invalid value [hidden] for configuration {name}: {error}") from None


def parse_login_module(text: str) -> LoginModule:
    """Return the module in a text. Raises ValueError, without a value of `text` in the message."""
    tokens = _tokens(text)
    modules = []
    while tokens:
        modules.append(_module(tokens))
    if len(modules) != 1:
        raise ValueError(f"JAAS config property contains {len(modules)} login modules, should be 1 module")
    return modules[0]


def _module(tokens: list[tuple[str, bool]]) -> LoginModule:
    """Take a module from the end of the reversed `tokens`."""
    name, _ = tokens.pop()
    flag = tokens.pop()[0] if tokens else ""
    if flag.upper() not in _FLAGS:
        raise ValueError("Login module control flag is not available or invalid in the JAAS config")
    options: dict[str, str] = {}
    while tokens and tokens[-1] != (";", False):
        key, is_text = tokens.pop()
        if len(tokens) < 2 or tokens.pop() != ("=", False) or not tokens[-1][1]:
            raise ValueError(f"Value not specified for key '{key if is_text else 'null'}' in JAAS config")
        value, _ = tokens.pop()
        if is_text:  # a number or a sign is no name to Kafka, and no error
            options[key] = value
    if not tokens:
        raise ValueError("JAAS config entry not terminated by semi-colon")
    tokens.pop()
    return LoginModule(name, options)


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Return words and signs in reverse, each with whether a name or value is possible."""
    found: list[tuple[str, bool]] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind in ("quoted", "single"):
            found.append((_ESCAPE.sub(_unescaped, match[kind]), True))
        elif kind != "blank":
            found.append((match[0], kind == "word"))
    found.reverse()
    return found


def _unescaped(match: re.Match[str]) -> str:
    what = match[1]
    return chr(int(what, 8)) if what[0] in "01234567" else _ESCAPED.get(what, what)
