"""A client of a few lines: any request in any version over a plain socket. Rule: it hides nothing, retries nothing and
negotiates nothing; what a test sends is what the broker gets. Of several brokers that is the first, but for the tests
that ask `leader_of` or `coordinator_of`.
"""

import socket
import time
from collections import deque
from types import TracebackType
from typing import Any, Self

from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.request_header import RequestHeader
from pykafka_broker.protocol.messages.response_header import ResponseHeader
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.protocol.specs import ApiSpec


def request_bytes(request: Message, version: int, correlation_id: int = 0, client_id: str | None = "raw") -> bytes:
    """Return a request with its header, without the length in front."""
    spec = SPECS[request.API_KEY]
    header = RequestHeader(spec.api_key, version, correlation_id, client_id)
    return header.encode(spec.request_header_version(version)) + request.encode(version)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def address_of(bootstrap_servers: str) -> tuple[str, int]:
    """Return host and port of the first broker."""
    host, _, port = bootstrap_servers.partition(",")[0].rpartition(":")
    return host, int(port)


_CONNECT_TIMEOUT_S = 5  # a busy machine may take its time, however short an answer's own limit is
_LEADER_WITHIN_S = 60


class Closed(Exception):
    """The broker ended the connection."""


class RawClient:
    """One connection. `call` for one request and its answer, `send` and `receive` for several in flight."""

    def __init__(
        self, bootstrap_servers: str, timeout_s: float = 30, source: str = "", client_id: str | None = "raw"
    ) -> None:
        """source: the address of this machine that the connection comes from."""
        self.client_id = client_id
        self.socket = socket.create_connection(
            address_of(bootstrap_servers), max(timeout_s, _CONNECT_TIMEOUT_S), (source, 0) if source else None
        )
        self.socket.settimeout(timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._next_correlation_id = 1
        self._waiting: deque[tuple[int, ApiSpec, int]] = deque()

    def call(self, request: Message, version: int | None = None) -> Any:
        """Send a request and return its answer, an object of the API's response class."""
        self.send(request, version)
        return self.receive()

    def send(self, request: Message, version: int | None = None) -> None:
        """Send a request, in the highest stable version unless told otherwise."""
        spec = SPECS[request.API_KEY]
        version = spec.stable_max_version if version is None else version
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        self._waiting.append((correlation_id, spec, version))
        self.send_bytes(framed(request_bytes(request, version, correlation_id, self.client_id)))

    def receive(self) -> Any:
        correlation_id, spec, version = self._waiting.popleft()
        body = self.receive_frame()
        header, at = ResponseHeader.read(body, 0, spec.response_header_version(version))
        assert header.correlation_id == correlation_id, "answers came in another order than the requests"
        return spec.response_class().decode(memoryview(body)[at:], version)

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive_frame(self) -> bytes:
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def _exactly(self, count: int) -> bytes:
        parts, missing = [], count
        while missing:
            part = self.socket.recv(missing)
            if not part:
                raise Closed
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def is_closed_by_broker(self, timeout_s: float = 60) -> bool:
        """Return whether the other side hangs up within that time, whatever it says before."""
        self.socket.settimeout(timeout_s)
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def leader_of(bootstrap_servers: str, topic: str, partition: int = 0) -> str:
    """Return the address of the partition's leader, as soon as the first broker knows of one."""
    deadline = time.monotonic() + _LEADER_WITHIN_S
    with RawClient(bootstrap_servers) as client:
        while time.monotonic() < deadline:
            request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
            answer = client.call(request, 12)
            leaders = [each.leader_id for each in answer.topics[0].partitions if each.partition_index == partition]
            for broker in answer.brokers:
                if broker.node_id in leaders:
                    return f"{broker.host}:{broker.port}"
            time.sleep(0.02)
    raise TimeoutError(f"nobody leads {topic}-{partition}")


def coordinator_of(bootstrap_servers: str, group: str) -> str:
    """Return the address of the group's coordinator, or of any broker while there is none."""
    with RawClient(bootstrap_servers) as client:
        [found] = client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4).coordinators
    return bootstrap_servers if found.error_code else f"{found.host}:{found.port}"
