"""Our broker in this process: frames go in and out as on a socket, files are real, and time is moved by hand."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import count
from pathlib import Path

from pykafka_broker.broker.context import ConnectionContext
from pykafka_broker.broker.coordinator_log import partition_for
from pykafka_broker.broker.router import PendingReply
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from pykafka_broker.config import BrokerConfig
from pykafka_broker.coordinators.transactions.transaction import transaction_record
from pykafka_broker.log.files import FileSlice
from tests.broker.driven import DrivenBroker

START_MS = 1_700_000_000_000


class InProcess:
    """A `Wire`, and the broker behind it."""

    def __init__(self, directory: Path, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.config = BrokerConfig(
            {
                "log.dirs": str(directory),
                "offsets.topic.num.partitions": "2",
                "transaction.state.log.num.partitions": "3",
                **settings,
            }
        )
        self.time = START_MS
        self._ids = count(1)
        self._connection = ConnectionContext(1, "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 50000))
        self.start()
        self.broker.create_missing_topics([TRANSACTION_STATE, CONSUMER_OFFSETS])

    def start(self) -> None:
        self.broker = DrivenBroker(self.config, new_uuid=self._new_uuid, new_session_id=lambda: next(self._ids))
        self.broker.start(self.time)

    def _new_uuid(self) -> bytes:
        return next(self._ids).to_bytes(16, "big")

    def crash(self) -> None:
        """As kill -9: nothing is written any more; the next broker finds what is on disk."""
        for directory in self.broker.logs.directories:
            directory.release()
        self.start()

    def exchange(self, frame: bytes) -> bytes:
        answer = self.broker.dispatch(self._connection, memoryview(bytearray(frame)), self.time)
        assert answer is not None
        assert not isinstance(answer, PendingReply)
        self.broker.settle(self.time)
        whole = b"".join(piece.read() if isinstance(piece, FileSlice) else bytes(piece) for piece in answer)
        assert struct.unpack_from(">i", whole) == (len(whole) - 4,)
        return whole[4:]

    def now(self) -> int:
        return self.time

    def wait(self, milliseconds: int) -> None:
        self.time += milliseconds
        due = self.broker.next_deadline()
        if due is not None and due <= self.time:
            self.broker.on_deadline(self.time)

    def age(self, name: str, epoch: int, takeover: Callable[[], object]) -> None:
        """What thirty thousand takeovers would come to."""
        takeover()
        host = self.broker.transactions
        transaction = host.transaction(name)
        assert transaction is not None
        partition = partition_for(name, 3)
        aged = transaction_record(name, transaction._replace(producer_epoch=epoch), 1)
        host.shards.append(partition, [aged])
        host._coordinators[partition].replay(aged)
