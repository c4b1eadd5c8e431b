"""Topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pykafka_broker.control.control import Control
from pykafka_broker.control.problems import problem_of
from pykafka_broker.control.schema import Limits
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.metadata_response import MetadataResponseTopic
from pykafka_broker.protocol.runtime import uuid_text

Partitions = Annotated[int, Limits(minimum=1, maximum=100_000)]
Replicas = Annotated[int, Limits(minimum=1, maximum=0x7FFF)]
_TIMEOUT_MS = 30_000


@dataclass
class Topic:
    """A topic: its name, Kafka's id of it, how many partitions it has and what was set for it."""

    name: str
    topic_id: str
    partitions: int
    internal: bool
    config: dict[str, str]


async def topics(control: Control, internal: bool = False) -> list[Topic]:
    """All topics; with `internal` also Kafka's own."""
    described = (await control.inside.ask(MetadataRequest(topics=None))).topics
    return [
        _topic(control, each)
        for each in sorted(described, key=lambda each: each.name)
        if internal or not each.is_internal
    ]


async def topic(control: Control, topic: str) -> Topic:
    """One topic."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    found = (await control.inside.ask(asked)).topics[0]
    raise_if(found.error_code, f"there is no topic {topic}")
    return _topic(control, found)


async def create_topic(
    control: Control,
    name: str,
    partitions: Partitions = 1,
    config: dict[str, str | int | float | bool] | None = None,
    replication_factor: Replicas | None = None,
) -> Topic:
    """Make a topic. `config` are Kafka's topic configs (documentation, "Topic Configs"); of replicas there are as many
    as `default.replication.factor` says where nothing is said here.
    """
    configs = [CreatableTopicConfig(key, config_text(value)) for key, value in (config or {}).items()]
    asked = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replication_factor or -1, configs=configs
    )
    answer = await control.inside.ask(CreateTopicsRequest(topics=[asked], timeout_ms=_TIMEOUT_MS))
    raise_if(answer.topics[0].error_code, answer.topics[0].error_message)
    # where another node is the controller, it knows of it first
    await control.until(lambda: control.services.image.topics.get(name), _TIMEOUT_MS / 1000)
    return await topic(control, name)


async def delete_topic(control: Control, topic: str) -> None:
    """Delete a topic with its records."""
    asked = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=_TIMEOUT_MS)
    answer = await control.inside.ask(asked)
    raise_if(answer.responses[0].error_code, answer.responses[0].error_message)


def _topic(control: Control, found: MetadataResponseTopic) -> Topic:
    return Topic(
        name=found.name or "",
        topic_id=uuid_text(found.topic_id),
        partitions=len(found.partitions),
        internal=found.is_internal,
        config=dict(control.services.image.topic_config(found.name or "")),
    )


def config_text(value: str | int | float | bool) -> str:
    """A config's value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def raise_if(error_code: int, message: str | None = None) -> None:
    """Raises `Problem` if that is an error."""
    if error_code:
        raise problem_of(ApiError(ErrorCode(error_code), message))
