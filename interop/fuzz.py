"""Real requests, damaged. Rule: everything follows from the seed; the broker may answer or hang up, but it may neither
fall silent for others nor stumble (UNKNOWN_SERVER_ERROR).

The whole requests are of two kinds: those of the recorded scenarios, which name topics that exist, and made-up ones for
every API and version on offer, filled by their fields' types.
"""

import inspect
import random
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from interop.answers.areas import AREAS
from interop.answers.script import Ask, Send, scenarios_of
from interop.batches import batch
from interop.raw import Closed, RawClient, framed, request_bytes
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.produce_request import ProduceRequest
from pykafka_broker.protocol.runtime import DecodeError, EncodeError, Fields, Message

TOPIC = "fuzzed"
NAMES = [TOPIC, "", "fuzz-other", "g", "é", "__consumer_offsets", "1", "range"]
NUMBERS = [0, 1, -1, -2, 2, 3, 100, 2**31 - 1, -(2**31)]
CODEC_AT = 22  # the low byte of a batch's attributes
ANSWER_WITHIN_S = 0.02  # a request that is parked longer is given up together with its connection
EXTREMES = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFF, 0xFFFF]
# With thousands of partitions made by one flipped bit the run would measure the disk.
ONLY_LOOKING = {ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS}


@dataclass(frozen=True)
class Whole:
    """One request as bytes, without the length in front."""

    api_key: int
    version: int
    body: bytes


class MadeUp:
    """Objects of any request class, filled by what the constructor's annotations ask for."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def request(self, api_key: int, version: int) -> Whole | None:
        """Return a made-up request; None when no try fits the version, which may lack a field that was set."""
        for _ in range(20):
            try:
                made = self._object(SPECS[api_key].request_class(), self._rng.random())
                if api_key in ONLY_LOOKING:
                    made.validate_only = True  # type: ignore[attr-defined]
                assert isinstance(made, Message)
                return Whole(api_key, version, request_bytes(made, version, self._rng.getrandbits(31)))
            except (EncodeError, struct.error):
                continue
        return None

    def _object(self, kind: type[Fields], fullness: float) -> Fields:
        module = sys.modules[kind.__module__]
        arguments = {}
        for name, parameter in list(inspect.signature(kind.__init__).parameters.items())[1:]:
            if self._rng.random() < fullness:
                arguments[name] = self._value(str(parameter.annotation), module, fullness)
        return kind(**arguments)

    def _value(self, annotation: str, module: Any, fullness: float) -> Any:
        rng = self._rng
        if annotation.endswith(" | None"):
            return None if rng.random() < 0.2 else self._value(annotation.removesuffix(" | None"), module, fullness)
        if annotation.startswith("list["):
            return [self._value(annotation[5:-1], module, fullness) for _ in range(rng.randrange(3))]
        simple: dict[str, Callable[[], Any]] = {
            "int": lambda: rng.choice(NUMBERS),
            "str": lambda: rng.choice(NAMES),
            "bool": lambda: rng.random() < 0.5,
            "float": rng.random,
            "bytes": lambda: rng.randbytes(16),
            "Records": lambda: batch(b"fuzz", b"fuzz"),
        }
        return simple[annotation]() if annotation in simple else self._object(getattr(module, annotation), fullness)


def whole_requests(bootstrap_servers: str, seed: int) -> list[Whole]:
    """Return some thousand valid requests of the APIs and versions that the broker offers."""
    rng = random.Random(seed)
    with RawClient(bootstrap_servers) as client:
        offered = client.call(ApiVersionsRequest("fuzz", "1"), 3).api_keys
        client.call(CreateTopicsRequest([CreatableTopic(TOPIC, 2, 1)], 10_000), 5)
    made_up = MadeUp(rng)
    pairs = [(v.api_key, version) for v in offered for version in range(v.min_version, v.max_version + 1)]
    made = [made_up.request(*pair) for pair in pairs if pair[0] in SPECS for _ in range(4)]
    return [*filter(None, made), *scripted_requests()]


def scripted_requests() -> Iterator[Whole]:
    """Yield the requests of each scenario in `interop/answers`, up to the first that depends on an answer."""
    for module in AREAS.values():
        for script in scenarios_of(module).values():
            try:
                for step in script(lambda suffix: TOPIC):
                    asked = Ask(*step) if isinstance(step, tuple) else step
                    if isinstance(asked, Ask | Send) and asked.request.API_KEY not in ONLY_LOOKING:
                        version = asked.version
                        key = asked.request.API_KEY
                        version = SPECS[key].stable_max_version if version is None else version
                        yield Whole(key, version, request_bytes(asked.request, version))
            except AttributeError:
                continue  # from here on the script needs the answers


def damaged(body: bytes, rng: random.Random) -> bytes:
    """Return the request with one to three damages.

    Most are behind the header, since a request that names no API only ends the connection. Most keep the length, so
    that more than the broker's first check is reached.
    """
    data = bytearray(body)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        at = rng.randrange(len(data)) if rng.random() < 0.05 or len(data) < 20 else rng.randrange(14, len(data))
        kind = rng.random()
        if kind < 0.4:
            data[at] ^= 1 << rng.randrange(8)
        elif kind < 0.7:
            data[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
        elif kind < 0.8:
            data[at : at + 4] = struct.pack(">I", rng.choice(EXTREMES))[: len(data) - at]
        elif kind < 0.87:
            del data[at : at + rng.randrange(1, 9)]
        elif kind < 0.94:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        else:
            del data[max(at, 4) :]
        if not data:
            data = bytearray(b"\0")
    return bytes(data)


@dataclass
class Tally:
    """The outcomes of the damaged requests; `stumbled` describes each that met UNKNOWN_SERVER_ERROR."""

    answered: int = 0
    hung_up: int = 0
    silent: int = 0
    stumbled: list[str] = field(default_factory=list)


class Fuzzer:
    """Sends damaged requests over several connections: one on each, then the answers are fetched."""

    def __init__(self, bootstrap_servers: str, whole: list[Whole], count: int, seed: int) -> None:
        self._bootstrap, self._whole, self._left = bootstrap_servers, whole, count
        self._rng = random.Random(seed)
        self.tally = Tally()

    def run(self, connections: int = 8) -> Tally:
        clients = [RawClient(self._bootstrap, ANSWER_WITHIN_S) for _ in range(connections)]
        while self._left > 0:
            sent = [self._send(client) for client in clients]
            for i, (whole, body) in enumerate(sent):
                if not self._await_answer(clients[i], whole, body):
                    clients[i].close()
                    clients[i] = RawClient(self._bootstrap, ANSWER_WITHIN_S)
        for client in clients:
            client.close()
        return self.tally

    def _send(self, client: RawClient) -> tuple[Whole, bytes]:
        self._left -= 1
        whole = self._rng.choice(self._whole)
        body = damaged(whole.body, self._rng)
        client.send_bytes(framed(body))
        return whole, body

    def _await_answer(self, client: RawClient, whole: Whole, body: bytes) -> bool:
        """Receive and count the answer to a request; return whether the connection can be used further."""
        try:
            answer = client.receive_frame()
        except (Closed, ConnectionError):
            self.tally.hung_up += 1
            return False
        except TimeoutError:  # parked, or acks=0: no later answer is awaited
            self.tally.silent += 1
            return False
        self.tally.answered += 1
        if body[:4] == whole.body[:4] and stumbled(whole, body, answer):
            self.tally.stumbled.append(f"{SPECS[whole.api_key].name} v{whole.version}: {body.hex()}")
        return True


def kafka_stumbles_too(request: Whole, body: bytes) -> bool:
    """Return whether Kafka itself answers UNKNOWN_SERVER_ERROR to the request.

    Kafka does so for an isolation level that doesn't exist, and for a compressed batch whose records are not what its
    codec promises (recorded in `interop/answers`).
    """
    spec = SPECS[request.api_key]
    client_id_length = int.from_bytes(body[8:10], "big", signed=True)
    at = 10 + max(client_id_length, 0) + (spec.request_header_version(request.version) == 2)
    try:
        decoded = spec.request_class().read(body, at, request.version)[0]
    except DecodeError:
        return False
    if isinstance(decoded, ProduceRequest):
        produced = [p.records for topic in decoded.topic_data for p in topic.partition_data]
        return any(records and len(records) > CODEC_AT and records[CODEC_AT] & 7 for records in produced)
    return getattr(decoded, "isolation_level", 0) not in (0, 1)


def stumbled(request: Whole, body: bytes, answer: bytes) -> bool:
    """Return whether the answer holds UNKNOWN_SERVER_ERROR where a real Kafka answers a better error."""
    if kafka_stumbles_too(request, body):
        return False
    spec = SPECS[request.api_key]
    at = 5 if spec.response_header_version(request.version) else 4
    try:
        decoded = spec.response_class().decode(memoryview(answer)[at:], request.version)
    except DecodeError:
        return False  # ApiVersions answers an unknown version in version 0
    return has_unknown_server_error(decoded)


def has_unknown_server_error(value: Any) -> bool:
    if isinstance(value, Fields):
        names = type(value).__match_args__
        return any(
            getattr(value, name) == -1 if name == "error_code" else has_unknown_server_error(getattr(value, name))
            for name in names
        )
    return isinstance(value, list) and any(map(has_unknown_server_error, value))
