"""Small requests a second: eight and a hundred connections, each with one request in flight.

Rule: the client costs next to nothing, so that the broker is what is measured: `requests.c` sends one request made
before, and looks at length and correlation id of every answer; error codes are read here, from the first and the last
answer of every connection. Nobody is pinned to a core, as in the other workloads: broker and client share what there
is. A JVM compiles what it does often, so every kind is asked for a while before the first one is measured.
"""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.log import create, end_offsets
from bench.peers import build_requests
from bench.running import Running
from interop.answers.requests import BY_NAME, LATEST, fetch, fetch_topic, produce
from interop.batches import Rec, batch
from interop.raw import RawClient, framed, request_bytes
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.response_header import ResponseHeader
from pykafka_broker.protocol.runtime import Message

CONNECTIONS = (8, 100)
PARTITIONS = 8
WRITTEN, READ = "small-written", "small-read"  # nothing but the record that is fetched is in the second one
TOPICS = (WRITTEN, READ, "small")
GROUP = "small"
WRITE_VERSION = 9  # of Produce: the last one in which every peer finds the topic by its name
COORDINATOR_WITHIN_S = 60


@dataclass(frozen=True)
class Asked:
    """A request in a version that every peer has, and what is wrong with an answer to it."""

    request: Message
    version: int
    error: Callable[[Any], Any]


def _error_of(*path: str) -> Callable[[Any], Any]:
    """Return a function from an answer to its first error code, on the way down nested lists."""

    def find(answer: Any) -> Any:
        level = [answer]
        for step in path:
            level = [each for whole in level for each in getattr(whole, step)]
            if error := next((each.error_code for each in level if getattr(each, "error_code", 0)), 0):
                return error
        return 0 if level else "nothing in it"

    return find


def _error_of_fetch(answer: Any) -> Any:
    partition = answer.responses[0].partitions[0]
    return partition.error_code or (0 if len(partition.records or b"") else "no records")


def asked() -> dict[str, Asked]:
    topics = [MetadataRequestTopic(name=name) for name in TOPICS]
    ends = [ListOffsetsPartition(number, -1, LATEST) for number in range(PARTITIONS)]
    commit = OffsetCommitRequestPartition(0, 1, committed_metadata="")
    return {
        "api_versions": Asked(ApiVersionsRequest("bench", "1"), 3, lambda answer: answer.error_code),
        "metadata": Asked(MetadataRequest(topics, False), 9, _error_of("topics", "partitions")),
        "produce": Asked(produce(WRITTEN, _one_record()), WRITE_VERSION, _error_of("responses", "partition_responses")),
        "fetch": Asked(
            fetch([fetch_topic(READ)], max_wait_ms=500, min_bytes=1),
            BY_NAME,
            _error_of_fetch,
        ),
        "list_offsets": Asked(
            ListOffsetsRequest(-1, 0, [ListOffsetsTopic(WRITTEN, ends)]), 7, _error_of("topics", "partitions")
        ),
        "offset_commit": Asked(
            OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic(WRITTEN, partitions=[commit])]),
            8,
            _error_of("topics", "partitions"),
        ),
    }


def _one_record() -> bytes:
    return batch(Rec(bytes(100), timestamp=int(time.time() * 1000)))


def small_requests(run: Running, warm_ms: int, measured_ms: int) -> dict[str, float]:
    """Return requests a second and CPU of a request, by kind and number of connections."""
    prepare(run)
    kinds = asked()
    figures: dict[str, float] = {}
    answers: Counter[str] = Counter()
    for name, each in kinds.items():
        answers[name] += load(run, each, CONNECTIONS[-1], 0, warm_ms)["answers"]
    for connections in CONNECTIONS:
        for name, each in kinds.items():
            cpu = run.cpu_s()
            found = load(run, each, connections, measured_ms // 5, measured_ms)
            answers[name] += found["answers"]
            figures[f"small_{name}_{connections}_per_s"] = found["per_s"]
            figures[f"small_{name}_{connections}_cpu_us"] = (run.cpu_s() - cpu) / found["answers"] * 1e6
    written, end = answers["produce"], end_offsets(run, WRITTEN, 1)
    if end != [written]:
        raise RuntimeError(f"{written} records were acknowledged, the log has {end}")
    return figures


def prepare(run: Running) -> None:
    """Make what the requests ask for."""
    for topic in TOPICS:
        create(run, topic, PARTITIONS)
    _with_coordinator(run)
    with RawClient(run.bootstrap) as client:
        client.call(produce(READ, _one_record()), WRITE_VERSION)


def _with_coordinator(run: Running) -> None:
    """Wait until offsets can be committed."""
    commit = asked()["offset_commit"]
    deadline = time.monotonic() + COORDINATOR_WITHIN_S
    with RawClient(run.bootstrap) as client:
        client.call(FindCoordinatorRequest(GROUP), 0)
        while error := commit.error(client.call(commit.request, commit.version)):
            if time.monotonic() > deadline:
                raise RuntimeError(f"no coordinator: error {error}")
            time.sleep(0.1)


def load(run: Running, each: Asked, connections: int, warm_ms: int, measured_ms: int) -> Any:
    command = [str(part) for part in (build_requests(), run.port, connections, warm_ms, measured_ms)]
    frame = framed(request_bytes(each.request, each.version))
    done = subprocess.run(command, input=frame, capture_output=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(f"{type(each.request).__name__} on {run.name}: {done.stderr.decode()}")
    line, _, answers = done.stdout.partition(b"\n")
    _check(each, answers, 2 * connections)
    return json.loads(line)


def _check(each: Asked, answers: bytes, count: int) -> None:
    spec = SPECS[each.request.API_KEY]
    kind, header_version = spec.response_class(), spec.response_header_version(each.version)
    at = 0
    for _ in range(count):
        end = at + 4 + int.from_bytes(answers[at : at + 4], "big")
        _, body = ResponseHeader.read(answers, at + 4, header_version)
        if error := each.error(kind.decode(memoryview(answers)[body:end], each.version)):
            raise RuntimeError(f"{type(each.request).__name__}: error {error}")
        at = end
