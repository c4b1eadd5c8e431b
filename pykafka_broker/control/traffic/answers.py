"""The effects of a fault on a request and on an answer, apart from `observed_router`, which decides when they happen.

Rule: all functions work on bytes and messages. A changed answer is one that a broker could have given: in the version
of the request, with the error in the place where the API tells errors, and with everything else unchanged. If the API
has no room for the error, there is no answer and the connection ends, as Kafka ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from pykafka_broker.broker.requests.router import says, whole_request_failure
from pykafka_broker.control.traffic.exchange import Exchange, decoded_request, encoded_request, encoded_response
from pykafka_broker.control.traffic.faults import Rule
from pykafka_broker.control.traffic.mentions import (
    NO_PARTITION,
    Known,
    Wanted,
    keep,
    mentions_of,
    partition_of,
    session_of,
    topic_of,
)
from pykafka_broker.errors import ClosedOnPurpose
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_response import FetchableTopicResponse, PartitionData
from pykafka_broker.protocol.messages.share_fetch_response import PartitionData as SharePartitionData
from pykafka_broker.protocol.messages.share_fetch_response import ShareFetchableTopicResponse, ShareFetchResponse
from pykafka_broker.protocol.runtime import Fields, Message, Pieces, leaves
from pykafka_broker.protocol.specs import ApiSpec

M = TypeVar("M", bound=Fields)

# Errors of single partitions and topics; any other error is about the request.
OF_PARTITIONS = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
    }
)
# Errors of sessions: never about a partition.
OF_SESSIONS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    }
)
_TELL_TOPICS = frozenset({ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS})
_CRC_OF_BATCH, _CRC_OF_MESSAGE = 17, 12  # its position for magic 2, and for older messages
_MAGIC = 16


def refusal(spec: ApiSpec, request: Any, version: int, code: int) -> Message:
    """Return the answer to a request failing as a whole. Raises FrameError where the API has no room for the error."""
    error = ErrorCode(code)
    response = spec.response_class()()
    if error in OF_PARTITIONS:
        if request is not None:
            response.add_failed(request, error)
            if says(response, version, error):
                return _tidy(response)
    elif hasattr(response, "error_code"):
        response.error_code = code
        if says(response, version, error):
            return response
    return _tidy(whole_request_failure(spec.response_class(), error, None, request, version))


def refusal_of_items(spec: ApiSpec, request: Any, version: int, code: int) -> Message:
    """Return an answer with a failure of every item, if the API can tell failures of items."""
    response = spec.response_class()()
    response.add_failed(request, ErrorCode(code))
    if says(response, version, ErrorCode(code)):
        return _tidy(response)
    return refusal(spec, request, version, code)


def split(request: Any, again: Any, wanted: Wanted, known: Known) -> bool:
    """Keep the wanted part in `request` and the rest in the copy `again`; return whether a rest exists."""
    keep(request, wanted, known)
    return keep(again, lambda *place: not wanted(*place), known)


def fail_wanted(response: Any, refused: Any, code: int, wanted: Wanted, known: Known) -> None:
    """Change an answer: the items of `refused` have failed, and no others."""
    keep(response, lambda *place: not wanted(*place), known)
    response.add_failed(refused, ErrorCode(code))
    _join_topics(response)
    _tidy(response)


def fail_all(response: Any, refused: Any, version: int, code: int) -> None:
    """Change an answer: the whole request has failed."""
    failed = refusal(SPECS[refused.API_KEY], refused, version, code)
    for name in response.__match_args__:
        if name != "throttle_time_ms":
            setattr(response, name, getattr(failed, name))


def fail_metadata(response: Any, code: int, meets: Wanted, whole_topic: bool, known: Known) -> None:
    """Put the error into an answer to Metadata or DescribeTopicPartitions.

    Such an answer may name brokers too, and its request may have asked for everything. A topic without a leader keeps
    its partitions: a consumer that leads its group would assign nothing otherwise.
    """
    for topic in response.topics:
        name = topic_of("topics", topic, known) or topic.name or ""
        of_partitions = code == ErrorCode.LEADER_NOT_AVAILABLE and topic.partitions
        if whole_topic and not of_partitions and meets(name, NO_PARTITION):
            topic.error_code, topic.partitions = code, []
        elif of_partitions or not whole_topic:
            for partition in topic.partitions:
                if meets(name, partition.partition_index):
                    partition.error_code, partition.leader_id = code, -1


def fail_fetch(response: Any, places: list[tuple[str | bytes, int]], code: int) -> None:
    """Put the error into an answer to Fetch or ShareFetch.

    places: topics, by name or id as in the answer, with partitions.
    """
    new_topic: Callable[[], Any] = FetchableTopicResponse
    new_partition: Callable[..., Any] = partial(PartitionData, high_watermark=-1)
    if isinstance(response, ShareFetchResponse):
        new_topic, new_partition = ShareFetchableTopicResponse, SharePartitionData
    for topic, index in places:
        field = "topic" if isinstance(topic, str) else "topic_id"
        of_topic = next((each for each in response.responses if getattr(each, field) == topic), None)
        if of_topic is None:
            of_topic = new_topic()
            setattr(of_topic, field, topic)
            response.responses.append(of_topic)
        of_topic.partitions = [each for each in of_topic.partitions if each.partition_index != index]
        of_topic.partitions.append(new_partition(partition_index=index, error_code=code, records=b""))


def with_records(response: Any, wanted: Wanted, known: Known) -> list[Any]:
    return [
        partition
        for topic in getattr(response, "responses", ())
        for partition in getattr(topic, "partitions", ())
        if len(getattr(partition, "records", None) or b"") > _CRC_OF_BATCH
        and wanted(topic_of("responses", topic, known) or "", partition_of(partition))
    ]


def corrupt(response: Any, wanted: Wanted, known: Known) -> None:
    """Spoil the CRC of the first batch of each wanted partition."""
    for partition in with_records(response, wanted, known):
        damaged = bytearray(partition.records)
        damaged[_CRC_OF_BATCH if damaged[_MAGIC] == 2 else _CRC_OF_MESSAGE] ^= 0xFF
        partition.records = bytes(damaged)


def _join_topics(struct: Any) -> None:
    """Join the partitions of repeated topics in a list."""
    for name in struct.__match_args__:
        field = getattr(struct, name)
        if not isinstance(field, list) or not field or not isinstance(field[0], Fields):
            continue
        first: dict[tuple[Any, ...], Any] = {}
        for item in field:
            _join_topics(item)
            one = first.setdefault(_identity(item), item)
            if one is not item:
                for part in item.__match_args__:
                    if isinstance(getattr(item, part), list):
                        getattr(one, part).extend(getattr(item, part))
        field[:] = first.values()


def _identity(item: Any) -> tuple[Any, ...]:
    """Return a key for equal items: the names, for items with lists of structs."""
    lists = [name for name in item.__match_args__ if isinstance(getattr(item, name), list)]
    nested = [name for name in lists if getattr(item, name) and isinstance(getattr(item, name)[0], Fields)]
    if not nested:
        return (id(item),)
    names = ("name", "topic", "topic_id", "group_id", "transactional_id")
    found = tuple(value for name in names if isinstance(value := getattr(item, name, None), (str, bytes)))
    return found or (id(item),)


def _tidy(response: M) -> M:
    """Empty the records beside an error, as in Kafka's answers."""
    for struct, name, _ in leaves(response):
        if name == "records" and getattr(struct, "error_code", 0) != 0:
            struct.records = b""
    return response


Change = Callable[[Any], object]  # changes a decoded response


class Refusing(NamedTuple):
    """An error for a request: the frame to serve instead, if any, and the change of the answer."""

    frame: bytearray | None
    change: Change | None
    answer: Pieces


def refusing(exchange: Exchange, rule: Rule, known: Known) -> Refusing:
    """Return how to refuse a request by the rule's error, without any effect of the request.

    Raises FrameError where the API has no room for the error.
    """
    spec, request, code = exchange.spec, exchange.request, rule.action.error
    assert code is not None
    if spec is None or request is None:
        return Refusing(bytearray(exchange.frame), None, [])  # the router tells what is wrong with it
    if exchange.api_key == ApiKey.PRODUCE and request.acks == 0:
        raise ClosedOnPurpose(f"fault {rule.id} fails a request that gets no answer")
    if code in OF_PARTITIONS or (rule.match.names_places and code not in OF_SESSIONS):
        if exchange.api_key == ApiKey.FETCH:
            change = partial(fail_fetch, places=fetched_places(request, rule, known), code=code)
            request.max_wait_ms = request.min_bytes = 0
            return Refusing(encoded_request(exchange.frame, spec, exchange.version, request), change, [])
        if exchange.api_key == ApiKey.SHARE_FETCH:
            return _refusing_share_fetch(exchange, fetched_places(request, rule, known), code)
        if exchange.api_key in _TELL_TOPICS:
            return Refusing(bytearray(exchange.frame), _metadata_change(rule, code, known), [])
        if rule.match.names_places:
            return _refusing_some(exchange, rule, known)
    response = refusal(spec, request, exchange.version, code)
    return Refusing(None, None, _encoded(exchange, response))


def _refusing_share_fetch(exchange: Exchange, places: list[tuple[str | bytes, int]], code: int) -> Refusing:
    """Return the error for some partitions of a share session, which goes on: no record is acquired meanwhile."""
    spec, request = exchange.spec, exchange.request
    assert spec is not None
    request.max_wait_ms = request.min_bytes = request.max_bytes = 0
    for topic in request.topics:
        for each in topic.partitions:
            if (topic.topic_id, each.partition_index) in places:
                each.acknowledgement_batches = []
    change = partial(fail_fetch, places=places, code=code)
    return Refusing(encoded_request(exchange.frame, spec, exchange.version, request), change, [])


def _refusing_some(exchange: Exchange, rule: Rule, known: Known) -> Refusing:
    """Return the error for some topics or partitions; the others are served, unless the request names none."""
    spec, code = exchange.spec, rule.action.error
    assert spec is not None
    assert code is not None
    refused = exchange.request
    if not mentions_of(refused, known).all_topics:
        refused, others = (decoded_request(exchange.frame, spec) for _ in range(2))
        if split(refused, others, rule.meets, known):
            change = partial(fail_wanted, refused=refused, code=code, wanted=rule.meets, known=known)
            return Refusing(encoded_request(exchange.frame, spec, exchange.version, others), change, [])
    response = refusal_of_items(spec, refused, exchange.version, code)
    return Refusing(None, None, _encoded(exchange, response))


def _metadata_change(rule: Rule, code: int, known: Known) -> Change:
    whole_topic = rule.match.partition is None
    return partial(fail_metadata, code=code, meets=rule.meets, whole_topic=whole_topic, known=known)


def fetched_places(request: Any, rule: Rule, known: Known) -> list[tuple[str | bytes, int]]:
    """Return the partitions of a fetch and the session the rule is about; topics are named as in the request."""
    named = (_name_or_id(topic) for topic in request.topics)
    keys: dict[tuple[str | bytes, int], None] = {
        (name, partition_of(each) or 0): None
        for name, topic in zip(named, request.topics, strict=True)
        for each in topic.partitions
    }
    session = session_of(request)
    keys |= dict.fromkeys(() if session is None else known.fetched(session))
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            keys.pop((_name_or_id(topic), index), None)
    return [
        (topic, index)
        for topic, index in keys
        if rule.meets((topic if isinstance(topic, str) else known.topic_name(topic)) or "", index)
    ]


def _name_or_id(topic: Any) -> str | bytes:
    """Return the name of a fetched topic, or its id where the version has that."""
    name: str = getattr(topic, "topic", "")
    return name or bytes(topic.topic_id)


def change(exchange: Exchange, made: Change) -> Pieces:
    """Return the answer of the exchange with a change, or unchanged if the change does not fit."""
    response = exchange.response
    if response is None:
        return exchange.answer or []
    made(response)
    return _encoded(exchange, response)


def answer_change(exchange: Exchange, rule: Rule, known: Known) -> Change | None:
    """Return the change of an outgoing answer, beyond cutting and dropping."""
    action = rule.action
    changes: list[Change] = []
    if action.error is not None and action.applied and exchange.request is not None:
        changes.append(_applied(exchange, rule, action.error, known))
    if action.corrupt:
        changes.append(partial(corrupt, wanted=rule.meets, known=known))
    if action.throttle_ms:
        changes.append(partial(_throttle, throttle_ms=action.throttle_ms))

    def all_of_them(response: Any) -> None:
        for each in changes:
            each(response)

    return all_of_them if changes else None


def _applied(exchange: Exchange, rule: Rule, code: int, known: Known) -> Change:
    """Return the change of an answer for an error after the request had its effect."""
    request = exchange.request
    if exchange.api_key in _TELL_TOPICS:
        return _metadata_change(rule, code, known)
    of_places = rule.match.names_places or code in OF_PARTITIONS
    if exchange.api_key == ApiKey.FETCH or (exchange.api_key == ApiKey.SHARE_FETCH and of_places):
        return partial(fail_fetch, places=fetched_places(request, rule, known), code=code)
    if rule.match.names_places and not mentions_of(request, known).all_topics:
        keep(request, rule.meets, known)
        return partial(fail_wanted, refused=request, code=code, wanted=rule.meets, known=known)
    return partial(fail_all, refused=request, version=exchange.version, code=code)


def _throttle(response: Any, throttle_ms: int) -> None:
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = throttle_ms


def _encoded(exchange: Exchange, response: Any) -> Pieces:
    spec = exchange.spec
    assert spec is not None
    return encoded_response(response, spec, exchange.version, exchange.correlation_id) or exchange.answer or []
