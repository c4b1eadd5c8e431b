"""The rights that each API needs: the table of Kafka's checks, with the answer to a client that lacks a right.

The names stand for what `test_authorization.py` has made: topics t and u, groups g (classic), c (consumer), s (share)
and k (streams) whose members read t, and the transactional id x with t in its transaction.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pykafka_broker.cluster.authorizer import CLUSTER_NAME
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType, ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from tests.broker.support import batch

TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTION_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
LEFT_OUT = None

Right = tuple[AclOperation, AclResourceType, str]


class Need(NamedTuple):
    """A check of rights: for a client with none of `rights` the answer has `error`, or leaves out what they are for."""

    error: ErrorCode | None
    rights: tuple[Right, ...]


class Asked(NamedTuple):
    """A request, and what it needs."""

    api_key: ApiKey
    version: int
    fields: dict[str, Any]
    needs: tuple[Need, ...]

    def __str__(self) -> str:
        return f"{self.api_key.name}-v{self.version}"


def topic(operation: AclOperation, name: str = "t", error: ErrorCode | None = TOPIC_DENIED) -> Need:
    return Need(error, ((operation, AclResourceType.TOPIC, name),))


def group(operation: AclOperation, name: str = "g", error: ErrorCode | None = GROUP_DENIED) -> Need:
    return Need(error, ((operation, AclResourceType.GROUP, name),))


def transaction(operation: AclOperation, error: ErrorCode | None = TRANSACTION_DENIED) -> Need:
    return Need(error, ((operation, AclResourceType.TRANSACTIONAL_ID, "x"),))


def cluster(*operations: AclOperation, error: ErrorCode = CLUSTER_DENIED) -> Need:
    """Return a check that any one of the operations on the cluster passes."""
    return Need(error, tuple((operation, AclResourceType.CLUSTER, CLUSTER_NAME) for operation in operations))


def either(first: Need, second: Need) -> Need:
    """Return a check that either of two rights passes; a client with neither gets the error of the second."""
    return Need(second.error, first.rights + second.rights)


ALTER, ALTER_CONFIGS, CLUSTER_ACTION, CREATE = (
    AclOperation.ALTER,
    AclOperation.ALTER_CONFIGS,
    AclOperation.CLUSTER_ACTION,
    AclOperation.CREATE,
)
DELETE, DESCRIBE, DESCRIBE_CONFIGS, READ, WRITE = (
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.READ,
    AclOperation.WRITE,
)

_RECORDS = bytes(batch(b"x", producer_id=9, producer_epoch=0, base_sequence=0, transactional=True))
_PLAIN_RECORDS = bytes(batch(b"x"))
_PRODUCER = {"transactional_id": "x", "producer_id": 0, "producer_epoch": 0}
_MEMBER = {"group_id": "g", "generation_id": 1, "member_id": "m"}
_STATE = {"group_id": "s", "topics": [{"topic_id": "t", "partitions": [{"partition": 0}]}]}
_SESSION = {"group_id": "s", "member_id": "m"}
_OFFSET = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
_ACL = {"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
_FILTER = {"resource_type_filter": 2, "pattern_type_filter": 3, "operation": 3, "permission_type": 3}
_TOPOLOGY = {"subtopologies": [{"subtopology_id": "0", "source_topics": ["t"]}]}
_CONFIGS: tuple[tuple[ConfigResourceType, str, Any], ...] = (
    (ConfigResourceType.TOPIC, "t", topic),
    (ConfigResourceType.GROUP, "g", group),
    (ConfigResourceType.BROKER, "1", cluster),
    (ConfigResourceType.BROKER_LOGGER, "1", cluster),
    (ConfigResourceType.CLIENT_METRICS, "m", cluster),
)


def _resource(kind: ConfigResourceType, name: str) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": name}]}


def _numbered(name: str, *numbers: Any) -> dict[str, Any]:
    return {"topics": [{name: "t", "partitions": list(numbers)}, {name: "u", "partitions": list(numbers)}]}


TABLE = [
    # Records
    Asked(
        ApiKey.PRODUCE,
        9,
        {
            "acks": 1,
            "transactional_id": "x",
            "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": _RECORDS}]}],
        },
        (transaction(WRITE), topic(WRITE)),
    ),
    Asked(
        ApiKey.PRODUCE,
        13,
        {"acks": 1, "topic_data": [{"topic_id": "t", "partition_data": [{"index": 0, "records": _PLAIN_RECORDS}]}]},
        (topic(WRITE),),
    ),
    Asked(
        ApiKey.FETCH,
        13,
        {"topics": [{"topic_id": "t", "partitions": [{"partition": 0, "partition_max_bytes": 1 << 20}]}]}
        | {"max_wait_ms": 0},
        (topic(READ),),
    ),
    Asked(
        ApiKey.FETCH,
        12,
        _numbered("topic", {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}) | {"max_wait_ms": 0},
        (topic(READ),),
    ),
    Asked(ApiKey.LIST_OFFSETS, 7, _numbered("name", {"partition_index": 0, "timestamp": -1}), (topic(DESCRIBE),)),
    Asked(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        _numbered("topic", {"partition": 0, "leader_epoch": 0}),
        (either(cluster(CLUSTER_ACTION), topic(DESCRIBE)),),
    ),
    Asked(ApiKey.DELETE_RECORDS, 2, _numbered("name", {"partition_index": 0, "offset": 0}), (topic(DELETE),)),
    Asked(
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        {"topics": [{"name": "t", "partition_indexes": [0]}, {"name": "u", "partition_indexes": [0]}]},
        (topic(READ),),
    ),
    # Topics
    Asked(ApiKey.METADATA, 12, {"topics": [{"name": "t"}, {"name": "u"}]}, (topic(DESCRIBE),)),
    Asked(ApiKey.METADATA, 12, {"topics": None}, (topic(DESCRIBE, error=LEFT_OUT),)),
    Asked(ApiKey.METADATA, 12, {"topics": [{"name": None, "topic_id": "t"}]}, (topic(DESCRIBE),)),
    Asked(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [{"name": "t"}, {"name": "u"}]}, (topic(DESCRIBE),)),
    Asked(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": []}, (topic(DESCRIBE, error=LEFT_OUT),)),
    Asked(
        ApiKey.CREATE_TOPICS,
        7,
        {"topics": [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("new", "newer")]},
        (either(cluster(CREATE), topic(CREATE, "new")), topic(DESCRIBE_CONFIGS, "new")),
    ),
    Asked(
        ApiKey.DELETE_TOPICS,
        6,
        {"topics": [{"name": "t"}, {"name": "u"}], "timeout_ms": 10_000},
        (either(cluster(DELETE), topic(DELETE)), either(cluster(DELETE), topic(DESCRIBE))),
    ),
    Asked(
        ApiKey.DELETE_TOPICS,
        6,
        {"topics": [{"name": None, "topic_id": "t"}], "timeout_ms": 10_000},
        (either(cluster(DELETE), topic(DELETE)), either(cluster(DELETE), topic(DESCRIBE))),
    ),
    Asked(
        ApiKey.CREATE_PARTITIONS,
        3,
        {"topics": [{"name": "t", "count": 2, "assignments": None}, {"name": "u", "count": 2, "assignments": None}]}
        | {"timeout_ms": 10_000},
        (topic(ALTER),),
    ),
    # Configs
    *(
        Asked(ApiKey.DESCRIBE_CONFIGS, 4, _resource(kind, name), (needs(DESCRIBE_CONFIGS),))
        for kind, name, needs in _CONFIGS
    ),
    *(
        Asked(ApiKey.ALTER_CONFIGS, 2, _resource(kind, name), (needs(ALTER_CONFIGS),))
        for kind, name, needs in _CONFIGS
        if kind != ConfigResourceType.BROKER_LOGGER
    ),
    *(
        Asked(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, _resource(kind, name), (needs(ALTER_CONFIGS),))
        for kind, name, needs in _CONFIGS
    ),
    Asked(ApiKey.LIST_CONFIG_RESOURCES, 1, {}, (cluster(DESCRIBE_CONFIGS),)),
    Asked(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {}, (cluster(DESCRIBE_CONFIGS),)),
    Asked(
        ApiKey.ALTER_CLIENT_QUOTAS,
        1,
        {"entries": [{"entity": [{"entity_type": "user", "entity_name": "a"}], "ops": []}]},
        (cluster(ALTER_CONFIGS),),
    ),
    # The cluster
    Asked(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": [{"name": "a"}]}, (cluster(DESCRIBE),)),
    Asked(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        {"deletions": [{"name": "a", "mechanism": 1}], "upsertions": []},
        (cluster(ALTER),),
    ),
    Asked(ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": None}, (cluster(DESCRIBE),)),
    Asked(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        2,
        {
            "dirs": [
                {"path": "/nowhere", "topics": [{"name": "t", "partitions": [0]}, {"name": "new", "partitions": []}]}
            ]
        },
        (cluster(ALTER),),
    ),
    Asked(ApiKey.ELECT_LEADERS, 2, {"topic_partitions": [{"topic": "t", "partitions": [0]}]}, (cluster(ALTER),)),
    Asked(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        0,
        {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [1]}]}]},
        (cluster(ALTER),),
    ),
    Asked(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, {"topics": None}, (cluster(DESCRIBE),)),
    Asked(ApiKey.UPDATE_FEATURES, 2, {"feature_updates": [], "validate_only": True}, (cluster(ALTER),)),
    Asked(ApiKey.UNREGISTER_BROKER, 0, {"broker_id": 2}, (cluster(ALTER),)),
    Asked(ApiKey.ADD_RAFT_VOTER, 0, {"voter_id": 2}, (cluster(ALTER),)),
    Asked(ApiKey.REMOVE_RAFT_VOTER, 0, {"voter_id": 2}, (cluster(ALTER),)),
    Asked(ApiKey.DESCRIBE_QUORUM, 2, {"topics": []}, (cluster(DESCRIBE),)),
    Asked(ApiKey.DESCRIBE_ACLS, 3, _FILTER, (cluster(DESCRIBE),)),
    Asked(ApiKey.CREATE_ACLS, 3, {"creations": [_ACL]}, (cluster(ALTER),)),
    Asked(ApiKey.DELETE_ACLS, 3, {"filters": [_FILTER]}, (cluster(ALTER),)),
    # Groups
    Asked(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g", "c"]}, (group(DESCRIBE),)),
    Asked(ApiKey.FIND_COORDINATOR, 3, {"key_type": 1, "key": "x"}, (transaction(DESCRIBE),)),
    Asked(
        ApiKey.FIND_COORDINATOR,
        6,
        {"key_type": 2, "coordinator_keys": ["s:AAAAAAAAAAAAAAAAAAAAAQ:0"]},
        (cluster(CLUSTER_ACTION),),
    ),
    Asked(
        ApiKey.JOIN_GROUP,
        4,
        {"group_id": "g", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 1000, "protocol_type": "consumer"},
        (group(READ),),
    ),
    Asked(ApiKey.SYNC_GROUP, 3, _MEMBER, (group(READ),)),
    Asked(ApiKey.HEARTBEAT, 3, _MEMBER, (group(READ),)),
    Asked(ApiKey.LEAVE_GROUP, 2, {"group_id": "g", "member_id": "m"}, (group(READ),)),
    Asked(ApiKey.LEAVE_GROUP, 5, {"group_id": "g", "members": [{"member_id": "m"}]}, (group(READ),)),
    Asked(
        ApiKey.OFFSET_COMMIT,
        9,
        {
            "group_id": "g",
            "topics": [{"name": "t", "partitions": [_OFFSET]}, {"name": "u", "partitions": [_OFFSET]}],
        },
        (group(READ), topic(READ)),
    ),
    Asked(
        ApiKey.OFFSET_COMMIT,
        10,
        {"group_id": "g", "topics": [{"topic_id": "t", "partitions": [_OFFSET]}]},
        (group(READ), topic(READ)),
    ),
    Asked(
        ApiKey.OFFSET_FETCH,
        10,
        {"groups": [{"group_id": "g", "topics": [{"topic_id": "t", "partition_indexes": [0]}]}]},
        (group(DESCRIBE), topic(DESCRIBE)),
    ),
    Asked(
        ApiKey.OFFSET_FETCH,
        9,
        {"groups": [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}]},
        (group(DESCRIBE), topic(DESCRIBE)),
    ),
    Asked(ApiKey.OFFSET_FETCH, 9, {"groups": [{"group_id": "g", "topics": None}]}, (topic(DESCRIBE, error=LEFT_OUT),)),
    Asked(
        ApiKey.OFFSET_DELETE,
        0,
        {"group_id": "g"} | _numbered("name", {"partition_index": 0}),
        (group(DELETE), topic(READ)),
    ),
    Asked(ApiKey.LIST_GROUPS, 5, {}, (either(cluster(DESCRIBE), group(DESCRIBE, error=LEFT_OUT)),)),
    Asked(ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["g", "none"]}, (group(DESCRIBE),)),
    Asked(ApiKey.DELETE_GROUPS, 2, {"groups_names": ["g", "none"]}, (group(DELETE),)),
    Asked(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        0,
        {"group_id": "c2", "member_id": "", "rebalance_timeout_ms": 1000, "topic_partitions": []}
        | {"subscribed_topic_names": ["t"]},
        (group(READ, "c2"), topic(DESCRIBE)),
    ),
    Asked(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": ["c"]}, (group(DESCRIBE, "c"), topic(DESCRIBE))),
    Asked(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        0,
        {"group_id": "k2", "member_id": "m", "process_id": "p", "rebalance_timeout_ms": 1000, "topology": _TOPOLOGY}
        | {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []},
        (group(READ, "k2"), topic(DESCRIBE)),
    ),
    Asked(ApiKey.STREAMS_GROUP_DESCRIBE, 0, {"group_ids": ["k"]}, (group(DESCRIBE, "k"), topic(DESCRIBE))),
    # Share groups
    Asked(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        1,
        {"group_id": "s2", "member_id": "m", "subscribed_topic_names": ["t"]},
        (group(READ, "s2"), topic(DESCRIBE)),
    ),
    Asked(ApiKey.SHARE_GROUP_DESCRIBE, 1, {"group_ids": ["s"]}, (group(DESCRIBE, "s"), topic(DESCRIBE))),
    Asked(
        ApiKey.SHARE_FETCH,
        1,
        _SESSION | {"max_wait_ms": 0, "topics": [{"topic_id": "t", "partitions": [{"partition_index": 0}]}]},
        (group(READ, "s"), topic(READ)),
    ),
    Asked(
        ApiKey.SHARE_ACKNOWLEDGE,
        1,
        _SESSION
        | {
            "share_session_epoch": 1,
            "topics": [
                {
                    "topic_id": "t",
                    "partitions": [
                        {
                            "partition_index": 0,
                            "acknowledgement_batches": [
                                {"first_offset": 0, "last_offset": 0, "acknowledge_types": b"\x01"}
                            ],
                        }
                    ],
                }
            ],
        },
        (group(READ, "s"), topic(READ)),
    ),
    *(
        Asked(api_key, 0, _STATE, (cluster(CLUSTER_ACTION),))
        for api_key in (
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE,
            ApiKey.WRITE_SHARE_GROUP_STATE,
            ApiKey.DELETE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        )
    ),
    Asked(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        0,
        {"groups": [{"group_id": "s", "topics": [{"topic_name": "t", "partitions": [0]}]}]},
        (group(DESCRIBE, "s"), topic(DESCRIBE)),
    ),
    Asked(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        0,
        {"groups": [{"group_id": "s", "topics": None}]},
        (topic(DESCRIBE, error=LEFT_OUT),),
    ),
    Asked(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        0,
        {"group_id": "s3", "topics": [{"topic_name": "t", "partitions": [{"partition_index": 0, "start_offset": 0}]}]},
        (group(READ, "s3"), topic(READ)),
    ),
    Asked(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        0,
        {"group_id": "s3", "topics": [{"topic_name": "t"}]},
        (group(DELETE, "s3"), topic(READ)),
    ),
    # Transactions
    Asked(
        ApiKey.INIT_PRODUCER_ID,
        4,
        {"transactional_id": None},
        (either(topic(WRITE), cluster(AclOperation.IDEMPOTENT_WRITE)),),
    ),
    Asked(
        ApiKey.INIT_PRODUCER_ID,
        4,
        {"transactional_id": "x", "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1},
        (transaction(WRITE),),
    ),
    Asked(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        {
            "v3_and_below_transactional_id": "x",
            "v3_and_below_topics": [{"name": "t", "partitions": [0]}, {"name": "u", "partitions": [0]}],
        },
        (transaction(WRITE), topic(WRITE)),
    ),
    Asked(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        4,
        {"transactions": [{"transactional_id": "x", "topics": [{"name": "t", "partitions": [0]}]}]},
        (cluster(CLUSTER_ACTION),),
    ),
    Asked(ApiKey.ADD_OFFSETS_TO_TXN, 3, _PRODUCER | {"group_id": "g"}, (transaction(WRITE), group(READ))),
    Asked(
        ApiKey.TXN_OFFSET_COMMIT,
        3,
        _PRODUCER
        | {"group_id": "g", "topics": [{"name": "t", "partitions": [_OFFSET]}, {"name": "u", "partitions": [_OFFSET]}]},
        (transaction(WRITE), group(READ), topic(READ)),
    ),
    Asked(ApiKey.END_TXN, 3, _PRODUCER, (transaction(WRITE),)),
    Asked(
        ApiKey.WRITE_TXN_MARKERS,
        1,
        {
            "markers": [
                {
                    "producer_id": 9,
                    "producer_epoch": 0,
                    "topics": [{"name": "t", "partition_indexes": [0]}, {"name": "new", "partition_indexes": []}],
                }
            ]
        },
        (cluster(ALTER, CLUSTER_ACTION),),
    ),
    Asked(
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        {"transactional_ids": ["x"]},
        (transaction(DESCRIBE), topic(DESCRIBE, error=LEFT_OUT)),
    ),
    Asked(ApiKey.LIST_TRANSACTIONS, 0, {}, (transaction(DESCRIBE, error=LEFT_OUT),)),
]

# What only a broker that passes for Kafka 4.4 serves; asked of a 4.4.0.
NEXT_TABLE = (
    Asked(
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
        0,
        {"group_id": "g", "member_id": "m", "topology_epoch": 0},
        (group(READ),),
    ),
    Asked(ApiKey.UNREGISTER_CONTROLLER, 0, {"controller_id": 2}, (cluster(ALTER),)),
)
NOTHING_TO_ASK = {
    ApiKey.API_VERSIONS: "comes before the client has a name",
    ApiKey.SASL_HANDSHAKE: "comes before the client has a name",
    ApiKey.SASL_AUTHENTICATE: "is how the client gets a name",
    ApiKey.DESCRIBE_CLUSTER: "everybody may see the brokers; only the authorized operations are of those who may ask",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "any client may push its metrics",
    ApiKey.PUSH_TELEMETRY: "any client may push its metrics",
    ApiKey.CREATE_DELEGATION_TOKEN: "one's own: nothing; another's: CreateTokens on that User, or 65",
    ApiKey.RENEW_DELEGATION_TOKEN: "nothing: whoever owns the token or may renew it, or 63",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "nothing: whoever owns the token or may renew it, or 63",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "one's own: nothing; others by Describe DelegationToken or DescribeTokens User",
}
