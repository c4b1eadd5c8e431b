"""The description of all operations."""

from __future__ import annotations

from typing import Any

from pykafka_broker.control.control import Control
from pykafka_broker.control.openapi import document
from pykafka_broker.control.routes import operations


def openapi(control: Control) -> dict[str, Any]:
    """This API as an OpenAPI 3.1 document."""
    return document(operations())
