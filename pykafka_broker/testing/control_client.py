"""The control API from Python, with the standard library only.

Rule: a call returns the broker's answer, or raises `ControlError` with the broker's sentence. It may be used from
several threads: a call takes a connection that no other call uses, and leaves it for the next one. A forked child makes
connections of its own. `close` closes idle connections, and so does the end of the client itself.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import socket
import weakref
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

DEFAULT_TIMEOUT_S = 60.0


def told_to_the_test(raised: Any) -> bool:
    """Return whether pytest shows only the line of the test, for `__tracebackhide__` of a module.

    So it does if the broker has refused or ended, an assertion has failed, or an argument is wrong. Any other exception
    is a defect here and is shown whole.
    """
    return raised is not None and raised.errisinstance((AssertionError, OSError, RuntimeError, TypeError, ValueError))


__tracebackhide__ = told_to_the_test


class ControlError(RuntimeError):
    """A refusal of the broker.

    `status` is HTTP's, `code` the name of Kafka's error where one is behind it, `more` further data of the broker.
    """

    def __init__(self, status: int, detail: str, code: str | None = None, more: Mapping[str, Any] | None = None):
        super().__init__(detail)
        self.status = status
        self.code = code
        self.more = dict(more or {})


class ControlClient:
    """A client of the control API. url: printed by the broker after "control on"."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._host, self._port = address_of(url)
        self.url = url.rstrip("/")
        self._token = token
        self._idle: list[http.client.HTTPConnection] = []
        self._user = os.getpid()
        self.is_of_the_past = False  # whether another process serves there by now, as far as is known here
        weakref.finalize(self, _close_all, self._idle)

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | str | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Any:
        """Call an operation and return the answer.

        Args:
            body: JSON, or text where the operation takes text.
            query: parameters. None in `body` or `query` is left out.
            timeout_s: the time-out in seconds.

        Raises:
            ControlError: the broker refuses the operation.
            OSError: the broker can't be reached; the error names the URL.
        """
        target, headers, data = written_call(path, body, query, self._token)
        try:
            return read_answer(*self._exchange(method, target, data, headers, timeout_s))
        except http.client.HTTPException as error:  # half an answer, or none
            raise ConnectionError(f"{self.url}: {error}") from error
        except TimeoutError as error:
            raise TimeoutError(f"{self.url}: no answer within {timeout_s:g} s") from error
        except OSError as error:
            error.filename = self.url  # so the error names the address
            raise

    def _exchange(
        self, method: str, target: str, data: bytes | None, headers: dict[str, str], timeout_s: float
    ) -> tuple[int, str, bytes]:
        connection = self._open_idle() or http.client.HTTPConnection(self._host, self._port)
        connection.timeout = timeout_s
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        try:
            connection.request(method, target, data, headers)
            response = connection.getresponse()
            answer = response.status, response.headers.get_content_type(), response.read()
        except BaseException:
            connection.close()  # half an answer may be left
            raise
        self._idle.append(connection)
        return answer

    def _open_idle(self) -> http.client.HTTPConnection | None:
        """Return an idle connection, unless the broker has closed all idle connections.

        So a call is never sent twice: the first one may have been carried out.
        """
        if self._user != os.getpid():  # forked: the parent goes on using its connections
            self._user = os.getpid()
            self.close()
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if _is_open(connection):
                return connection
            connection.close()
        return None

    def at(self, process: ControlClient) -> ControlClient:
        """Return the client of the same kind for another process."""
        return process

    def close(self) -> None:
        """Close idle connections. Another call opens a new connection."""
        _close_all(self._idle)


def _close_all(connections: list[http.client.HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def _is_open(connection: http.client.HTTPConnection) -> bool:
    """Return whether an idle connection is still open, and without unexpected bytes."""
    if connection.sock is None:
        return False
    connection.sock.settimeout(0)
    try:
        connection.sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def in_path(part: str) -> str:
    """Quote a name for a path. Raises TypeError, or ValueError for an empty name: the path would be that of all."""
    if not isinstance(part, str):
        raise TypeError(f"a name must be text, not {part!r:.80}")
    if not part:
        raise ValueError("an empty name")
    return quote(part, safe="")


def address_of(url: str) -> tuple[str, int]:
    """Return host and port of a control API. Raises ValueError."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # a port that is no number, or a bracket without its other one
        parts, host, port = None, None, None
    if parts is None or parts.scheme != "http" or host is None or parts.path.strip("/") or parts.query:
        raise ValueError(f"{url} is no URL of a control API: it must be http://HOST:PORT")
    return host, port or 80


def written_call(
    path: str, body: Mapping[str, Any] | str | None, query: Mapping[str, Any] | None, token: str | None
) -> tuple[str, dict[str, str], bytes | None]:
    """Return a call's target, headers and body for the wire."""
    target = path
    if query and (given := {name: _text(value) for name, value in query.items() if value is not None}):
        target += "?" + urlencode(given)
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    if body is None:
        return target, headers, None
    if isinstance(body, str):
        return target, headers | {"content-type": "text/plain; charset=utf-8"}, body.encode()
    given = {name: value for name, value in body.items() if value is not None}
    return target, headers | {"content-type": "application/json"}, json_text(given, allow_nan=True).encode()


_INSTEAD = {  # of a type that JSON has not, by the name of the type or of one it derives from
    **dict.fromkeys(("date", "time"), "its isoformat()"),
    **dict.fromkeys(("Decimal", "UUID", "PurePath", "IPv4Address", "IPv6Address"), "str() of it"),
    **dict.fromkeys(("set", "frozenset"), "sorted() of it"),
    **dict.fromkeys(("bytes", "bytearray", "memoryview"), "its text, or base64 of it"),
    "timedelta": "its total_seconds()",
    "Enum": "its value",
}
_INSTEAD_WITH = {  # by what it has
    "model_dump": "its model_dump(mode='json')",  # pydantic
    "__dataclass_fields__": "dataclasses.asdict() of it",
    "tolist": "its tolist()",  # numpy
    "SerializeToString": "its SerializeToString()",  # protobuf
    "keys": "dict() of it",
    "__iter__": "list() of it",
}


def json_text(value: Any, where: str = "", *, allow_nan: bool = False) -> str:
    """Return a value as JSON.

    Raises TypeError or ValueError, which says where in the value there is something that JSON has not, and what to
    pass instead.
    """
    try:
        return json.dumps(value, allow_nan=allow_nan)
    except (TypeError, ValueError):
        _check_json(value, where)
        raise


def _check_json(value: Any, where: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} is {value}: JSON has no such number; pass None or text")
    if value is None or isinstance(value, (str, int, float)):
        return
    if isinstance(value, dict):
        for name, each in value.items():
            if not (name is None or isinstance(name, (str, int, float))):
                raise TypeError(f"{where or 'a dict'} has the name {name!r:.80}: in JSON names are text")
            _check_json(each, f"{where}[{name!r}]" if where else str(name))
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            _check_json(each, f"{where}[{index}]")
    else:
        kind = type(value)
        by_name = (_INSTEAD[base.__name__] for base in kind.__mro__ if base.__name__ in _INSTEAD)
        instead = next(by_name, None) or next((told for has, told in _INSTEAD_WITH.items() if hasattr(value, has)), "")
        told = instead or "text, bytes, a number, a list or a dict"
        raise TypeError(f"{where} is {value!r:.80}: JSON has no {kind.__name__}; pass {told}")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_answer(status: int, content_type: str, data: bytes) -> Any:
    """Return the answer of an operation. Raises ControlError for a refusal."""
    is_json = content_type in ("application/json", "application/problem+json")
    answer: Any = json.loads(data) if is_json else data.decode()
    if status < 400:
        return answer
    if not is_json:
        raise ControlError(status, answer.strip())
    known = {"title", "status", "detail", "code"}
    raise ControlError(
        status, answer["detail"], answer.get("code"), {name: answer[name] for name in answer.keys() - known}
    )
