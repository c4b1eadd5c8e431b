"""A request has a bounded number of elements and tagged fields, so that no request takes long to answer."""

from __future__ import annotations

import pytest

from pykafka_broker.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.fetch_request import FetchRequest
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.metadata_response import MetadataResponse, MetadataResponseBroker
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from pykafka_broker.protocol.messages.request_header import RequestHeader
from pykafka_broker.protocol.runtime import MOST_ELEMENTS, MOST_TAGGED_FIELDS, DecodeError, Message, uvarint

REFUSED = "more elements and tagged fields than one request may have"


def metadata(count: int) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name="")] * count)


def list_offsets(topics: int, partitions: int) -> ListOffsetsRequest:
    return ListOffsetsRequest(-1, topics=[ListOffsetsTopic("", [ListOffsetsPartition()] * partitions)] * topics)


def tagged(request: Message, version: int, count: int) -> bytes:
    """Return the request with `count` unknown tagged fields at its end, which had none."""
    return request.encode(version)[:-1] + uvarint(count) + b"\x63\0" * count


def refused(request: Message, version: int) -> str:
    with pytest.raises(DecodeError) as caught:
        type(request).decode(request.encode(version), version)
    return str(caught.value)


@pytest.mark.parametrize("version", [1, 9])
def test_one_array_is_bounded(version: int) -> None:
    whole = metadata(MOST_ELEMENTS)
    assert len(MetadataRequest.decode(whole.encode(version), version).topics or ()) == MOST_ELEMENTS
    assert REFUSED in refused(metadata(MOST_ELEMENTS + 1), version)


@pytest.mark.parametrize("version", [1, 6])
def test_all_arrays_of_a_request_are_bounded_together(version: int) -> None:
    whole = list_offsets(256, 255)
    assert len(ListOffsetsRequest.decode(whole.encode(version), version).topics) == 256
    assert REFUSED in refused(list_offsets(256, 256), version)


def test_plain_numbers_count_too() -> None:
    topics = [OffsetFetchRequestTopic("t", list(range(MOST_ELEMENTS)))]
    assert REFUSED in refused(OffsetFetchRequest("g", topics), 7)


def describe_configs(resources: int, keys: int) -> DescribeConfigsRequest:
    return DescribeConfigsRequest([DescribeConfigsResource(2, "", [""] * keys)] * resources)


@pytest.mark.parametrize("version", [1, 4])
def test_messages_with_functions_per_struct_are_bounded_in_the_same_way(version: int) -> None:
    whole = describe_configs(256, 255)
    assert len(DescribeConfigsRequest.decode(whole.encode(version), version).resources) == 256
    assert REFUSED in refused(describe_configs(256, 256), version)
    assert REFUSED in refused(describe_configs(MOST_ELEMENTS + 1, 0), version)


SECTIONS = {
    "functions per struct": (describe_configs(1, 0), 4),
    "known tagged fields": (ControllerRegistrationRequest(), 0),
    "one function": (metadata(1), 9),
    "known tagged fields in one function": (FetchRequest(), 15),
    "header": (RequestHeader(), 2),
}


@pytest.mark.parametrize("name", SECTIONS)
def test_the_tagged_fields_of_one_section_are_bounded_as_in_kafka(name: str) -> None:
    request, version = SECTIONS[name]
    assert type(request).decode(tagged(request, version, MOST_TAGGED_FIELDS), version) == request
    with pytest.raises(DecodeError, match="10001 tagged fields in one section; 10000 are the most"):
        type(request).decode(tagged(request, version, MOST_TAGGED_FIELDS + 1), version)


@pytest.mark.parametrize(
    "request_", [describe_configs(0, 0), metadata(0)], ids=["functions per struct", "one function"]
)
def test_tagged_fields_count_as_elements(request_: Message) -> None:
    version = 4 if isinstance(request_, DescribeConfigsRequest) else 9
    # The empty array is the first byte of the request; elements with a section each take its place.
    many = 8
    section = uvarint(9_000) + b"\x07\0" * 9_000
    element = (b"\x02\x01\x01" if version == 4 else b"\x01") + section
    with pytest.raises(DecodeError, match=REFUSED):
        type(request_).decode(uvarint(many + 1) + element * many + request_.encode(version)[1:], version)


def test_a_count_that_is_damaged_is_refused_for_the_bytes_that_are_left() -> None:
    with pytest.raises(DecodeError, match="topics has 2147483647 elements, and 0 bytes are left"):
        MetadataRequest.decode(b"\x7f\xff\xff\xff", 1)


def test_answers_are_not_bounded() -> None:
    whole = MetadataResponse(brokers=[MetadataResponseBroker(1, "h", 1)] * (MOST_ELEMENTS + 1))
    assert len(MetadataResponse.decode(whole.encode(1), 1).brokers) == MOST_ELEMENTS + 1
