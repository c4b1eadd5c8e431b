"""Two recordings of an application: what its clients wrote and committed in the one, and otherwise in the other.

Rule: only what was acknowledged counts, by client and partition in the order in which it came. When it came, in which
batches and at which offsets is not compared; of a group's commits the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import zip_longest
from typing import Any

from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import ZERO_UUID
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records
from pykafka_broker.testing.recorded_messages import RecordedMessages
from pykafka_broker.testing.recording import Recorded, Recording

_CLIENT_ID_AT = 8  # its length, in a request
_COMMITS = (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT)
_NOTHING = "nothing"
Done = dict[str, list[str]]  # in order, by what and whom


def differing(recorded: Recording, other: Recording) -> Iterator[str]:
    """Yield the first difference of each client's records, transactions and commits in each partition."""
    before, now = done_in(recorded), done_in(other)
    for what in dict.fromkeys([*before, *now]):
        pairs = zip_longest(before.get(what, ()), now.get(what, ()), fillvalue=_NOTHING)
        for number, (one, two) in enumerate(pairs, 1):
            if one != two:
                yield f"{what}, number {number}: recorded {one}, now {two}"
                break


def done_in(recording: Recording) -> Done:
    """Return what clients did, in words."""
    names: dict[bytes, str] = {}
    done: Done = {}
    for event in recording.events:
        message = RecordedMessages(event)
        request, response = message.request, message.response
        if request is None or response is None:
            continue
        if message.api_key in (ApiKey.METADATA, ApiKey.CREATE_TOPICS):
            names |= {topic.topic_id: topic.name for topic in response.topics if topic.topic_id != ZERO_UUID}
        elif message.api_key == ApiKey.PRODUCE:
            refused = {(name, index) for name, index, error in _partitions(response.responses, names) if error}
            for topic in request.topic_data:
                name = names.get(topic.topic_id, "") or topic.name
                for each in topic.partition_data:
                    if (name, each.index) not in refused:
                        what = f"{_client_of(event)} writes {name}-{each.index}"
                        done.setdefault(what, []).extend(_records_of(each.records))
        elif message.api_key in _COMMITS:
            refused = {(name, index) for name, index, error in _partitions(response.topics, names) if error}
            for topic in request.topics:
                name = names.get(getattr(topic, "topic_id", ZERO_UUID), "") or topic.name
                for each in topic.partitions:
                    if (name, each.partition_index) not in refused:
                        done[f"{request.group_id} commits {name}-{each.partition_index}"] = [str(each.committed_offset)]
        elif message.api_key == ApiKey.END_TXN and not response.error_code:
            end = "commit" if request.committed else "abort"
            done.setdefault(f"{request.transactional_id} ends transactions", []).append(end)
    return done


def _partitions(topics: list[Any], names: dict[bytes, str]) -> Iterator[tuple[str, int, int]]:
    """Yield topic, index and error of the partitions in an answer."""
    for topic in topics:
        name = names.get(getattr(topic, "topic_id", ZERO_UUID), "") or topic.name
        partitions: list[Any] = getattr(topic, "partition_responses", None) or getattr(topic, "partitions", [])
        for each in partitions:
            yield name, getattr(each, "partition_index", getattr(each, "index", 0)), each.error_code


def _records_of(data: Any) -> Iterator[str]:
    with suppress(CorruptBatch):
        for header, batch in iter_batches(bytes(data or b"")):
            for each in iter_records(batch, header):
                headers = f" with {each.headers}" if each.headers else ""
                yield f"{each.key!r}: {each.value!r}{headers}"


def _client_of(event: Recorded) -> str:
    """Return the client id of a request."""
    begin = _CLIENT_ID_AT + 2
    size = int.from_bytes(event.request[_CLIENT_ID_AT:begin], "big", signed=True)
    return event.request[begin : begin + max(0, size)].decode(errors="replace")
