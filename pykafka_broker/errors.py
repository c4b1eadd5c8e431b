"""The two kinds of error that are no defect of the broker, and words of messages for all layers.

Rule: an `ApiError` becomes an error code in a reply and the connection goes on; a `FrameError` closes the connection.
Anything else that is raised while a request is served is a defect of the broker: it is logged and answered with
UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from pykafka_broker.protocol.errors import ErrorCode

# The text of an INVALID_REQUEST without a more exact reason.
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)

# The text of UNKNOWN_TOPIC_OR_PARTITION where an answer has one.
NOT_HOSTED = "This server does not host this topic-partition."


class ApiError(Exception):
    """An error reply for a topic, partition, group or request.

    `message` goes into the answer where the protocol has room for it.
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(f"{code.name}: {message}" if message else code.name)
        self.code = code
        self.message = message


class FrameError(Exception):
    """A connection with broken bytes: the connection is closed, and the text is logged once."""


class NotLetIn(FrameError):
    """A connection without a login, or without trust: another attempt would end in the same way.

    told: the peer's own reason, None without one.
    """

    def __init__(self, text: str, told: str | None = None) -> None:
        super().__init__(text)
        self.told = told


class ClosedOnPurpose(FrameError):
    """A connection with sound bytes: its end is all that the client is to hear of a failure."""


# -- words of messages


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: "1 record", "2 records"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
