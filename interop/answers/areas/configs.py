"""Configs of topics and brokers: described, altered, refused."""

from interop.answers.requests import create, new_topic
from interop.answers.script import Name, Script, scenario
from pykafka_broker.protocol.messages import alter_configs_request as full
from pykafka_broker.protocol.messages import incremental_alter_configs_request as incremental
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.list_config_resources_request import ListConfigResourcesRequest

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def describe(kind: int, name: str, *keys: str, every: bool = False, synonyms: bool = True) -> DescribeConfigsRequest:
    return DescribeConfigsRequest([DescribeConfigsResource(kind, name, None if every else list(keys))], synonyms)


def alter(
    kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> incremental.IncrementalAlterConfigsRequest:
    configs = [incremental.AlterableConfig(*change) for change in changes]
    return incremental.IncrementalAlterConfigsRequest(
        [incremental.AlterConfigsResource(kind, name, configs)], validate_only
    )


def replace(kind: int, name: str, values: dict[str, str | None]) -> full.AlterConfigsRequest:
    configs = [full.AlterableConfig(key, value) for key, value in values.items()]
    return full.AlterConfigsRequest([full.AlterConfigsResource(kind, name, configs)])


@scenario
def describe_topics(name: Name) -> Script:
    yield "create", create(new_topic(name("a"), configs={"retention.ms": "5000"}))
    yield "all", describe(TOPIC, name("a"), every=True)
    yield "all without synonyms", describe(TOPIC, name("a"), every=True, synonyms=False)
    yield "two", describe(TOPIC, name("a"), "retention.ms", "cleanup.policy")
    yield "none", describe(TOPIC, name("a"))
    yield "unknown key", describe(TOPIC, name("a"), "no.such.key")
    yield "unknown topic", describe(TOPIC, name("none"), "retention.ms")
    yield "bad topic", describe(TOPIC, "a b", "retention.ms")
    yield "no topic", describe(TOPIC, "", "retention.ms")


@scenario
def describe_brokers(name: Name) -> Script:
    some = ("log.retention.hours", "log.retention.ms", "message.max.bytes", "num.partitions", "log.segment.bytes")
    yield "one broker", describe(BROKER, "1", *some)
    yield "all brokers", describe(BROKER, "", *some)
    yield "unknown broker", describe(BROKER, "77", *some)
    yield "no number", describe(BROKER, "x", *some)
    yield "unknown type", describe(99, "x")
    yield "group", describe(GROUP, name("g"), every=True)
    yield "client metrics", describe(CLIENT_METRICS, name("m"), every=True)


@scenario
def alter_topics(name: Name) -> Script:
    topic = name("a")
    yield "create", create(new_topic(topic))
    yield "set", alter(TOPIC, topic, ("retention.ms", SET, "5000"), ("cleanup.policy", SET, "compact"))
    yield "append", alter(TOPIC, topic, ("cleanup.policy", APPEND, "delete"))
    yield "append what is there", alter(TOPIC, topic, ("cleanup.policy", APPEND, "delete"))
    yield "subtract", alter(TOPIC, topic, ("cleanup.policy", SUBTRACT, "compact"))
    yield "subtract what is not there", alter(TOPIC, topic, ("cleanup.policy", SUBTRACT, "compact"))
    yield "as it is now", describe(TOPIC, topic, "retention.ms", "cleanup.policy")
    yield "delete", alter(TOPIC, topic, ("retention.ms", DELETE, None))
    yield "delete what is not set", alter(TOPIC, topic, ("segment.ms", DELETE, None))
    yield "only looking", alter(TOPIC, topic, ("segment.ms", SET, "99999"), validate_only=True)
    yield "as it is in the end", describe(TOPIC, topic, "retention.ms", "cleanup.policy", "segment.ms")


@scenario
def alter_topics_wrongly(name: Name) -> Script:
    topic = name("a")
    yield "create", create(new_topic(topic))
    yield "bad number", alter(TOPIC, topic, ("retention.ms", SET, "soon"))
    yield "out of range", alter(TOPIC, topic, ("retention.ms", SET, "-2"))
    yield "null", alter(TOPIC, topic, ("retention.ms", SET, None))
    yield "unknown key", alter(TOPIC, topic, ("no.such.key", SET, "1"))
    yield "bad policy", alter(TOPIC, topic, ("cleanup.policy", SET, "shred"))
    yield "bad codec", alter(TOPIC, topic, ("compression.type", SET, "zip"))
    yield "append to a number", alter(TOPIC, topic, ("retention.ms", APPEND, "1"))
    yield "a key twice", alter(TOPIC, topic, ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    yield "unknown operation", alter(TOPIC, topic, ("retention.ms", 9, "1"))
    yield "unknown topic", alter(TOPIC, name("none"), ("retention.ms", SET, "1"))
    yield "unknown type", alter(99, topic, ("retention.ms", SET, "1"))
    yield "only looking at a bad one", alter(TOPIC, topic, ("retention.ms", SET, "soon"), validate_only=True)
    yield "one bad of two", alter(TOPIC, topic, ("retention.ms", SET, "1000"), ("segment.ms", SET, "soon"))
    yield "nothing changed", describe(TOPIC, topic, "retention.ms")


@scenario
def alter_brokers(name: Name) -> Script:
    yield "dynamic", alter(BROKER, "1", ("log.cleaner.threads", SET, "2"))
    yield "as it is", describe(BROKER, "1", "log.cleaner.threads")
    yield "all brokers", alter(BROKER, "", ("log.cleaner.threads", SET, "3"))
    yield "one wins over all", describe(BROKER, "1", "log.cleaner.threads")
    yield "delete", alter(BROKER, "1", ("log.cleaner.threads", DELETE, None))
    yield "all is left", describe(BROKER, "1", "log.cleaner.threads")
    yield "delete for all", alter(BROKER, "", ("log.cleaner.threads", DELETE, None))
    yield "default is left", describe(BROKER, "1", "log.cleaner.threads")
    yield "read-only", alter(BROKER, "1", ("node.id", SET, "9"))
    yield "read-only path", alter(BROKER, "1", ("log.dirs", SET, "/elsewhere"))
    yield "bad value", alter(BROKER, "1", ("log.cleaner.threads", SET, "many"))
    yield "unknown broker", alter(BROKER, "77", ("log.cleaner.threads", SET, "2"))


@scenario
def replace_configs(name: Name) -> Script:
    topic = name("a")
    yield "create", create(new_topic(topic, configs={"retention.ms": "5000"}))
    yield "replace", replace(TOPIC, topic, {"segment.ms": "60000"})
    yield "the old one is gone", describe(TOPIC, topic, "retention.ms", "segment.ms")
    yield "bad value", replace(TOPIC, topic, {"segment.ms": "soon"})
    yield "unknown topic", replace(TOPIC, name("none"), {"segment.ms": "60000"})


@scenario
def list_resources(name: Name) -> Script:
    yield "unknown type", ListConfigResourcesRequest([99])
