"""Requests with very many elements: answered in parts as they would be whole, and no slice of it is long."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protocol.generator.schema import Field, Message, StructType
from pykafka_broker import steps
from pykafka_broker.broker import held
from pykafka_broker.broker.divisions import DIVISIONS, Division, division_of
from pykafka_broker.broker.router import PendingReply, served_versions
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol import splitting
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.delete_groups_response import DeleteGroupsResponse
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.describe_groups_response import DescribeGroupsResponse
from pykafka_broker.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from pykafka_broker.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.produce_response import ProduceResponse
from pykafka_broker.protocol.messages.share_fetch_request import FetchPartition, FetchTopic, ShareFetchRequest
from pykafka_broker.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pykafka_broker.protocol.runtime import uvarint
from tests.broker.api.real_broker import RealBroker, _frame
from tests.broker.support import batch
from tests.broker.turns import SlowBroker
from tests.protocol.values import messages

SMALL = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
NAMES = ["t", "u", "", "1", "other", "t"]
NUMBERS = [0, 1, 1, 2, 3, -1, -2]
WHOLE = 1 << 31


class Filler:
    """Requests that name few things, and those often."""

    def __init__(self, seed: int, ids: list[bytes]) -> None:
        self.draw = random.Random(seed)
        self.ids = ids

    def request(self, message: Message, version: int) -> bytes:
        self.message, self.version = message, version
        filled: bytes = self.struct(message.root).encode(version)
        return filled

    def struct(self, struct_type: StructType) -> Any:
        from tests.protocol.values import message_module

        fields = {f.python: self.field(f) for f in struct_type.fields if self.version in f.versions}
        return getattr(message_module(self.message), struct_type.name)(**fields)

    def field(self, field: Field) -> Any:
        if self.version in field.nullable and self.draw.random() < 0.2:
            return None
        if field.array:
            return [self.one(field) for _ in range(self.draw.choice([0, 1, 3, 7]))]
        return self.one(field)

    def one(self, field: Field) -> Any:
        if field.is_struct:
            return self.struct(self.message.structs[field.type])
        if field.type == "string":
            return self.draw.choice(NAMES)
        if field.type == "uuid":
            return self.draw.choice(self.ids)
        if field.type == "bool":
            return self.draw.random() < 0.3
        if field.type in ("bytes", "records"):
            return b"x"
        return float(self.draw.choice(NUMBERS)) if field.type == "float64" else self.draw.choice(NUMBERS)


def broker(directory: Path) -> RealBroker:
    made = RealBroker(directory, **SMALL)
    made.call(CreateTopicsRequest([CreatableTopic("t", 3, 1), CreatableTopic("u", 1, 1)], 1000), 7)
    made.call(InitProducerIdRequest("1", 60_000), 4)
    return made


def answered(node: RealBroker, api_key: ApiKey, version: int, body: bytes) -> bytes | str:
    try:
        return node.exchange(api_key, version, body)
    except FrameError as refused:
        return str(refused)


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> Callable[[RealBroker, ApiKey, int], None]:
    """Makes a broker divide the requests of an API into parts of so many elements, 0 for the whole."""

    def divide(node: RealBroker, api_key: ApiKey, items: int) -> None:
        def smaller(key: ApiKey, version: int) -> Division | None:
            division = division_of(key, version)
            return None if division is None else division._replace(items=max(1, items))

        monkeypatch.setattr(held, "division_of", smaller)
        endpoint = node.broker.router._endpoints.get(api_key) or node.broker.router._load(api_key)
        endpoint.giant_bytes = -1 if items else WHOLE

    return divide


# Whose handlers do their own slices.
IN_STEPS = {
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.SHARE_FETCH,
    ApiKey.WRITE_TXN_MARKERS,
}


@pytest.mark.parametrize("api_key", sorted(IN_STEPS | DIVISIONS.keys()), ids=lambda key: key.name)
def test_the_parts_of_an_answer_are_the_answer(
    tmp_path: Path,
    api_key: ApiKey,
    divided: Callable[[RealBroker, ApiKey, int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module, name, small in ((steps, "ITEMS_A_STEP", 2), (splitting, "PART_ITEMS", 2), (splitting, "_FEW", 1)):
        monkeypatch.setattr(module, name, small)
    whole, parts = broker(tmp_path / "whole"), broker(tmp_path / "parts")
    ids = [bytes(16), b"?" * 16, whole.broker.image.topics["t"].id]
    message = messages()[SPECS[api_key].request_class().__name__]
    lowest, highest = served_versions(api_key)
    for seed in range(40):
        filler = Filler(seed, ids)
        version = filler.draw.randint(lowest, highest)
        body = filler.request(message, version)
        divided(whole, api_key, 0)
        expected = answered(whole, api_key, version, body)
        divided(parts, api_key, 1 + seed % 4)
        assert answered(parts, api_key, version, body) == expected, (seed, version)


def test_a_giant_request_takes_many_turns_and_none_does_more_than_its_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = SlowBroker(tmp_path, **SMALL)
    body = DescribeGroupsRequest([f"g{number}" for number in range(20_000)]).encode(5)
    node.call(DescribeGroupsRequest(["g"]), 5)
    endpoint: Any = node.broker.router._endpoints[ApiKey.DESCRIBE_GROUPS]
    sizes: list[int] = []
    handler, read = endpoint.handler, endpoint.read

    def counting(services: Any, context: Any, request: Any) -> Any:
        sizes.append(len(request.groups))
        return handler(services, context, request)

    def reading(*of: Any) -> Any:
        request, end = read(*of)
        sizes.append(len(request.groups))
        return request, end

    endpoint.handler, endpoint.read = counting, reading
    most = 0
    for _ in node.turns(ApiKey.DESCRIBE_GROUPS, 5, body):
        most = max(most, sum(sizes))
        sizes.clear()
    assert most <= 800
    found = DescribeGroupsResponse.decode(node.answer[9:], 5)
    assert [group.group_id for group in found.groups] == [f"g{number}" for number in range(20_000)]


@pytest.mark.parametrize("api_key", sorted(ApiKey), ids=lambda key: key.name)
def test_every_list_that_a_request_can_have_is_read_in_slices(api_key: ApiKey) -> None:
    """Produce alone is read whole: it is long by its records, which are not read."""
    from pykafka_broker.broker.divisions import giant_bytes

    assert giant_bytes(api_key) <= 64 << 10 or api_key is ApiKey.PRODUCE


def test_a_client_that_goes_away_ends_the_work_for_it(tmp_path: Path) -> None:
    node = SlowBroker(tmp_path, **SMALL)
    body = DescribeGroupsRequest(["g"] * 20_000).encode(5)
    pending = node.broker.dispatch(node.connection, _frame(ApiKey.DESCRIBE_GROUPS, 5, body), node.now)
    assert isinstance(pending, PendingReply)
    node.broker.purgatory.cancel(pending.parked)
    for step in node.next:
        step()
    assert not len(node.broker.services.slices)


def test_nothing_is_done_for_a_request_that_can_not_be_read_to_its_end(tmp_path: Path) -> None:
    node = RealBroker(tmp_path, **SMALL)
    body = FindCoordinatorRequest(coordinator_keys=["key"] * 20_000).encode(4)
    with pytest.raises(FrameError):
        node.exchange(ApiKey.FIND_COORDINATOR, 4, body[:-5])
    broken = body[:-5] + b"\xff" + body[-4:]
    with pytest.raises(FrameError):
        node.exchange(ApiKey.FIND_COORDINATOR, 4, broken)
    assert "__consumer_offsets" not in node.broker.image.topics


def test_millions_of_unknown_fields_in_a_header_take_many_turns(tmp_path: Path) -> None:
    node = SlowBroker(tmp_path, **SMALL)
    tags = uvarint(50_000) + (uvarint(77) + uvarint(0)) * 50_000
    plain = DeleteGroupsRequest(["g"]).encode(2)
    expected = node.exchange(ApiKey.DELETE_GROUPS, 2, plain)
    frame = bytes(_frame(ApiKey.DELETE_GROUPS, 2, plain))
    assert frame[10] == 0
    stuffed = frame[:10] + tags + frame[11:]
    pending = node.broker.dispatch(node.connection, memoryview(stuffed), node.now)
    assert isinstance(pending, PendingReply)
    turns = 0
    while not pending.parked.done:
        turns += 1
        due, node.next[:] = list(node.next), []
        for step in due:
            step()
    assert turns >= 20
    assert b"".join(pending.pieces(pending.parked.reply))[9:] == expected
    assert DeleteGroupsResponse.decode(expected, 2).results[0].group_id == "g"


def test_a_partition_that_is_named_very_often_is_refused_once(tmp_path: Path) -> None:
    node = RealBroker(tmp_path, **SMALL)
    node.call(CreateTopicsRequest([CreatableTopic("t", 2, 1)], 1000), 7)
    asked = [ListOffsetsPartition(0, timestamp=-1)] * 3000 + [ListOffsetsPartition(1, timestamp=-1)]
    asked += [ListOffsetsPartition(0, timestamp=-1)] * 3000
    (topic,) = node.call(ListOffsetsRequest(topics=[ListOffsetsTopic("t", asked)]), 5).topics
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [(0, 42), (1, 0)]


STEPPED: list[tuple[Any, int, str]] = [
    (
        lambda count: IncrementalAlterConfigsRequest(
            [AlterConfigsResource(2, "none", [AlterableConfig(f"k{n}", 0, "v") for n in range(count)])]
        ),
        1,
        "",
    ),
    (
        lambda count: IncrementalAlterConfigsRequest(
            [AlterConfigsResource(4, "", [AlterableConfig(f"k{n}", 0, "v") for n in range(count + 1)])]
        ),
        1,
        "",
    ),
    (lambda count: DescribeTopicPartitionsRequest([TopicRequest(f"t{n}") for n in range(count)]), 0, "topics"),
    (
        lambda count: DescribeTopicPartitionsRequest(
            [TopicRequest(f"t{n}") for n in range(count)], cursor=Cursor("u", 0)
        ),
        0,
        "topics",
    ),
    (lambda count: CreateTopicsRequest([CreatableTopic(f"t{n}%", 1, 1) for n in range(count)], 1, True), 7, "topics"),
    (lambda count: DeleteTopicsRequest(topic_names=[f"t{n}" for n in range(count)], timeout_ms=1), 5, "responses"),
    (lambda count: DescribeQuorumRequest([TopicData("t", [PartitionData(n) for n in range(count)])]), 2, "topics"),
    (
        lambda count: WriteTxnMarkersRequest(
            [WritableTxnMarker(1, 1, True, [WritableTxnMarkerTopic("none", list(range(count)))], 0)]
        ),
        1,
        "markers",
    ),
    (
        lambda count: ShareFetchRequest(
            "g", "m" * 22, 0, topics=[FetchTopic(b"1" * 16, [FetchPartition(n) for n in range(count)])]
        ),
        1,
        "responses",
    ),
    (
        lambda count: ProduceRequest(
            None, 1, 1, [TopicProduceData("none", partition_data=[PartitionProduceData(n, b"") for n in range(count)])]
        ),
        9,
        "responses",
    ),
]


def elements(struct: Any, name: str) -> int:
    """How many there are, counted where there are most."""
    found = getattr(struct, name)
    while len(found) == 1:
        lists = [getattr(found[0], each) for each in found[0].__slots__]
        found = max((each for each in lists if isinstance(each, list)), key=len)
    return len(found)


@pytest.mark.parametrize(("request_of", "version", "name"), STEPPED, ids=lambda each: str(each)[:9])
def test_no_turn_of_a_giant_request_does_more_than_its_share(
    tmp_path: Path, request_of: Callable[[int], Any], version: int, name: str
) -> None:
    """What is counted are calls of Python functions: as many, whatever the machine does besides."""
    node = SlowBroker(tmp_path, **SMALL)
    count = 10_000
    node.calls(request_of(2000), version)  # what is imported and made once
    turns = node.calls(request_of(count), version)
    answer = node.reply
    assert not name or elements(answer, name) == count
    assert max(turns) < sum(turns) / 20


def test_records_behind_very_many_fields_of_a_header_are_written(tmp_path: Path) -> None:
    node = RealBroker(tmp_path, **SMALL)
    node.call(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1000), 7)
    data = [PartitionProduceData(0, bytes(batch(b"value")))]
    plain = ProduceRequest(None, 1, 1000, [TopicProduceData("t", partition_data=data)]).encode(9)
    frame = bytes(_frame(ApiKey.PRODUCE, 9, plain))
    tags = uvarint(50_000) + (uvarint(77) + uvarint(0)) * 50_000
    pieces = node.broker.dispatch(node.connection, memoryview(frame[:10] + tags + frame[11:]), node.now)
    assert isinstance(pieces, list)
    (topic,) = ProduceResponse.decode(b"".join(pieces)[9:], 9).responses
    assert [(one.error_code, one.base_offset) for one in topic.partition_responses] == [(0, 0)]
