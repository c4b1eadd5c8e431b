"""The topics, groups and transaction that `rights.py` names: made by requests, on any broker that answers them.

Rule: `ask` sends one request of nested dictionaries and returns the answer; its provider chooses the broker.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import Fields
from tests.broker.rights import Asked

SMALL = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}


class Ask(Protocol):
    def __call__(self, api_key: ApiKey, version: int, /, **fields: Any) -> Any: ...


def made(kind: type[Any], fields: dict[str, Any], topic_id: Callable[[str], bytes]) -> Any:
    """Build a message from nested dictionaries. A topic id is given as the topic's name."""
    values = {}
    for name, value in fields.items():
        words = re.findall(r"\w+", str(kind.__init__.__annotations__[name]))
        structs = [getattr(sys.modules[kind.__module__], word, None) for word in words]
        struct = next((one for one in structs if isinstance(one, type) and issubclass(one, Fields)), None)
        if name == "topic_id" and isinstance(value, str):
            value = topic_id(value)
        elif struct is not None and isinstance(value, list):
            value = [made(struct, one, topic_id) for one in value]
        elif struct is not None and value is not None:
            value = made(struct, value, topic_id)
        values[name] = value
    return kind(**values)


def codes(answer: Any) -> Iterator[int]:
    """Yield every error code in an answer."""
    if isinstance(answer, list):
        for one in answer:
            yield from codes(one)
    elif isinstance(answer, Fields):
        for name in answer.__match_args__:
            value = getattr(answer, name)
            if name.endswith("error_code"):
                yield value
            else:
                yield from codes(value)


def make_world(do: Ask) -> None:
    """Make the topics, groups and transaction of `rights.py`. `do` takes care that each request succeeds."""
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("t", "u")]
    do(ApiKey.CREATE_TOPICS, 7, topics=topics)
    for kind, key in ((0, "g"), (1, "x")):
        do(ApiKey.FIND_COORDINATOR, 4, key_type=kind, coordinator_keys=[key])
    offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    do(ApiKey.OFFSET_COMMIT, 8, group_id="g", topics=[{"name": "t", "partitions": [offset]}])
    reads: dict[str, Any] = {"subscribed_topic_names": ["t"]}
    do(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, group_id="c", rebalance_timeout_ms=1000, topic_partitions=[], **reads)
    do(ApiKey.SHARE_GROUP_HEARTBEAT, 1, group_id="s", member_id="m", **reads)
    tasks: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    topology = {"subtopologies": [{"subtopology_id": "0", "source_topics": ["t"]}]}
    streams = {"process_id": "p", "rebalance_timeout_ms": 1000, "topology": topology, **tasks}
    do(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, group_id="k", member_id="m", **streams)
    producer = do(ApiKey.INIT_PRODUCER_ID, 2, transactional_id="x", transaction_timeout_ms=60_000)
    do(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[{"name": "t", "partitions": [0]}],
    )
    start = {"topic_name": "t", "partitions": [{"partition_index": 0}]}
    do(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, group_id="s3", topics=[start])


def prepare(ask: Ask, asked: Asked, wait_ms: int = 0) -> None:
    """Send the request that has to come before `asked`: a ShareFetch before a ShareAcknowledge."""
    if asked.api_key is ApiKey.SHARE_ACKNOWLEDGE:
        wanted = {"topics": [{"topic_id": "t", "partitions": [{"partition_index": 0}]}], "max_wait_ms": wait_ms}
        limits = {"min_bytes": 1, "max_bytes": 1 << 20, "max_records": 10}
        ask(ApiKey.SHARE_FETCH, 1, group_id="s", member_id="m", **wanted, **limits)
