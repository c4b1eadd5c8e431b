"""Two answers to the same request compared, one recorded and one of today, or what clients did in two recordings.

Rule, of answers: ids that a broker chooses (of topics, members, producers, fetch sessions, nodes, the cluster) are
learnt from the answers and put into later requests. What differs by nature is not compared: addresses, throttling, the
epoch of the features, and of batches how records are gathered in them, times, checksums and producer ids. In a cluster
it is also how far followers are at the moment, and nodes are known from the beginning.

Rule, of recordings: only what was acknowledged counts, by client and partition in the order in which it came. When it
came, in which batches and at which offsets is not compared; of a group's commits the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from pykafka_broker.broker.api.produce_checks import MESSAGE_SETS_UP_TO
from pykafka_broker.control.traffic.exchange import decoded_request, decoded_response, encoded_request
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.runtime import ZERO_UUID, EncodeError, Fields, leaves, uuid_text
from pykafka_broker.records.conversion import iter_messages
from pykafka_broker.records.errors import CorruptBatch, TruncatedBatch, UnsupportedCompression
from pykafka_broker.records.header import HEADER_SIZE, MAGIC_OFFSET, Buffer, batch_of, iter_batches
from pykafka_broker.records.record import iter_records
from pykafka_broker.testing.recorded_messages import RecordedMessages, partitions_in
from pykafka_broker.testing.recording import BadRecording, Recorded, Recording

_MAGIC_OF_BATCHES = 2
_MOST_SHOWN = 60  # characters of a value
NODE = "node id"
_PRODUCER = "producer id"
_EPOCH = "producer epoch"
# Fields that a broker chooses, by the kind of id.
CHOSEN = {
    **dict.fromkeys(("topic_id", "topic_ids"), "topic id"),
    **dict.fromkeys(("member_id", "leader"), "member id"),
    **dict.fromkeys(("node_id", "broker_id", "leader_id", "controller_id", "replica_nodes", "isr_nodes"), NODE),
    **dict.fromkeys(("producer_id", "v3_and_below_producer_id", "ongoing_txn_producer_id"), _PRODUCER),
    "session_id": "fetch session",
    "cluster_id": "cluster id",
    "client_instance_id": "client instance id",
    "subscription_id": "subscription id",
}
_NOT_COMPARED = frozenset(
    {
        "host",
        "port",
        "throttle_time_ms",
        "log_append_time_ms",
        "acquisition_lock_timeout_ms",
        "finalized_features_epoch",
    }
)
# What a broker alone can know of its past and of its cluster: not compared where a recording does not tell its state.
_OF_ITS_PAST = frozenset(
    {
        *("leader_epoch", "high_watermark", "last_stable_offset", "log_start_offset", "offset", "replica_nodes"),
        *("isr_nodes", "offline_replicas", "brokers", "rack", "controller_id", "preferred_read_replica"),
        *("committed_leader_epoch", "producer_epoch", "ongoing_txn_producer_epoch", "end_offset"),  # of an epoch
    }
)
# How far the followers of a cluster are, and which nodes are there at the moment.
_OF_FOLLOWERS = frozenset(
    {"high_watermark", "last_stable_offset", "isr_nodes", "offline_replicas", "brokers", "node_endpoints"}
)
# Ids of producers, and the epochs that go with them.
_EPOCHS = {
    "producer_id": "producer_epoch",
    "v3_and_below_producer_id": "v3_and_below_producer_epoch",
    "ongoing_txn_producer_id": "ongoing_txn_producer_epoch",
}
_WITHOUT_ID = ("", 0, -1, bytes(16))
_FROM_0 = (NODE, _PRODUCER)  # of these 0 is an id
_NEVER_TWICE = ("topic id", "member id", _PRODUCER)  # a broker gives no two of these the same id


class Ids:
    """Ids that the recorded broker chose, and those of the target.

    of_partial: the recording does not tell the state before it.
    nodes: of a cluster, the target's broker for each recorded one; empty for a broker alone.

    was_early: whether the recorded one of the last two answers told an earlier leader of a partition than the other.
    """

    def __init__(self, of_partial: bool = False, nodes: Mapping[int, int] | None = None) -> None:
        self.was_early = False
        self._of_partial = of_partial
        self._of: dict[tuple[str, Any], Any] = {(NODE, each): here for each, here in (nodes or {}).items()}
        self._given: set[tuple[str, Any]] = set()  # ids of the target that may not come for another recorded id
        self._of_cluster = bool(self._of)
        self._ignored = _NOT_COMPARED | (_OF_FOLLOWERS if self._of_cluster else frozenset())
        self._ignored |= _OF_ITS_PAST if of_partial else frozenset()

    def put_into(self, frame: bytes) -> bytes:
        """Return a recorded request with the target's ids."""
        spec = SPECS.get(int.from_bytes(frame[:2], "big"))
        request = None if spec is None else decoded_request(frame, spec)
        if spec is None or request is None or not self._of:
            return frame
        for struct, name, value in leaves(request):
            if name in CHOSEN:
                if (epoch := _EPOCHS.get(name, "")) in struct.__match_args__:
                    setattr(struct, epoch, self._epoch(value, getattr(struct, epoch)))
                setattr(struct, name, self._target(name, value))
            elif name == "records" and value is not None:
                struct.records = self._rewritten(bytes(value))
        try:
            return bytes(encoded_request(frame, spec, int.from_bytes(frame[2:4], "big"), request))
        except EncodeError:
            return frame

    def _epoch(self, producer_id: int, epoch: int) -> int:
        """Return the target's epoch of a recorded producer."""
        found: int = self._of.get((_EPOCH, (producer_id, epoch)), epoch)
        return found

    def _target(self, name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [self._of.get((CHOSEN[name], each), each) for each in value]
        return self._of.get((CHOSEN[name], value), value)

    def _rewritten(self, records: bytes) -> bytes:
        """Return produced batches with the target's producer ids."""
        batches: list[Buffer] = []
        try:
            for header, batch in iter_batches(records):
                target = self._of.get((_PRODUCER, header.producer_id), header.producer_id)
                epoch = self._epoch(header.producer_id, header.producer_epoch)
                if (target, epoch) == (header.producer_id, header.producer_epoch):
                    batches.append(batch)
                else:
                    told = replace(header, producer_id=target, producer_epoch=epoch)
                    batches.append(batch_of(told, batch[HEADER_SIZE:]))
        except CorruptBatch:  # what a client sent is sent again as it was
            return records
        return b"".join(batches)

    def compared(self, request: bytes, recorded: bytes, replayed: bytes | None) -> Iterator[tuple[str, str, str]]:
        """Yield what differs between two answers to a request: the path, and both values. New ids are learnt."""
        self.was_early = False
        if replayed is None:
            yield "", "an answer", "none"
            return
        spec = SPECS.get(int.from_bytes(request[:2], "big"))
        version = int.from_bytes(request[2:4], "big")
        first = None if spec is None else decoded_response(recorded, spec, version)
        second = None if spec is None else decoded_response(replayed, spec, version)
        if first is None or second is None:
            if recorded[4:] != replayed[4:]:
                yield "", f"{len(recorded)} bytes", f"{len(replayed)} other bytes"
            return
        if self._of_cluster and spec is not None and spec.api_key == ApiKey.FETCH:
            self._keep_news(first, second)
        yield from self._fields(first, second, "")

    def _keep_news(self, recorded: Any, replayed: Any) -> None:
        """Leave errors in a cluster's answers to a Fetch, and partitions of which records were recorded. A Fetch is
        answered with the first records, so where it has some, other partitions may be late.
        """
        news = self._news(recorded, ids=True)
        found = {
            place: each
            for place, each in self._news(replayed).items()
            if each.error_code or (place in news and news[place].records)
        }
        late: set[tuple[Any, int]] = set()
        if any(each.records for each in found.values()):
            late = {
                place
                for place, each in news.items()
                if each.records and (place not in found or not (found[place].records or found[place].error_code))
            }
        for answer, kept, ids in ((recorded, news, True), (replayed, found, False)):
            for topic in answer.responses:
                name = self._topic(topic, ids)
                places = [(name, index) for index in sorted(each.partition_index for each in topic.partitions)]
                topic.partitions = [kept[place] for place in places if place in kept and place not in late]
            answer.responses = [each for each in answer.responses if each.partitions]

    def _news(self, answer: Any, ids: bool = False) -> dict[tuple[Any, int], Any]:
        """Return the partitions of an answer with errors or records. ids: its topics have the recorded ids."""
        return {
            (self._topic(topic, ids), each.partition_index): each
            for topic in answer.responses
            for each in topic.partitions
            if each.error_code or each.records or not ids
        }

    def _topic(self, topic: Any, ids: bool) -> Any:
        topic_id = getattr(topic, "topic_id", b"")
        return topic.topic or (self._of.get(("topic id", topic_id), topic_id) if ids else topic_id)

    def learn(self, request: bytes, recorded: bytes, replayed: bytes) -> None:
        """Learn the ids of two answers that are not compared."""
        for _ in self.compared(request, recorded, replayed):
            pass

    def _fields(self, recorded: Any, replayed: Any, path: str) -> Iterator[tuple[str, str, str]]:
        if self._of_cluster and _tells_earlier_leader(recorded, replayed):
            self.was_early = True
            return
        for name in recorded.__match_args__:
            if self._of_partial and _EPOCHS.get(name) in recorded.__match_args__:
                self._learn_epoch(recorded, replayed, name)
            if name not in self._ignored:
                at = f"{path}.{name}" if path else name
                yield from self._values(name, getattr(recorded, name), getattr(replayed, name), at)

    def _learn_epoch(self, recorded: Any, replayed: Any, name: str) -> None:
        """Learn the epoch of a producer that was there before the recording."""
        epoch = _EPOCHS[name]
        key = _EPOCH, (getattr(recorded, name), getattr(recorded, epoch))
        self._of.setdefault(key, getattr(replayed, epoch))

    def _values(self, name: str, recorded: Any, replayed: Any, path: str) -> Iterator[tuple[str, str, str]]:
        if isinstance(recorded, Fields) and isinstance(replayed, Fields):
            yield from self._fields(recorded, replayed, path)
        elif isinstance(recorded, list) and isinstance(replayed, list):
            if len(recorded) != len(replayed):
                yield path, f"{len(recorded)} of them", str(len(replayed))
            if all(isinstance(getattr(each, "name", None), str) for each in (*recorded, *replayed)):
                recorded, replayed = (sorted(each, key=_name) for each in (recorded, replayed))  # in no order
            for index, (one, other) in enumerate(zip(recorded, replayed, strict=False)):
                yield from self._values(name, one, other, f"{path}[{index}]")
        elif name in CHOSEN:
            kind = CHOSEN[name]
            known = self._of.get((kind, recorded))
            without = (-1,) if kind in _FROM_0 else _WITHOUT_ID
            if known is None and recorded not in without and replayed not in without:
                self._of[kind, recorded] = replayed
                if (kind, replayed) in self._given:
                    yield path, f"{_shown(recorded)}, a new id", f"{_shown(replayed)}, which came before"
                if kind in _NEVER_TWICE:
                    self._given.add((kind, replayed))
            elif (recorded if known is None else known) != replayed:
                yield path, _shown(recorded), _shown(replayed)
        elif name == "records":
            yield from _records(recorded, replayed, path, self._of_cluster)
        elif recorded != replayed:
            yield path, _shown(recorded), _shown(replayed)


def _tells_earlier_leader(recorded: Any, replayed: Any) -> bool:
    names = recorded.__match_args__
    return "leader_id" in names and "leader_epoch" in names and 0 <= recorded.leader_epoch < replayed.leader_epoch


def _name(struct: Any) -> str:
    return str(struct.name)


def _records(recorded: Any, replayed: Any, path: str, of_cluster: bool) -> Iterator[tuple[str, str, str]]:
    """Yield the first record that differs. How many there were already depends on the followers of a cluster."""
    for index, (one, other) in enumerate(zip_longest(_outline(recorded), _outline(replayed))):
        if of_cluster and (one is None or (other is None and index)):
            return
        if one != other:
            first, second = ("no further record" if each is None else _shown(each) for each in (one, other))
            yield path, first, second
            return


def _outline(records: Any) -> Iterator[Any]:
    """Yield offset, key, value and headers of each record; of a batch that can't be read, its bytes."""
    data = bytes(records or b"")
    if is_message_set(data):
        with suppress(CorruptBatch, UnsupportedCompression):  # what was fetched ends anywhere
            yield from ((each.offset, each.key, each.value, each.headers) for each in iter_messages(data))
        return
    at = 0
    try:
        for header, batch in iter_batches(data):
            at += len(batch)
            try:
                for record in iter_records(batch, header):
                    value = None if header.is_control else record.value  # of a marker: the epoch of its coordinator
                    yield record.offset, record.key, value, record.headers
            except CorruptBatch:
                yield header.base_offset, bytes(batch[HEADER_SIZE:])
    except TruncatedBatch:  # what was fetched ends anywhere
        pass
    except CorruptBatch:
        yield data[at:]


def is_message_set(data: bytes) -> bool:
    """Return whether records are of a format before batches."""
    return len(data) > MAGIC_OFFSET and data[MAGIC_OFFSET] < _MAGIC_OF_BATCHES


def _shown(value: Any) -> str:
    text = uuid_text(value) if isinstance(value, bytes) and len(value) == 16 else repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


# -- recordings


_CLIENT_ID_AT = 8  # its length, in a request
_COMMITS = (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT)
_NOTHING = "nothing"
Done = dict[str, list[str]]  # in order, by what and whom


def differing(recorded: Recording, other: Recording) -> Iterator[str]:
    """Yield the first difference of each client's records, transactions and commits in each partition.

    Raises:
        BadRecording: there are none in either recording, so that nothing could differ.
    """
    before, now = done_in(recorded), done_in(other)
    if not before and not now:
        raise BadRecording("neither recording has a write or a commit that was acknowledged: nothing could differ")
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
            for partition, each in _accepted(request.topic_data, response.responses, names):
                written = _records_of(bytes(each.records or b""), message.version)
                done.setdefault(f"{_client_of(event)} writes {partition}", []).extend(written)
        elif message.api_key in _COMMITS:
            for partition, each in _accepted(request.topics, response.topics, names):
                done[f"{request.group_id} commits {partition}"] = [str(each.committed_offset)]
        elif message.api_key == ApiKey.END_TXN and not response.error_code:
            end = "commit" if request.committed else "abort"
            done.setdefault(f"{request.transactional_id} ends transactions", []).append(end)
    return done


def _accepted(asked: list[Any], told: list[Any], names: Mapping[bytes, str]) -> Iterator[tuple[str, Any]]:
    """Yield the partitions of a request that the answer tells no error of, each with the struct of the request."""

    def name_of(topic_id: bytes) -> str:
        return names.get(topic_id, "")

    refused = {partition for partition, each in partitions_in(told, name_of) if each.error_code}
    for partition, each in partitions_in(asked, name_of):
        if partition not in refused:
            yield f"{partition.topic}-{partition.partition}", each


def _records_of(data: bytes, version: int) -> Iterator[str]:
    """Yield the records of a Produce, in words."""
    records = iter_messages(data)
    if version > MESSAGE_SETS_UP_TO:
        records = (each for header, batch in iter_batches(data) for each in iter_records(batch, header))
    with suppress(CorruptBatch, UnsupportedCompression):
        for each in records:
            headers = f" with {each.headers}" if each.headers else ""
            yield f"{each.key!r}: {each.value!r}{headers}"


def _client_of(event: Recorded) -> str:
    """Return the client id of a request."""
    begin = _CLIENT_ID_AT + 2
    size = int.from_bytes(event.request[_CLIENT_ID_AT:begin], "big", signed=True)
    return event.request[begin : begin + max(0, size)].decode(errors="replace")
