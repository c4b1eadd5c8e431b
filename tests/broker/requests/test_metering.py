"""Quotas from the client's side: what an answer says, and for how long nothing more is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.api import delegation_tokens
from pykafka_broker.broker.requests.context import NO_CONNECTION
from pykafka_broker.broker.requests.metering import Metering
from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.broker.waiting.future import Slices
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import fetch_request as fetching
from pykafka_broker.protocol.messages import share_fetch_response as share
from pykafka_broker.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from pykafka_broker.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.describe_groups_response import DescribeGroupsResponse
from pykafka_broker.protocol.messages.fetch_response import FetchResponse
from pykafka_broker.protocol.messages.list_groups_request import ListGroupsRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from pykafka_broker.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from pykafka_broker.protocol.runtime import leaves
from pykafka_broker.protocol.stored.delegation_token_record import DelegationTokenRecord
from tests.broker.api.real_broker import NOW, RealBroker
from tests.broker.support import batch

MILLISECOND_NS = 1_000_000


class Held(RealBroker):
    """A broker with windows of three seconds, and the clients that it holds up."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.request_ns = 0  # the time that each request takes
        super().__init__(directory, **{"quota.window.num": "3", "controller.quota.window.num": "3", **settings})
        self.connection.principal = "User:alice"
        self.call(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1000), 5)

    def start(self) -> None:
        super().start()
        self.muted: list[tuple[int, int]] = []  # (connection, until)
        services = self.broker.services
        services.mute = lambda id, until: self.muted.append((id, until))
        self._ns = 0
        services.nanoseconds = self._nanoseconds

    def _nanoseconds(self) -> int:
        self._ns += self.request_ns
        return self._ns

    def allow(self, **quotas: float | None) -> None:
        """Set quotas of alice; None removes a quota."""
        ops = [OpData(kind, value or 0.0, value is None) for kind, value in quotas.items()]
        principal, self.connection.principal = self.connection.principal, "User:root"
        answer = self.call(AlterClientQuotasRequest([EntryData([EntityData("user", "alice")], ops)]), 1)
        self.connection.principal = principal
        assert answer.entries[0].error_code == 0

    def produce(self, size: int, *, version: int = 9, acks: int = 1, topic: str = "t") -> Any:
        return self.call(producing(size, acks, topic), version)

    def fetch(self, *, session: tuple[int, int] = (0, -1), version: int = 12, **limits: int) -> Any:
        return self.call(reading(session, **limits), version)


def producing(size: int, acks: int = 1, topic: str = "t") -> ProduceRequest:
    data = PartitionProduceData(0, batch(b"x" * (size // 2)))
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(topic, partition_data=[data])])


def reading(session: tuple[int, int] = (0, -1), max_bytes: int = 1 << 30, min_bytes: int = 1) -> Any:
    partition = fetching.FetchPartition(0, -1, 0, -1, -1, 1 << 30)
    return fetching.FetchRequest(
        max_wait_ms=500,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session[0],
        session_epoch=session[1],
        topics=[fetching.FetchTopic("t", partitions=[partition])],
    )


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Held]:
    held = Held(tmp_path)
    yield held
    held.stop()


def throttle_of(node: Held, size: int, quota: int) -> int:
    """Return the throttle time in ms of a first request whose frame has `size` bytes, under `quota` bytes a second."""
    return round(size / quota * 1000 - 2000)


def test_without_a_quota_nothing_is_counted(node: Held) -> None:
    assert node.broker.services.quotas is None
    assert node.produce(100_000).throttle_time_ms == 0
    assert node.muted == []


def test_a_producer_is_answered_and_then_held_up_by_the_bytes_of_its_request(node: Held) -> None:
    node.allow(producer_byte_rate=10_000)
    size = len(node.frame(producing(50_000), 9))
    answer = node.produce(50_000)
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert answer.throttle_time_ms == throttle_of(node, size, 10_000) > 3000
    assert node.muted == [(1, NOW + answer.throttle_time_ms)]


def test_what_is_refused_counts_too(node: Held) -> None:
    node.allow(producer_byte_rate=10_000)
    answer = node.produce(50_000, topic="none such")
    assert answer.responses[0].partition_responses[0].error_code != 0
    assert answer.throttle_time_ms > 3000


def test_a_producer_that_wants_no_answer_is_held_up_too(node: Held) -> None:
    node.allow(producer_byte_rate=10_000)
    assert node.broker.dispatch(node.connection, node.frame(producing(50_000, acks=0), 9), NOW) is None
    [(_, until)] = node.muted
    assert until > NOW + 3000


def test_versions_without_the_field_are_held_up_all_the_same(node: Held) -> None:
    node.allow(producer_byte_rate=10_000)
    assert node.produce(50_000, version=3).throttle_time_ms > 3000
    node.allow(request_percentage=0.01)
    node.request_ns = MILLISECOND_NS
    node.muted.clear()
    assert node.call(ListGroupsRequest(), 0).throttle_time_ms == 0  # the answer has no throttle time in version 0
    assert len(node.muted) == 1


def test_other_users_are_not_held_up(node: Held) -> None:
    node.allow(producer_byte_rate=10_000)
    node.connection.principal = "User:bob"
    assert node.produce(50_000).throttle_time_ms == 0


def test_a_removed_quota_holds_nobody_up_any_more(node: Held) -> None:
    node.allow(producer_byte_rate=10_000)
    node.allow(producer_byte_rate=None)
    assert node.broker.services.quotas is None
    assert node.produce(50_000).throttle_time_ms == 0


def test_quotas_are_there_after_a_restart(node: Held) -> None:
    node.allow(producer_byte_rate=10_000)
    node.restart()
    assert node.produce(50_000).throttle_time_ms > 3000


def test_requests_from_inside_the_process_are_not_counted(node: Held) -> None:
    node.allow(producer_byte_rate=10_000)
    node.connection.id = NO_CONNECTION
    assert node.produce(50_000).throttle_time_ms == 0


def test_a_client_behind_another_broker_is_told_and_holds_up_nobody_here(node: Held) -> None:
    """The requests come on the connection of the other broker, with those of all other clients there."""
    node.allow(producer_byte_rate=10_000)
    node.connection.forwarded = True
    assert node.produce(50_000).throttle_time_ms > 3000
    assert node.muted == []


def test_requests_among_brokers_are_not_held_up(node: Held) -> None:
    node.allow(request_percentage=0.01, consumer_byte_rate=1)
    node.request_ns = MILLISECOND_NS
    node.call(WriteTxnMarkersRequest([]), 1)
    for version in (12, 17):
        request = reading()
        if version == 12:
            request.replica_id = 2
        else:
            request.replica_state = fetching.ReplicaState(2)
            request.topics[0].topic_id = node.broker.image.topics["t"].id
        assert node.call(request, version).throttle_time_ms == 0
    assert node.muted == []
    node.call(ListGroupsRequest(), 4)
    assert len(node.muted) == 1


# -- fetches


def filled(node: Held, batches: int = 4) -> None:
    for _ in range(batches):
        node.produce(40_000)


def test_a_fetch_gets_the_free_burst_at_most_and_does_not_wait_for_more(node: Held) -> None:
    filled(node)
    node.allow(consumer_byte_rate=50_000)
    answer = node.fetch(min_bytes=150_000)
    assert 80_000 < len(answer.responses[0].partitions[0].records) <= 100_000
    assert answer.throttle_time_ms == 0
    node.allow(consumer_byte_rate=500_000)
    assert 0 < len(node.fetch(max_bytes=50_000).responses[0].partitions[0].records) <= 50_000


def test_old_fetches_without_a_limit_of_their_own_get_it_too(node: Held) -> None:
    filled(node)
    node.allow(consumer_byte_rate=25_000)
    answer = node.call(reading(), 2)
    assert 40_000 < len(answer.responses[0].partitions[0].records) <= 50_000


def test_a_quota_that_is_no_number_lets_a_fetch_have_one_batch_at_a_time(tmp_path: Path) -> None:
    """Kafka 4.4 refuses such a quota, and 4.3 takes it."""
    node = Held(tmp_path, **{"pykafka.emulate": "4.3"})
    filled(node)
    node.allow(consumer_byte_rate=math.nan, producer_byte_rate=math.nan, request_percentage=math.nan)
    answer = node.fetch(min_bytes=150_000)
    assert 40_000 < len(answer.responses[0].partitions[0].records) < 50_000
    assert answer.throttle_time_ms == node.produce(50_000).throttle_time_ms == 0
    node.stop()


def test_above_its_quota_a_fetch_is_empty_and_does_not_count(node: Held) -> None:
    filled(node)
    node.allow(consumer_byte_rate=50_000)
    node.fetch()
    for _ in range(5):
        answer = node.fetch()
        assert answer.responses == []
        assert 1200 < answer.throttle_time_ms < 1210
    node.now += 3000
    assert node.fetch().responses != []


def test_a_session_goes_on_after_an_empty_answer(node: Held) -> None:
    filled(node)
    node.allow(consumer_byte_rate=50_000)
    session = node.fetch(session=(0, 0)).session_id
    assert session > 0
    answer = node.fetch(session=(session, 1))
    assert (answer.responses, answer.session_id) == ([], session)
    node.now += 3000
    node.allow(consumer_byte_rate=1e9)
    told = node.fetch(session=(session, 2)).responses[0].partitions[0]
    assert len(told.records) > 150_000


def test_a_session_whose_first_answer_is_empty_is_none(node: Held) -> None:
    filled(node)
    node.allow(consumer_byte_rate=50_000)
    node.fetch()
    assert node.fetch(session=(0, 0)).session_id == 0
    assert len(node.broker.services.fetch_sessions) == 0


def test_a_fetch_that_has_waited_is_counted_when_it_is_answered(node: Held) -> None:
    node.allow(consumer_byte_rate=1_000)
    found = node.broker.dispatch(node.connection, node.frame(reading(), 12), node.now)
    assert isinstance(found, PendingReply)
    replies: list[Any] = []
    found.future.add_done_callback(lambda _: replies.append(found.response()))
    node.connection.principal = "User:bob"
    node.produce(40_000)
    node.broker.settle(node.now)
    body = b"".join(bytes(piece) for piece in found.pieces())[9:]
    answer = FetchResponse.decode(body, 12)
    assert answer.responses == []
    assert answer.throttle_time_ms > 30_000
    assert node.muted == [(1, node.now + answer.throttle_time_ms)]


def test_a_share_fetch_above_its_quota_gets_nothing_and_its_records_stay_locked(node: Held) -> None:
    node.allow(consumer_byte_rate=50_000)
    metering = node.broker.services.quotas
    assert isinstance(metering, Metering)
    given = ShareFetchResponse(
        responses=[
            ShareFetchableTopicResponse(
                b"t" * 16, [share.PartitionData(0, records=b"x" * 9, acquired_records=[AcquiredRecords(0, 5, 1)])]
            )
        ]
    )
    [topic] = metering.withheld(given).responses
    assert topic.partitions == [share.PartitionData(0, records=b"", acquired_records=[])]


# -- request time


def test_request_time_holds_up_for_one_window_at_most(node: Held) -> None:
    node.allow(request_percentage=1)
    node.request_ns = 15 * MILLISECOND_NS
    assert node.call(ListGroupsRequest(), 4).throttle_time_ms == 0
    assert node.call(ListGroupsRequest(), 4).throttle_time_ms == 1000
    assert node.muted == [(1, NOW + 1000)]


def test_the_time_of_the_socket_counts_once(node: Held) -> None:
    """A percent of a thread is 20 ms in two windows."""
    timed: list[int] = []
    node.broker.services.time_network = timed.append
    node.allow(request_percentage=1)
    assert node.call(ListGroupsRequest(), 4).throttle_time_ms == 0
    assert timed == [node.connection.id], "nobody measures it yet"
    node.connection.network_ns = 25 * MILLISECOND_NS
    assert node.call(ListGroupsRequest(), 4).throttle_time_ms == 500
    assert node.connection.network_ns == 0
    assert node.call(ListGroupsRequest(), 4).throttle_time_ms == 500
    assert len(timed) == 1


# What many connections ask at once may be more than the quota, as with Kafka: none waits for longer than one window.
SHARES = [(100_000, 1), (100_000, 8), (MILLISECOND_NS, 1), (MILLISECOND_NS // 2, 8), (9 * MILLISECOND_NS, 1)]


@pytest.mark.parametrize(("request_ns", "connections"), SHARES)
def test_clients_get_the_share_of_the_thread_that_their_quota_says(
    node: Held, request_ns: int, connections: int
) -> None:
    """Small, middle and large requests; each connection waits for as long as its answers tell."""
    node.allow(request_percentage=2)
    node.connection.network_ns = 0
    node.request_ns = request_ns
    begun, spent, free_at = node.now, 0, [node.now] * connections
    while node.now < begun + 50_000:
        turn = min(range(connections), key=free_at.__getitem__)
        node.now = max(node.now, free_at[turn])
        free_at[turn] = node.now + max(1, node.call(ListGroupsRequest(), 4).throttle_time_ms)
        if node.now >= begun + 10_000:
            spent += request_ns
    assert 0.85 < spent / 40e9 / 0.02 < 1.15


def test_the_time_that_a_request_waits_does_not_count(node: Held) -> None:
    node.allow(request_percentage=1)
    found = node.broker.dispatch(node.connection, node.frame(reading(), 12), node.now)
    assert isinstance(found, PendingReply)
    node.broker.services.nanoseconds()
    node._ns += 400 * MILLISECOND_NS
    node.connection.principal = "User:bob"
    node.produce(100)
    replies: list[Any] = []
    found.future.add_done_callback(lambda _: replies.append(found.response()))
    node.broker.settle(node.now)
    assert FetchResponse.decode(b"".join(bytes(one) for one in found.pieces())[9:], 12).throttle_time_ms == 0


def test_each_slice_of_a_long_request_counts(node: Held) -> None:
    """A percent of a thread is 20 ms in two windows."""
    later: list[Callable[[], None]] = []
    node.broker.services.slices = Slices(later.append)
    node.allow(request_percentage=1)
    node.request_ns = 9 * MILLISECOND_NS
    request = DescribeGroupsRequest([f"g{number}" for number in range(300)])
    found = node.broker.dispatch(node.connection, node.frame(request, 5), node.now)
    assert isinstance(found, PendingReply)
    slices = 1
    while later:
        later.pop()()
        slices += 1
    assert slices == 3
    answer = DescribeGroupsResponse.decode(b"".join(bytes(one) for one in found.pieces())[9:], 5)
    assert (answer.throttle_time_ms > 0, len(answer.groups)) == (True, 300)


def test_every_api_says_for_how_long(node: Held) -> None:
    """Those too whose answers are remembered as bytes."""
    node.request_ns = MILLISECOND_NS
    filled(node, 1)
    node.allow(request_percentage=0.01)
    client = ApiVersionsRequest("python", "1")
    for _ in range(2):
        assert [node.call(client, version).throttle_time_ms for version in (1, 2, 3, 4)] == [1000] * 4
        metadata = node.call(MetadataRequest([MetadataRequestTopic(name="t")]), 9)
        assert (metadata.throttle_time_ms, metadata.topics[0].name) == (1000, "t")
    assert (node.fetch().throttle_time_ms, node.fetch().responses) == (1000, [])
    assert node.produce(10).throttle_time_ms == 1000
    node.allow(request_percentage=None)
    assert node.call(MetadataRequest([MetadataRequestTopic(name="t")]), 9).throttle_time_ms == 0
    assert node.call(client, 4).throttle_time_ms == 0


@pytest.mark.parametrize("size", [10, 3000])
def test_an_answer_that_is_written_in_parts_says_it_too(node: Held, size: int) -> None:
    node.request_ns = MILLISECOND_NS
    node.allow(request_percentage=0.01)
    names = [MetadataRequestTopic(name=f"{number:x>20}") for number in range(size)]
    answer = node.call(MetadataRequest(names, allow_auto_topic_creation=False), 9)
    assert (answer.throttle_time_ms, len(answer.topics)) == (1000, size)


@pytest.mark.parametrize("version", [3, 8, 9])
def test_a_produce_to_very_many_partitions_says_it_too(node: Held, version: int) -> None:
    node.allow(producer_byte_rate=100)
    partitions = [PartitionProduceData(number, batch(b"x")) for number in range(3000)]
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData("t", partition_data=partitions)])
    answer = node.call(request, version)
    assert len(answer.responses[0].partition_responses) == 3000
    assert [(1, NOW + answer.throttle_time_ms)] == node.muted
    assert answer.throttle_time_ms > 1_000_000


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_description_of_very_many_tokens_says_it_too(
    node: Held, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegation_tokens, "_may_ask", lambda services, context: True)
    monkeypatch.setitem(vars(node.broker.services.config), "delegation_token_secret_key", "secret")
    for name in map(str, range(500)):
        token = DelegationTokenRecord("User:alice", "User:alice", [], 0, 1, 1, name)
        node.broker.services.image.delegation_tokens[name] = token
    node.request_ns = MILLISECOND_NS
    node.allow(request_percentage=0.01)
    answer = node.call(DescribeDelegationTokenRequest(None), version)
    assert (answer.throttle_time_ms, len(answer.tokens)) == (1000, 500)


# -- partitions


def creating(*names: str, partitions: int = 1, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, partitions, 1) for name in names], 1000, validate_only)


def codes(answer: Any) -> list[int]:
    return [one.error_code for one in answer.topics]


QUOTA_EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_topics_pass_one_by_one_until_there_is_a_debt(node: Held) -> None:
    node.allow(controller_mutation_rate=1)
    answer = node.call(creating(*"abcdef"), 7)
    assert codes(answer) == [0, 0, 0, 0, QUOTA_EXCEEDED, QUOTA_EXCEEDED]
    assert [one.error_message for one in answer.topics] == [None] * 6
    assert answer.throttle_time_ms == 1000
    assert node.muted == [(1, NOW + 1000)]
    assert sorted(node.broker.image.topics) == [*"abcd", "t"]


def test_a_request_that_overdraws_is_not_held_up_and_the_next_is_refused(node: Held) -> None:
    node.allow(controller_mutation_rate=1)
    passed = node.call(creating("a", partitions=6), 6)
    assert (codes(passed), passed.throttle_time_ms) == ([0], 0)
    refused = node.call(creating("b"), 6)
    assert (codes(refused), refused.throttle_time_ms) == ([QUOTA_EXCEEDED], 3000)
    node.now += 3000
    assert codes(node.call(creating("b"), 6)) == [0]


def test_older_clients_are_served_and_held_up(node: Held) -> None:
    node.allow(controller_mutation_rate=1)
    answer = node.call(creating("a", partitions=6), 5)
    assert (codes(answer), answer.throttle_time_ms) == ([0], 3000)
    assert node.muted == [(1, NOW + 3000)]


def test_what_is_only_validated_counts_and_what_is_wrong_does_not(node: Held) -> None:
    node.allow(controller_mutation_rate=1)
    assert codes(node.call(creating("t", "no name", partitions=50), 7)) == [36, 17]
    assert codes(node.call(creating("a", partitions=4, validate_only=True), 7)) == [0]
    assert codes(node.call(creating("a", validate_only=True), 7)) == [QUOTA_EXCEEDED]


def test_deletions_and_further_partitions_count(node: Held) -> None:
    node.call(creating("a", "b", partitions=4), 7)
    node.allow(controller_mutation_rate=1)
    assert node.call(DeleteTopicsRequest([DeleteTopicState("a")], timeout_ms=1000), 6).responses[0].error_code == 0
    refused = node.call(DeleteTopicsRequest([DeleteTopicState("b")], timeout_ms=1000), 6)
    assert (refused.responses[0].error_code, refused.throttle_time_ms) == (QUOTA_EXCEEDED, 1000)
    refused = node.call(DeleteTopicsRequest(topic_names=["b"], timeout_ms=1000), 5)
    assert refused.responses[0].error_code == QUOTA_EXCEEDED
    more = CreatePartitionsRequest([CreatePartitionsTopic("b", 6, None)], 1000)
    refused = node.call(more, 3)
    assert (refused.results[0].error_code, refused.throttle_time_ms) == (QUOTA_EXCEEDED, 1000)
    assert len(node.broker.image.topics["b"].partitions) == 4
    served = node.call(more, 2)
    assert (served.results[0].error_code, served.throttle_time_ms) == (0, 3000)
    assert node.call(DeleteTopicsRequest(topic_names=["b"], timeout_ms=1000), 4).throttle_time_ms == 9000


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_what_a_controller_is_given_no_time_for_does_not_count(node: Held, timeout_ms: int) -> None:
    node.allow(controller_mutation_rate=1)
    late: list[tuple[Any, int]] = [
        (CreateTopicsRequest([CreatableTopic("a", 50, 1)], timeout_ms, validate_only), version)
        for validate_only in (False, True)
        for version in (5, 7)
    ]
    late += [(DeleteTopicsRequest(topic_names=["t"], timeout_ms=timeout_ms), version) for version in (4, 5)]
    late += [
        (CreatePartitionsRequest([CreatePartitionsTopic("t", 50, None)], timeout_ms), version) for version in (2, 3)
    ]
    for request, version in late:
        answer = node.call(request, version)
        told = [value for _, name, value in leaves(answer) if name == "error_code"]
        assert (told, answer.throttle_time_ms) == ([ErrorCode.REQUEST_TIMED_OUT], 0)
    assert codes(node.call(creating("a", "b", partitions=2), 7)) == [0, 0]


def test_topics_that_are_named_stay_missing_while_there_is_a_debt(node: Held) -> None:
    node.allow(controller_mutation_rate=1)
    for number in range(6):
        answer = node.call(MetadataRequest([MetadataRequestTopic(name=f"m{number}")]), 9)
        assert answer.throttle_time_ms == 0
    assert sorted(node.broker.image.topics) == ["m0", "m1", "m2", "m3", "t"]
    assert node.muted == []


def test_a_giant_request_is_refused_from_where_the_debt_begins(node: Held) -> None:
    node.allow(controller_mutation_rate=100)
    answer = node.call(creating(*(f"{number:x>60}" for number in range(400))), 7)
    assert codes(answer) == [0] * 301 + [QUOTA_EXCEEDED] * 99
    assert answer.throttle_time_ms == 10
