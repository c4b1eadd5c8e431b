"""Masked recordings: nothing of what was in them, and what was equal is equal."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

import pytest

from pykafka_broker.control.traffic.exchange import encoded_response
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.messages.fetch_request import FetchRequest
from pykafka_broker.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.metadata_response import MetadataResponse, MetadataResponseBroker
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.produce_response import ProduceResponse
from pykafka_broker.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from pykafka_broker.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.compression import GZIP, NONE
from pykafka_broker.records.conversion import build_message_set, iter_messages
from pykafka_broker.records.header import iter_batches, read_header
from pykafka_broker.records.record import BatchRecord, iter_records
from pykafka_broker.server.link_codec import encode_request
from pykafka_broker.steps import at_once
from pykafka_broker.testing.masking import Mask
from pykafka_broker.testing.recorded_messages import RecordedMessages
from pykafka_broker.testing.recording import Recorded, Recording, lines_of, read_recording

HOST = "kafka-7.prod.example"
TOPIC_ID = bytes(range(16))


def exchange(request: Message, response: Message, version: int) -> Recorded:
    frame = b"".join(encode_request(request, version, 1, "shop"))[4:]
    answer = b"".join(encoded_response(response, SPECS[request.API_KEY], version, 1) or [])[4:]
    return Recorded.exchange(1, 2, 1, frame, answer)


def batch() -> bytes:
    builder = BatchBuilder(codec=GZIP, producer_id=4711, producer_epoch=0, base_sequence=0)
    builder.append(b"alice", b"her secret", 1_700_000_000_000, [("by", b"bob")])
    builder.append(b"alice", None, 1_700_000_000_005)
    return bytes(builder.build())


def masked(*events: Recorded, state: tuple[str, ...] = ()) -> Recording:
    found = Mask(b"salt").recording(Recording(list(state), list(events), last_fault=3))
    assert read_recording(lines_of(found)) == found
    return found


def messages(recording: Recording) -> list[Any]:
    return [RecordedMessages(each) for each in recording.events]


def test_content_and_ids_of_records_are_masked() -> None:
    produced = ProduceRequest(
        None, -1, 1000, [TopicProduceData("orders", partition_data=[PartitionProduceData(0, batch())])]
    )
    data = PartitionData(partition_index=0, records=batch())
    fetched = FetchResponse(session_id=99, responses=[FetchableTopicResponse("", TOPIC_ID, [data])])
    found = masked(exchange(produced, ProduceResponse(), 9), exchange(FetchRequest(), fetched, 13))
    first, second = messages(found)
    sent = bytes(first.request.topic_data[0].partition_data[0].records)
    got = second.response.responses[0]
    assert sent == bytes(got.partitions[0].records)
    assert got.topic_id != TOPIC_ID
    assert second.response.session_id != 99
    header = read_header(sent)
    assert (header.count, header.base_sequence) == (2, 0)
    assert header.producer_id not in (4711, -1)
    one, other = iter_records(sent)
    assert (one.key, one.timestamp, other.timestamp) == (other.key, 1_700_000_000_000, 1_700_000_000_005)
    assert other.value is None
    assert (len(one.key or b""), len(one.value or b"")) == (5, 10)
    assert one.headers[0][0] == "by"
    assert not {one.key, one.value, one.headers[0][1]} & {b"alice", b"her secret", b"bob"}
    assert Mask(b"other").recording(found) != found


def test_a_batch_whose_offsets_fall_is_left_out() -> None:
    builder = BatchBuilder()
    builder.extend([BatchRecord(0, 5, None, b"a"), BatchRecord(1, 5, None, b"b")])
    fell = bytes(builder.build()).replace(b"\0\0\2\1", b"\0\0\0\1")  # the second record has the offset of the first
    records = [PartitionProduceData(0, batch() + fell)]
    produced = ProduceRequest(None, -1, 1000, [TopicProduceData("orders", partition_data=records)])
    (found,) = messages(masked(exchange(produced, ProduceResponse(), 9)))
    assert len(list(iter_batches(found.request.topic_data[0].partition_data[0].records))) == 1


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_sets_of_messages_are_masked(magic: int, codec: int) -> None:
    """Clients before Kafka 0.11 write no batches."""
    written = [BatchRecord(0, 5 if magic else -1, b"alice", b"secret"), BatchRecord(1, 6 if magic else -1, None, None)]
    data = bytes(at_once(build_message_set(written, magic, codec=codec)))
    produced = TopicProduceData("orders", partition_data=[PartitionProduceData(0, data)])
    (found,) = messages(masked(exchange(ProduceRequest(None, 1, 1000, [produced]), ProduceResponse(), 2)))
    one, other = iter_messages(found.request.topic_data[0].partition_data[0].records)
    assert (one.offset, one.timestamp, len(one.key or b""), len(one.value or b"")) == (0, written[0].timestamp, 5, 6)
    assert not {one.key, one.value} & {b"alice", b"secret"}
    assert other == written[1]


def test_addresses_and_logins_are_masked() -> None:
    brokers = [MetadataResponseBroker(1, HOST, 9092), MetadataResponseBroker(2, HOST, 9093)]
    told = exchange(MetadataRequest(None), MetadataResponse(brokers=brokers, cluster_id="c-1"), 9)
    login = exchange(SaslAuthenticateRequest(b"\0alice\0wonderland"), SaslAuthenticateResponse(), 2)
    (only,) = messages(masked(told, login))
    assert [each.host for each in only.response.brokers] == ["host-1", "host-1"]
    assert [each.port for each in only.response.brokers] == [9092, 9093]
    assert only.response.cluster_id == "cluster-id-1"


def test_lines_and_calls_are_masked_as_frames_are() -> None:
    line = {"type": "record", "topic": "orders", "partition": 0, "key": "alice", "value": {"card": 4}}
    topic = json.dumps({"type": "topic", "name": "orders"})
    records = [{"key_base64": b64encode(b"alice").decode(), "headers": [{"name": "by", "value": "bob"}]}]
    call = Recorded(5, 5, 0, b"", None, ("POST", "/topics/orders/records", json.dumps({"records": records})))
    end = Recorded.close(6, 1)
    found = masked(call, end, state=(topic, json.dumps(line)))
    assert found.state[0] == topic
    shown = json.loads(found.state[1])
    assert shown["topic"] == "orders"
    assert len(shown["value"]) == len('{"card":4}')
    event, closed = found.events
    assert closed == end
    assert event.call is not None
    (record,) = json.loads(event.call[2])["records"]
    assert b64decode(record["key_base64"]).decode() == shown["key"] != "alice"
    assert record["headers"][0]["value"] != "bob"


def test_seeded_lines_are_masked() -> None:
    topic, record = (
        '{"type": "topic", "name": "orders"}',
        '{"type": "record", "topic": "orders", "value": "her secret"}',
    )
    for lines in ([record], [topic, record, "", record], [topic, record, '{"value": "her secret"']):
        call = Recorded(5, 5, 0, b"", None, ("POST", "/seed", "\n".join(lines)))
        (event,) = masked(call).events
        assert event.call is not None
        shown = event.call[2].split("\n")
        assert len(shown) == len(lines)
        assert "secret" not in event.call[2]
        assert [one == other for one, other in zip(shown, lines, strict=True)] == [
            each in (topic, "") for each in lines
        ]
    for body in ("", "5", '{"api": "Fetch", "error": "UNKNOWN_SERVER_ERROR"}'):
        call = Recorded(5, 5, 0, b"", None, ("POST", "/faults", body))
        assert masked(call).events == [call]
