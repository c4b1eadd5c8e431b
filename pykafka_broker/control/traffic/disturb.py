"""What a fault makes of a request and of an answer.

Rule: both are functions of bytes; who serves the request in between, and when, is not asked here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from pykafka_broker.control.traffic import answers
from pykafka_broker.control.traffic.exchange import Exchange
from pykafka_broker.control.traffic.frames import decoded_request, encoded_request, encoded_response
from pykafka_broker.control.traffic.mentions import Known, keep
from pykafka_broker.control.traffic.rule import Rule
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import Pieces

Change = Callable[[Any], object]  # of a decoded response


class Refusing(NamedTuple):
    """How a request gets its error: what is served in its place, if anything, and what becomes of that answer."""

    frame: bytearray | None
    change: Change | None
    answer: Pieces


def refusing(exchange: Exchange, rule: Rule, known: Known) -> Refusing:
    """The error of `rule`, without any effect. Raises FrameError where the API has no room for it."""
    spec, request, code = exchange.spec, exchange.request, rule.action.error
    assert code is not None
    if spec is None or request is None:
        return Refusing(bytearray(exchange.frame), None, [])  # whoever serves it says what is wrong with it
    if exchange.api_key == ApiKey.PRODUCE and request.acks == 0:
        raise FrameError(f"fault {rule.id} fails a request that gets no answer")
    if code in answers.OF_PARTITIONS or (rule.match.names_places and code not in answers.OF_SESSIONS):
        if exchange.api_key == ApiKey.FETCH:
            change = partial(answers.told_of_fetch, places=fetched_places(request, rule, known), code=code)
            request.max_wait_ms = request.min_bytes = 0
            return Refusing(encoded_request(exchange.frame, spec, exchange.version, request), change, [])
        if exchange.api_key == ApiKey.METADATA:
            return Refusing(bytearray(exchange.frame), _metadata_change(rule, code, known), [])
        if rule.match.names_places:
            return _refusing_some(exchange, rule, known)
    response = answers.refusal(spec, request, exchange.version, code)
    return Refusing(None, None, _encoded(exchange, response))


def _refusing_some(exchange: Exchange, rule: Rule, known: Known) -> Refusing:
    """Only these topics or partitions; the others are served."""
    spec, code = exchange.spec, rule.action.error
    assert spec is not None
    assert code is not None
    refused, others = (decoded_request(exchange.frame, spec) for _ in range(2))
    change = partial(answers.told_of, refused=refused, code=code, wanted=rule.meets, known=known)
    if answers.split(refused, others, rule.meets, known):
        return Refusing(encoded_request(exchange.frame, spec, exchange.version, others), change, [])
    response = answers.refusal_of_items(spec, refused, exchange.version, code)
    return Refusing(None, None, _encoded(exchange, response))


def _metadata_change(rule: Rule, code: int, known: Known) -> Change:
    whole_topic = rule.match.partition is None
    return partial(answers.told_of_metadata, code=code, meets=rule.meets, whole_topic=whole_topic, known=known)


def fetched_places(request: Any, rule: Rule, known: Known) -> list[tuple[str | bytes, int]]:
    """What a fetch asks for, now or earlier in its session, that the rule is about; topics as they are named there."""
    keys = dict.fromkeys(
        (topic.topic or topic.topic_id, each.partition) for topic in request.topics for each in topic.partitions
    )
    keys |= dict.fromkeys(known.fetched(request.session_id) if request.session_id else ())
    for topic in request.forgotten_topics_data:
        for number in topic.partitions:
            keys.pop((topic.topic or topic.topic_id, number), None)
    return [
        (topic, number)
        for topic, number in keys
        if rule.meets((topic if isinstance(topic, str) else known.topic_name(topic)) or "", number)
    ]


def change(exchange: Exchange, made: Change) -> Pieces:
    """The answer of the exchange with that change; as it is where it does not decode or can't say so."""
    response = exchange.response
    if response is None:
        return exchange.answer or []
    made(response)
    return _encoded(exchange, response)


def answer_change(exchange: Exchange, rule: Rule, known: Known) -> Change | None:
    """What the rule says of an answer that leaves, beyond cutting and dropping it."""
    action = rule.action
    changes: list[Change] = []
    if action.error is not None and action.applied:
        changes.append(_applied(exchange, rule, action.error, known))
    if action.corrupt:
        changes.append(partial(answers.corrupt, wanted=rule.meets, known=known))
    if action.throttle_ms:
        changes.append(partial(_throttle, throttle_ms=action.throttle_ms))

    def all_of_them(response: Any) -> None:
        for each in changes:
            each(response)

    return all_of_them if changes else None


def _applied(exchange: Exchange, rule: Rule, code: int, known: Known) -> Change:
    """The error after the effect."""
    request = exchange.request
    if exchange.api_key == ApiKey.METADATA:
        return _metadata_change(rule, code, known)
    if exchange.api_key == ApiKey.FETCH:
        return partial(answers.told_of_fetch, places=fetched_places(request, rule, known), code=code)
    if rule.match.names_places:
        keep(request, rule.meets, known)
        return partial(answers.told_of, refused=request, code=code, wanted=rule.meets, known=known)
    return partial(answers.told_of_all, refused=request, version=exchange.version, code=code)


def _throttle(response: Any, throttle_ms: int) -> None:
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = throttle_ms


def _encoded(exchange: Exchange, response: Any) -> Pieces:
    spec = exchange.spec
    assert spec is not None
    pieces = encoded_response(response, spec, exchange.version, exchange.correlation_id)
    if pieces is None:
        return exchange.answer or []
    return pieces
