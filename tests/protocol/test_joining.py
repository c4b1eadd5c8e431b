"""Answers in parts: put together they have the bytes of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.protocol.cutting import Cutter, shape_of
from pykafka_broker.protocol.joining import Joined
from pykafka_broker.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from pykafka_broker.protocol.messages.offset_fetch_response import OffsetFetchResponse
from tests.protocol.test_round_trip import struct_values
from tests.protocol.values import examples, message_class, messages

PATHS = [
    ("DescribeGroupsResponse", ("groups",)),
    ("FindCoordinatorResponse", ("coordinators",)),
    ("MetadataResponse", ("topics",)),
    ("ListOffsetsResponse", ("topics", "partitions")),
    ("DeleteRecordsResponse", ("topics", "partitions")),
    ("OffsetFetchResponse", ("groups", "topics", "partitions")),
    ("AddPartitionsToTxnResponse", ("results_by_transaction",)),
    ("WriteTxnMarkersResponse", ("markers", "topics", "partitions")),
]


def joined(kind: Any, version: int, path: Sequence[str], body: bytes, items: int) -> bytes:
    """The message cut into parts of so many elements, and put together again."""
    answer = Joined(kind, version, path)
    for part in Cutter(body, 0, shape_of(kind.__name__, version), items).parts():
        if part is not None:
            assert part.goes_on == tuple(path[: len(part.goes_on)])
            answer.add(kind.decode(part.message, version), len(part.goes_on))
    pieces: list[bytes] = []
    answer.write(version, pieces.append)
    return b"".join(pieces)


def only(message: Any, path: Sequence[str]) -> None:
    """Empty all lists below those of the path, which would be cut too."""
    for name in message.__match_args__:
        value = getattr(message, name)
        if name == path[0]:
            if value is None:
                setattr(message, name, [])
            for element in value or ():
                if len(path) > 1:
                    only(element, path[1:])
                elif hasattr(element, "__match_args__"):
                    only(element, ("",))
        elif isinstance(value, list):
            setattr(message, name, [])


@pytest.mark.parametrize(("name", "path"), PATHS)
def test_parts_put_together_have_the_bytes_of_the_whole(name: str, path: tuple[str, ...]) -> None:
    message = messages()[name]
    kind = message_class(message)

    @examples(60)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        version = data.draw(st.sampled_from([v for v in message.versions if v >= 8 or name != "OffsetFetchResponse"]))
        names = {field.python for field in message.root.fields if version in field.versions}
        if path[0] not in names:
            return
        whole = data.draw(struct_values(message, message.root, version))
        only(whole, path)
        body = whole.encode(version)
        for items in (1, 2, 4):
            assert joined(kind, version, path, body, items) == body

    check()


def test_an_answer_without_elements_is_its_other_fields() -> None:
    answer = Joined(OffsetFetchResponse, 8, ("groups", "topics", "partitions"))
    answer.add(OffsetFetchResponse(7))
    pieces: list[bytes] = []
    answer.write(8, pieces.append)
    assert b"".join(pieces) == OffsetFetchResponse(7).encode(8)


def test_what_is_the_same_in_many_parts_is_kept_once() -> None:
    answer = Joined(DescribeGroupsResponse, 6, ("groups",))
    for _ in range(100):
        answer.add(DescribeGroupsResponse(groups=[DescribedGroup(group_id="g") for _ in range(50)]))
    pieces: list[bytes] = []
    answer.write(6, pieces.append)
    assert len(pieces) == 102
    assert len({id(piece) for piece in pieces}) == 3
    assert b"".join(pieces) == DescribeGroupsResponse(groups=[DescribedGroup(group_id="g")] * 5000).encode(6)
