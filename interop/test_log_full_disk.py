"""The disk runs full under a running broker: clients get errors, nothing acknowledged is lost, reads go on, and writes
go on once there is room.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from interop.answers.requests import produce
from interop.batches import Rec, batch
from interop.numbered import Partitions, check_no_gaps, check_once_in_order, create, read_all
from interop.raw import RawClient
from interop.small_disk import enlarge, small_disk, use_up
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.testing import BrokerError, KafkaBroker

pytestmark = pytest.mark.ours_only

SIZE_MB = 16
FILLER_MB = 4
VALUE_BYTES = 80_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", SIZE_MB) as mount:
        yield mount


class Writer:
    """An idempotent producer that shows the error code of each answer; every record carries its number."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        with RawClient(bootstrap) as client:
            given = client.call(InitProducerIdRequest(None, 60_000), 4)
        self._producer = given.producer_id, given.producer_epoch
        self.acknowledged = 0

    def produce(self) -> int:
        """Write the next number; a refused number is written again the next time, as a client does."""
        number = self.acknowledged
        record = Rec(b"%d" % number + b" " * VALUE_BYTES, timestamp=time.time_ns() // 1_000_000)
        data = batch(record, producer=(*self._producer, number))
        with RawClient(self._bootstrap) as client:
            answer = client.call(produce(self._topic, data), 9)
        code = int(answer.responses[0].partition_responses[0].error_code)
        self.acknowledged += code == ErrorCode.NONE
        return code

    def until_refused(self) -> int:
        for _ in range(SIZE_MB * 1_000_000 // VALUE_BYTES):
            code = self.produce()
            if code:
                return code
        raise AssertionError("the disk never got full")


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_disk_runs_full(disk: Path, end: str) -> None:
    filler = disk / "filler"
    filler.write_bytes(bytes(FILLER_MB << 20))
    with KafkaBroker(data_dir=disk / "data") as broker:
        where = broker.bootstrap_servers
        create(where, {"full": {}, "other": {}})
        writer, other = Writer(where, "full"), Writer(where, "other")
        assert other.produce() == ErrorCode.NONE
        for _ in range(3):
            assert writer.until_refused() == ErrorCode.KAFKA_STORAGE_ERROR
        assert other.produce() == ErrorCode.KAFKA_STORAGE_ERROR
        assert writer.acknowledged > 100
        check(where, writer)
        refuses_offsets(where)
        check(where, writer)

        filler.unlink()
        assert writer.produce() == other.produce() == ErrorCode.NONE
        assert commit(where) == 7
        check(where, writer)

        assert writer.until_refused() == ErrorCode.KAFKA_STORAGE_ERROR
        use_up(disk)
        getattr(broker, end)()
        use_up(disk)
        with pytest.raises(BrokerError, match=r"None of the log directories can be used: .*No space left"):
            broker.start()
        enlarge(disk, 2 * SIZE_MB)
        broker.start()
        check(where, writer)
        check(where, other, "other")
        assert commit(where) == 7


def refuses_offsets(where: str) -> None:
    """Check that an offset can't be committed: the offsets topic has no room."""
    offsets = OffsetCommitRequestTopic("full", partitions=[OffsetCommitRequestPartition(0, 7)])
    with RawClient(where) as client:
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["readers"]), 4)
        answer = client.call(OffsetCommitRequest("readers", topics=[offsets]), 8)
    assert answer.topics[0].partitions[0].error_code != ErrorCode.NONE


def commit(where: str) -> int:
    """Commit an offset and read it back."""
    consumer = Consumer({"bootstrap.servers": where, "group.id": "readers", "enable.auto.commit": False})
    try:
        consumer.commit(offsets=[TopicPartition("full", 0, 7)], asynchronous=False)
        return int(consumer.committed([TopicPartition("full", 0)], 10)[0].offset)
    finally:
        consumer.close()


def check(where: str, writer: Writer, topic: str = "full") -> None:
    found: Partitions = read_all(where, topic)
    check_once_in_order(found)
    check_no_gaps(found)
    assert [number for _, number in found[0]] == list(range(writer.acknowledged))
