"""The messages that are written and read most. Rule: a message is here for its rate, and the reason stands beside it.

Their code is flat where a broker runs it: one function per layout of the whole message, with everything inlined.
Elsewhere each struct has functions of its own: half of the lines, and 1.2 to 2.5 times the CPU time. The rates were
counted while clients of all kinds produced, consumed, committed transactions and acknowledged records.
"""

from __future__ import annotations

from typing import NamedTuple

PAIRS = {
    "Produce": "each batch of records",
    "Fetch": "each batch of records; a consumer or follower that waits asks twice a second",
    "ShareFetch": "each batch of records of a share group",
    "ShareAcknowledge": "each batch of records of a share group",
    "ListOffsets": "each start of a consumer, and lag monitors for all partitions",
    "Metadata": "each start of a client, and the answer names every partition",
    "ApiVersions": "each connection",
    "FindCoordinator": "each start of a group member or transactional producer",
    "OffsetCommit": "each commit, for all partitions of the member",
    "OffsetFetch": "each start of a group member, and lag monitors for all partitions",
    "Heartbeat": "each member, every few seconds",
    "ConsumerGroupHeartbeat": "each member, every few seconds",
    "ShareGroupHeartbeat": "each member, every few seconds",
    "JoinGroup": "each member at each rebalance",
    "SyncGroup": "each member at each rebalance",
    "InitProducerId": "each start of an idempotent producer",
    "AddPartitionsToTxn": "each transaction",
    "TxnOffsetCommit": "each transaction",
    "EndTxn": "each transaction",
    "WriteTxnMarkers": "each transaction",
    "BrokerHeartbeat": "each broker, every two seconds",
}

# Requests that brokers send each other, and those that carry records: both sides of both messages are flat.
BOTH_SIDES = {"Produce", "Fetch", "AddPartitionsToTxn", "WriteTxnMarkers", "BrokerHeartbeat"}

OTHERS = {
    "RequestHeader",  # each request
    "ResponseHeader",  # each request that other brokers are asked
    "EndTxnMarker",  # each partition of each transaction
    "OffsetCommitKey",  # each partition of each commit
    "OffsetCommitValue",
    "TransactionLogKey",  # each step of each transaction
    "TransactionLogValue",
    "ShareUpdateKey",  # each acknowledgement
    "ShareUpdateValue",
    "TopicRecord",  # each topic at each start
    "PartitionRecord",  # each partition at each start
    "PartitionChangeRecord",  # each partition at each start or death of a broker
}

# Requests whose elements take twice the time of those of Metadata to answer, by `python -m bench.turns`: they may have
# half as many.
_SLOW = {
    "DescribeGroupsRequest",
    "DeleteGroupsRequest",
    "ConsumerGroupDescribeRequest",
    "ShareGroupDescribeRequest",
    "StreamsGroupDescribeRequest",
    "StreamsGroupHeartbeatRequest",
    "DescribeTopicPartitionsRequest",
    "ShareFetchRequest",
    "ShareAcknowledgeRequest",
    "InitializeShareGroupStateRequest",
    "ReadShareGroupStateRequest",
    "DeleteShareGroupStateRequest",
    "ReadShareGroupStateSummaryRequest",
    "TxnOffsetCommitRequest",
    "OffsetDeleteRequest",
    "AlterConfigsRequest",
    "IncrementalAlterConfigsRequest",
    "DeleteTopicsRequest",
}


def flat_writer(message: str) -> bool:
    """Return whether the writers of a message are flat: for hot responses, and for requests between brokers."""
    return message in OTHERS or _pair(message, "Response") in PAIRS or _pair(message, "Request") in BOTH_SIDES


def flat_reader(message: str) -> bool:
    """Return whether the readers of a message are flat: for hot requests, and for responses between brokers."""
    return message in OTHERS or _pair(message, "Request") in PAIRS or _pair(message, "Response") in BOTH_SIDES


def _pair(message: str, kind: str) -> str | None:
    """Return the common name of request and response, if the message is of the given kind."""
    return message.removesuffix(kind) if message.endswith(kind) else None


def bound(message: str) -> str:
    """Return the name in `runtime.py` of the bound on the elements of a request."""
    return "FEWER_ELEMENTS" if message in _SLOW else "MOST_ELEMENTS"


# -- messages with a single form (see singles.py)

ONE = "one"  # an array of exactly one element
AT_MOST_ONE = "at most one"  # the number of elements is a value too
NONE = "none"  # null where it may be null, else empty
DEFAULT = "default"


class SingleForm(NamedTuple):
    """The form of a message with one partition: what its fields must be, from which version on."""

    first_version: int
    fields: dict[str, str]


SINGLES = {
    "ProduceRequest": SingleForm(3, {"transactional_id": NONE, "topic_data": ONE, "partition_data": ONE}),
    "ProduceResponse": SingleForm(
        3,
        {
            "responses": ONE,
            "partition_responses": ONE,
            "error_code": DEFAULT,
            "record_errors": NONE,
            "error_message": NONE,
            "throttle_time_ms": DEFAULT,
        },
    ),
    # from version 5 on there is no retention time
    "OffsetCommitRequest": SingleForm(5, {"group_instance_id": NONE, "topics": ONE, "partitions": ONE}),
    "OffsetCommitResponse": SingleForm(5, {"throttle_time_ms": DEFAULT, "topics": ONE, "partitions": ONE}),
    "FetchRequest": SingleForm(
        4, {"topics": AT_MOST_ONE, "partitions": ONE, "forgotten_topics_data": NONE, "rack_id": NONE}
    ),
    "FetchResponse": SingleForm(
        4,
        {
            "throttle_time_ms": DEFAULT,
            "error_code": DEFAULT,
            "responses": ONE,
            "partitions": ONE,
            "preferred_read_replica": DEFAULT,
        },
    ),
}
