"""Producers: idempotent ones, transactional ones that commit offsets of a group too, and those with acks=1 and acks=0.

Rule: batches are as large as the run's topic has them. Where it is compacted all producers share a few keys, so that
records of one supersede those of another, and aborted ones don't.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.end_txn_request import EndTxnRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.compression import GZIP, NONE
from tests.simulation.client import Ask, Script, SimClient, Wait
from tests.simulation.history import Ending, Transaction
from tests.simulation.memberships import GROUP

TRANSACTION = 1
OF: PartitionKey = "t", 0  # the partition that offsets are committed for
PRODUCE_MS = 2_000
TRANSACTION_MS = 2_000
LONG_MS = 600_000  # longer than a run
_LOST = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE)
# Errors of a transaction that timed out or was ended by another answer: its producer begins anew.
ENDED = (*_LOST, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
# Errors where records may be lost: the leader may then have lost its state of a producer as well.
FORGOTTEN = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH)
KEYS = [f"k{each}".encode() for each in range(12)]
TOMBSTONES = 0.1  # share of the batches
MOST_UNCOMPRESSED = 5  # records
KeyValue = tuple[bytes | None, bytes | None]


class TransactionLost(Exception):
    """A transaction that another client ended, or whose outcome is unknown: its producer begins anew."""


class Identity:
    """A producer id with its epoch, and the next sequence of each partition."""

    def __init__(self, id: int, epoch: int) -> None:
        self.id, self.epoch = id, epoch
        self.sequences: dict[PartitionKey, int] = {}

    def batch(
        self, client: SimClient, partition: PartitionKey, records: list[KeyValue], *, transactional: bool
    ) -> bytes:
        builder = BatchBuilder(
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self.sequences.get(partition, 0),
            transactional=transactional,
            codec=codec_of(client, records),
        )
        for key, value in records:
            builder.append(key, value, client.clock.wall)
            if value is not None:
                client.history.times[value] = client.clock.wall
        return bytes(builder.build())


def codec_of(client: SimClient, records: list[KeyValue]) -> int:
    """Return the codec of a batch: large ones are compressed now and then."""
    return GZIP if len(records) > MOST_UNCOMPRESSED and client.random.random() < 0.3 else NONE


def keyed(client: SimClient, partition: PartitionKey, values: list[bytes]) -> list[KeyValue]:
    """Return the records for these values, with keys where the partition's topic is compacted."""
    history = client.history
    if partition[0] != history.topic or not history.keeping.keyed:
        return [(None, value) for value in values]
    for value in values:
        history.keys[value] = KEYS[client.random.randrange(len(KEYS))]
    return [(history.keys[value], value) for value in values]


def identity(
    client: SimClient, transactional_id: str | None, timeout_ms: int = TRANSACTION_MS
) -> Generator[Ask | Wait, Any, Identity]:
    """Send InitProducerId until it succeeds; return the producer's identity."""
    while True:
        if transactional_id is not None:
            place = yield from client.coordinator(TRANSACTION, transactional_id)
        else:
            place = client.random.choice(client.bootstrap)
        answer = yield Ask(place, InitProducerIdRequest(transactional_id, timeout_ms), (4, 5))
        if not isinstance(answer, LinkError):
            if answer.error_code == ErrorCode.NONE:
                return Identity(answer.producer_id, answer.producer_epoch)
            client.expect(answer.error_code, "InitProducerId")
        if transactional_id is not None:
            client.forget_coordinator(TRANSACTION, transactional_id)
        yield client.backoff()


def produce(
    client: SimClient,
    who: Identity,
    partition: PartitionKey,
    records: list[KeyValue],
    transactional_id: str | None = None,
) -> Script:
    """Send one batch until it is acknowledged; return its first offset, -1 for a duplicate whose offset is unknown.

    Raises TransactionLost.
    """
    topic, number = partition
    batch = who.batch(client, partition, records, transactional=transactional_id is not None)
    while True:
        place, _ = yield from client.leader(partition)
        data = [TopicProduceData(topic, partition_data=[PartitionProduceData(number, batch)])]
        answer = yield Ask(place, ProduceRequest(transactional_id, -1, PRODUCE_MS, data), (12, 12))
        if not isinstance(answer, LinkError):
            told = answer.responses[0].partition_responses[0]
            code = told.error_code
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                who.sequences[partition] = who.sequences.get(partition, 0) + len(records)
                return told.base_offset if code == ErrorCode.NONE else -1
            if not client.expect(code, "Produce", *_final(client, transactional_id)):
                raise TransactionLost
        client.forget_leader(partition)
        yield client.backoff()


def _final(client: SimClient, transactional_id: str | None) -> tuple[ErrorCode, ...]:
    """Return the errors after which a producer begins anew with a new identity."""
    ended = ENDED if transactional_id is not None else ()
    return (*ended, *FORGOTTEN) if client.history.keeping.lossy else ended


def idempotent(client: SimClient, partitions: list[PartitionKey]) -> Script:
    """Produce batches of numbered values, each to a random partition."""
    history = client.history
    number = 0
    while not client.stopping:
        who = yield from identity(client, None)
        while not client.stopping:
            partition = client.random.choice(partitions)
            if history.keeping.keyed and client.random.random() < TOMBSTONES:
                yield from _bury(client, who, partition)
            count = client.random.randrange(1, history.keeping.most_records + 1)
            values = [f"{client.name}.{each}".encode() for each in range(number + 1, number + count + 1)]
            number += count
            history.sent[client.name, partition] += values
            try:
                base = yield from produce(client, who, partition, keyed(client, partition, values))
            except TransactionLost:
                break
            history.did["batch"] += 1
            for at, value in enumerate(values):
                history.acknowledged[partition][value] = base + at if base >= 0 else -1
            yield Wait(client.random.randrange(40))
        if not history.keeping.lossy:
            return


def _bury(client: SimClient, who: Identity, partition: PartitionKey) -> Script:
    """Write a tombstone for a random key."""
    history, key = client.history, KEYS[client.random.randrange(len(KEYS))]
    base = yield from produce(client, who, partition, [(key, None)])
    history.did["tombstone"] += 1
    if base >= 0:
        history.tombstones[partition][key] = max(base, history.tombstones[partition].get(key, -1))
    else:
        history.doubtful.add((partition, key))


def careless(client: SimClient, partitions: list[PartitionKey]) -> Script:
    """Send batches once, with acks=1: they may be lost, but neither come twice nor in another order."""
    history = client.history
    number = 0
    while not client.stopping:
        partition = client.random.choice(partitions)
        count = client.random.randrange(1, history.keeping.most_records + 1)
        values = [f"{client.name}.{each}".encode() for each in range(number + 1, number + count + 1)]
        number += count
        history.sent[client.name, partition] += values
        records = keyed(client, partition, values)
        builder = BatchBuilder(codec=codec_of(client, records))
        for key, value in records:
            builder.append(key, value, client.clock.wall)
            history.times[value or b""] = client.clock.wall
        place, _ = yield from client.leader(partition)
        data = [
            TopicProduceData(partition[0], partition_data=[PartitionProduceData(partition[1], bytes(builder.build()))])
        ]
        answer = yield Ask(place, ProduceRequest(None, 1, PRODUCE_MS, data), (12, 12))
        if isinstance(answer, LinkError):
            client.forget_leader(partition)
        elif code := answer.responses[0].partition_responses[0].error_code:
            client.expect(code, "Produce with acks=1")
            client.forget_leader(partition)
            yield client.backoff()
        else:
            history.did["batch with acks=1"] += 1
        yield Wait(client.random.randrange(60))


def unheard(client: SimClient, partitions: list[PartitionKey]) -> Script:
    """Send batches with acks=0, which get no answer: each is stored once and whole, or not at all.

    Batches of one connection keep their order; those of two connections may overtake each other.
    """
    history = client.history
    number = 0
    while not client.stopping:
        partition = client.random.choice(partitions)
        count = client.random.randrange(1, history.keeping.most_records + 1)
        values = [f"{client.name}.{each}".encode() for each in range(number + 1, number + count + 1)]
        number += count
        history.sent[f"{client.name}.{number}", partition] += values
        history.unheard.append((partition, values))
        records = keyed(client, partition, values)
        builder = BatchBuilder(codec=codec_of(client, records))
        for key, value in records:
            builder.append(key, value, client.clock.wall)
            history.times[value or b""] = client.clock.wall
        place, _ = yield from client.leader(partition)
        data = TopicProduceData(
            partition[0], partition_data=[PartitionProduceData(partition[1], bytes(builder.build()))]
        )
        answer = yield Ask(place, ProduceRequest(None, 0, PRODUCE_MS, [data]), (12, 12), unanswered=True)
        if isinstance(answer, LinkError) or client.random.random() < 0.1:  # nobody says that another node leads now
            client.forget_leader(partition)
        history.did["batch with acks=0"] += 1
        yield Wait(client.random.randrange(60))


class Transactional:
    """A transactional producer, whose transactions write to several partitions and commit the offset of a group.

    patient: transactions have so long a timeout that no coordinator has a reason to end them. fleeting: each
    transaction has an id of its own, as if many producers came and went.
    """

    def __init__(
        self, client: SimClient, partitions: list[PartitionKey], *, patient: bool = False, fleeting: bool = False
    ) -> None:
        self._client = client
        self._patient = patient
        self._fleeting = fleeting
        self._ids = 0
        self._partitions = partitions
        self._id = f"tx-{client.name}"
        self._group = f"of-{client.name}"
        self._number = 0
        self._offset = 0
        self._known = -1  # what was committed as the last offset was sent
        self._committed = 0.5 if client.history.keeping.keyed else 0.7  # of its transactions

    def script(self) -> Script:
        """Run transactions until the client stops."""
        client = self._client
        while not client.stopping:
            who = yield from identity(client, self._id, LONG_MS if self._patient else TRANSACTION_MS)
            try:
                while not client.stopping:
                    who = yield from self._transaction(who)
                    yield Wait(client.random.randrange(60))
                    if self._fleeting:
                        self._ids += 1
                        self._id = f"tx-{client.name}{self._ids}"
                        break
            except TransactionLost:
                client.history.did["transaction lost"] += 1
                if self._patient and not client.history.keeping.lossy:
                    client.history.violation(f"{self._id} was ended by somebody else")
            if self._fleeting:
                yield from identity(client, self._id)  # of the one that was lost, or of the next one
        yield from identity(client, self._id)  # nothing is left open

    def _transaction(self, who: Identity) -> Generator[Ask | Wait, Any, Identity]:
        client, random = self._client, self._client.random
        transaction = Transaction(self._id)
        client.history.transactions.append(transaction)
        for partition in random.sample(self._partitions, random.randrange(1, len(self._partitions) + 1)):
            count = 1 if client.history.keeping.plain else random.randrange(1, client.history.keeping.most_records + 1)
            values = [f"{client.name}.t{each}".encode() for each in range(self._number + 1, self._number + count + 1)]
            self._number += count
            transaction.parts |= dict.fromkeys(values, partition)
            client.history.sent[client.name, partition] += values
            base = yield from produce(client, who, partition, keyed(client, partition, values), self._id)
            if base >= 0:
                transaction.offsets |= {value: base + at for at, value in enumerate(values)}
        offset = -1
        if random.random() < 0.4:
            offset = yield from self._commit_offset(who)
        if random.random() < 0.1:
            yield Wait(random.randrange(2 * TRANSACTION_MS))
        who = yield from end_transaction(client, self._id, who, transaction, commit=random.random() < self._committed)
        if offset >= 0 and transaction.ending is Ending.COMMITTED:
            client.history.note_committed(self._group, OF, offset, self._known)
        return who

    def _commit_offset(self, who: Identity) -> Generator[Ask | Wait, Any, int]:
        client = self._client
        self._offset += 1
        while True:
            place = yield from client.coordinator(GROUP, self._group)
            self._known = client.history.note_asked(self._group, OF, self._offset)
            request = TxnOffsetCommitRequest(self._id, self._group, who.id, who.epoch, -1, "", None)
            request.topics = [
                TxnOffsetCommitRequestTopic(OF[0], partitions=[TxnOffsetCommitRequestPartition(OF[1], self._offset)])
            ]
            answer = yield Ask(place, request, (5, 5))
            if not isinstance(answer, LinkError):
                code = answer.topics[0].partitions[0].error_code
                if code == ErrorCode.NONE:
                    return self._offset
                if not client.expect(code, "TxnOffsetCommit", *ENDED):
                    raise TransactionLost
            client.forget_coordinator(GROUP, self._group)
            yield client.backoff()


def end_transaction(
    client: SimClient, transactional_id: str, who: Identity, transaction: Transaction, *, commit: bool
) -> Generator[Ask | Wait, Any, Identity]:
    """Send EndTxn until it is answered; return the producer's identity afterwards. Raises TransactionLost."""
    asked = False
    while True:
        place = yield from client.coordinator(TRANSACTION, transactional_id)
        transaction.ending = Ending.UNKNOWN
        answer = yield Ask(place, EndTxnRequest(transactional_id, who.id, who.epoch, commit), (5, 5))
        if not isinstance(answer, LinkError):
            if answer.error_code == ErrorCode.NONE:
                transaction.ending = Ending.COMMITTED if commit else Ending.ABORTED
                client.history.did["transaction"] += 1
                changed = (answer.producer_id, answer.producer_epoch) != (who.id, who.epoch)
                return Identity(answer.producer_id, answer.producer_epoch) if changed else who
            if not client.expect(answer.error_code, "EndTxn", *ENDED):
                if not asked:
                    transaction.ending = Ending.ABORTED  # it had run out of time
                raise TransactionLost
        else:
            asked = True
        client.forget_coordinator(TRANSACTION, transactional_id)
        yield client.backoff()
