"""Members that work: they read what they are assigned, and commit how far they have come.

Rule: one kind notes what it has processed and commits later, so each record is processed at least once; the other
writes a record for each that it has read, and commits in the same transaction, so each has its output exactly once.
Both come and go: now and then one leaves, and now and then one is gone without a word and begins anew. Where a member
begins to read, it asks what is committed, and that must be no less than anybody was promised.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.simulation.client import Ask, Script, SimClient, Wait
from tests.simulation.history import Transaction, output_value
from tests.simulation.memberships import BEHIND, GONE, GROUP, Membership
from tests.simulation.producers import ENDED, Identity, TransactionLost, end_transaction, identity, produce
from tests.simulation.readers import OutOfRange, committed_offset, fetch, records_of

LEAST_LIFE_MS, MOST_LIFE_MS = 800, 6_000
MOST_AT_ONCE, MOST_OF_MANY = 5, 50  # records; where there are many
Read = list[tuple[int, bytes]]


class Worker:
    """A group member that reads and processes records: the base of both kinds."""

    def __init__(self, client: SimClient, membership: Membership) -> None:
        self.client = client
        self.membership = membership

    def script(self) -> Script:
        """Join, work and go, again and again, until the client stops and the group has committed everything."""
        client, member, random = self.client, self.membership, self.client.random
        while not self._over():
            yield from self.live(client.clock.now + random.randrange(LEAST_LIFE_MS, MOST_LIFE_MS))
            if client.stopping or random.random() < 0.5:
                yield from self.revoking(member.assigned)
                yield from member.leave()
                client.history.did["member left"] += 1
            else:
                member.forget()
                client.history.did["member vanished"] += 1
            yield Wait(random.randrange(1_000))

    def live(self, until: int) -> Script:
        """Work as a member until `until`; when the client stops, until the group has committed everything."""
        client, member = self.client, self.membership
        while not self._over() and (client.stopping or client.clock.now < until):
            yield from member.keep(self.revoking)
            if not member.assigned:
                yield Wait(50)
                continue
            partition = client.random.choice(sorted(member.assigned))
            if partition not in self.membership.positions:
                yield from self._begin(partition)
                continue
            yield from self._read(partition)
            yield Wait(client.random.randrange(40))

    def _over(self) -> bool:
        return self.client.stopping and self.client.history.is_worked_off(self.membership.group)

    def _begin(self, partition: PartitionKey) -> Script:
        member = self.membership
        offset = yield from committed_offset(self.client, member.group, partition, member)
        if offset is not None:
            self.membership.positions[partition] = max(offset, 0)

    def _read(self, partition: PartitionKey) -> Script:
        offset = self.membership.positions[partition]
        try:
            found = yield from fetch(self.client, partition, offset, committed=True)
        except OutOfRange as gone:
            if partition in self.membership.positions:
                self.membership.positions[partition] = gone.start
                self.client.history.note_skipped(self.membership.group, partition, offset, gone.start)
            return
        if found is None:
            return
        records, end = records_of(found, offset, committed=True)
        most = MOST_AT_ONCE if self.client.history.keeping.plain else MOST_OF_MANY
        if len(records) > most:
            records, end = records[:most], records[most][0]
        if end == offset:
            yield from self.at_end(partition)
        elif (yield from self.process(partition, records, end)) and partition in self.membership.positions:
            self.membership.positions[partition] = end

    # -- what differs

    def process(self, partition: PartitionKey, records: Read, end: int) -> Generator[Ask | Wait, Any, bool]:
        """Process the records; return whether this succeeded, so that reading goes on at `end`."""
        raise NotImplementedError

    def at_end(self, partition: PartitionKey) -> Script:
        """Act on having read everything that there is for now."""
        raise NotImplementedError

    def revoking(self, partitions: set[PartitionKey]) -> Script:
        """Act on the loss of partitions to other members."""
        raise NotImplementedError


class AtLeastOnce(Worker):
    """A worker that commits now and then, at the end of a partition, and when it gives a partition back."""

    def process(self, partition: PartitionKey, records: Read, end: int) -> Generator[Ask | Wait, Any, bool]:
        processed = self.client.history.processed[self.membership.group, partition]
        processed.update(offset for offset, _ in records)
        self.client.history.did["processed"] += len(records)
        if self.client.random.random() < 0.3:
            yield from self._commit({partition: end})
        return True

    def at_end(self, partition: PartitionKey) -> Script:
        key = self.membership.group, partition
        if self.client.history.committed_offsets.get(key, 0) < self.membership.positions[partition]:
            yield from self._commit({partition: self.membership.positions[partition]})

    def revoking(self, partitions: set[PartitionKey]) -> Script:
        positions = {
            each: self.membership.positions[each] for each in sorted(partitions) if each in self.membership.positions
        }
        if positions:
            yield from self._commit(positions)

    def _commit(self, positions: dict[PartitionKey, int]) -> Script:
        """Commit the positions until they are acknowledged or refused."""
        client, member = self.client, self.membership
        while member.epoch >= 0:
            topics = [
                OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(number, offset)])
                for (topic, number), offset in positions.items()
            ]
            request = OffsetCommitRequest(member.group, member.epoch, member.member_id, member.instance, topics=topics)
            place = yield from client.coordinator(GROUP, member.group)
            known = {each: client.history.note_asked(member.group, each, to) for each, to in positions.items()}
            answer = yield Ask(place, request, (9, 9))
            if not isinstance(answer, LinkError):
                codes = {ErrorCode(each.error_code) for topic in answer.topics for each in topic.partitions}
                if codes == {ErrorCode.NONE}:
                    for partition, offset in positions.items():
                        client.history.note_committed(member.group, partition, offset, known[partition])
                    return
                code = max(codes)
                if not client.expect(code, "OffsetCommit of a member", *GONE, *BEHIND):
                    member.refused(code)
                    return
            client.forget_coordinator(GROUP, member.group)
            yield client.backoff()


class ExactlyOnce(Worker):
    """A worker that writes one output record for each record, to another topic; the value names the input record."""

    def __init__(self, client: SimClient, membership: Membership, output: list[PartitionKey]) -> None:
        super().__init__(client, membership)
        self._who = Identity(-1, -1)
        self._output = output
        self._id = f"tx-{client.name}"
        self._number = 0
        self._known = -1  # what was committed as the last offset was sent

    def script(self) -> Script:
        """Work, and begin a new producer epoch at the end, which ends an open transaction."""
        self._who = yield from identity(self.client, self._id)
        yield from super().script()
        yield from identity(self.client, self._id)

    def at_end(self, partition: PartitionKey) -> Script:
        """Commit a position that lies behind deleted records, if it is not committed yet."""
        position = self.membership.positions[partition]
        if self.client.history.committed_offsets.get((self.membership.group, partition), 0) < position:
            yield from self.process(partition, [], position)

    def revoking(self, partitions: set[PartitionKey]) -> Script:
        yield from ()

    def process(self, partition: PartitionKey, records: Read, end: int) -> Generator[Ask | Wait, Any, bool]:
        client = self.client
        transaction = Transaction(self._id)
        client.history.transactions.append(transaction)
        try:
            size = 1 if client.history.keeping.plain else MOST_OF_MANY // 2
            for first in range(0, len(records), size):
                into = client.random.choice(self._output)
                values = [self._output_of(partition, offset) for offset, _ in records[first : first + size]]
                transaction.parts |= dict.fromkeys(values, into)
                client.history.sent[client.name, into] += values
                yield from produce(client, self._who, into, [(None, value) for value in values], self._id)
            fine = yield from self._commit_offset(partition, end)
            self._who = yield from end_transaction(client, self._id, self._who, transaction, commit=fine)
        except TransactionLost:
            client.history.did["transaction lost"] += 1
            self._who = yield from identity(client, self._id)
            fine = False
        if fine:
            client.history.note_committed(self.membership.group, partition, end, self._known)
            client.history.did["exactly once"] += len(records)
        else:
            self.membership.positions.clear()  # what is committed is asked anew
        return fine

    def _output_of(self, partition: PartitionKey, offset: int) -> bytes:
        self._number += 1
        return output_value(self.client.name, self._number, self.membership.group, partition, offset)

    def _commit_offset(self, partition: PartitionKey, offset: int) -> Generator[Ask | Wait, Any, bool]:
        """Commit the offset in the transaction; return whether the group accepts it from this member."""
        client, member, who = self.client, self.membership, self._who
        part = TxnOffsetCommitRequestPartition(partition[1], offset)
        topic = TxnOffsetCommitRequestTopic(partition[0], partitions=[part])
        while member.epoch >= 0:
            place = yield from client.coordinator(GROUP, member.group)
            request = TxnOffsetCommitRequest(
                self._id, member.group, who.id, who.epoch, member.epoch, member.member_id, member.instance, [topic]
            )
            self._known = client.history.note_asked(member.group, partition, offset)
            answer = yield Ask(place, request, (5, 5))
            if not isinstance(answer, LinkError):
                code = ErrorCode(answer.topics[0].partitions[0].error_code)
                if code is ErrorCode.NONE:
                    return True
                if not client.expect(code, "TxnOffsetCommit of a member", *GONE, *BEHIND, *ENDED):
                    if code in ENDED:
                        raise TransactionLost
                    member.refused(code)
                    return False
            client.forget_coordinator(GROUP, member.group)
            yield client.backoff()
        return False
