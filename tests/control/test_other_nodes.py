"""A page of the whole cluster: what one node's control API hands on to the others, and what it does not."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pykafka_broker.control import other_nodes
from pykafka_broker.control.http import Request
from pykafka_broker.control.other_nodes import OtherNodes
from pykafka_broker.control.problems import Problem
from pykafka_broker.testing import KafkaCluster


def ask(url: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    given = None if body is None else json.dumps(body)
    connection.request(method, path, given, {"content-type": "application/json", **headers})
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def test_each_node_answers_for_all() -> None:
    with KafkaCluster(2, in_process=True) as cluster:
        first, second = (cluster.broker(number) for number in (1, 2))
        assert ask(first.control_url, "GET", "/page/nodes") == (200, [1, 2, 100])
        assert ask(second.control_url, "GET", "/page/nodes") == (200, [2, 1, 100])
        for number, node in ((1, first), (2, second)):
            for through in (first, second):
                path = "/broker" if through is node else f"/page/nodes/{number}/broker"
                assert ask(through.control_url, "GET", path)[1]["bootstrap_servers"] == node.bootstrap_servers

        # a method with a body, a query, and a problem, come through as they are
        made = ask(first.control_url, "POST", "/page/nodes/2/topics", {"name": "t", "partitions": 3})
        assert (made[0], made[1]["name"]) == (200, "t")
        assert ask(first.control_url, "GET", "/page/nodes/2/browse/topics?search=t&limit=1")[1]["total"] == 1
        odd = {"content-type": "text/\xe4"}
        assert ask(first.control_url, "POST", "/page/nodes/2/topics", {"name": "u"}, **odd)[0] == 415
        status, answer = ask(first.control_url, "GET", "/page/nodes/2/nothing")
        assert (status, answer["detail"]) == (404, "there is no /nothing; /openapi.json has all paths")

        second.restart()
        assert ask(first.control_url, "GET", "/page/nodes/2/broker")[1]["node_id"] == 2
        assert ask(second.control_url, "GET", "/page/nodes/1/broker")[1]["node_id"] == 1
        second.stop()
        status, answer = ask(first.control_url, "GET", "/page/nodes/2/broker")
        assert (status, answer["detail"]) == (502, "node 2 does not answer")


@pytest.mark.parametrize("name", ["3", "x", "", "-1", "²", "9" * 5000])
def test_a_node_that_is_not_known_is_told(name: str) -> None:
    nodes = OtherNodes({2: ("127.0.0.1", 1)})
    with pytest.raises(Problem) as caught:
        asyncio.run(nodes.serve(1, Request("GET", f"/page/nodes/{name}/broker", {}, b"")))
    assert (caught.value.status, "--control-nodes" in caught.value.detail) == (404, True)


def test_a_node_is_not_asked_for_another_one() -> None:
    """A path can't lead from node to node and back."""
    nodes = OtherNodes({2: ("127.0.0.1", 1)})
    with pytest.raises(Problem, match="ask for that one here"):
        asyncio.run(nodes.serve(1, Request("GET", "/page/nodes/2/page/nodes/1/broker", {}, b"")))


def test_a_page_of_another_site_reaches_no_node() -> None:
    with KafkaCluster(1, in_process=True) as cluster:
        url = cluster.broker(1).control_url
        for headers in ({"origin": "http://elsewhere.example"}, {"host": "elsewhere.example"}):
            for path in ("/page/nodes", "/page/nodes/100/broker"):
                assert ask(url, "GET", path, **headers)[0] == 403


def test_a_node_that_is_silent_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_nodes, "_SILENCE_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(Problem) as caught:
        asyncio.run(OtherNodes({2: server.getsockname()}).serve(1, Request("GET", "/page/nodes/2/broker", {}, b"")))
    assert caught.value.status == 502


def test_a_node_that_takes_no_request_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_nodes, "_SILENCE_S", 0.1)
    asked = Request("POST", "/page/nodes/2/topics/t/records", {}, bytes(64 << 20))

    async def ask() -> None:
        async with asyncio.timeout(60):
            await OtherNodes({2: server.getsockname()}).serve(1, asked)

    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(Problem) as caught:
        asyncio.run(ask())
    assert caught.value.status == 502


@contextmanager
def answering(data: bytes) -> Iterator[tuple[str, int]]:
    """Yield an address whose first connection is sent these bytes and closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()
        thread.join()


def test_a_name_that_no_host_can_have_is_a_bad_gateway() -> None:
    with pytest.raises(Problem) as caught:
        asyncio.run(OtherNodes({2: ("a..b", 9)}).serve(1, Request("GET", "/page/nodes/2/broker", {}, b"")))
    assert (caught.value.status, caught.value.detail) == (502, "node 2 does not answer")


@pytest.mark.parametrize(
    ("method", "data"),
    [
        ("GET", b""),
        ("GET", b"no HTTP\r\n\r\n"),
        ("GET", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort"),
        ("CONNECT", b"HTTP/1.1 200 OK\r\n\r\n"),  # what follows is no HTTP any more
    ],
)
def test_an_answer_that_is_none_is_a_bad_gateway(method: str, data: bytes) -> None:
    with answering(data) as address, pytest.raises(Problem) as caught:
        asyncio.run(OtherNodes({2: address}).serve(1, Request(method, "/page/nodes/2/broker", {}, b"")))
    assert (caught.value.status, caught.value.detail) == (502, "node 2 does not answer")
