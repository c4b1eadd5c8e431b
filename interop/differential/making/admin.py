"""Requests of administrators: cluster, quotas, ACLs, tokens, credentials, features, coordinators, unknown versions."""

from __future__ import annotations

from typing import Any

from interop.differential.making import topics
from interop.differential.making.maker import Area, Maker
from interop.differential.steps import BY_NAME, Step

QUOTAS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
NOT_FOR_CLIENTS = (
    "Vote", "BeginQuorumEpoch", "FetchSnapshot", "Envelope",
    "AlterPartition", "BrokerHeartbeat", "BrokerRegistration", "AllocateProducerIds", "AssignReplicasToDirs",
    "ControllerRegistration", "LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown",
)  # fmt: skip


SHARE = 2  # the kind of coordinator


def cluster(maker: Maker) -> list[Step]:
    version = maker.version("DescribeCluster")
    fields: dict[str, Any] = {"include_cluster_authorized_operations": maker.often(0.5)}
    if version >= 1:
        fields["endpoint_type"] = maker.mostly(1, 2, 0, 3)
    if version >= 2:
        fields["include_fenced_brokers"] = maker.often(0.5)
    return maker.step("DescribeCluster", fields, version=version)


def entity(maker: Maker) -> list[dict[str, Any]]:
    user = {"entity_type": "user", "entity_name": maker.mostly("§u", None, "", share=0.8)}
    client = {"entity_type": "client-id", "entity_name": maker.mostly("§c", None, "", share=0.8)}
    ip = {"entity_type": "ip", "entity_name": maker.mostly("127.0.0.9", None, "not an address", share=0.8)}
    bad = {"entity_type": maker.one("nonsense", ""), "entity_name": "x"}
    return maker.mostly(maker.one([user], [client], [user, client], [ip]), [bad], [], [user, ip], [user, user])


def alter_quotas(maker: Maker) -> list[Step]:
    op = {
        "key": maker.mostly(maker.one(*QUOTAS), "nonsense", ""),
        "value": maker.mostly(maker.one(1000.0, 5.5, 100.0), 0.0, -1.0, 1e30),
        "remove": maker.often(0.25),
    }
    entities = [entity(maker) for _ in range(maker.one(1, 1, 2))]
    # Kafka refuses an entity that is named twice, but has applied the first of the two.
    entries = [{"entity": one, "ops": [op]} for one in {str(one): one for one in entities}.values()]
    return maker.step("AlterClientQuotas", {"entries": entries, "validate_only": maker.often(0.2)})


def describe_quotas(maker: Maker) -> list[Step]:
    components = [
        {"entity_type": kind, "match_type": 0, "match": name}
        for kind, name in maker.some([("user", "§u"), ("client-id", "§c"), ("ip", "127.0.0.9")], 2)
    ]
    if maker.often(0.2):
        components = [
            {"entity_type": maker.mostly("user", "nonsense", ""), "match_type": maker.one(1, 3, 0), "match": None}
        ]
    return maker.step("DescribeClientQuotas", {"components": components, "strict": maker.often(0.4)})


def acls(maker: Maker) -> list[Step]:
    api = maker.one("DescribeAcls", "CreateAcls", "DeleteAcls")
    looked_for = {
        "resource_type_filter": maker.one(1, 2, 3, 0, 99),
        "resource_name_filter": maker.one("§a", None),
        "principal_filter": maker.one("User:x", None),
        "host_filter": maker.one("*", None),
        "operation": maker.one(1, 2, 3, 0),
        "permission_type": maker.one(1, 2, 3, 0),
    }
    version = maker.version(api)
    if version >= 1:
        looked_for["pattern_type_filter"] = maker.mostly(maker.one(1, 2, 3, 4), 0, 9)
    if api == "DescribeAcls":
        return maker.step(api, looked_for, version=version)
    if api == "DeleteAcls":
        return maker.step(api, {"filters": [looked_for] * maker.one(1, 2)}, version=version)
    made = {
        "resource_type": maker.one(2, 3, 99),
        "resource_name": maker.one("§a", "", "kafka-cluster"),
        "principal": maker.one("User:x", "nonsense"),
        "host": "*",
        "operation": maker.one(2, 3, 0),
        "permission_type": maker.one(3, 2, 0),
    }
    if version >= 1:
        made["resource_pattern_type"] = maker.mostly(maker.one(3, 4), 0, 1, 2, 9)
    return maker.step(api, {"creations": [made] * maker.one(1, 2)}, version=version)


def tokens(maker: Maker) -> list[Step]:
    asked: list[tuple[str, dict[str, Any]]] = [
        ("CreateDelegationToken", {"max_lifetime_ms": 1000}),
        ("CreateDelegationToken", {"renewers": [{"principal_type": "User", "principal_name": "§u"}]}),
        ("CreateDelegationToken", {"owner_principal_type": "User", "owner_principal_name": "§u"}),
        ("RenewDelegationToken", {"hmac": {"hex": "00"}, "renew_period_ms": 5}),
        ("ExpireDelegationToken", {"hmac": {"hex": "00"}, "expiry_time_period_ms": 5}),
        (
            "DescribeDelegationToken",
            {"owners": maker.one(None, [], [{"principal_type": "User", "principal_name": "§u"}])},
        ),
    ]
    return maker.step(*maker.one(*asked))


def scram(maker: Maker) -> list[Step]:
    if maker.often(0.4):
        users = maker.one([{"name": "§u"}], [{"name": "§u"}, {"name": "§u"}], [{"name": ""}], [{"name": "§none"}])
        return maker.step("DescribeUserScramCredentials", {"users": users})
    mechanism = maker.mostly(maker.one(1, 2), 0, 3, 99)
    name = maker.mostly("§u", "", share=0.9)
    gone = {"name": name, "mechanism": mechanism}
    made = gone | {
        "iterations": maker.mostly(maker.one(4096, 8192), 0, 4095, 16385, -1),
        "salt": {"hex": "0102"},
        "salted_password": {"hex": maker.mostly("01" * 32, "", share=0.95)},
    }
    fields = maker.one(
        {"upsertions": [made]},
        {"upsertions": [made]},
        {"deletions": [gone]},
        {"deletions": [gone], "upsertions": [made]},
    )
    return maker.step("AlterUserScramCredentials", fields)


def features(maker: Maker) -> list[Step]:
    version = maker.version("UpdateFeatures")
    update: dict[str, Any] = {
        "feature": maker.mostly(maker.one("group.version", "transaction.version", "metadata.version"), "nonsense", ""),
        "max_version_level": maker.one(0, 1, 2, 99, -1, 20),
    }
    if version == 0:
        update["allow_downgrade"] = maker.often(0.5)
    else:
        update["upgrade_type"] = maker.one(1, 2, 3, 0, 9)
    fields: dict[str, Any] = {"feature_updates": [update] * maker.mostly(1, 2), "timeout_ms": 10_000}
    if version >= 1:
        fields["validate_only"] = True  # a feature changed would hold for all later sequences
    return maker.step("UpdateFeatures", fields, version=version) if version else []


def coordinator(maker: Maker) -> list[Step]:
    version = maker.version("FindCoordinator")
    kind = maker.mostly(maker.one(0, 1, SHARE), 3, -1)
    if version < 4:
        fields: dict[str, Any] = {"key": maker.mostly("§g", "")}
    elif kind == SHARE and maker.often(0.7):
        group, topic = maker.mostly("§g", "§g:h", "", " ", ":"), maker.mostly("A" * 22, "A" * 21, "A" * 22 + "==", "")
        fields = {"coordinator_keys": [f"{group}:{topic}:{maker.mostly(0, -1, '+1', '', 'x', 2**31)}"]}
    else:
        fields = {"coordinator_keys": maker.mostly(["§g"], ["§g", "§x"], [], [""], ["§g", "§g"])}
    return maker.step("FindCoordinator", fields | ({"key_type": kind} if version else {}), version=version)


def versions(maker: Maker) -> list[Step]:
    version = maker.mostly(maker.version("ApiVersions"), 99)
    name = maker.mostly("differential", "", "-bad", "a b")
    fields: dict[str, Any] = (
        {"client_software_name": name, "client_software_version": maker.mostly("1.0", "", "!")} if version >= 3 else {}
    )
    if version == 5 and maker.often(0.5):
        fields |= {"cluster_id": maker.one(None, "x", ""), "node_id": maker.one(-1, 1, 5)}
    return [Step("ApiVersions", version, fields, "versions")]


def unknown_version(maker: Maker) -> list[Step]:
    """Return a request in a version above all known ones; the broker closes the connection."""
    api = maker.one("Metadata", "Fetch", "FindCoordinator", "ListGroups", "DescribeCluster", "OffsetFetch")
    return [Step(api, BY_NAME[api].max_version + maker.one(1, 50), {}, "gone")]


def not_for_clients(maker: Maker) -> list[Step]:
    """Return a request that clients never send: one of controllers or brokers, or of old releases."""
    api = maker.one(*NOT_FOR_CLIENTS)
    spec = BY_NAME[api]
    return [Step(api, maker.one(spec.min_version, spec.max_version), {}, "gone")]


def quorum(maker: Maker) -> list[Step]:
    """Return a request about the quorum. Its own partition is left out: the answer about it changes all the time."""
    partition = {"partition_index": maker.mostly(0, 1, share=0.7)}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("UnregisterBroker", {"broker_id": maker.one(77, -1)}),
        ("UnregisterController", {"controller_id": maker.one(77, -1)}),
        ("AddRaftVoter", {"cluster_id": "nonsense", "voter_id": 7, "timeout_ms": 1000}),
        ("RemoveRaftVoter", {"cluster_id": "nonsense", "voter_id": 7}),
        ("DescribeQuorum", {"topics": [{"topic_name": maker.one("§a", ""), "partitions": [partition]}]}),
        ("DescribeQuorum", {"topics": []}),
    ]
    return maker.step(*maker.one(*asked))


def telemetry(maker: Maker) -> list[Step]:
    """Make requests of an unknown client; their versions are not offered where nothing receives metrics."""
    instance = {"client_instance_id": {"hex": f"{maker.rng.getrandbits(128) | 2:032x}"}}
    asked = Step("GetTelemetrySubscriptions", 0, instance, "telemetry")
    pushed = instance | {
        "subscription_id": maker.one(0, 5), "terminating": maker.often(0.3),
        "compression_type": maker.mostly(0, 4, 9), "metrics": {"hex": "00"},
    }  # fmt: skip
    return maker.some([asked, asked, Step("PushTelemetry", 0, pushed, "telemetry")])


def sasl(maker: Maker) -> list[Step]:
    """Return a SASL request to a listener without SASL."""
    handshake = Step("SaslHandshake", maker.one(0, 1), {"mechanism": maker.one("PLAIN", "")}, "sasl")
    return [maker.one(handshake, Step("SaslAuthenticate", maker.one(0, 2), {"auth_bytes": {"hex": "00"}}, "sasl"))]


AREA = Area(
    topics.start,
    [
        (cluster, 3), (alter_quotas, 6), (describe_quotas, 5), (acls, 4), (tokens, 2), (scram, 4), (features, 3),
        (coordinator, 4), (versions, 2), (unknown_version, 1), (quorum, 2), (sasl, 1), (telemetry, 1),
        (not_for_clients, 1),
    ],
)  # fmt: skip
