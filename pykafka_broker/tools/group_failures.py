"""What the tools of groups say when a command of theirs fails: where Java's exceptions are nested their classes are
told.
"""

from __future__ import annotations

from collections.abc import Collection

from pykafka_broker.client.errors import ClientError, Refused, TimedOut
from pykafka_broker.tools.java_time import Unparseable

_NESTED = "java.util.concurrent.ExecutionException"


def why(error: ClientError, action: str, listing: Collection[str] = ("list",)) -> str:
    """listing: actions that begin with a list of all groups."""
    if isinstance(error, TimedOut) and action in listing:
        return f"{_NESTED}: {ClientError.exception}: Failed to find brokers to send ListGroups"
    if isinstance(error, Refused | TimedOut):
        return error.java if action == "describe" else f"{_NESTED}: {error.java}"
    return error.java if isinstance(error, Unparseable) else str(error)
