"""Members of a share group that reject some records, and the letters that these leave (KIP-1191).

Rule: a record whose rejection was answered leaves a letter, whatever happens to brokers. More than one may come, and
records that nobody was told about leave none that says they were rejected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records
from tests.simulation.client import Script, SimClient
from tests.simulation.operators import SET, ask
from tests.simulation.readers import fetch
from tests.simulation.sharers import ACCEPT, GROUP_RESOURCE, Sharer, from_the_beginning

LETTERS = "dlq.letters"
TAKES_LETTERS = {"errors.deadletterqueue.group.enable": "true"}
GROUP = "rejecting"
REJECT = 3
EMULATED = {"pykafka.emulate": "4.4"}
Source = tuple[int, int]  # partition and offset of a rejected record


def is_rejected(offset: int) -> bool:
    return offset % 3 == 0


class Rejecting(Sharer):
    """A member that rejects every third offset and accepts the others."""

    def kinds(self, first: int, last: int) -> list[int]:
        return [REJECT if is_rejected(offset) else ACCEPT for offset in range(first, last + 1)]


def with_letters(client: SimClient) -> Script:
    """Enable dead letters in the cluster, and give the group without members its topic."""
    update = FeatureUpdateKey("share.version", 2, upgrade_type=1)
    configs = AlterConfigsResource(
        GROUP_RESOURCE, GROUP, [AlterableConfig("errors.deadletterqueue.topic.name", SET, LETTERS)]
    )
    while (yield from ask(client, UpdateFeaturesRequest(feature_updates=[update]), (2, 2))).error_code:
        yield client.backoff()
    while (yield from ask(client, IncrementalAlterConfigsRequest([configs]), (1, 1))).responses[0].error_code:
        yield client.backoff()
    yield from from_the_beginning(client, GROUP)


def rejected(client: SimClient) -> set[Source]:
    """Return the records whose rejection was answered."""
    return {
        (partition[1], offset)
        for (group, partition), offsets in client.history.accepted.items()
        if group == GROUP
        for offset in offsets
        if is_rejected(offset)
    }


class LetterReader:
    """A reader of all letters. found: the number of letters of each record."""

    def __init__(self, client: SimClient, partitions: list[PartitionKey]) -> None:
        self.found: Counter[Source] = Counter()
        self._client = client
        self._positions = dict.fromkeys(partitions, 0)

    @property
    def has_all(self) -> bool:
        return rejected(self._client) <= self.found.keys()

    def script(self) -> Script:
        """Read until each rejected record has left its letter."""
        while not self.has_all:
            for partition in self._positions:
                yield from self._read(partition)
        self._client.history.did["letters"] += len(self.found)
        self._client.history.did["letters that came again"] += self.found.total() - len(self.found)
        strange = [source for source in self.found if not is_rejected(source[1])]
        if strange:
            self._client.history.violation(f"there are letters of records that nobody has rejected: {strange}")

    def _read(self, partition: PartitionKey) -> Script:
        data = yield from fetch(self._client, partition, self._positions[partition], committed=False)
        for header, batch in iter_batches(bytes(data.records or b"") if data is not None else b""):
            for record in iter_records(batch, header):
                if record.offset >= self._positions[partition]:
                    told = {name.removeprefix("__dlq.errors."): bytes(value or b"") for name, value in record.headers}
                    self.found[int(told["partition"]), int(told["offset"])] += 1
            self._positions[partition] = max(self._positions[partition], header.next_offset)


def last_member(client: SimClient, topic: str, is_over: Callable[[], bool]) -> Script:
    """Read as a member until `is_over`, since a new leader writes letters only when it is asked for records."""
    yield from Rejecting(client, GROUP, topic).live(is_over)
