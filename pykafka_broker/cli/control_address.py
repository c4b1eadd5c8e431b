"""`--control` and its token."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pykafka_broker.cli.settings import UsageError

if TYPE_CHECKING:
    from pykafka_broker.control.opening import Address

TOKEN_VARIABLE = "PYKAFKA_BROKER_CONTROL_TOKEN"
_MAX_PORT = 65535


def control_address(text: str, token_file: str | None, environment: Mapping[str, str] = os.environ) -> Address:
    """Where the control API is to be, from `HOST:PORT` or a port of this machine. Raises UsageError."""
    from pykafka_broker.control.opening import Address

    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit()) or int(port) > _MAX_PORT or "/" in host:
        raise UsageError(f"--control {text}: it must be HOST:PORT")
    token = environment.get(TOKEN_VARIABLE) if token_file is None else _read_token(token_file)
    address = Address(host.strip("[]") or "127.0.0.1", int(port), token)
    if token == "":
        raise UsageError("the control token is empty")
    if address.needs_token and token is None:
        raise UsageError(
            f"--control {text}: others than this machine can reach it, so it needs --control-token-file or "
            f"{TOKEN_VARIABLE}"
        )
    return address


def _read_token(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"cannot read --control-token-file {path}: {reason}") from error
