"""The stage of the group scenarios, with an eye for share fetches.

Rule: records become their offsets and values. Acquired records that follow each other with the same delivery count
become one line: Kafka splits them by how it keeps them in memory, which means nothing to a client. Which partitions a
member gets of several depends on hashes of random ids in Kafka, so only how many is written down.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.share_fetch_response import ShareFetchResponse
from pykafka_broker.protocol.runtime import uuid_text
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records
from tests.scenarios.groups.stage import Stage


class ShareStage(Stage):
    """A stage that records the answers to share consumers."""

    def ready(self) -> None:
        """Wait for the share coordinator too."""
        super().ready()
        key = f"{self.group}:{uuid_text(b'1' * 16)}:0"
        for _ in range(50):
            self._admin.send(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)
            if self._admin.receive().coordinators[0].error_code == 0:
                break
            self.world.wait(100)
        self.world.settle()

    def plain(self, value: Any, field: str = "") -> Any:
        if isinstance(value, ShareFetchResponse):
            _drop_silent(value)
        if field == "partitions" and isinstance(value, list) and value and isinstance(value[0], int):
            return f"{len(value)} of them"
        if field == "records" and value is not None:
            return _records(value)
        if field == "acquired_records":
            return _runs(value)
        return super().plain(value, field)


def _drop_silent(answer: ShareFetchResponse) -> None:
    """Remove partitions without news from the answer: whether a broker names them depends on timing."""
    for topic in answer.responses:
        topic.partitions = [
            one for one in topic.partitions if one.acquired_records or one.error_code or one.acknowledge_error_code
        ]
    answer.responses = [topic for topic in answer.responses if topic.partitions]


def _records(data: Any) -> str:
    shown = []
    for header, batch in iter_batches(data):
        if header.is_control:
            shown.append(f"{header.base_offset}:control")
        else:
            shown += [
                f"{record.offset}:{bytes(record.value or b'').decode()}" for record in iter_records(batch, header)
            ]
    return " ".join(shown)


def _runs(acquired: list[Any]) -> str:
    runs: list[list[int]] = []
    for one in acquired:
        if runs and runs[-1][1] + 1 == one.first_offset and runs[-1][2] == one.delivery_count:
            runs[-1][1] = one.last_offset
        else:
            runs.append([one.first_offset, one.last_offset, one.delivery_count])
    return ", ".join(f"{first}-{last} x{count}" for first, last, count in runs)
