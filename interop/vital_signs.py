"""A broker's memory, descriptors and latencies, to be compared with earlier ones.

Rule: measured from outside, by a client of its own, for some seconds in which nothing else disturbs the broker.
"""

import statistics
import time
from dataclasses import dataclass

from interop.answers.requests import BY_NAME, fetch, fetch_topic, produce
from interop.batches import Rec, batch
from interop.processes import process_at, resident_mb
from interop.raw import RawClient
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest

MORE_MB = 40
MORE_DESCRIPTORS = 50
SLOWER = 3
SLOWER_BY_MS = 5  # the time that a busy machine may add


@dataclass(frozen=True)
class VitalSigns:
    """Latencies are of a round of ApiVersions, a produced record, and a fetch of it."""

    memory_mb: float
    descriptors: int
    median_ms: float
    p99_ms: float

    def worse_than(self, before: "VitalSigns") -> list[str]:
        """Return a line for each figure that is worse by more than chance."""
        found = []
        if self.memory_mb > before.memory_mb + MORE_MB:
            found.append(f"memory grew from {before.memory_mb:.0f} to {self.memory_mb:.0f} MB")
        if self.descriptors > before.descriptors + MORE_DESCRIPTORS:
            found.append(f"descriptors grew from {before.descriptors} to {self.descriptors}")
        if self.median_ms > before.median_ms * SLOWER + SLOWER_BY_MS:
            found.append(f"the median latency grew from {before.median_ms:.1f} to {self.median_ms:.1f} ms")
        return found


def measure(bootstrap_servers: str, topic: str, seconds: float = 10) -> VitalSigns:
    process = process_at(bootstrap_servers)
    rounds_ms = []
    end = time.monotonic() + seconds
    with RawClient(bootstrap_servers) as client:
        while (begin := time.monotonic()) < end:
            client.call(ApiVersionsRequest("vital-signs", "1"), 3)
            answer = client.call(produce(topic, batch(Rec(b"beat", timestamp=time.time_ns() // 1_000_000))), BY_NAME)
            [written] = answer.responses[0].partition_responses
            assert written.error_code == ErrorCode.NONE
            [read] = client.call(fetch([fetch_topic(topic, written.base_offset)]), BY_NAME).responses[0].partitions
            assert read.error_code == ErrorCode.NONE
            assert read.records
            rounds_ms.append((time.monotonic() - begin) * 1_000)
            time.sleep(0.01)
    p99 = statistics.quantiles(rounds_ms, n=100)[-1]
    return VitalSigns(resident_mb(process), process.num_fds(), statistics.median(rounds_ms), p99)
