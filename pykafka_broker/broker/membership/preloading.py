"""The modules imported by a broker of a cluster before it registers.

Rule: what replicas, producers, consumers and transactions ask for is imported while nobody waits for the broker; all
other APIs, such as those of share groups, still cost nothing until their first request.

Why: a first request imports its modules on the event loop. On a machine with a load of 25 a broker gets a fiftieth of a
core, and the 150 modules behind a first produce, a first replica fetch and a first member of a group (0.13 s of CPU,
0.8 s where Python writes no bytecode) stop the loop for 5 to 40 s. A broker of a cluster is in sync by then: no record
with acks=all was acknowledged in all its partitions, and the controller heard no heartbeat and fenced it. A node alone
keeps nobody waiting but the client that asks, and starts faster without them.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from pykafka_broker.broker.requests.router import Endpoint
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.stored_keys import GROUP_RECORDS, METADATA_RECORDS, TRANSACTION_RECORDS

PRELOADED_APIS = (
    ApiKey.API_VERSIONS,
    ApiKey.METADATA,
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
)
_MODULES = (
    "broker.api.replica_fetch",
    "broker.coordinators.add_partitions_to_txn",
    "broker.coordinators.group_host",
    "broker.coordinators.transaction_host",
    "broker.coordinators.transaction_markers",
    "broker.partitions.followers",
    "broker.requests.controller_routes",
    "protocol.messages.allocate_producer_ids_response",
)


@cache  # many brokers of a process need it once
def preload() -> None:
    """Import the modules behind the APIs of `PRELOADED_APIS`, and the coordinators, with the records of all logs."""
    for api_key in PRELOADED_APIS:
        Endpoint(api_key)
    for name in _MODULES:
        import_module(f"pykafka_broker.{name}")
    for record in (*GROUP_RECORDS.values(), *TRANSACTION_RECORDS.values()):
        record.key_class()
        record.value_class()
    for metadata_record in METADATA_RECORDS.values():
        metadata_record.value_class()
