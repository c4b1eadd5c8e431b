"""The request and the answer of a recorded exchange, to be read and changed.

Rule: a message that can't be read is None, and stays in the recording as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from pykafka_broker.control.traffic.exchange import (
    decoded_request,
    decoded_response,
    encoded_request,
    encoded_response,
)
from pykafka_broker.control.traffic.mentions import partition_of
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.enums import TopicPartition
from pykafka_broker.protocol.runtime import ZERO_UUID, EncodeError
from pykafka_broker.protocol.specs import ApiSpec
from pykafka_broker.testing.recording import Recorded

_PARTITIONS = ("partition_responses", "partition_data", "partitions")


class RecordedMessages:
    """An event with its messages; api_key is -1 for what is no exchange."""

    def __init__(self, event: Recorded) -> None:
        self.event = event
        self.api_key = int.from_bytes(event.request[:2], "big") if event.request else -1
        self.version = int.from_bytes(event.request[2:4], "big")
        self.spec: ApiSpec | None = SPECS.get(self.api_key)
        self.request: Any = None
        self.response: Any = None
        if self.spec is not None:
            self.request = decoded_request(event.request, self.spec)
            if event.response is not None:
                self.response = decoded_response(event.response, self.spec, self.version)

    def rewritten(self) -> Recorded:
        """Return the event with the messages as they are now."""
        request, response, spec = self.event.request, self.event.response, self.spec
        if spec is None:
            return self.event
        with suppress(EncodeError):
            if self.request is not None:
                request = bytes(encoded_request(request, spec, self.version, self.request))
            if response is not None and self.response is not None:
                correlation_id = int.from_bytes(response[:4], "big", signed=True)
                if pieces := encoded_response(self.response, spec, self.version, correlation_id):
                    response = b"".join(map(bytes, pieces))[4:]
        served = None if self.event.served is None else request
        return self.event._replace(request=request, response=response, served=served)


def partitions_in(topics: Iterable[Any], name_of: Callable[[bytes], str]) -> Iterator[tuple[TopicPartition, Any]]:
    """Yield the partitions of topics in a message, each with the struct that is about it. name_of: a topic's id."""
    for topic in topics:
        name = getattr(topic, "name", "") or getattr(topic, "topic", "")
        name = name or name_of(getattr(topic, "topic_id", ZERO_UUID))
        for each in next(getattr(topic, field) for field in _PARTITIONS if hasattr(topic, field)):
            yield TopicPartition(name, partition_of(each) or 0), each
