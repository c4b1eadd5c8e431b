"""The effect of each config key in this broker.

Rule: a key is *honoured* when code outside this package reads it (a test looks for the place); *refused* when ignoring
it would promise something that does not exist; *no effect* when it is accepted because nothing here depends on it. A
key that begins to work is added to the honoured ones.
"""

from __future__ import annotations

import re

from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.config.group import limits_of
from pykafka_broker.config.registry import broker_keys, group_keys, topic_keys

EFFECTS = ("honoured", "no effect", "refused")

HONOURED_TOPIC = frozenset(
    [
        "cleanup.policy",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "follower.replication.throttled.replicas",
        "flush.messages",
        "flush.ms",
        "index.interval.bytes",
        "internal.segment.bytes",
        "leader.replication.throttled.replicas",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "preallocate",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
    ]
)

HONOURED_GROUP = frozenset(
    [
        "consumer.assignment.interval.ms",
        "consumer.heartbeat.interval.ms",
        "consumer.session.timeout.ms",
        "share.assignment.interval.ms",
        "share.auto.offset.reset",
        "share.delivery.count.limit",
        "share.heartbeat.interval.ms",
        "share.isolation.level",
        "share.partition.max.record.locks",
        "share.record.lock.duration.ms",
        "share.renew.acknowledge.enable",
        "share.session.timeout.ms",
        "streams.assignment.interval.ms",
        "streams.heartbeat.interval.ms",
        "streams.initial.rebalance.delay.ms",
        "streams.num.standby.replicas",
        "streams.session.timeout.ms",
    ]
)

HONOURED_CLIENT_METRICS: frozenset[str] = frozenset()

# A broker key is honoured too when a topic or group key falls back to it, or is limited by it.
HONOURED_BROKER = frozenset(
    [
        "add.partitions.to.txn.retry.backoff.max.ms",
        "add.partitions.to.txn.retry.backoff.ms",
        "advertised.host.name",
        "advertised.listeners",
        "advertised.port",
        "alter.config.policy.class.name",
        "authorizer.class.name",
        "auto.create.topics.enable",
        "auto.leader.rebalance.enable",
        "background.threads",
        "broker.heartbeat.interval.ms",
        "broker.id",
        "broker.rack",
        "broker.session.timeout.ms",
        "client.quota.callback.class",
        "connection.failed.authentication.delay.ms",
        "connections.max.idle.ms",
        "connections.max.reauth.ms",
        "controlled.shutdown.enable",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.fetch.max.bytes",
        "controller.quorum.fetch.snapshot.max.bytes",
        "controller.quorum.fetch.timeout.ms",
        "controller.quorum.retry.backoff.ms",
        "controller.quorum.voters",
        "controller.quota.window.num",
        "controller.quota.window.size.seconds",
        "cordoned.log.dirs",
        "create.topic.policy.class.name",
        "default.replication.factor",
        "delegation.token.expiry.check.interval.ms",
        "delegation.token.expiry.time.ms",
        "delegation.token.max.lifetime.ms",
        "delegation.token.secret.key",
        "delete.topic.enable",
        "fetch.max.bytes",
        "follower.replication.throttled.rate",
        "group.consumer.assignors",
        "group.consumer.max.size",
        "group.consumer.migration.policy",
        "group.consumer.regex.refresh.interval.ms",
        "group.coordinator.rebalance.protocols",
        "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms",
        "group.max.size",
        "group.min.session.timeout.ms",
        "group.share.max.share.sessions",
        "group.share.max.size",
        "group.streams.max.size",
        "host.name",
        "initial.broker.registration.timeout.ms",
        "inter.broker.listener.name",
        "leader.imbalance.check.interval.seconds",
        "leader.replication.throttled.rate",
        "listener.security.protocol.map",
        "listeners",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.enable",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.threads",
        "log.dir",
        "log.dir.failure.timeout.ms",
        "log.dirs",
        "log.flush.offset.checkpoint.interval.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
        "log.retention.check.interval.ms",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "max.incremental.fetch.session.cache.slots",
        "max.request.partition.size.limit",
        "metadata.log.dir",
        "metadata.log.max.record.bytes.between.snapshots",
        "metadata.log.max.snapshot.interval.ms",
        "metadata.log.segment.bytes",
        "metadata.log.segment.ms",
        "metadata.max.idle.interval.ms",
        "metadata.max.retention.bytes",
        "metadata.max.retention.ms",
        "node.id",
        "num.partitions",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "offset.metadata.max.bytes",
        "offsets.commit.timeout.ms",
        "offsets.retention.check.interval.ms",
        "offsets.retention.minutes",
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
        "port",
        "principal.builder.class",
        "process.roles",
        "producer.id.expiration.check.interval.ms",
        "producer.id.expiration.ms",
        "queued.max.request.bytes",
        "quota.window.num",
        "quota.window.size.seconds",
        "replica.fetch.backoff.ms",
        "replica.fetch.max.bytes",
        "replica.fetch.min.bytes",
        "replica.fetch.response.max.bytes",
        "replica.fetch.wait.max.ms",
        "replica.high.watermark.checkpoint.interval.ms",
        "replica.lag.time.max.ms",
        "replica.selector.class",
        "replica.socket.timeout.ms",
        "replication.quota.window.num",
        "replication.quota.window.size.seconds",
        "request.timeout.ms",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.login.callback.handler.class",
        "sasl.login.refresh.window.factor",
        "sasl.mechanism.controller.protocol",
        "sasl.mechanism.inter.broker.protocol",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.oauthbearer.jwt.validator.class",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.server.callback.handler.class",
        "sasl.server.max.receive.size",
        "security.inter.broker.protocol",
        "share.coordinator.cold.partition.snapshot.interval.ms",
        "share.coordinator.snapshot.update.records.per.snapshot",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.prune.interval.ms",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.segment.bytes",
        "share.coordinator.write.timeout.ms",
        "socket.listen.backlog.size",
        "socket.receive.buffer.bytes",
        "socket.request.max.bytes",
        "socket.send.buffer.bytes",
        "ssl.allow.dn.changes",
        "ssl.allow.san.changes",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.principal.mapping.rules",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "transaction.max.timeout.ms",
        "transaction.partition.verification.enable",
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        "transaction.state.log.min.isr",
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.segment.bytes",
        "transaction.two.phase.commit.enable",
        "transactional.id.expiration.ms",
    ]
)

# Names of Kafka's authorizer by ACLs, today and in releases with ZooKeeper.
STANDARD_AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)

# Classes of Python are called (security/hooks/); classes of Java are refused.
HOOKS = {
    "alter.config.policy.class.name": "veto changes",
    "authorizer.class.name": "say who may do what",
    "client.quota.callback.class": "set quotas",
    "create.topic.policy.class.name": "veto topics",
}

# Refused when set to something else than the default.
REFUSED = {
    "config.providers": "values are taken as they stand, so a reference to a provider would be used as the value",
    "remote.log.storage.system.enable": "there is no tiered storage",
    "ssl.engine.factory.class": "it names a Java class that would have to speak TLS",
}
REFUSED_TOPIC = {"remote.storage.enable": "there is no tiered storage"}

# Why a key has no effect, by name; the first fitting pattern counts.
_REASONS = [
    (re.compile(pattern), reason)
    for reason, pattern in (
        ("there is no ZooKeeper", r"zookeeper\."),
        ("it is the client that looks at the broker's name", r"ssl\.endpoint"),
        ("TLS is OpenSSL's here", r"ssl\."),
        ("this broker gets tokens from files and by client credentials", r"sasl\.oauthbearer\.assertion"),
        ("a token or a ticket is got when this broker logs in", r"sasl\.(login|kerberos)"),
        ("clients of mechanisms are the project's own", r"sasl\.client"),
        ("no listener has such a mechanism", r"sasl\."),
        ("there is no tiered storage", r".*(remote\.|local\.retention)|follower\.fetch\.last\.tiered"),
        ("no quorum here has several voters", r"controller\.quorum"),
        ("nothing here depends on it yet", r"controll(er|ed)\."),
        ("links to other brokers have a time-out of their own", r"socket\.connection\.setup"),
        ("Kafka's own controllers don't look at it since KRaft", r"leader\.imbalance\.per"),
        ("what moves between directories is not throttled", r"alter\.log\.dirs"),
        ("one thread moves replicas, and sockets have the system's buffers", r".*replica"),
        ("listeners open when their node may serve", r"early\.start"),
        ("one event loop serves everything", r".*threads|.*thread\.pool\.size"),
        ("there is no such buffer", r".*purgatory\.purge|queued\.max\.requests|.*(cached|load|cleaner\.io)\.buffer"),
        ("what a coordinator writes is appended at once", r".*append\.linger|.*write\.timeout|offsets\.commit\.t"),
        ("nothing is copied from another broker", r".*quota|.*throttle|alter\.log\.dirs"),
        ("there are no metrics reporters", r".*metric|telemetry|auto\.include\.jmx|interval\.ms$|match$"),
        ("there is no Java", r"security\.providers"),
        ("internal to Kafka", r"internal\.|unstable\."),
    )
]


def effect_of(scope: str, name: str) -> tuple[str, str]:
    """Return a key's effect and the reason, or an empty text, by scope: broker, topic, group or client-metrics."""
    if name in _HONOURED[scope]:
        return "honoured", ""
    refused = {"broker": REFUSED, "topic": REFUSED_TOPIC}.get(scope, {})
    if name in refused:
        return "refused", refused[name]
    keys = {"broker": broker_keys, "topic": topic_keys, "group": group_keys}.get(scope)
    if keys is not None and keys()[name].removed:
        return ("refused" if scope == "topic" else "no effect"), "removed in Kafka 4.0"
    reason = next((reason for pattern, reason in _REASONS if pattern.match(name)), "nothing here depends on it yet")
    return "no effect", reason


def has_no_effect(name: str) -> bool:
    """Return whether a broker key is known without any effect."""
    return name in broker_keys() and effect_of("broker", name)[0] == "no effect"


def refusals(config: BrokerConfig) -> list[str]:
    """Return a line for each static setting refused by the broker."""
    lines = [
        f"Invalid value {config.static[name]} for configuration {name}: {reason}"
        for name, reason in REFUSED.items()
        if name in config.static and config[name] != broker_keys()[name].default
    ]
    for name, work in HOOKS.items():
        if config[name] and ":" not in config[name] and config[name] not in STANDARD_AUTHORIZERS:
            reason = f"it names a Java class that would have to {work}"
            lines.append(f"Invalid value {config[name]} for configuration {name}: {reason}")
    return lines + _refused_roles(config)


def _refused_roles(config: BrokerConfig) -> list[str]:
    """Refuse a quorum of several voters, which is Apache Kafka's business."""
    from pykafka_broker.config.roles import roles_of  # which reads settings, and so stands above them

    roles = roles_of(config)
    if not roles.controller:
        return []
    if not roles.broker and roles.alone:
        reason = "a controller alone needs one of controller.listener.names among its listeners"
        return [f"Invalid value controller for configuration process.roles: {reason}"]
    several = len(roles.voters) > 1 or (not roles.voters and len(roles.bootstrap) > 1)
    if several or (roles.voters and config.node not in roles.voters):
        name = "controller.quorum.voters" if roles.voters else "controller.quorum.bootstrap.servers"
        reason = "this node can be the only voter, or a broker of Apache Kafka's controllers (process.roles=broker)"
        return [f"Invalid value {','.join(config[name])} for configuration {name}: {reason}"]
    return []


def _with_synonyms() -> frozenset[str]:
    derived = set(HONOURED_BROKER)
    for keys, honoured in ((topic_keys(), HONOURED_TOPIC), (group_keys(), HONOURED_GROUP)):
        for name in honoured:
            derived.update(synonym for synonym, _ in keys[name].synonyms)
    for name in HONOURED_GROUP:
        derived.update(limit for limit in limits_of(name) if limit is not None)
    return frozenset(derived)


_HONOURED = {
    "broker": _with_synonyms(),
    "topic": HONOURED_TOPIC,
    "group": HONOURED_GROUP,
    "client-metrics": HONOURED_CLIENT_METRICS,
}
