"""The types of a broker's answers to a test.

Rule: a type is a dict, as the control API has written it (`control/answers.py`). Nothing is converted, so an answer
costs nothing more than its JSON. A field that a cluster adds to the answers of its brokers is not required.
"""

from __future__ import annotations

from typing import NotRequired, TypeAlias

from pykafka_broker.control.answers import (
    Advice,
    ChaosHit,
    ChaosState,
    CommittedPartition,
    Connected,
    FaultAnswer,
    GroupSummary,
    LogSize,
    Member,
    Node,
    PartitionState,
    RecordingState,
    SeenRequestAnswer,
    Snapshot,
    Topic,
)
from pykafka_broker.control.answers import Cluster as ClusterState
from pykafka_broker.control.answers import GroupDetails as Group
from pykafka_broker.control.answers import TransactionDetails as Transaction

__all__ = [
    "Advice",
    "ChaosHit",
    "ChaosState",
    "ClusterState",
    "CommittedPartition",
    "ConfigValue",
    "Connection",
    "FaultState",
    "Group",
    "GroupSummary",
    "LogSize",
    "Member",
    "Node",
    "PartitionState",
    "RecordingState",
    "SeenRequest",
    "Snapshot",
    "Topic",
    "Transaction",
]

ConfigValue: TypeAlias = str | int | float | bool


class Connection(Connected):
    """A client's connection. `client_id` is None before the first request.

    `node_id` is the broker of a cluster.
    """

    node_id: NotRequired[int]


class SeenRequest(SeenRequestAnswer):
    """A client's request. `number` counts the broker's answers and is None while the request waits.

    `time` is its arrival in epoch milliseconds of the broker's clock; `response_bytes` is None without an answer;
    `errors` are the names of Kafka's errors in the answer; `fault` is the id of the fault that affected it. `request`
    and `response` are None unless bodies were asked for; `node_id` is the broker of a cluster.
    """

    node_id: NotRequired[int]


class FaultState(FaultAnswer):
    """A fault with all arguments, the number of affected requests (`hits`) and of requests held now (`held`).

    Of a cluster, `nodes` are the hits by broker, and `node_id` is the broker of a fault in a list.
    """

    nodes: NotRequired[dict[int, int]]
    node_id: NotRequired[int]
