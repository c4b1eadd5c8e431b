"""`kafka-configs --describe`.

Rule: without `--all` only what was set for the entity itself is shown; what a broker began with is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.configs import (
    Quotas,
    Resource,
    Source,
    describe_configs,
    describe_credentials,
    describe_quotas,
    list_resources,
    source_of,
)
from pykafka_broker.client.errors import ClientError, Refused
from pykafka_broker.client.groups import list_groups
from pykafka_broker.client.topics import list_topics
from pykafka_broker.cluster.topic_names import name_problem
from pykafka_broker.config.values import format_value
from pykafka_broker.protocol.enums import ConfigResourceType, QuotaMatch
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_configs_response import DescribeConfigsResourceResult
from pykafka_broker.tools.config_entities import DEFAULT, QUOTAS, RESOURCES, Entity
from pykafka_broker.tools.frame import Tool

_SET_FOR_IT = {
    ConfigResourceType.TOPIC: Source.DYNAMIC_TOPIC_CONFIG,
    ConfigResourceType.BROKER: Source.DYNAMIC_BROKER_CONFIG,
    ConfigResourceType.CLIENT_METRICS: Source.DYNAMIC_CLIENT_METRICS_CONFIG,
    ConfigResourceType.GROUP: Source.DYNAMIC_GROUP_CONFIG,
}
_PRINCIPALS = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}


async def describe(tool: Tool, client: Client, entities: Sequence[Entity], everything: bool) -> None:
    """Raises ClientError."""
    first = entities[0]
    if first.type in RESOURCES:
        tool.result = await _resources(tool, client, first, everything)
        return
    tool.result = await _quotas(tool, client, entities)
    names = [each.name for each in entities if each.name is not None]
    if first.type == "users" and len(entities) == 1 and DEFAULT not in names:
        tool.result += await _credentials(tool, client, names)


async def _resources(tool: Tool, client: Client, entity: Entity, everything: bool) -> list[dict[str, Any]]:
    kind = RESOURCES[entity.type]
    if kind is ConfigResourceType.TOPIC and entity.name is not None:
        problem = name_problem(entity.name)
        if problem is not None:
            raise ClientError(f"Topic name is invalid: {problem}")
    if entity.name and not everything and entity.name not in await _names(client, kind):
        tool.print(f"The {entity.singular} '{entity.name}' doesn't exist and doesn't have dynamic config.")
        return []
    if entity.name is not None:
        names = [entity.name]
    else:
        names = await _names(client, kind)
        names += [DEFAULT] if kind is ConfigResourceType.BROKER else []
    found = []
    for name in names:
        if name == DEFAULT:
            tool.print(f"Default configs for {entity.type} in the cluster are:")
        else:
            tool.print(f"{'All' if everything else 'Dynamic'} configs for {entity.singular} {name} are:")
        configs = await _configs(client, Resource(kind, name), everything)
        for each in configs:
            synonyms = ", ".join(f"{one['source']}:{one['name']}={_text(one['value'])}" for one in each["synonyms"])
            sensitive = str(each["sensitive"]).lower()
            value = _text(each["value"])
            tool.print(f"  {each['name']}={value} sensitive={sensitive} synonyms={{{synonyms}}}")
        found.append({"entity_type": entity.type, "entity_name": name or None, "configs": configs})
    return found


async def _names(client: Client, kind: ConfigResourceType) -> list[str]:
    """Of all that there are."""
    if kind is ConfigResourceType.TOPIC:
        return [each.name for each in await list_topics(client) if each.name]
    if kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
        await client.refresh(call="listNodes")
        return [str(node) for node in sorted(client.nodes)]
    if kind is ConfigResourceType.CLIENT_METRICS:
        return await list_resources(client, kind)
    with_configs: list[str] = []
    try:
        with_configs = await list_resources(client, kind)
    except Refused as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
    return sorted({each.group_id for each in await list_groups(client)}.union(with_configs))


async def _configs(client: Client, resource: Resource, everything: bool) -> list[dict[str, Any]]:
    wanted = _SET_FOR_IT.get(resource.type)
    if resource.type is ConfigResourceType.BROKER and resource.name == DEFAULT:
        wanted = Source.DYNAMIC_DEFAULT_BROKER_CONFIG
    found = (await describe_configs(client, [resource], synonyms=True))[resource]
    shown = [each for each in found if everything or wanted is None or source_of(resource, each) is wanted]
    return [_data(resource, each) for each in sorted(shown, key=lambda each: each.name)]


def _data(resource: Resource, config: DescribeConfigsResourceResult) -> dict[str, Any]:
    return {
        "name": config.name,
        "value": config.value,
        "source": source_of(resource, config).name,
        "sensitive": config.is_sensitive,
        "synonyms": [
            {"source": Source(each.source).name, "name": each.name, "value": each.value} for each in config.synonyms
        ],
    }


def _text(value: str | None) -> str:
    return "null" if value is None else value


async def _quotas(tool: Tool, client: Client, entities: Sequence[Entity]) -> list[dict[str, Any]]:
    parts = []
    for each in entities:
        match = QuotaMatch.ANY if each.name is None else QuotaMatch.EXACT if each.name else QuotaMatch.DEFAULT
        parts.append((QUOTAS[each.type], match, each.name or None))
    found = await describe_quotas(client, parts)
    for quotas in found:
        values = ", ".join(f"{name}={format_value(value)}" for name, value in quotas.values.items())
        tool.print(f"Quota configs for {_whose(quotas)} are {values}")
    return [{"entity": each.entity, "quotas": each.values} for each in found]


def _whose(quotas: Quotas) -> str:
    parts = []
    for kind, spelt in _PRINCIPALS.items():
        if kind in quotas.entity:
            name = quotas.entity[kind]
            parts.append(f"the default {spelt}" if name is None else f"{spelt} '{name}'")
    return ", ".join(parts)


async def _credentials(tool: Tool, client: Client, users: Sequence[str]) -> list[dict[str, Any]]:
    found = []
    for user, told in (await describe_credentials(client, users)).items():
        if isinstance(told, ClientError):
            kind = told.exception.rpartition(".")[2]
            tool.print(f"Error retrieving SCRAM credential configs for user-principal '{user}': {kind}: {told}")
            continue
        listed = ", ".join(f"{each.spelt}=iterations={iterations}" for each, iterations in told.items())
        tool.print(f"SCRAM credential configs for user-principal '{user}' are {listed}")
        found.append({"user": user, "credentials": {each.spelt: iterations for each, iterations in told.items()}})
    return found
