"""Shards of a coordinator: loaded and unloaded with leadership, out of service one by one, and what answers rest on."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from pykafka_broker.broker.coordinators import shards as module
from pykafka_broker.broker.coordinators.coordinator_log import partition_for, read_batches
from pykafka_broker.broker.coordinators.shards import CoordinatorShards
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.partitions.replicas import Replicas
from pykafka_broker.broker.waiting.future import DONE
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from pykafka_broker.errors import ApiError
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord
from pykafka_broker.protocol.stored.remove_topic_record import RemoveTopicRecord
from pykafka_broker.records.record import iter_records
from tests.broker.api.real_broker import RealBroker
from tests.broker.raw_record import FRAME, OfType1, Raw, raw_record
from tests.broker.support import ANOTHER_NODE, NOW, LightBroker, batch

TOPIC = "c"
POISON = b"poison"
LOADING, ELSEWHERE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR


class Host:
    """A host that knows the values in its shards."""

    def __init__(self) -> None:
        self.known: dict[int, list[bytes]] = {}
        self.heard: list[tuple[str, int]] = []
        self.unloads: list[set[int]] = []  # by call
        self.refuses_loaded = False

    def load(self, number: int, partition: Partition) -> Iterator[int]:
        self.heard.append(("load", number))
        for header, each in read_batches(partition.log):
            for record in iter_records(each, header):
                assert record.value is not None
                if record.value == POISON:
                    raise KeyError("makes no sense")
                self.known.setdefault(number, []).append(record.value)
            yield header.size

    def loaded(self, number: int, epoch: int) -> None:
        self.heard.append((f"loaded in {epoch}", number))
        if self.refuses_loaded:
            raise KeyError("what was read does not fit together")

    def unload(self, indexes: Collection[int]) -> None:
        self.unloads.append({*indexes})
        for number in indexes:
            self.heard.append(("unload", number))
            self.known.pop(number, None)


@pytest.fixture
def broker(tmp_path: Path) -> LightBroker:
    return LightBroker(tmp_path)


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of one batch each."""
    monkeypatch.setattr(module, "FIRST_SLICE_BYTES", 1)
    monkeypatch.setattr(module, "SLICE_BYTES", 1)


def begin(broker: LightBroker, host: Host) -> CoordinatorShards:
    shards = CoordinatorShards(broker.whole.node, TOPIC, host)
    broker.subscribe(shards.follow)
    shards.start()
    return shards


def write(broker: LightBroker, number: int, *values: bytes) -> None:
    """Write each value as a batch of its own."""
    for value in values:
        broker.partition(TOPIC, number).append(batch(value), NOW)


def key_of(number: int, count: int) -> str:
    return next(str(key) for key in range(1000) if partition_for(str(key), count) == number)


def verdicts(shards: CoordinatorShards) -> list[ErrorCode]:
    """Return the error that each shard refuses requests with, NONE for a shard that is ready."""
    return [shards.refusal(key_of(number, shards.count)) for number in range(shards.count)]


# -- loading


def test_without_its_topic_nobody_is_coordinated(broker: LightBroker, host: Host) -> None:
    shards = begin(broker, host)
    assert (shards.count, shards.refusal("k")) == (0, ELSEWHERE)
    assert shards.committed("k") is shards.all_committed() is DONE
    broker.add(TOPIC, 2)
    assert (shards.count, verdicts(shards)) == (2, [ErrorCode.NONE] * 2)


def test_an_empty_shard_is_ready_and_its_log_stays_closed(broker: LightBroker, host: Host) -> None:
    broker.add(TOPIC, 3)
    begin(broker, host)
    assert host.heard == [("loaded in 0", 0), ("loaded in 0", 1), ("loaded in 0", 2)]
    assert not [key for key in broker.logs.loaded if key[0] == TOPIC]


def test_what_is_led_elsewhere_is_not_loaded(broker: LightBroker, host: Host) -> None:
    broker.add(TOPIC, 2, replicas=(1, 2), leader=ANOTHER_NODE)
    shards = begin(broker, host)
    assert (host.heard, verdicts(shards)) == ([], [ELSEWHERE] * 2)
    broker.change(TOPIC, 1, leader=1)
    assert verdicts(shards) == [ELSEWHERE, ErrorCode.NONE]


def test_a_log_is_read_a_slice_at_a_time(broker: LightBroker, host: Host, small_slices: None) -> None:
    broker.add(TOPIC, 2)
    write(broker, 0, b"a", b"b", b"c")
    write(broker, 1, b"d")
    shards = begin(broker, host)
    assert host.known == {0: [b"a"]}
    assert (verdicts(shards), shards.loading, shards.next_deadline()) == ([LOADING] * 2, True, 0)
    with pytest.raises(ApiError) as caught:
        shards.find(key_of(0, 2))
    assert caught.value.code is LOADING
    for _ in range(3):
        shards.on_deadline(NOW)
    assert (verdicts(shards), host.known) == ([ErrorCode.NONE, LOADING], {0: [b"a", b"b", b"c"], 1: [b"d"]})
    shards.on_deadline(NOW)
    assert (verdicts(shards), shards.loading, shards.next_deadline()) == ([ErrorCode.NONE] * 2, False, None)
    assert shards.find(key_of(1, 2)) == 1


def test_what_is_written_while_a_log_is_read_is_read_too(broker: LightBroker, host: Host, small_slices: None) -> None:
    broker.add(TOPIC, 1)
    write(broker, 0, b"a", b"b")
    shards = begin(broker, host)
    shards.on_deadline(NOW)
    write(broker, 0, b"c")
    shards.read_to_end(0)
    assert (verdicts(shards), host.known) == ([ErrorCode.NONE], {0: [b"a", b"b", b"c"]})


def test_one_shard_may_be_read_to_its_end_first(broker: LightBroker, host: Host, small_slices: None) -> None:
    broker.add(TOPIC, 2)
    write(broker, 0, b"a", b"b")
    write(broker, 1, b"c", b"d")
    shards = begin(broker, host)
    shards.read_to_end(1)
    assert verdicts(shards) == [LOADING, ErrorCode.NONE]
    shards.read_to_end(1)
    assert host.known == {0: [b"a"], 1: [b"c", b"d"]}


# -- leadership


def test_a_lost_leadership_ends_a_shard(broker: LightBroker, host: Host) -> None:
    broker.add(TOPIC, 2, replicas=(1, 2))
    write(broker, 0, b"a")
    shards = begin(broker, host)
    broker.change(TOPIC, 0, leader=ANOTHER_NODE)
    assert (host.heard[-1], host.known, verdicts(shards)) == (("unload", 0), {}, [ELSEWHERE, ErrorCode.NONE])


def test_leaderships_that_end_together_are_unloaded_at_once(broker: LightBroker, host: Host) -> None:
    broker.add(TOPIC, 4, replicas=(1, 2))
    write(broker, 0, b"a")
    shards = begin(broker, host)
    topic_id, leaders = broker.image.topics[TOPIC].id, {0: ANOTHER_NODE, 1: 1, 3: ANOTHER_NODE}
    changes = [PartitionChangeRecord(number, topic_id, leader=leader) for number, leader in leaders.items()]
    broker.commit_metadata([ApiMessageAndVersion(change, 0) for change in (*changes, *changes)])
    assert (host.unloads, host.known) == ([{0, 1, 3}], {})
    assert verdicts(shards) == [ELSEWHERE, ErrorCode.NONE, ErrorCode.NONE, ELSEWHERE]
    assert host.heard[-1] == ("loaded in 2", 1)


def test_a_higher_epoch_is_another_load(broker: LightBroker, host: Host) -> None:
    broker.add(TOPIC)
    write(broker, 0, b"a", b"b")
    shards = begin(broker, host)
    broker.change(TOPIC, 0, leader=1)
    assert verdicts(shards) == [LOADING]
    shards.on_deadline(NOW)
    assert host.heard == [("load", 0), ("loaded in 0", 0), ("unload", 0), ("load", 0), ("loaded in 1", 0)]
    assert (host.known, verdicts(shards)) == ({0: [b"a", b"b"]}, [ErrorCode.NONE])


def test_another_isr_is_no_reason_to_load(broker: LightBroker, host: Host) -> None:
    broker.add(TOPIC, replicas=(1, 2), isr=(1, 2))
    begin(broker, host)
    broker.change(TOPIC, 0, isr=[1])
    assert host.heard == [("loaded in 0", 0)]


def test_a_leadership_may_end_while_the_log_is_read(broker: LightBroker, host: Host, small_slices: None) -> None:
    broker.add(TOPIC, 1, replicas=(1, 2))
    write(broker, 0, b"a", b"b")
    shards = begin(broker, host)
    broker.change(TOPIC, 0, leader=ANOTHER_NODE)
    assert (host.known, shards.loading, verdicts(shards)) == ({}, False, [ELSEWHERE])
    shards.on_deadline(NOW)
    assert host.heard == [("load", 0), ("unload", 0)]


def test_a_leadership_may_end_in_the_very_step_that_reads(
    broker: LightBroker, host: Host, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.add(TOPIC, 1, replicas=(1, 2))
    write(broker, 0, b"a")

    def fail(*arguments: object, **options: object) -> None:
        broker.change(TOPIC, 0, leader=ANOTHER_NODE)
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "gone")

    monkeypatch.setattr(PartitionLog, "read", fail)
    shards = begin(broker, host)
    assert (host.heard, verdicts(shards), shards.next_deadline()) == ([("load", 0), ("unload", 0)], [ELSEWHERE], None)
    assert "can't be read" not in caplog.text


def test_a_deleted_topic_ends_all_and_a_new_one_begins_anew(broker: LightBroker, host: Host) -> None:
    topic_id = broker.add(TOPIC, 2)
    write(broker, 0, b"a")
    shards = begin(broker, host)
    broker.commit_metadata([ApiMessageAndVersion(RemoveTopicRecord(topic_id), 0)])
    assert (host.known, shards.count, shards.refusal("k")) == ({}, 0, ELSEWHERE)
    broker.add(TOPIC, 1)
    assert (host.known, verdicts(shards)) == ({}, [ErrorCode.NONE])


# -- trouble


def test_records_that_make_no_sense_put_their_shard_out_of_service_alone(
    broker: LightBroker, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    broker.add(TOPIC, 3)
    write(broker, 0, b"a")
    write(broker, 1, b"b", POISON)
    write(broker, 2, b"c")
    shards = begin(broker, host)
    assert verdicts(shards) == [ErrorCode.NONE, ELSEWHERE, ErrorCode.NONE]
    assert host.known == {0: [b"a"], 2: [b"c"]}
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        "c-1 can't be read, so its coordinator is out of service: NOT_COORDINATOR: KeyError: 'makes no sense'"
    ]
    assert shards.next_deadline() is None, "time does not mend it"


def test_what_was_read_may_not_fit_together(broker: LightBroker, host: Host) -> None:
    broker.add(TOPIC, 1)
    write(broker, 0, b"a")
    host.refuses_loaded = True
    shards = begin(broker, host)
    assert (verdicts(shards), host.known) == ([ELSEWHERE], {})


class Trouble:
    """Partitions whose logs can't be reached."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.troubled: set[int] = set()
        leader = Replicas.leader

        def leading(replicas: Replicas, topic: str, number: int, epoch: int = -1) -> Partition:
            if number in self.troubled:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "no descriptor")
            return leader(replicas, topic, number, epoch)

        monkeypatch.setattr(Replicas, "leader", leading)


@pytest.fixture
def trouble(monkeypatch: pytest.MonkeyPatch) -> Trouble:
    return Trouble(monkeypatch)


def test_storage_trouble_is_told_once_and_tried_again(
    broker: LightBroker, host: Host, trouble: Trouble, caplog: pytest.LogCaptureFixture
) -> None:
    broker.add(TOPIC, 2)
    write(broker, 0, b"a")
    write(broker, 1, POISON)
    trouble.troubled = {0}
    shards = begin(broker, host)
    assert (verdicts(shards), shards.next_deadline()) == ([ELSEWHERE] * 2, NOW + 1_000)
    for seconds in range(1, 4):
        broker.now = NOW + seconds * 1_000
        shards.on_deadline(broker.now - 1)
        shards.on_deadline(broker.now)
    assert caplog.text.count("c-0 can't be read") == caplog.text.count("c-1 can't be read") == 1
    trouble.troubled = set()
    broker.now += 1_000
    shards.on_deadline(broker.now)
    assert (verdicts(shards), shards.next_deadline()) == ([ErrorCode.NONE, ELSEWHERE], None)
    assert host.heard.count(("load", 1)) == 1, "what makes no sense is not read again"


def test_trouble_in_the_middle_leaves_nothing_half_read(
    broker: LightBroker, host: Host, small_slices: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.add(TOPIC, 1)
    write(broker, 0, b"a", b"b")
    shards = begin(broker, host)
    host_load = host.load

    def breaking(number: int, partition: Partition) -> Iterator[int]:
        yield from list(host_load(number, partition))[:1]
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "unreadable")

    with monkeypatch.context() as broken:
        broken.setattr(host, "load", breaking)
        broker.change(TOPIC, 0, leader=1)
        for _ in range(3):
            shards.on_deadline(NOW)
    assert (verdicts(shards), host.known) == ([ELSEWHERE], {})
    for _ in range(3):
        shards.on_deadline(NOW + 1_000)
    assert (verdicts(shards), host.known) == ([ErrorCode.NONE], {0: [b"a", b"b"]})


# -- appending, and what answers rest on


def test_an_answer_rests_on_what_is_not_committed(broker: LightBroker, host: Host) -> None:
    broker.add(TOPIC, 2, replicas=(1, 2), isr=(1, 2))
    shards = begin(broker, host)
    assert shards.all_committed() is DONE
    offsets: list[int] = []
    shards.append(1, [raw_record(b"k", b"v"), raw_record(b"k", None)], lambda record, offset: offsets.append(offset))
    assert offsets == [0, 1]
    partition = broker.partition(TOPIC, 1)
    assert shards.uncommitted([0, 1]) == ((partition, 2),)
    assert shards.committed(key_of(0, 2)) is DONE
    waits = [
        shards.committed(key_of(1, 2)),
        shards.all_committed(),
        shards.shards_committed([0, 1]),
        shards.committed(key_of(0, 2), key_of(1, 2), key_of(1, 2)),
    ]
    assert [each.done for each in waits] == [False] * 4
    partition.fetched_by(ANOTHER_NODE, 2, NOW)
    assert [each.succeeded for each in waits] == [True] * 4
    assert shards.all_committed() is DONE


@pytest.mark.parametrize("producer_id", [-1, 7])
def test_a_decision_is_one_batch(broker: LightBroker, host: Host, producer_id: int) -> None:
    broker.add(TOPIC)
    shards = begin(broker, host)
    shards.append(0, [raw_record(b"k", b"v"), raw_record(b"l", b"w")], producer_id=producer_id, producer_epoch=0)
    ((header, each),) = read_batches(broker.partition_log(TOPIC, 0))
    assert (header.is_transactional, header.producer_id) == (producer_id == 7, producer_id)
    assert [(one.key, one.value) for one in iter_records(each, header)] == [
        (FRAME + b"k", FRAME + b"v"),
        (FRAME + b"l", FRAME + b"w"),
    ]


def test_a_refusal_is_told_in_the_words_of_a_coordinator(broker: LightBroker, host: Host) -> None:
    broker.add(TOPIC, 1, replicas=(1, 2), min_insync_replicas="2")
    shards = begin(broker, host)
    with pytest.raises(ApiError) as caught:
        shards.append(0, [raw_record(b"k", b"v")])
    assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.partition_log(TOPIC, 0).log_end_offset == 0
    broker.change(TOPIC, 0, leader=ANOTHER_NODE)
    with pytest.raises(ApiError) as caught:
        shards.append(0, [raw_record(b"k", b"v")])
    assert caught.value.code is ELSEWHERE


def test_tombstones_that_were_written_before_a_refusal_are_replayed(broker: LightBroker, host: Host) -> None:
    broker.add(TOPIC, 1, max_message_bytes="200")
    shards = begin(broker, host)
    small, large = [raw_record(b"%d" % number, None) for number in range(3)], raw_record(b"k" * 300, None)
    replayed: list[tuple[int, object]] = []
    with pytest.raises(ApiError):
        shards.append(0, [*small, large], lambda record, offset: replayed.append((offset, record)))
    assert replayed == [*enumerate(small)]
    assert broker.partition_log(TOPIC, 0).log_end_offset == 3


# -- the coordinators of a broker


@pytest.mark.parametrize(
    ("topic", "kind", "host_of"),
    [
        (CONSUMER_OFFSETS, OfType1, "groups"),
        (TRANSACTION_STATE, Raw, "transactions"),
        (SHARE_GROUP_STATE, Raw, "shares"),
    ],
)
def test_a_broker_starts_with_a_record_that_makes_no_sense(
    tmp_path: Path, topic: str, kind: type[Raw], host_of: str, caplog: pytest.LogCaptureFixture
) -> None:
    partitions = ("offsets.topic.num.partitions", "transaction.state.log.num.partitions")
    node = RealBroker(tmp_path, **dict.fromkeys((*partitions, "share.coordinator.state.topic.num.partitions"), "2"))
    node.broker.create_missing_topics([topic])
    shards = getattr(node.broker, host_of).shards
    shards.append(1, [raw_record(b"\0", b"\xff", kind)])
    caplog.clear()
    node.restart()
    shards = getattr(node.broker, host_of).shards
    assert verdicts(shards) == [ErrorCode.NONE, ELSEWHERE]
    assert caplog.text.count("is out of service") == 1
