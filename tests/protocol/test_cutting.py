"""Giant messages in parts: what is cut comes together again, for any message, and no step of it is long."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.protocol.cutting import PART_ITEMS, Cutter, Part, merge, shape_of
from pykafka_broker.protocol.messages.fetch_request import FetchRequest
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.runtime import DecodeError, uvarint
from tests.protocol.test_round_trip import struct_values
from tests.protocol.values import examples, message_class, messages

REQUESTS = sorted(name for name, message in messages().items() if message.kind == "request" and message.versions)


def parts_of(body: bytes, name: str, version: int, items: int = PART_ITEMS) -> list[Part]:
    cutter = Cutter(body, 0, shape_of(name, version), items)
    return [part for part in cutter.parts() if part is not None]


def together(kind: Any, parts: list[Part], version: int) -> Any:
    whole = None
    for part in parts:
        message = kind.decode(part.message, version)
        if whole is None:
            whole = message
        else:
            merge(whole, message, part.goes_on)
    return whole


@pytest.mark.parametrize("name", REQUESTS)
def test_any_request_that_is_cut_comes_together_again(name: str) -> None:
    message = messages()[name]
    kind = message_class(message)

    @examples(12)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(list(message.versions)))
        body = data.draw(struct_values(message, message.root, version)).encode(version)
        for items in (1, 2, 5):
            assert together(kind, parts_of(body, name, version, items), version) == kind.decode(body, version)

    check()


def test_a_part_has_so_many_elements_and_says_what_it_goes_on_with() -> None:
    partitions = [ListOffsetsPartition(number, timestamp=-1) for number in range(5)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic("a", partitions), ListOffsetsTopic("b", partitions[:1])])
    found = parts_of(request.encode(5), "ListOffsetsRequest", 5, 3)
    decoded = [ListOffsetsRequest.decode(part.message, 5) for part in found]
    assert [
        [(topic.name, [one.partition_index for one in topic.partitions]) for topic in part.topics] for part in decoded
    ] == [[("a", [0, 1, 2])], [("a", [3, 4])], [("b", [0])]]
    assert [part.goes_on for part in found] == [(), ("topics",), ()]


def tags(count: int, size: int = 0) -> bytes:
    """Fields that nobody knows."""
    return uvarint(count) + (uvarint(9000) + uvarint(size) + bytes(size)) * count


def test_unknown_tagged_fields_are_left_out_wherever_they_are() -> None:
    request = ListOffsetsRequest(topics=[ListOffsetsTopic("a", [ListOffsetsPartition(1), ListOffsetsPartition(2)])])
    body = request.encode(7)
    assert body[-3:] == b"\0\0\0"  # of the second partition, the topic and the request
    stuffed = body[:-3] + tags(3000, 1) + tags(2000) + tags(5000, 2)
    cutter = Cutter(stuffed, 0, shape_of("ListOffsetsRequest", 7))
    steps = list(cutter.parts())
    assert [step.message for step in steps if step is not None] == [body]
    assert steps.count(None) >= 4


def test_known_tagged_fields_stay() -> None:
    request = FetchRequest(cluster_id="c", max_wait_ms=5)
    body = request.encode(15)
    (part,) = parts_of(body, "FetchRequest", 15)
    assert part.message == body


def test_a_giant_struct_in_a_tagged_field_loses_what_nobody_knows_of_it() -> None:
    body = FetchRequest().encode(15)
    inner = bytes(4) + (9).to_bytes(8, "big") + tags(5000, 1)
    stuffed = body[:-1] + b"\1\1" + uvarint(len(inner)) + inner
    (part,) = parts_of(stuffed, "FetchRequest", 15)
    assert len(part.message) < 100
    assert FetchRequest.decode(part.message, 15).replica_state.replica_epoch == 9


def test_no_step_has_more_than_its_elements() -> None:
    request = FindCoordinatorRequest(coordinator_keys=[""] * 100_000)
    found = parts_of(request.encode(4), "FindCoordinatorRequest", 4)
    sizes = [len(FindCoordinatorRequest.decode(part.message, 4).coordinator_keys) for part in found]
    assert max(sizes) == PART_ITEMS
    assert sum(sizes) == 100_000


@pytest.mark.parametrize("version", [3, 4])
def test_a_message_that_ends_too_early_is_refused(version: int) -> None:
    key, keys = ("k", []) if version == 3 else ("", ["abc", "def"])
    body = FindCoordinatorRequest(key, coordinator_keys=keys).encode(version)
    for end in range(len(body)):
        with pytest.raises(DecodeError):
            together(FindCoordinatorRequest, parts_of(body[:end], "FindCoordinatorRequest", version, 1), version)


def test_a_count_that_promises_more_than_there_is_is_refused() -> None:
    with pytest.raises(DecodeError, match="coordinator_keys has 16000000 elements, and 1 bytes are left"):
        parts_of(b"\0" + uvarint(16_000_001) + b"\1", "FindCoordinatorRequest", 4)
