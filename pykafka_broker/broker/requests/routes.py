"""The APIs on the listeners of a broker: modules and versions.

Rule: an API that is not in the table is not served, and the answer to ApiVersions is made from the table alone. A
module is imported at the first request for it, so that a start costs nothing for unused APIs. Versions are those of
the merged schemas unless a route narrows them.
"""

from __future__ import annotations

from typing import NamedTuple

from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode


class Route(NamedTuple):
    """The way of an API to its handler.

    module: below `pykafka_broker.broker.api`; declares the handler with `@handles`.
    relayed: a controller knows the answer best: another broker passes the request on.
    forwarded: only a controller decides. The handler is the decision, `(controller, context, request) -> Decision`,
        and is carried out where the controller is (`MetadataSource.submit`).
    when_lost: the error where the records of the answer will not be committed.
    remembered: a request with the same bytes gets the same answer until the metadata changes, without a call of the
        handler, where the handler has returned an `EncodedReply`.
    repeated: clients ask with the same bytes again and again, so a request is decoded once. Only for handlers that
        leave the request as it is.
    """

    module: str
    min_version: int | None = None
    max_version: int | None = None
    forwarded: bool = False
    relayed: bool = False
    when_lost: ErrorCode = ErrorCode.NOT_COORDINATOR
    remembered: bool = False
    repeated: bool = False


_STORAGE = ErrorCode.KAFKA_STORAGE_ERROR

ROUTES: dict[ApiKey, Route] = {
    ApiKey.PRODUCE: Route("produce", when_lost=_STORAGE),
    ApiKey.FETCH: Route("fetch"),
    ApiKey.LIST_OFFSETS: Route("list_offsets", repeated=True),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Route("offset_for_leader_epoch"),
    ApiKey.DELETE_RECORDS: Route("delete_records"),
    ApiKey.METADATA: Route("metadata", when_lost=_STORAGE, remembered=True),
    ApiKey.SASL_HANDSHAKE: Route("sasl"),
    ApiKey.API_VERSIONS: Route("api_versions"),
    ApiKey.CREATE_TOPICS: Route("create_topics", when_lost=_STORAGE, forwarded=True),
    ApiKey.DELETE_TOPICS: Route("delete_topics", when_lost=_STORAGE, forwarded=True),
    ApiKey.DESCRIBE_ACLS: Route("acls"),
    ApiKey.CREATE_ACLS: Route("acls", when_lost=_STORAGE, forwarded=True),
    ApiKey.DELETE_ACLS: Route("acls", when_lost=_STORAGE, forwarded=True),
    ApiKey.DESCRIBE_CONFIGS: Route("describe_configs"),
    ApiKey.SASL_AUTHENTICATE: Route("sasl"),
    ApiKey.CREATE_PARTITIONS: Route("create_partitions", when_lost=_STORAGE, forwarded=True),
    ApiKey.ELECT_LEADERS: Route("elect_leaders", when_lost=_STORAGE, forwarded=True),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Route("partition_reassignments", when_lost=_STORAGE, forwarded=True),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Route("partition_reassignments", relayed=True),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Route("client_quotas"),
    ApiKey.ALTER_CLIENT_QUOTAS: Route("client_quotas", when_lost=_STORAGE, forwarded=True),
    ApiKey.DESCRIBE_QUORUM: Route("describe_quorum", relayed=True),
    ApiKey.UPDATE_FEATURES: Route("update_features", when_lost=_STORAGE, forwarded=True),
    ApiKey.DESCRIBE_CLUSTER: Route("describe_cluster"),
    ApiKey.UNREGISTER_BROKER: Route("quorum_members", when_lost=_STORAGE, forwarded=True),
    ApiKey.LIST_CONFIG_RESOURCES: Route("list_config_resources"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Route("describe_topic_partitions"),
    ApiKey.ADD_RAFT_VOTER: Route("quorum_members", relayed=True),
    ApiKey.REMOVE_RAFT_VOTER: Route("quorum_members", relayed=True),
    ApiKey.INIT_PRODUCER_ID: Route("init_producer_id"),
    ApiKey.ADD_PARTITIONS_TO_TXN: Route("add_partitions_to_txn"),
    ApiKey.ADD_OFFSETS_TO_TXN: Route("add_offsets_to_txn"),
    ApiKey.END_TXN: Route("end_txn"),
    ApiKey.WRITE_TXN_MARKERS: Route("write_txn_markers", when_lost=_STORAGE),
    ApiKey.TXN_OFFSET_COMMIT: Route("txn_offset_commit"),
    ApiKey.DESCRIBE_PRODUCERS: Route("describe_producers"),
    ApiKey.DESCRIBE_TRANSACTIONS: Route("describe_transactions"),
    ApiKey.LIST_TRANSACTIONS: Route("list_transactions"),
    ApiKey.FIND_COORDINATOR: Route("find_coordinator", when_lost=_STORAGE),
    ApiKey.JOIN_GROUP: Route("join_group"),
    ApiKey.SYNC_GROUP: Route("sync_group"),
    ApiKey.HEARTBEAT: Route("heartbeat"),
    ApiKey.LEAVE_GROUP: Route("leave_group"),
    ApiKey.OFFSET_COMMIT: Route("offset_commit"),
    ApiKey.OFFSET_FETCH: Route("offset_fetch"),
    ApiKey.OFFSET_DELETE: Route("offset_delete"),
    ApiKey.LIST_GROUPS: Route("list_groups"),
    ApiKey.DESCRIBE_GROUPS: Route("describe_groups"),
    ApiKey.DELETE_GROUPS: Route("delete_groups"),
    ApiKey.ALTER_CONFIGS: Route("alter_configs", when_lost=_STORAGE),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Route("alter_configs", when_lost=_STORAGE),
    ApiKey.DESCRIBE_LOG_DIRS: Route("describe_log_dirs"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Route("alter_replica_log_dirs", when_lost=_STORAGE),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Route("consumer_group_heartbeat"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Route("consumer_group_describe"),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Route("streams_group_heartbeat"),
    ApiKey.STREAMS_GROUP_DESCRIBE: Route("streams_group_describe"),
    ApiKey.SHARE_GROUP_HEARTBEAT: Route("share_group_heartbeat"),
    ApiKey.SHARE_GROUP_DESCRIBE: Route("share_group_describe"),
    ApiKey.SHARE_FETCH: Route("share_fetch"),
    ApiKey.SHARE_ACKNOWLEDGE: Route("share_acknowledge"),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Route("share_group_state"),
    ApiKey.READ_SHARE_GROUP_STATE: Route("share_group_state"),
    ApiKey.WRITE_SHARE_GROUP_STATE: Route("share_group_state"),
    ApiKey.DELETE_SHARE_GROUP_STATE: Route("share_group_state"),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Route("share_group_state"),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Route("describe_share_group_offsets"),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Route("alter_share_group_offsets"),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Route("delete_share_group_offsets"),
    ApiKey.CREATE_DELEGATION_TOKEN: Route("delegation_tokens", when_lost=_STORAGE),
    ApiKey.RENEW_DELEGATION_TOKEN: Route("delegation_tokens", when_lost=_STORAGE),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Route("delegation_tokens", when_lost=_STORAGE),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Route("delegation_tokens"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Route("user_scram_credentials"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Route("user_scram_credentials", when_lost=_STORAGE, forwarded=True),
}

# Requests to a controller alone, and those of controllers of releases before 4.0 to brokers.

BETWEEN_NODES = frozenset(
    [
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.UPDATE_RAFT_VOTER,
    ]
)
