"""Lists of giant requests that stay bytes: what is gone through is what a request read whole has."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.cut_list import CutList, numbered, read_with
from pykafka_broker.broker.divisions import READ_ANEW
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.cutting import Cutter, shape_of
from pykafka_broker.protocol.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.share_acknowledge_request import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from pykafka_broker.protocol.messages.share_fetch_request import FetchPartition, FetchTopic, ShareFetchRequest
from pykafka_broker.protocol.runtime import Message
from tests.broker.test_giants import SMALL, Filler
from tests.broker.turns import SlowBroker
from tests.protocol.values import messages


def read(api_key: ApiKey, version: int, body: bytes, items: int) -> Any:
    """The request, cut into parts of so many elements."""
    kind = SPECS[api_key].request_class()
    parts = Cutter(body, 0, shape_of(kind.__name__, version), items).parts()
    steps = read_with(parts, lambda part: kind.decode(part, version), READ_ANEW[api_key])
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def whole_again(cut: CutList[Any], inner: str | None) -> list[Any]:
    """Its elements, with those that are one put together."""
    found: list[Any] = []
    for number, element in numbered(cut):
        if number == len(found):
            found.append(element)
        else:
            assert inner is not None
            getattr(found[-1], inner).extend(getattr(element, inner))
    return found


@pytest.mark.parametrize("api_key", sorted(READ_ANEW), ids=lambda key: key.name)
def test_what_is_gone_through_is_the_whole(api_key: ApiKey) -> None:
    path = READ_ANEW[api_key]
    kind = SPECS[api_key].request_class()
    cuts = 0
    for seed in range(60):
        filler = Filler(seed, [bytes(16), b"?" * 16])
        version = filler.draw.randint(kind.MIN_VERSION, kind.MAX_VERSION)
        body = filler.request(messages()[kind.__name__], version)
        request, expected = read(api_key, version, body, 1 + seed % 3), kind.decode(body, version)
        cut = getattr(request, path[0])
        if isinstance(cut, CutList):
            cuts += 1
            assert whole_again(cut, path[1] if path[1:] else None) == getattr(expected, path[0])
            setattr(request, path[0], getattr(expected, path[0]))
        assert request == expected, (seed, version)
    assert cuts >= 20


def test_it_can_be_gone_through_again() -> None:
    body = DescribeTopicPartitionsRequest([TopicRequest(str(number)) for number in range(7)]).encode(0)
    topics = read(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body, 2).topics
    assert isinstance(topics, CutList)
    assert topics
    assert [each.name for each in topics] == [each.name for each in topics] == list("0123456")


def test_what_fits_into_one_part_is_a_list() -> None:
    body = DescribeTopicPartitionsRequest([TopicRequest("t")]).encode(0)
    assert read(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body, 2).topics == [TopicRequest("t")]


OF_MANY: dict[str, tuple[Callable[[int], Message], int]] = {
    "topics": (lambda count: DescribeTopicPartitionsRequest([TopicRequest(f"g{n}") for n in range(count)]), 0),
    "share fetch": (
        lambda count: ShareFetchRequest(
            "g", "m", 0, topics=[FetchTopic(b"1" * 16, [FetchPartition(n) for n in range(count)])]
        ),
        1,
    ),
    "acknowledge": (
        lambda count: ShareAcknowledgeRequest(
            "g", "m", -1, topics=[AcknowledgeTopic(b"1" * 16, [AcknowledgePartition(n) for n in range(count)])]
        ),
        1,
    ),
    "produce": (
        lambda count: ProduceRequest(
            None, 1, 1, [TopicProduceData("none", partition_data=[PartitionProduceData(n, b"") for n in range(count)])]
        ),
        9,
    ),
}


@pytest.mark.parametrize("kind", OF_MANY)
def test_memory_follows_the_bytes_of_a_request(tmp_path: Path, kind: str) -> None:
    """As structs, a name takes 300 to 540 bytes."""
    make, version = OF_MANY[kind]
    node = SlowBroker(tmp_path, **SMALL)
    count = 20_000
    for number in (3000, count):  # with the first one, what is imported and made once
        request = make(number)
        body, api_key = request.encode(version), ApiKey(request.API_KEY)
        del request
        node.call(ShareFetchRequest("g", "m", 0), 1)
        tracemalloc.start()
        try:
            for _ in node.turns(api_key, version, body):
                pass
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert len(node.answer) > count
    assert peak < 260 * count
