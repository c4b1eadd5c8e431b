"""The waits of a client beside one that asks for very much: its ApiVersions, p99 and worst, and the peer's memory.

Rule: every request here is legal, and what is measured is the other client, with one small request in flight from the
hostile one's first byte to its answer. The hostile client is a thread that only sends bytes made before and throws away
what comes back. If a peer closes its connection, the measurement ends there.
"""

import contextlib
import gzip
import socket
import struct
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import crc32c
import psutil
import zstandard

from bench.fair_groups import TITLES as GROUP_TITLES
from bench.fair_groups import group_giants, prepare
from bench.running import Running
from interop.answers.requests import create, new_topic
from interop.batches import CODECS, Rec, batch, patched
from interop.raw import Closed, RawClient, framed, request_bytes
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
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
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.share_fetch_request import FetchPartition, FetchTopic, ShareFetchRequest
from pykafka_broker.protocol.runtime import Message, uvarint

# The hostile requests, by the names of their figures.
TITLES = {
    "header_tags": "10,000 unknown tags in a header",
    "find_coordinator": "FindCoordinator, 65,000 empty keys",
    "describe_groups": "DescribeGroups of 32,000",
    "delete_groups": "DeleteGroups of 32,000",
    "metadata": "Metadata of 65,000 names",
    "describe_configs": "DescribeConfigs, 5,000 topics",
    "list_offsets_one": "ListOffsets, a partition 65,000 times",
    "offset_fetch": "OffsetFetch of 65,000 partitions",
    "offset_commit": "OffsetCommit of 32,000 topics",
    "list_offsets_all": "ListOffsets of 9,000 partitions",
    "produce_all": "Produce into 9,000 partitions",
    "delete_records_all": "DeleteRecords of 9,000 partitions",
    "zstd_bombs": "403 KB of zstd bombs",
    "gzip_bomb": "a record of 400 MB of zeros, gzip",
    "gzip_bombs": "6.3 MB of gzip bombs",
    "gzip_members": "50,000 empty gzip members",
    "describe_topics": "DescribeTopicPartitions, 32,000",
    "share_fetch": "ShareFetch of 32,000 partitions",
    "produce_names": "Produce naming 65,000 partitions",
    "create_topics": "CreateTopics of 65,000",
    "time_lookup": "by time in a log of 5,000 segments",
} | GROUP_TITLES
WITHIN_S = 150.0
TOPICS, PARTITIONS_EACH = 9, 1000
_SETTLED_S = 0.5
_PAUSE_S = 0.001
_NAMES = [f"many-{number}" for number in range(TOPICS)]
_TOPIC_RESOURCE = 2
_SEGMENTED, _SEGMENTS = "segmented", 5000
_FIRST_MS = 1_700_000_000_000  # the time of the first record
_BOMB_BYTES = 400 << 20  # the size that one bomb decompresses to


@dataclass(frozen=True)
class Felt:
    """The waits of the other client, and the memory that the peer needed at most beyond that before."""

    p99_ms: float
    worst_ms: float
    added_mb: float


def giants(size: float) -> dict[str, Callable[[], bytes]]:
    """Return frames by name. size: multiplies the number of their elements."""

    def frame(request: Message, version: int) -> bytes:
        return framed(request_bytes(request, version))

    def of(count: int) -> int:
        return int(count * size)

    def names(count: int) -> list[str]:
        return [f"g{number}" for number in range(of(count))]

    def resources() -> DescribeConfigsRequest:
        return DescribeConfigsRequest(
            [DescribeConfigsResource(_TOPIC_RESOURCE, _NAMES[number % TOPICS]) for number in range(of(5000))]
        )

    commits = [OffsetCommitRequestPartition(0, 1, committed_metadata="")]
    one = [ListOffsetsPartition(0, timestamp=-1)]
    last = ListOffsetsPartition(0, timestamp=_FIRST_MS + 2 * (of(_SEGMENTS) - 1))
    every = range(PARTITIONS_EACH)
    return {
        "header_tags": lambda: _with_tags(request_bytes(ApiVersionsRequest("bench", "1"), 3), of(10_000)),
        "find_coordinator": lambda: frame(FindCoordinatorRequest(coordinator_keys=[""] * of(65_000)), 4),
        "describe_groups": lambda: frame(DescribeGroupsRequest(names(32_000)), 5),
        "delete_groups": lambda: frame(DeleteGroupsRequest(names(32_000)), 2),
        "metadata": lambda: frame(MetadataRequest([MetadataRequestTopic(name=n) for n in names(65_000)], False), 9),
        "describe_configs": lambda: frame(resources(), 4),
        "list_offsets_one": lambda: frame(
            ListOffsetsRequest(-1, topics=[ListOffsetsTopic(_NAMES[0], one * of(65_000))]), 5
        ),
        "offset_fetch": lambda: frame(
            OffsetFetchRequest("g", [OffsetFetchRequestTopic(_NAMES[0], list(range(of(65_000))))]), 7
        ),
        "offset_commit": lambda: frame(
            OffsetCommitRequest(
                "g", topics=[OffsetCommitRequestTopic(name, partitions=commits) for name in names(32_000)]
            ),
            8,
        ),
        "list_offsets_all": lambda: frame(
            ListOffsetsRequest(
                -1,
                topics=[
                    ListOffsetsTopic(name, [ListOffsetsPartition(p, timestamp=-1) for p in every]) for name in _NAMES
                ],
            ),
            5,
        ),
        "produce_all": lambda: frame(
            ProduceRequest(
                None,
                1,
                30_000,
                [
                    TopicProduceData(name, partition_data=[PartitionProduceData(p, _RECORD) for p in every])
                    for name in _NAMES
                ],
            ),
            9,
        ),
        "delete_records_all": lambda: frame(
            DeleteRecordsRequest(
                [DeleteRecordsTopic(name, [DeleteRecordsPartition(p, -1) for p in every]) for name in _NAMES]
            ),
            1,
        ),
        "zstd_bombs": lambda: frame(_bombs("zstd", _zstd_bomb(_BOMB_BYTES), of(403 << 10)), 9),
        "gzip_bomb": lambda: frame(_bombs("gzip", _gzip_bomb(of(_BOMB_BYTES))), 9),
        "gzip_bombs": lambda: frame(_bombs("gzip", _gzip_bomb(_BOMB_BYTES), of(6300 << 10)), 9),
        "gzip_members": lambda: frame(_bombs("gzip", gzip.compress(b"", 1, mtime=0) * of(50_000)), 9),
        "describe_topics": lambda: frame(DescribeTopicPartitionsRequest([TopicRequest(n) for n in names(32_000)]), 0),
        "share_fetch": lambda: frame(
            ShareFetchRequest(
                "share",
                "m" * 22,
                0,
                topics=[FetchTopic(b"1" * 16, [FetchPartition(number) for number in range(of(32_000))])],
            ),
            1,
        ),
        "produce_names": lambda: frame(
            ProduceRequest(
                None,
                1,
                30_000,
                [TopicProduceData("none", partition_data=[PartitionProduceData(p, b"") for p in range(of(65_000))])],
            ),
            9,
        ),
        "create_topics": lambda: frame(
            CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names(65_000)], 30_000, True), 7
        ),
        "time_lookup": lambda: frame(ListOffsetsRequest(-1, topics=[ListOffsetsTopic(_SEGMENTED, [last])]), 5),
    }


_RECORD = batch(bytes(100))


def _with_tags(request: bytes, count: int) -> bytes:
    """Return the frame of a request with unknown tagged fields in its header."""
    (client_id,) = struct.unpack_from(">h", request, 8)
    end = 10 + max(client_id, 0)
    return framed(request[:end] + uvarint(count) + b"\x7d\0" * count + request[end + 1 :])


def _bombs(codec: str, payload: bytes, size: int = 0) -> ProduceRequest:
    """Return a Produce of batches with one record, which says that it is as long as the decompressed payload.

    size: the bytes of all batches, each for a partition of its own; 0 for one batch.
    """
    head = bytearray(_RECORD[:61])
    struct.pack_into(">h", head, 21, CODECS[codec])
    whole = patched(bytes(head) + payload, length=49 + len(payload))
    assert crc32c.crc32c(whole[21:]) == struct.unpack_from(">I", whole, 17)[0]
    every = range(max(1, size // len(whole)))
    return ProduceRequest(
        None, 1, 30_000, [TopicProduceData(_NAMES[0], partition_data=[PartitionProduceData(p, whole) for p in every])]
    )


def _zstd_bomb(size: int) -> bytes:
    squeeze = zstandard.ZstdCompressor(3).compressobj()
    block = bytes(1 << 20)
    return b"".join([*(squeeze.compress(block) for _ in range(size >> 20)), squeeze.flush()])


def _gzip_bomb(size: int) -> bytes:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = bytes(1 << 20)
    return b"".join([*(squeeze.compress(block) for _ in range(size >> 20)), squeeze.flush()])


def beside_giants(run: Running, size: float) -> dict[str, float]:
    """Return what another client feels beside each giant.

    A peer that does not answer in time, closes all connections or dies has no figures of that giant, and a line says
    why. The next giant is sent once the peer answers again.
    """
    make_topics(run)
    with RawClient(run.bootstrap, timeout_s=WITHIN_S) as client:
        topic_id = prepare(client)
    figures: dict[str, float] = {}
    for name, made in (giants(size) | group_giants(size, topic_id)).items():
        try:
            if name == "time_lookup":
                _make_segments(run, int(_SEGMENTS * size))
            felt = beside(run, made())
        except (OSError, Closed, psutil.Error) as error:
            print(f"{run.name} {name}: no figures: {error!r}", file=sys.stderr, flush=True)
            _revive(run)
            continue
        figures |= {
            f"fair_{name}_p99_ms": felt.p99_ms,
            f"fair_{name}_worst_ms": felt.worst_ms,
            f"fair_{name}_mb": felt.added_mb,
        }
    return figures


def make_topics(run: Running) -> None:
    """Make the topics that the giants ask for."""
    with RawClient(run.bootstrap, timeout_s=WITHIN_S) as client:
        for name in _NAMES:
            answer = client.call(create(new_topic(name, PARTITIONS_EACH)), 5)
            assert not answer.topics[0].error_code, answer
    _wait_until_led(run, _NAMES[-1], PARTITIONS_EACH - 1)


def _revive(run: Running) -> None:
    """Wait for a peer that may have died, or may still work for a client that has gone."""
    deadline = time.perf_counter() + WITHIN_S
    while time.perf_counter() < deadline:
        if not run.is_alive():
            run.restart()
        with contextlib.suppress(OSError, Closed), RawClient(run.bootstrap, timeout_s=WITHIN_S) as client:
            client.call(ApiVersionsRequest("bench", "1"), 3)
            return
        time.sleep(1)


def _wait_until_led(run: Running, topic: str, partition: int) -> None:
    """Wait until a partition is led, which a real Kafka's broker begins some time after the topic was made."""
    asked = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=-1)])])
    deadline = time.perf_counter() + WITHIN_S
    with RawClient(run.bootstrap, timeout_s=WITHIN_S) as client:
        while client.call(asked, 5).topics[0].partitions[0].error_code and time.perf_counter() < deadline:
            time.sleep(0.2)
    time.sleep(2)


def _make_segments(run: Running, count: int) -> None:
    """Write a log in which each record has a segment of its own."""
    with RawClient(run.bootstrap, timeout_s=WITHIN_S) as client:
        answer = client.call(create(new_topic(_SEGMENTED, 1, configs={"segment.ms": "1", "retention.ms": "-1"})), 5)
        assert not answer.topics[0].error_code, answer
        _wait_until_led(run, _SEGMENTED, 0)
        for number in range(count):
            code = _write_segment(client, number)
            assert not code, code


def _write_segment(client: RawClient, number: int) -> int:
    """Write a record; return the error code."""
    one = [PartitionProduceData(0, batch(Rec(bytes(100), timestamp=_FIRST_MS + 2 * number)))]
    written = client.call(ProduceRequest(None, 1, 30_000, [TopicProduceData(_SEGMENTED, partition_data=one)]), 9)
    return int(written.responses[0].partition_responses[0].error_code)


def beside(run: Running, frame: bytes) -> Felt:
    """Return what another client feels while a frame is served."""
    other = _Other(run.bootstrap)
    for _ in range(50):
        other.asked()
    before = run.memory_mb()
    _reset_peak(run.pid)
    took: list[float] = []
    hostile = threading.Thread(target=ask, args=(run.port, frame), daemon=True)
    hostile.start()
    for begun in _times(hostile):
        with contextlib.suppress(TimeoutError):  # a wait of WITHIN_S is counted, and ends the frame's time, too
            other.asked()
        took.append((time.perf_counter() - begun) * 1000)
    other.close()
    time.sleep(_SETTLED_S)
    took.sort()
    return Felt(took[int(len(took) * 0.99)], took[-1], max(0.0, _peak_mb(run.pid) - before))


class _Other:
    """The client that is measured. After a time-out it asks on a new connection."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._client: RawClient | None = None

    def asked(self) -> None:
        if self._client is None:
            self._client = RawClient(self._bootstrap, timeout_s=WITHIN_S)
        try:
            self._client.call(ApiVersionsRequest("bench", "1"), 3)
        except TimeoutError:
            self.close()
            raise

    def close(self) -> None:
        if self._client is not None:
            self._client.socket.close()
            self._client = None


def _times(hostile: threading.Thread) -> Iterator[float]:
    yield time.perf_counter()
    deadline = time.perf_counter() + WITHIN_S
    while hostile.is_alive() and time.perf_counter() < deadline:
        time.sleep(_PAUSE_S)
        yield time.perf_counter()


def ask(port: int, frame: bytes) -> None:
    """Send a frame, and read and drop the answer."""
    thrown_away = bytearray(1 << 20)
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), WITHIN_S) as sock:
        sock.sendall(frame)
        head = bytearray()
        while len(head) < 4:
            received = sock.recv(4 - len(head))
            if not received:
                return
            head += received
        left = int.from_bytes(head, "big")
        while left > 0:
            count = sock.recv_into(thrown_away)
            if not count:
                return
            left -= count


def _reset_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _peak_mb(pid: int) -> float:
    """Return the most memory that the process itself had since `_reset_peak`."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0
