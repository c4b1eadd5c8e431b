"""Real requests, damaged. Rule: everything follows from the seed; the broker may answer or hang up, but it may neither
fall silent for others nor stumble (UNKNOWN_SERVER_ERROR).

The whole requests are of two kinds: those of the recorded scenarios, which name topics that exist, and made-up ones for
every API and version on offer, filled by their fields' types.
"""

import asyncio
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
from interop.raw import RawClient, request_bytes
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.runtime import DecodeError, EncodeError, Fields, Message

TOPIC = "fuzzed"
NAMES = [TOPIC, "", "fuzz-other", "g", "é", "__consumer_offsets", "1", "range"]
NUMBERS = [0, 1, -1, -2, 2, 3, 100, 2**31 - 1, -(2**31)]
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
        """None when no try fits the version: a field that it can't carry may not be set."""
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
    """Some thousand valid requests for what the broker offers."""
    rng = random.Random(seed)
    with RawClient(bootstrap_servers) as client:
        offered = client.call(ApiVersionsRequest("fuzz", "1"), 3).api_keys
        client.call(CreateTopicsRequest([CreatableTopic(TOPIC, 2, 1)], 10_000), 5)
    made_up = MadeUp(rng)
    pairs = [(v.api_key, version) for v in offered for version in range(v.min_version, v.max_version + 1)]
    made = [made_up.request(*pair) for pair in pairs if pair[0] in SPECS for _ in range(4)]
    return [*filter(None, made), *scripted_requests()]


def scripted_requests() -> Iterator[Whole]:
    """What the scenarios of `interop/answers` ask, as far as it does not depend on answers."""
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
    """One to three damages, mostly behind the header: a header that names no API only ends the connection."""
    data = bytearray(body)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(data)) if rng.random() < 0.1 or len(data) < 20 else rng.randrange(14, len(data))
        kind = rng.randrange(6)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            data[at : at + 4] = struct.pack(">I", rng.choice(EXTREMES))
        elif kind == 3:
            del data[at : at + rng.randrange(1, 9)]
        elif kind == 4:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        else:
            del data[max(at, 4) :]
        if not data:
            data = bytearray(b"\0")
    return bytes(data)


@dataclass
class Tally:
    """What came of it."""

    answered: int = 0
    hung_up: int = 0
    silent: int = 0
    stumbled: list[str] = field(default_factory=list)


class Fuzzer:
    """Sends damaged requests over several connections, one in flight on each."""

    def __init__(self, bootstrap_servers: str, whole: list[Whole], count: int, seed: int) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self._address, self._whole, self._left = (host, int(port)), whole, count
        self._rng = random.Random(seed)
        self.tally = Tally()

    async def run(self, connections: int = 8) -> Tally:
        await asyncio.gather(*(self._one_connection() for _ in range(connections)))
        return self.tally

    async def _one_connection(self) -> None:
        while self._left > 0:
            reader, writer = await asyncio.open_connection(*self._address)
            try:
                while self._left > 0:
                    self._left -= 1
                    await self._one_request(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError):
                self.tally.hung_up += 1
            except TimeoutError:  # parked, or acks=0: whatever comes later belongs to nobody
                self.tally.silent += 1
            finally:
                writer.transport.abort()

    async def _one_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chosen = self._rng.choice(self._whole)
        body = damaged(chosen.body, self._rng)
        writer.write(struct.pack(">i", len(body)) + body)
        async with asyncio.timeout(0.1):
            answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        self.tally.answered += 1
        if body[:4] == chosen.body[:4] and stumbled(chosen, answer):
            self.tally.stumbled.append(f"{SPECS[chosen.api_key].name} v{chosen.version}: {body.hex()}")


def stumbled(request: Whole, answer: bytes) -> bool:
    """Whether UNKNOWN_SERVER_ERROR is somewhere in the answer."""
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
