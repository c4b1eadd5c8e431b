"""Addresses on the command line: `--control`, `--schema-registry` and `--schema-registry-url`, with their secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pykafka_broker.addresses import split_address
from pykafka_broker.cli.settings import UsageError

if TYPE_CHECKING:
    from pykafka_broker.cli.commands import CommandParser
    from pykafka_broker.control.http import HttpAddress
    from pykafka_broker.registry.decoding import SchemasElsewhere
    from pykafka_broker.testing.control_client import ControlClient


# -- the control API


URL_VARIABLE = "PYKAFKA_BROKER_CONTROL_URL"
TOKEN_VARIABLE = "PYKAFKA_BROKER_CONTROL_TOKEN"
_TOKEN = re.compile(r"[!-~]([ -~]*[!-~])?")
_MAX_PORT = 65535


def control_address(text: str, token_file: str | None, environment: Mapping[str, str] = os.environ) -> HttpAddress:
    """Return the address of the control API, from `HOST:PORT` or a local port. Raises UsageError."""
    token = environment.get(TOKEN_VARIABLE) if token_file is None else read_secret("--control-token-file", token_file)
    if token == "":
        raise UsageError("the control token is empty")
    if token is not None and not _TOKEN.fullmatch(token):
        raise UsageError("the control token must be one line of ASCII without blanks at its ends: a header has it")
    wrong = f"others than this machine can reach it, so it needs --control-token-file or {TOKEN_VARIABLE}"
    return _guarded("--control", text, token, wrong)


def control_client(command: CommandParser, url: str | None, *, needs: str = "") -> ControlClient:
    """Return a client of the control API at a URL, by default at that of the environment.

    Without either the command ends. Raises ValueError for a URL that is none.

    Args:
        needs: what the command may have instead, for the text of the mistake.
    """
    from pykafka_broker.testing.control_client import ControlClient

    url = url or os.environ.get(URL_VARIABLE)
    if url is None:
        either = f"--url or {URL_VARIABLE}"
        command.error(f"{needs}, {either} is needed" if needs else f"{either} must name the control API")
    return ControlClient(url, os.environ.get(TOKEN_VARIABLE))


def control_nodes(text: str) -> dict[int, tuple[str, int]]:
    """Return the addresses of other nodes' control APIs, from `2=HOST:PORT,3=HOST:PORT`. Raises UsageError."""
    nodes = {}
    for each in filter(None, text.split(",")):
        node_id, equals, address = each.partition("=")
        if not (equals and re.fullmatch("[0-9]{1,10}", node_id)):
            raise UsageError(f"--control-nodes {each}: it must be NODE=HOST:PORT")
        nodes[int(node_id)] = host_and_port("--control-nodes", address)
    return nodes


def _guarded(option: str, text: str, secret: str | None, wrong: str) -> HttpAddress:
    """Return an address. Raises UsageError, with `wrong`, for an address that needs a secret and has none."""
    from pykafka_broker.control.http import HttpAddress

    address = HttpAddress(*host_and_port(option, text), secret)
    if address.needs_secret and secret is None:
        raise UsageError(f"{option} {text}: {wrong}")
    return address


def host_and_port(option: str, text: str) -> tuple[str, int]:
    """Split `HOST:PORT`, or a local port. Raises UsageError."""
    host, port = split_address(text)
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) > _MAX_PORT or "/" in host:
        raise UsageError(f"{option} {text}: it must be HOST:PORT or PORT (127.0.0.1), with a port up to {_MAX_PORT}")
    return host or "127.0.0.1", int(port)


def read_secret(option: str, path: str) -> str:
    """Read a secret from a file. Raises UsageError."""
    try:
        with open(path, encoding="utf-8-sig") as file:  # editors of Windows write a byte order mark
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"cannot read {option} {path}: {reason}") from error


# -- the schema registry


USER_VARIABLE = "PYKAFKA_BROKER_SCHEMA_REGISTRY_USER"
_OPTION = "--schema-registry"
_NEEDED = {"jsonschema": "jsonschema", "grpc_tools": "grpcio-tools"}  # modules and their packages


def registry_address(text: str, user_file: str | None, environment: Mapping[str, str] = os.environ) -> HttpAddress:
    """Return the address of the registry, from `HOST:PORT` or a local port. Raises UsageError."""
    _must_be_installed(_OPTION)
    wrong = f"others than this machine can reach it, so it needs {_OPTION}-user-file or {USER_VARIABLE}"
    return _guarded(_OPTION, text, _user(user_file, environment), wrong)


def schemas_elsewhere(url: str, user_file: str | None, environment: Mapping[str, str] = os.environ) -> SchemasElsewhere:
    """Return the schemas of the registry at a URL. Raises UsageError."""
    _must_be_installed(f"{_OPTION}-url")
    from pykafka_broker.registry.decoding import SchemasElsewhere

    try:
        scheme, place, _, _, _ = urlsplit(url)
    except ValueError:
        scheme = place = ""
    if "@" in place:
        raise UsageError(f"{_OPTION}-url: give its user with {_OPTION}-user-file or {USER_VARIABLE}")
    if scheme not in ("http", "https") or not place:
        raise UsageError(f"{_OPTION}-url {url}: it must be a URL that begins with http:// or https://")
    return SchemasElsewhere(url, _user(user_file, environment))


def _must_be_installed(option: str) -> None:
    missing = [package for module, package in _NEEDED.items() if find_spec(module) is None]
    if missing:
        raise UsageError(f"{option}: {' and '.join(missing)} missing; pip install {' '.join(missing)}")


def _user(file: str | None, environment: Mapping[str, str]) -> str | None:
    user = environment.get(USER_VARIABLE) if file is None else read_secret(f"{_OPTION}-user-file", file)
    if user is not None and not all(user.partition(":")):
        raise UsageError("the user of the schema registry must be NAME:PASSWORD")
    return user
