"""Clients that ask where logs begin and end, and those that move the beginning.

Rule: what ListOffsets answers fits together and with what producers were told: the start is no lower than what
DeleteRecords has told, the end lies behind every record that was acknowledged before it was asked for, and a time finds
the first record that is not older (which is checked when all that was kept is known).
"""

from __future__ import annotations

from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykafka_broker.testing.simulation.network import HostPort
from pykafka_broker.testing.simulation.node import SimNode
from tests.simulation.client import Ask, Script, SimClient, Wait
from tests.simulation.history import TimeAnswer
from tests.simulation.layouts import MIN_INSYNC_REPLICAS
from tests.simulation.readers import EARLIEST, list_offset

LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -3, -4, -5, -6
HIGH_WATERMARK = -1
DELETE_MS = 1_500


def looker(client: SimClient, partitions: list[PartitionKey], *, timed: bool) -> Script:
    """Ask for offsets of every kind. timed: the records have the timestamps that their producers gave them."""
    random = client.random
    while not client.stopping:
        partition = random.choice(partitions)
        kind = random.choice((LATEST, LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, None, None, None))
        if kind is not None:
            yield from _look(client, partition, kind)
        elif timed:
            yield from _look_for_time(client, partition)
        yield Wait(random.randrange(120))


def _look(client: SimClient, partition: PartitionKey, kind: int) -> Script:
    history = client.history
    end, start = history.known_end(partition), history.told_starts.get(partition, 0)
    found = yield from list_offset(client, partition, kind, committed=client.random.random() < 0.3 and kind != LATEST)
    if found is None or history.keeping.lossy:
        return
    history.did[f"ListOffsets of {kind}"] += 1
    is_newest = _is_newest(client, partition)
    if kind == LATEST and found.offset < end and is_newest:
        history.violation(f"{partition} ends at {found.offset}, and what ends at {end} was acknowledged")
    if kind in (EARLIEST, EARLIEST_LOCAL) and found.offset < start and is_newest and history.starts_last:
        history.violation(f"{partition} begins at {found.offset}, and all below {start} was deleted")
    if kind in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD) and found.offset != -1:
        history.violation(f"{partition} has {found.offset} as tiered")


def _look_for_time(client: SimClient, partition: PartitionKey) -> Script:
    history, clock = client.history, client.clock
    wanted = clock.wall - client.random.randrange(2_500)
    end = history.known_end(partition)
    found = yield from list_offset(client, partition, wanted)
    if found is not None:
        history.did["ListOffsets of a time"] += 1
        end = end if _is_newest(client, partition) else 0
        start_is_known = not history.emptying[partition]  # how far an attempt to delete all has come is not told
        history.by_time.append(TimeAnswer(partition, wanted, found.offset, found.timestamp, end, start_is_known))


def _is_newest(client: SimClient, partition: PartitionKey) -> bool:
    """Return whether the leader that has answered is the newest one.

    A replaced leader that has not heard of its replacement does not know what was acknowledged since.
    """
    return client.leaders[partition][1] == client.history.newest_epoch(client.topic_ids[partition[0]], partition[1])


def trimmer(client: SimClient, partitions: list[PartitionKey]) -> Script:
    """Delete records up to some offset, in the middle of batches or up to the high watermark."""
    random = client.random
    while not client.stopping:
        yield Wait(random.randrange(500))
        yield from _trim(client, random.choice(partitions))


def _trim(client: SimClient, partition: PartitionKey) -> Script:
    history, random = client.history, client.random
    end = history.known_end(partition)
    start = history.told_starts.get(partition, 0)
    offset = HIGH_WATERMARK if random.random() < 0.15 or start >= end else random.randrange(start, end + 1)
    while not client.stopping:
        place, _ = yield from client.leader(partition)
        history.note_deleting(partition, offset)
        topic = DeleteRecordsTopic(partition[0], [DeleteRecordsPartition(partition[1], offset)])
        answer = yield Ask(place, DeleteRecordsRequest([topic], DELETE_MS), (2, 2))
        if not isinstance(answer, LinkError):
            told = answer.topics[0].partitions[0]
            if told.error_code == ErrorCode.NONE:
                lasts = _outlives_its_leader(client, place, partition)
                _note_deleted(client, partition, offset, told.low_watermark, lasts=lasts)
                return
            if told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:  # a leader that does not yet know what is committed
                history.did["DeleteRecords: OFFSET_OUT_OF_RANGE"] += 1
            elif told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                history.rare["DeleteRecords refused by a former leader"] += 1
            elif not client.expect(told.error_code, f"DeleteRecords of {partition} to {offset}"):
                return
        client.forget_leader(partition)
        yield client.backoff()


def _outlives_its_leader(client: SimClient, place: HostPort, partition: PartitionKey) -> bool:
    """Return whether enough replicas are in sync for a deletion to outlive the leader.

    Below `min.insync.replicas` the leader alone may know of the deletion, and an eligible replica that leads next
    (KIP-966) still has the deleted records, as with Kafka.
    """
    node = client.network.hosts[place[0]]
    assert isinstance(node, SimNode)
    state = node.broker.node.image.partition(*partition)
    return state is not None and len(state.isr) >= min(MIN_INSYNC_REPLICAS, len(state.replicas))


def _note_deleted(client: SimClient, partition: PartitionKey, offset: int, low_watermark: int, *, lasts: bool) -> None:
    history = client.history
    history.did["deleted up to there"] += 1
    if low_watermark < offset:
        history.violation(f"{partition} was deleted up to {offset}, and {low_watermark} was told")
    history.rare["records deleted by a leader alone"] += not lasts
    history.note_deleted(partition, offset, low_watermark, lasts=lasts)
