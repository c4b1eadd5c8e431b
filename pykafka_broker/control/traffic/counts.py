"""What clients have asked and were answered, in sums.

Rule: counting costs clients nothing until somebody wants to see sums: then what the log still has is counted, and from
then on each entry as it is put away. Requests from inside are not among them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from struct import Struct

from pykafka_broker.control.traffic.exchange import Exchange
from pykafka_broker.control.traffic.mentions import Known
from pykafka_broker.control.traffic.request_log import RequestLog
from pykafka_broker.protocol.api_keys import ApiKey

_RECORD_COUNT = Struct(">i")
_RECORD_COUNT_AT = 57
NO_ERROR = "NONE"


class ApiSums:
    """Of one API in one version."""

    __slots__ = ("answer_bytes", "duration_ns", "request_bytes", "requests")

    def __init__(self) -> None:
        self.requests = self.duration_ns = self.request_bytes = self.answer_bytes = 0


class TopicSums:
    """Of one topic. Bytes are those of batches, as they are on the wire."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetch_requests",
        "failed_produce_requests",
        "messages_in",
        "total_fetch_requests",
        "total_produce_requests",
    )

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.messages_in = 0
        self.total_produce_requests = self.total_fetch_requests = self.failed_produce_requests = (
            self.failed_fetch_requests
        ) = 0


class RequestCounts:
    """Sums over all requests that were answered."""

    def __init__(self, log: RequestLog, known: Known) -> None:
        self._known = known
        self._log = log
        self.apis: defaultdict[tuple[str, int], ApiSums] = defaultdict(ApiSums)
        self.errors: Counter[tuple[str, str, str]] = Counter()  # by API, version and name of the error
        self.topics: defaultdict[str, TopicSums] = defaultdict(TopicSums)
        self.catch_up()
        for exchange in log.since():
            self._add(exchange)
        log.on_sealed = self._add_all

    def catch_up(self) -> None:
        """Count what the log has not put away yet."""
        if self._log.recent:
            self._log.seal()

    def _add_all(self, exchanges: Iterable[Exchange]) -> None:
        for exchange in exchanges:
            self._add(exchange)

    def _add(self, exchange: Exchange) -> None:
        api = exchange.api
        sums = self.apis[api, exchange.version]
        sums.requests += 1
        sums.duration_ns += exchange.duration_ns
        sums.request_bytes += exchange.request_bytes
        sums.answer_bytes += exchange.answer_bytes
        for error in exchange.errors or (NO_ERROR,):
            self.errors[api, str(exchange.version), error] += 1
        if exchange.api_key == ApiKey.PRODUCE:
            self._add_produce(exchange)
        elif exchange.api_key == ApiKey.FETCH:
            self._add_fetch(exchange)

    def _add_produce(self, exchange: Exchange) -> None:
        if exchange.request is None:
            return  # of a long request for many partitions only the beginning is kept
        refused = set()
        for topic in exchange.response.responses if exchange.response else ():
            refused |= {(self._name(topic), each.index) for each in topic.partition_responses if each.error_code}
        for topic in exchange.request.topic_data:
            name = self._name(topic)
            sums = self.topics[name]
            sums.total_produce_requests += 1
            for partition in topic.partition_data:
                records = partition.records
                if (name, partition.index) in refused:
                    sums.failed_produce_requests += 1
                elif records is not None:
                    sums.bytes_in += len(records)
                    if len(records) >= _RECORD_COUNT_AT + _RECORD_COUNT.size:
                        sums.messages_in += _RECORD_COUNT.unpack_from(records, _RECORD_COUNT_AT)[0]

    def _add_fetch(self, exchange: Exchange) -> None:
        for topic in exchange.response.responses if exchange.response else ():
            sums = self.topics[topic.topic or self._known.topic_name(topic.topic_id) or ""]
            sums.total_fetch_requests += 1
            for partition in topic.partitions:
                sums.failed_fetch_requests += bool(partition.error_code)
                sums.bytes_out += len(partition.records or b"")

    def _name(self, topic: object) -> str:
        name: str = getattr(topic, "name", "")
        return name or self._known.topic_name(getattr(topic, "topic_id", b"")) or ""
