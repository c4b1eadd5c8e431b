"""`--control` and its token."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pykafka_broker.cli.settings import UsageError

if TYPE_CHECKING:
    from pykafka_broker.control.opening import ControlAddress

TOKEN_VARIABLE = "PYKAFKA_BROKER_CONTROL_TOKEN"
_MAX_PORT = 65535


def control_address(text: str, token_file: str | None, environment: Mapping[str, str] = os.environ) -> ControlAddress:
    """Where the control API is to be, from `HOST:PORT` or a port of this machine. Raises UsageError."""
    from pykafka_broker.control.opening import ControlAddress

    host, port = host_and_port("--control", text)
    token = environment.get(TOKEN_VARIABLE) if token_file is None else read_secret("--control-token-file", token_file)
    address = ControlAddress(host, port, token)
    if token == "":
        raise UsageError("the control token is empty")
    if address.needs_token and token is None:
        raise UsageError(
            f"--control {text}: others than this machine can reach it, so it needs --control-token-file or "
            f"{TOKEN_VARIABLE}"
        )
    return address


def host_and_port(option: str, text: str) -> tuple[str, int]:
    """Of `HOST:PORT`, or of a port of this machine. Raises UsageError."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit()) or int(port) > _MAX_PORT or "/" in host:
        raise UsageError(f"{option} {text}: it must be HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


def read_secret(option: str, path: str) -> str:
    """Raises UsageError."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"cannot read {option} {path}: {reason}") from error
