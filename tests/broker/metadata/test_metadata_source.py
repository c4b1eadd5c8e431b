"""The node that leads its metadata log itself: append, apply, deliver, one change after the other."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.metadata.metadata_source import MetadataLeader
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.waiting.future import DONE, Future
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from pykafka_broker.protocol.stored.topic_record import TopicRecord
from tests.broker.support import NOW, LightBroker
from tests.broker.test_synced_answers import SyncedBroker


@pytest.fixture
def broker(tmp_path: Path) -> LightBroker:
    return LightBroker(tmp_path)


@pytest.fixture
def metadata(broker: LightBroker) -> MetadataLeader:
    return broker.metadata


def topic(name: str) -> list[ApiMessageAndVersion]:
    return [ApiMessageAndVersion(TopicRecord(name, name.encode() * 16), 0)]


def created(delta: MetadataDelta) -> list[str]:
    return [each.name for each in delta.created]


class Deliveries:
    """The deliveries to a subscriber: the topics created, and those of the image by then. `then`: actions by topic."""

    def __init__(self, broker: LightBroker) -> None:
        self.heard: list[tuple[list[str], list[str]]] = []
        self.then: dict[str, Callable[[], None]] = {}
        self._broker = broker
        broker.subscribe(self)

    def __call__(self, delta: MetadataDelta) -> None:
        self.heard.append((created(delta), list(self._broker.image.topics)))
        for name in created(delta):
            self.then.get(name, lambda: None)()

    @property
    def order(self) -> list[str]:
        return [name for names, _ in self.heard for name in names]


@pytest.fixture
def deliveries(broker: LightBroker) -> Deliveries:
    return Deliveries(broker)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch, metadata: MetadataLeader) -> Callable[[], None]:
    """A function; once it is called, the metadata log takes nothing more."""
    log, append = metadata.log.log, PartitionLog.append

    def refuse() -> None:
        def appending(which: PartitionLog, *arguments: Any, **options: Any) -> Any:
            if which is log:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "No space left on device")
            return append(which, *arguments, **options)

        monkeypatch.setattr(PartitionLog, "append", appending)

    return refuse


# -- order


def test_a_change_is_in_the_log_and_in_the_image_before_it_is_heard_of(
    metadata: MetadataLeader, deliveries: Deliveries
) -> None:
    end = metadata.applied_offset
    metadata.commit([*topic("a"), *topic("b")])
    assert metadata.applied_offset == end + 2
    assert deliveries.heard == [(["a", "b"], ["a", "b"])]


def test_nothing_is_no_change(metadata: MetadataLeader, deliveries: Deliveries) -> None:
    end = metadata.applied_offset
    metadata.commit([])
    assert (metadata.applied_offset, deliveries.heard) == (end, [])


def test_a_change_within_a_delivery_is_in_the_image_at_once_and_delivered_next(
    broker: LightBroker, metadata: MetadataLeader, deliveries: Deliveries
) -> None:
    second = Deliveries(broker)
    images: list[list[str]] = []

    def go_on() -> None:
        metadata.commit(topic("b"))
        metadata.commit(topic("c"))
        images.append(list(broker.image.topics))

    deliveries.then["a"] = go_on
    metadata.commit(topic("a"))
    assert images == [["a", "b", "c"]]
    assert deliveries.order == second.order == ["a", "b", "c"], "everybody hears of them in the order of the log"
    assert second.heard[0] == (["a"], ["a", "b", "c"]), "the image may be ahead of what is told"


def test_a_delivery_that_commits_ends_before_its_change_is_delivered(
    metadata: MetadataLeader, deliveries: Deliveries
) -> None:
    depths: list[int] = []

    def go_on() -> None:
        before = len(deliveries.heard)
        metadata.commit(topic("b"))
        depths.append(len(deliveries.heard) - before)

    deliveries.then["a"] = go_on
    metadata.commit(topic("a"))
    assert depths == [0]


# -- soon


def test_soon_is_now_if_nothing_is_under_way(metadata: MetadataLeader) -> None:
    done: list[str] = []
    metadata.soon(lambda: done.append("now"))
    assert done == ["now"]


def test_soon_within_a_delivery_is_after_all_of_them(metadata: MetadataLeader, deliveries: Deliveries) -> None:
    def go_on() -> None:
        metadata.soon(lambda: deliveries.heard.append((["later"], [])))
        metadata.commit(topic("b"))

    deliveries.then["a"] = go_on
    metadata.commit(topic("a"))
    assert deliveries.order == ["a", "b", "later"]


def test_what_is_noticed_while_a_change_is_written_is_done_after_it(
    metadata: MetadataLeader, deliveries: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = PartitionLog.append

    def noticing(log: PartitionLog, *arguments: Any, **options: Any) -> Any:
        if log is metadata.log.log and not deliveries.order:
            metadata.soon(lambda: metadata.commit(topic("b")))
        return append(log, *arguments, **options)

    with monkeypatch.context() as failing:
        failing.setattr(PartitionLog, "append", noticing)
        metadata.commit(topic("a"))
    assert deliveries.order == ["a", "b"]


def test_what_is_noticed_while_a_change_is_refused_is_done_all_the_same(
    broker: LightBroker, metadata: MetadataLeader, deliveries: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def refusing(log: PartitionLog, *arguments: Any, **options: Any) -> Any:
        metadata.soon(lambda: done.append("soon"))
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

    monkeypatch.setattr(PartitionLog, "append", refusing)
    with pytest.raises(ApiError):
        metadata.commit(topic("a"))
    assert (done, deliveries.heard, list(broker.image.topics)) == (["soon"], [], [])


def test_a_defect_in_what_was_put_off_keeps_nothing_else_from_its_turn(
    metadata: MetadataLeader, deliveries: Deliveries
) -> None:
    def broken() -> None:
        raise ValueError("a defect")

    def go_on() -> None:
        metadata.soon(broken)
        metadata.soon(lambda: metadata.commit(topic("b")))

    deliveries.then["a"] = go_on
    with pytest.raises(ValueError, match="a defect"):
        metadata.commit(topic("a"))
    assert metadata.next_deadline() == 0
    metadata.on_deadline(NOW)
    assert deliveries.order == ["a", "b"]
    assert metadata.next_deadline() != 0


# -- failure


def test_what_the_disk_refuses_changes_nothing(
    broker: LightBroker, metadata: MetadataLeader, deliveries: Deliveries, full: Callable[[], None]
) -> None:
    end = metadata.applied_offset
    full()
    with pytest.raises(ApiError) as caught:
        metadata.commit(topic("a"))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (metadata.applied_offset, deliveries.heard, list(broker.image.topics)) == (end, [], [])


def test_a_change_that_is_refused_within_a_delivery_spoils_only_itself(
    metadata: MetadataLeader, deliveries: Deliveries, full: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    def go_on() -> None:
        full()
        metadata.commit(topic("b"))

    deliveries.then["a"] = go_on
    metadata.commit(topic("a"))
    assert deliveries.order == ["a"]
    assert "a defect while following a change" in caplog.text, "whoever commits there has to expect it"


def test_a_directory_that_fails_in_the_middle_of_a_change_is_told_of_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = LightBroker(tmp_path / "a", log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    broker.add("t")
    first, second = broker.logs.directories
    online: list[tuple[bytes, ...]] = []
    broker.subscribe(lambda delta: online.append(tuple(broker.image.brokers[1].log_dirs)))
    append = PartitionLog.append

    def failing(log: PartitionLog, *arguments: Any, **options: Any) -> Any:
        if second.online:
            broker.logs.take_offline(second, OSError(errno.EIO, "gone"))
        return append(log, *arguments, **options)

    monkeypatch.setattr(PartitionLog, "append", failing)
    broker.metadata.commit([ApiMessageAndVersion(ConfigRecord(ConfigResourceType.TOPIC, "t", "retention.ms", "5"), 0)])
    assert [len(each) for each in online] == [2, 1]
    assert online[-1] == (first.id,)
    assert broker.image.topic_config("t") == {"retention.ms": "5"}


# -- what is committed


def decide(controller: Controller, context: RequestContext, request: Any) -> Decision[str]:
    return Decision(topic(request), f"made {request}")


def test_a_decision_is_answered_when_it_is_synced(tmp_path: Path) -> None:
    node = SyncedBroker(tmp_path)
    node.sync()
    metadata = node.broker.metadata
    assert metadata.committed() is DONE
    context = RequestContext(ApiKey.CREATE_TOPICS, 7, 1, None, node.connection, node.now)
    reply = metadata.submit(context, "a", decide)
    assert isinstance(reply, Future)
    assert not reply.done
    node.sync()
    assert reply.result() == "made a"
    assert metadata.committed() is DONE


def test_a_decision_that_can_not_be_synced_is_a_storage_error(tmp_path: Path) -> None:
    node = SyncedBroker(tmp_path)
    node.sync()
    metadata = node.broker.metadata
    metadata.commit(topic("a"))
    committed = metadata.committed()
    node.sync(OSError(errno.EIO, "Input/output error"))
    error = committed.error
    assert isinstance(error, ApiError)
    assert (error.code, error.message) == (ErrorCode.KAFKA_STORAGE_ERROR, "Input/output error")


def test_a_decision_without_records_is_answered_at_once(broker: LightBroker, metadata: MetadataLeader) -> None:
    context = broker.context(ApiKey.CREATE_TOPICS, 7)
    assert metadata.submit(context, "a", lambda *_: Decision([], "nothing to do")) == "nothing to do"


def test_what_is_wrong_with_a_whole_request_is_raised(broker: LightBroker, metadata: MetadataLeader) -> None:
    def refuse(*_: Any) -> Decision[Any]:
        raise ApiError(ErrorCode.INVALID_REQUEST)

    with pytest.raises(ApiError) as caught:
        metadata.submit(broker.context(ApiKey.CREATE_TOPICS, 7), "a", refuse)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_a_broker_asks_the_controller_in_its_own_process(metadata: MetadataLeader, broker: LightBroker) -> None:
    heard: list[Any] = []
    epoch = broker.image.brokers[1].epoch
    metadata.ask(AllocateProducerIdsRequest(1, epoch), heard.append, 1_000)
    assert [(each.error_code, each.producer_id_start, each.producer_id_len) for each in heard] == [(0, 0, 1000)]
    metadata.ask(AllocateProducerIdsRequest(1, epoch + 1), heard.append, 1_000)
    assert heard[1].error_code == ErrorCode.STALE_BROKER_EPOCH


def test_what_the_disk_refuses_is_an_answer_to_a_broker(
    metadata: MetadataLeader, broker: LightBroker, full: Callable[[], None]
) -> None:
    heard: list[Any] = []
    full()
    metadata.ask(AllocateProducerIdsRequest(1, broker.image.brokers[1].epoch), heard.append, 1_000)
    assert [each.error_code for each in heard] == [ErrorCode.KAFKA_STORAGE_ERROR]
