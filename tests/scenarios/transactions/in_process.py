"""Our broker in this process: frames go in and out as on a socket, files are real, and time is moved by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pykafka_broker.broker.coordinators.coordinator_log import partition_for
from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from pykafka_broker.coordinators.transactions.transaction import transaction_record
from tests.broker.api.real_broker import RealBroker
from tests.broker.driven import settings
from tests.broker.frames import joined


class InProcess(RealBroker):
    """A `Wire` to a broker in this process, and the broker itself."""

    def __init__(self, directory: Path, **config: str) -> None:
        few = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "3"}
        super().__init__(directory, **few, **settings(**config))
        self.broker.create_missing_topics([TRANSACTION_STATE, CONSUMER_OFFSETS])

    def exchange(self, frame: bytes) -> bytes:
        answer = self.broker.dispatch(self.connection, memoryview(bytearray(frame)), self.now)
        assert answer is not None
        assert not isinstance(answer, PendingReply)
        self.broker.settle(self.now)
        whole = joined(answer)
        assert int.from_bytes(whole[:4], "big") == len(whole) - 4
        return whole[4:]

    def age(self, name: str, epoch: int, takeover: Callable[[], object]) -> None:
        """Raise the producer epoch to `epoch` with one record, where a real producer would need that many takeovers."""
        takeover()
        host = self.broker.transactions
        transaction = host.transaction(name)
        assert transaction is not None
        partition = partition_for(name, 3)
        aged = transaction_record(name, transaction._replace(producer_epoch=epoch), 1)
        host.shards.append(partition, [aged])
        host._coordinators[partition].replay(aged)
