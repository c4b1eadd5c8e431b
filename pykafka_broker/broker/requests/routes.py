"""The APIs on the listeners of a broker: modules and versions.

Rule: an API that is not in the table is not served, and the answer to ApiVersions is made from the table alone. A
module is imported at the first request for it, so that a start costs nothing for unused APIs. Versions are those of
the merged schemas unless a route narrows them, without versions of a release that was imported ahead: an emulation of
this release alone serves them.
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
    optional: offered only where a setting asks for the API (`OwnSettings.telemetry`); answered in any case.
    short: the module, below the same, that declares the API's short way with `@shortens`.
    """

    module: str
    min_version: int | None = None
    max_version: int | None = None
    forwarded: bool = False
    relayed: bool = False
    when_lost: ErrorCode = ErrorCode.NOT_COORDINATOR
    remembered: bool = False
    optional: bool = False
    short: str = ""


_STORAGE = ErrorCode.KAFKA_STORAGE_ERROR

ROUTES: dict[ApiKey, Route] = {
    ApiKey.PRODUCE: Route("produce", when_lost=_STORAGE, short="short_produce"),
    ApiKey.FETCH: Route("fetch", short="short_fetch"),
    ApiKey.LIST_OFFSETS: Route("log_offsets", remembered=True),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Route("log_offsets"),
    ApiKey.DELETE_RECORDS: Route("log_offsets"),
    ApiKey.METADATA: Route("metadata", when_lost=_STORAGE, remembered=True),
    ApiKey.SASL_HANDSHAKE: Route("sasl"),
    ApiKey.API_VERSIONS: Route("api_versions"),
    ApiKey.CREATE_TOPICS: Route("topics", when_lost=_STORAGE, forwarded=True),
    ApiKey.DELETE_TOPICS: Route("topics", when_lost=_STORAGE, forwarded=True),
    ApiKey.DESCRIBE_ACLS: Route("access"),
    ApiKey.CREATE_ACLS: Route("access", when_lost=_STORAGE, forwarded=True),
    ApiKey.DELETE_ACLS: Route("access", when_lost=_STORAGE, forwarded=True),
    ApiKey.DESCRIBE_CONFIGS: Route("configs"),
    ApiKey.SASL_AUTHENTICATE: Route("sasl"),
    ApiKey.CREATE_PARTITIONS: Route("topics", when_lost=_STORAGE, forwarded=True),
    ApiKey.ELECT_LEADERS: Route("replicas", when_lost=_STORAGE, forwarded=True),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Route("replicas", when_lost=_STORAGE, forwarded=True),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Route("replicas", relayed=True),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Route("access"),
    ApiKey.ALTER_CLIENT_QUOTAS: Route("access", when_lost=_STORAGE, forwarded=True),
    ApiKey.DESCRIBE_QUORUM: Route("cluster", relayed=True),
    ApiKey.UPDATE_FEATURES: Route("cluster", when_lost=_STORAGE, forwarded=True),
    ApiKey.DESCRIBE_CLUSTER: Route("cluster"),
    ApiKey.UNREGISTER_BROKER: Route("cluster", when_lost=_STORAGE, forwarded=True),
    ApiKey.UNREGISTER_CONTROLLER: Route("cluster", when_lost=_STORAGE, forwarded=True),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Route("telemetry", optional=True),
    ApiKey.PUSH_TELEMETRY: Route("telemetry", optional=True),
    ApiKey.LIST_CONFIG_RESOURCES: Route("configs"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Route("topics"),
    ApiKey.ADD_RAFT_VOTER: Route("cluster", relayed=True),
    ApiKey.REMOVE_RAFT_VOTER: Route("cluster", relayed=True),
    ApiKey.INIT_PRODUCER_ID: Route("init_producer_id"),
    ApiKey.ADD_PARTITIONS_TO_TXN: Route("transactions"),
    ApiKey.ADD_OFFSETS_TO_TXN: Route("transactions"),
    ApiKey.END_TXN: Route("transactions"),
    ApiKey.WRITE_TXN_MARKERS: Route("transaction_admin", when_lost=_STORAGE),
    ApiKey.TXN_OFFSET_COMMIT: Route("transactions"),
    ApiKey.DESCRIBE_PRODUCERS: Route("transaction_admin"),
    ApiKey.DESCRIBE_TRANSACTIONS: Route("transaction_admin"),
    ApiKey.LIST_TRANSACTIONS: Route("transaction_admin"),
    ApiKey.FIND_COORDINATOR: Route("find_coordinator", when_lost=_STORAGE),
    ApiKey.JOIN_GROUP: Route("classic_groups"),
    ApiKey.SYNC_GROUP: Route("classic_groups"),
    ApiKey.HEARTBEAT: Route("classic_groups"),
    ApiKey.LEAVE_GROUP: Route("classic_groups"),
    ApiKey.OFFSET_COMMIT: Route("group_offsets", short="short_offset_commit"),
    ApiKey.OFFSET_FETCH: Route("group_offsets"),
    ApiKey.OFFSET_DELETE: Route("group_offsets"),
    ApiKey.LIST_GROUPS: Route("group_admin"),
    ApiKey.DESCRIBE_GROUPS: Route("group_admin"),
    ApiKey.DELETE_GROUPS: Route("group_admin"),
    ApiKey.ALTER_CONFIGS: Route("configs", when_lost=_STORAGE),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Route("configs", when_lost=_STORAGE),
    ApiKey.DESCRIBE_LOG_DIRS: Route("replicas"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Route("replicas", when_lost=_STORAGE),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Route("consumer_group_heartbeat"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Route("group_admin"),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Route("streams_group_heartbeat"),
    ApiKey.STREAMS_GROUP_DESCRIBE: Route("group_admin"),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: Route("streams_group_heartbeat"),
    ApiKey.SHARE_GROUP_HEARTBEAT: Route("share_group_heartbeat"),
    ApiKey.SHARE_GROUP_DESCRIBE: Route("group_admin"),
    ApiKey.SHARE_FETCH: Route("share_fetch"),
    ApiKey.SHARE_ACKNOWLEDGE: Route("share_fetch"),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Route("share_group_state"),
    ApiKey.READ_SHARE_GROUP_STATE: Route("share_group_state"),
    ApiKey.WRITE_SHARE_GROUP_STATE: Route("share_group_state"),
    ApiKey.DELETE_SHARE_GROUP_STATE: Route("share_group_state"),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Route("share_group_state"),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Route("share_group_offsets"),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Route("share_group_offsets"),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Route("share_group_offsets"),
    ApiKey.CREATE_DELEGATION_TOKEN: Route("delegation_tokens", when_lost=_STORAGE),
    ApiKey.RENEW_DELEGATION_TOKEN: Route("delegation_tokens", when_lost=_STORAGE),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Route("delegation_tokens", when_lost=_STORAGE),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Route("delegation_tokens"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Route("access"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Route("access", when_lost=_STORAGE, forwarded=True),
}
