"""`--schema-registry`, `--schema-registry-url` and the user of either."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pykafka_broker.cli.control_address import host_and_port, read_secret
from pykafka_broker.cli.settings import UsageError

if TYPE_CHECKING:
    from pykafka_broker.registry.elsewhere import SchemasElsewhere
    from pykafka_broker.registry.opening import Address

USER_VARIABLE = "PYKAFKA_BROKER_SCHEMA_REGISTRY_USER"
_OPTION = "--schema-registry"
_NEEDED = {"jsonschema": "jsonschema", "grpc_tools": "grpcio-tools"}  # modules, and the packages that bring them


def registry_address(text: str, user_file: str | None, environment: Mapping[str, str] = os.environ) -> Address:
    """Where the registry is to be, from `HOST:PORT` or a port of this machine. Raises UsageError."""
    _must_be_installed(_OPTION)
    from pykafka_broker.registry.opening import Address

    host, port = host_and_port(_OPTION, text)
    address = Address(host, port, _user(user_file, environment))
    if address.needs_user and address.user is None:
        raise UsageError(
            f"{_OPTION} {text}: others than this machine can reach it, so it needs {_OPTION}-user-file or "
            f"{USER_VARIABLE}"
        )
    return address


def schemas_elsewhere(url: str, user_file: str | None, environment: Mapping[str, str] = os.environ) -> SchemasElsewhere:
    """Those of the registry at that URL. Raises UsageError."""
    _must_be_installed(f"{_OPTION}-url")
    from pykafka_broker.registry.elsewhere import SchemasElsewhere

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
