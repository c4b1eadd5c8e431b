"""Access to the control API and its answers to bad requests, tried over plain sockets."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pykafka_broker.control.door import _PIECE_CHARACTERS, MAX_BODY_BYTES, ControlDoor, _response
from pykafka_broker.control.http import HttpAddress, Request, Response
from pykafka_broker.control.operations import Lines
from pykafka_broker.control.problems import Problem
from pykafka_broker.testing import KafkaBroker
from tests.server.support import run


def ask(broker: KafkaBroker, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
    url = broker.control_url.removeprefix("http://")
    connection = http.client.HTTPConnection(url, timeout=60)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def raw(broker: KafkaBroker, data: bytes) -> bytes:
    """Send these bytes and return everything that the broker sends before it closes the connection."""
    host, _, port = broker.control_url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while piece := connection.recv(65536):
            received += piece
        return received


def test_it_says_that_it_is_there(broker: KafkaBroker) -> None:
    assert ask(broker, "GET", "/healthz") == (200, {"status": "ok"})
    assert ask(broker, "GET", "/readyz") == (200, {"status": "ready"})


def test_clients_are_served_while_a_long_body_is_read(broker: KafkaBroker) -> None:
    body = json.dumps({"records": [{"value": [[]]}] * 200_000}).encode()
    served = 0
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(ask, broker, "POST", "/topics/t/records", body, content_type="application/json")
        while not asked.done():
            assert ask(broker, "GET", "/healthz")[0] == 200
            served += 1
    status, answer = asked.result()
    assert (status, answer["detail"]) == (400, "records must have a length of at most 5000")
    assert served > 20


def test_a_path_or_method_that_is_not_there_is_told(broker: KafkaBroker) -> None:
    status, answer = ask(broker, "GET", "/nowhere")
    assert (status, answer["detail"]) == (404, "there is no /nowhere; /openapi.json has all paths")
    status, answer = ask(broker, "PUT", "/topics")
    assert (status, answer["detail"]) == (405, "/topics has GET, POST, not PUT")


@pytest.mark.parametrize(
    ("body", "content_type", "status", "says"),
    [
        (b"{", "application/json", 400, "the body is not JSON"),
        (b"[" * 100_000, "application/json", 400, "the body is not JSON"),
        (b"\xff", "application/json", 400, "the body is not UTF-8"),
        (b"[]", "application/json", 400, "the body must be a JSON object"),
        (b"{}", "text/plain", 415, "the content type must be application/json"),
        (b"{}", "application/json", 400, "name is missing"),
    ],
)
def test_a_body_that_makes_no_sense_is_told(
    broker: KafkaBroker, body: bytes, content_type: str, status: int, says: str
) -> None:
    told, answer = ask(broker, "POST", "/topics", body, content_type=content_type)
    assert told == status
    assert answer["detail"].startswith(says)


def test_what_is_no_http_is_refused_and_the_next_is_served(broker: KafkaBroker) -> None:
    assert raw(broker, b"\x00\x00\x00\x0c hello\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert raw(broker, b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx: " + b"y" * 100_000).startswith(b"HTTP/1.1 4")
    assert raw(broker, b"GET /healthz HT").startswith(b"HTTP/1.1 400 ")
    assert ask(broker, "GET", "/healthz")[0] == 200


def test_requests_behind_each_other_are_answered_in_order(broker: KafkaBroker) -> None:
    one = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    two = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    answers = raw(broker, one + two)
    assert answers.count(b"HTTP/1.1 200") == 2
    assert answers.index(b'"ok"') < answers.index(b'"ready"')


def test_a_page_of_a_browser_is_refused(broker: KafkaBroker) -> None:
    assert ask(broker, "GET", "/topics", origin="http://evil.example")[0] == 403
    assert ask(broker, "GET", "/topics", host="evil.example")[0] == 403


def test_a_token_is_asked_for_and_nothing_else_then() -> None:
    async def scenario() -> None:
        door = ControlDoor(None, HttpAddress("127.0.0.1", 0, "secret"))  # type: ignore[arg-type]  # nothing of the broker is asked for
        get = Request("GET", "/nowhere", {"host": "elsewhere", "origin": "http://a"}, b"")
        for header in ("", "secret", "Bearer", "Bearer other", "Basic secret"):
            response = door.judge(get._replace(headers={"authorization": header}))
            assert isinstance(response, Response)
            assert response.status == 401
            assert ("www-authenticate", "Bearer") in response.headers
        known = get._replace(headers=get.headers | {"authorization": "Bearer secret"})
        assert door.judge(known) == MAX_BODY_BYTES
        response = await door.serve(known)
        assert response.status == 404

    run(scenario)


def test_a_refusal_in_the_middle_of_an_answer_is_no_defect(caplog: pytest.LogCaptureFixture) -> None:
    async def lines() -> AsyncIterator[str]:
        yield "x" * _PIECE_CHARACTERS
        raise Problem(409, "the history was cleared")

    async def read() -> None:
        answer = await _response(Lines(lines()))
        assert not isinstance(answer.body, bytes)
        assert len(await anext(answer.body)) == _PIECE_CHARACTERS + 1
        with pytest.raises(ConnectionAbortedError):
            await anext(answer.body)

    run(read)
    (told,) = caplog.records
    assert (told.getMessage(), told.exc_info) == ("an answer ends in the middle: the history was cleared", None)
