"""`--schema-registry` and its user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pykafka_broker.cli.control_address import host_and_port, read_secret
from pykafka_broker.cli.settings import UsageError

if TYPE_CHECKING:
    from pykafka_broker.registry.opening import Address

USER_VARIABLE = "PYKAFKA_BROKER_SCHEMA_REGISTRY_USER"
_NEEDED = ("jsonschema", "grpc_tools")  # the modules of the extra


def registry_address(text: str, user_file: str | None, environment: Mapping[str, str] = os.environ) -> Address:
    """Where the registry is to be, from `HOST:PORT` or a port of this machine. Raises UsageError."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"--schema-registry: {' and '.join(missing)} missing; pip install 'pykafka-broker[schema-registry]'"
        )
    from pykafka_broker.registry.opening import Address

    option = "--schema-registry"
    host, port = host_and_port(option, text)
    user = environment.get(USER_VARIABLE) if user_file is None else read_secret(f"{option}-user-file", user_file)
    if user is not None and not all(user.partition(":")):
        raise UsageError("the user of the schema registry must be NAME:PASSWORD")
    address = Address(host, port, user)
    if address.needs_user and user is None:
        raise UsageError(
            f"{option} {text}: others than this machine can reach it, so it needs {option}-user-file or {USER_VARIABLE}"
        )
    return address
