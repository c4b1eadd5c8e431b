"""Topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pykafka_broker.cluster.image import TopicImage
from pykafka_broker.config.values import format_value
from pykafka_broker.control.answers import Topic
from pykafka_broker.control.control import Control
from pykafka_broker.control.problems import Problem, did_you_mean, problem_of
from pykafka_broker.control.reading import no_topic
from pykafka_broker.control.schema import ValueLimits
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import AlterConfigOp, ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.metadata_response import MetadataResponseTopic
from pykafka_broker.protocol.runtime import uuid_text

Partitions = Annotated[int, ValueLimits(minimum=1, maximum=100_000)]
Replicas = Annotated[int, ValueLimits(minimum=1, maximum=0x7FFF)]
_TIMEOUT_MS = 30_000


async def topics(control: Control, internal: bool = False) -> list[Topic]:
    """Return all topics; with `internal` also Kafka's own."""
    described = (await control.inside.ask(MetadataRequest(topics=None))).topics
    return [
        _topic(control, each)
        for each in sorted(described, key=lambda each: each.name)
        if internal or not each.is_internal
    ]


async def topic(control: Control, topic: str) -> Topic:
    """Return a topic."""
    return await _described(control, topic)


async def _described(control: Control, topic: str) -> Topic:
    """Return a topic. Raises `Problem` 404."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    found = (await control.inside.ask(asked)).topics[0]
    _raise_if_of_topic(control, topic, found.error_code)
    return _topic(control, found)


async def create_topic(
    control: Control,
    name: str,
    partitions: Partitions | None = None,
    config: dict[str, str | int | float | bool] | None = None,
    replication_factor: Replicas | None = None,
    exist_ok: bool = False,
) -> Topic:
    """Create a topic, with a single partition by default. `config` are Kafka's topic configs (documentation,
    "Topic Configs"). By default `default.replication.factor` says how many replicas there are. With `exist_ok` the
    topic may exist already, with the partitions and configs that are named here.
    """
    if exist_ok and name in control.services.image.topics:
        return await _existing(control, name, partitions, config or {})
    configs = [CreatableTopicConfig(key, format_value(value)) for key, value in (config or {}).items()]
    asked = CreatableTopic(
        name=name, num_partitions=partitions or 1, replication_factor=replication_factor or -1, configs=configs
    )
    answer = await control.inside.ask(CreateTopicsRequest(topics=[asked], timeout_ms=_TIMEOUT_MS))
    told, exists = answer.topics[0], answer.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    made_meanwhile = exist_ok and exists
    if not made_meanwhile:
        way_out = f"{told.error_message} create_topic with exist_ok takes it as it is."
        raise_if(told.error_code, way_out if exists else _with_similar(control, told.error_message, config or {}))
    # another node may be the controller, and knows the topic first
    await control.until(lambda: control.services.image.topics.get(name), _TIMEOUT_MS / 1000)
    return await _existing(control, name, partitions, config or {}) if made_meanwhile else await topic(control, name)


async def _existing(
    control: Control, name: str, partitions: int | None, config: dict[str, str | int | float | bool]
) -> Topic:
    """Return an existing topic. Raises `Problem` 409 for a difference to the request."""
    found = await topic(control, name)
    if partitions is not None and partitions != found["partitions"]:
        raise Problem(409, f"topic {name} exists with {found['partitions']} partitions, not {partitions}")
    for key, value in config.items():
        own = found["config"].get(key)
        if own != format_value(value):
            there = f"no {key} of its own" if own is None else f"{key}={own}"
            raise Problem(409, f"topic {name} exists with {there}, not {key}={format_value(value)}")
    return found


async def alter_config(control: Control, topic: str, config: dict[str, str | int | float | bool | None]) -> Topic:
    """Set configs of a topic; null restores the default. Configs not named stay as before."""
    changes = [
        AlterableConfig(
            key,
            AlterConfigOp.DELETE if value is None else AlterConfigOp.SET,
            format_value(value),
        )
        for key, value in config.items()
    ]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(ConfigResourceType.TOPIC, topic, changes)])
    answer = (await control.inside.ask(request)).responses[0]
    _raise_if_of_topic(control, topic, answer.error_code, _with_similar(control, answer.error_message, config))

    def done() -> bool | None:
        there = control.services.image.topic_config(topic)
        wanted = {key: format_value(value) for key, value in config.items()}
        return all(there.get(key) == value for key, value in wanted.items()) or None

    await control.until(done, _TIMEOUT_MS / 1000)
    return await _described(control, topic)


async def add_partitions(control: Control, topic: str, total: Partitions) -> Topic:
    """Add partitions to a topic, up to `total` in all."""
    request = CreatePartitionsRequest([CreatePartitionsTopic(topic, total, None)], _TIMEOUT_MS)
    answer = (await control.inside.ask(request)).results[0]
    _raise_if_of_topic(control, topic, answer.error_code, answer.error_message)

    def done() -> bool | None:
        there = control.services.image.topics.get(topic)
        return (there is not None and len(there.partitions) >= total) or None

    await control.until(done, _TIMEOUT_MS / 1000)
    return await _described(control, topic)


async def delete_topic(control: Control, topic: str) -> None:
    """Delete a topic with the records."""
    known = control.services.image.topics.get(topic)
    asked = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=_TIMEOUT_MS)
    answer = await control.inside.ask(asked)
    _raise_if_of_topic(control, topic, answer.responses[0].error_code, answer.responses[0].error_message)

    def gone() -> bool | None:
        there = control.services.image.topics.get(topic)
        return there is None or known is None or there.id != known.id or None

    await control.until(gone, _TIMEOUT_MS / 1000)  # another node may be the controller, and forgets it first


def _topic(control: Control, found: MetadataResponseTopic) -> Topic:
    return Topic(
        name=found.name or "",
        topic_id=uuid_text(found.topic_id),
        partitions=len(found.partitions),
        internal=found.is_internal,
        config=dict(control.services.image.topic_config(found.name or "")),
    )


def topic_image(control: Control, topic: str, partition: int | None = None) -> TopicImage:
    """Return a topic of the metadata. Raises `Problem` 404 without the topic, or without the partition."""
    image = control.services.image.topics.get(topic)
    if image is None:
        raise no_topic(control, topic)
    if partition is not None and partition not in image.partitions:
        raise Problem(404, f"topic {topic} has partitions 0 to {len(image.partitions) - 1}, not {partition}")
    return image


async def listed_offsets(control: Control, topic: str, partitions: list[int], timestamp: int) -> dict[int, int]:
    """Return the offset of a timestamp in each partition, by ListOffsets."""
    asked = [ListOffsetsPartition(partition_index=each, timestamp=timestamp) for each in partitions]
    answer = await control.inside.ask(ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, asked)]))
    found = answer.topics[0].partitions
    for each in found:
        raise_if(each.error_code, f"{topic}-{each.partition_index}")
    return {each.partition_index: each.offset for each in found}


def raise_if(error_code: int, message: str | None = None) -> None:
    """Raise `Problem` for an error code."""
    if error_code:
        raise problem_of(ApiError(ErrorCode(error_code), message))


def _with_similar(control: Control, message: str | None, config: Iterable[str]) -> str | None:
    """Return the message of an answer, with the names that are similar to the first unknown config."""
    known = control.broker.node.config.topic_keys
    unknown = next((each for each in config if each not in known), None)
    return message if unknown is None else f"{message or ''}{did_you_mean(unknown.replace('_', '.'), known)}"


def _raise_if_of_topic(control: Control, topic: str, error_code: int, message: str | None = None) -> None:
    """Raise `Problem` for an error code of a topic; a missing topic is a 404."""
    if error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise no_topic(control, topic)
    raise_if(error_code, message)
