"""Errors of the control API, as HTTP tells them (RFC 9457)."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from http import HTTPStatus

from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

_NOT_THERE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_MEMBER_ID,
}
_IN_THE_WAY = {ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NON_EMPTY_GROUP, ErrorCode.CONCURRENT_TRANSACTIONS}
_NOT_NOW = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
}


NOT_IN_TIME = 408  # status of a wait that is over
DOES_NOT_HOLD = 417  # status of an assertion that fails


class Problem(Exception):
    """An answer with an error status; `detail` names the mistake and the allowed values.

    `code` is the name of Kafka's error behind it, if there is one, `more` further fields of the answer.
    """

    def __init__(self, status: int, detail: str, *, code: str | None = None, more: dict[str, object] | None = None):
        super().__init__(detail)
        self.status = HTTPStatus(status)
        self.detail = detail
        self.code = code
        self.more = more or {}

    def body(self) -> dict[str, object]:
        """Return the body of the answer (RFC 9457)."""
        body: dict[str, object] = {"title": self.status.phrase, "status": int(self.status), "detail": self.detail}
        if self.code is not None:
            body["code"] = self.code
        return body | self.more


def problem_of(error: ApiError) -> Problem:
    """Return an error of Kafka's protocol as a problem for HTTP."""
    code = error.code
    status = 404 if code in _NOT_THERE else 409 if code in _IN_THE_WAY else 503 if code in _NOT_NOW else 400
    if code is ErrorCode.UNKNOWN_SERVER_ERROR:
        status = 500
    detail = f"{code.name}: {error.message}" if error.message else code.name
    return Problem(status, detail, code=code.name)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" with the known names closest to `name`, or nothing."""
    close = get_close_matches(name, list(known), 3, 0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""
