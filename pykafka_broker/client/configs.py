"""Configs of topics, brokers, loggers, groups and metrics subscriptions; quotas (KIP-546); SCRAM users (KIP-554).

Rule: a request about one broker goes to that broker, since no other one knows its static settings and its loggers; all
others may go to any broker. A quota entity is a type and a name for each of its parts, in Kafka's words: `user`,
`client-id`, `ip`; the name None is the default. A password leaves the client only salted, and is in no text.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, KafkaError, Unusable, check, check_all
from pykafka_broker.protocol.enums import AlterConfigOp, ConfigResourceType, ConfigSource, QuotaMatch
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from pykafka_broker.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pykafka_broker.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.describe_configs_response import DescribeConfigsResourceResult
from pykafka_broker.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.list_config_resources_request import ListConfigResourcesRequest

# -- configs


class Resource(NamedTuple):
    """A resource with configs. name: empty for the defaults of all brokers."""

    type: ConfigResourceType
    name: str


class ConfigChange(NamedTuple):
    name: str
    operation: AlterConfigOp
    value: str | None = None


def source_of(resource: Resource, config: DescribeConfigsResourceResult) -> ConfigSource:
    """Return the origin of a config value; brokers before 1.1 tell only whether a value is the default."""
    if config.config_source >= 0:
        known = config.config_source in ConfigSource.__members__.values()
        return ConfigSource(config.config_source) if known else ConfigSource.UNKNOWN
    if config.is_default:
        return ConfigSource.DEFAULT_CONFIG
    topic = resource.type is ConfigResourceType.TOPIC
    return ConfigSource.DYNAMIC_TOPIC_CONFIG if topic else ConfigSource.STATIC_BROKER_CONFIG


async def describe_configs(
    client: Client, resources: Sequence[Resource], *, synonyms: bool = False
) -> dict[Resource, list[DescribeConfigsResourceResult]]:
    """Return every config key of the given resources. Raises KafkaError with the first error."""
    found: dict[Resource, list[DescribeConfigsResourceResult]] = {}
    for node, asked in _by_node(resources).items():
        request = DescribeConfigsRequest(
            [DescribeConfigsResource(each.type, each.name, None) for each in asked], include_synonyms=synonyms
        )
        answer = await client.ask(request, node, versions=(1, 4) if synonyms else None)
        for each in answer.results:
            check(each.error_code, each.error_message)
            found[Resource(ConfigResourceType(each.resource_type), each.resource_name)] = each.configs
    return found


async def alter_configs(client: Client, resource: Resource, changes: Iterable[ConfigChange]) -> None:
    """Change the given keys of a resource and leave the others. Raises KafkaError."""
    configs = [AlterableConfig(each.name, each.operation, each.value) for each in changes]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(resource.type, resource.name, configs)])
    (node,) = _by_node([resource])
    answer = await client.ask(request, node, call="incrementalAlterConfigs")
    check_all(answer.responses)


async def list_resources(client: Client, kind: ConfigResourceType) -> list[str]:
    """Return the names of all resources of a type with configs. Raises KafkaError."""
    if kind is ConfigResourceType.CLIENT_METRICS:  # version 0 lists nothing else (KIP-714)
        request, versions = ListConfigResourcesRequest(), (0, 0)
    else:
        request, versions = ListConfigResourcesRequest([kind]), (1, 1)
    answer = await client.ask(request, versions=versions, call="listConfigResources")
    check(answer.error_code)
    return sorted(each.resource_name for each in answer.config_resources)


def _by_node(resources: Iterable[Resource]) -> dict[int | None, list[Resource]]:
    """Group resources by the node to ask, None for any node. Raises Unusable."""
    found: dict[int | None, list[Resource]] = {}
    for each in resources:
        of_one = each.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and each.name
        if of_one and not each.name.isdecimal():
            raise Unusable(f"{each.name} is no id of a broker")
        found.setdefault(int(each.name) if of_one else None, []).append(each)
    return found


# -- quotas


class Quotas(NamedTuple):
    """An entity and the values of the entity's quotas."""

    entity: dict[str, str | None]
    values: dict[str, float]


async def describe_quotas(client: Client, parts: Sequence[tuple[str, QuotaMatch, str | None]]) -> list[Quotas]:
    """Return the quotas of the entities with exactly the given parts. Raises KafkaError."""
    request = DescribeClientQuotasRequest([ComponentData(*each) for each in parts], strict=True)
    answer = await client.ask(request, call="describeClientQuotas")
    check(answer.error_code, answer.error_message)
    return [
        Quotas(
            {part.entity_type: part.entity_name for part in each.entity},
            {value.key: value.value for value in sorted(each.values, key=lambda value: value.key)},
        )
        for each in answer.entries or []
    ]


async def alter_quotas(client: Client, entity: Mapping[str, str | None], changes: Mapping[str, float | None]) -> None:
    """Change quotas of an entity; the value None removes a quota. Raises KafkaError."""
    parts = [EntityData(kind, name) for kind, name in entity.items()]
    ops = [OpData(key, 0.0 if value is None else value, value is None) for key, value in changes.items()]
    request = AlterClientQuotasRequest([EntryData(parts, ops)])
    answer = await client.ask_controller(request, call="alterClientQuotas")
    check_all(answer.entries)


# -- SCRAM credentials


DEFAULT_ITERATIONS = 4096  # Kafka's tools, where none are given
_SALT_BYTES = 16


class ScramMechanism(IntEnum):
    """A SCRAM mechanism by the number in the protocol. spelt: the name in the SASL registry."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def spelt(self) -> str:
        return self.name.replace("_", "-")


class NewCredential(NamedTuple):
    """A new SCRAM credential of a user."""

    mechanism: ScramMechanism
    iterations: int
    password: str

    def __repr__(self) -> str:
        return f"NewCredential({self.mechanism.spelt}, iterations={self.iterations})"


async def describe_credentials(
    client: Client, users: Sequence[str]
) -> dict[str, dict[ScramMechanism, int] | ClientError]:
    """Return mechanisms and iterations of each user; users without credentials are left out.

    Args:
        users: the users to ask for; empty for all users.
    """
    wanted = [UserName(each) for each in users] or None
    answer = await client.ask(DescribeUserScramCredentialsRequest(wanted), call="describeUserScramCredentials")
    check(answer.error_code, answer.error_message)
    found: dict[str, dict[ScramMechanism, int] | ClientError] = {}
    for each in answer.results:
        if each.error_code == ErrorCode.NONE:
            found[each.user] = {ScramMechanism(info.mechanism): info.iterations for info in each.credential_infos}
        elif each.error_code != ErrorCode.RESOURCE_NOT_FOUND:
            found[each.user] = KafkaError(each.error_code, each.error_message)
    return found


async def alter_credentials(
    client: Client, user: str, added: Sequence[NewCredential], deleted: Sequence[ScramMechanism]
) -> None:
    """Add and delete SCRAM credentials of a user. Raises KafkaError."""
    from pykafka_broker.cluster.scram import salted_password  # which imports much of the controller

    upsertions = []
    for each in added:
        salt = secrets.token_bytes(_SALT_BYTES)
        salted = salted_password(each.mechanism, each.password, salt, each.iterations) if each.password else b""
        upsertions.append(ScramCredentialUpsertion(user, each.mechanism, each.iterations, salt, salted))
    deletions = [ScramCredentialDeletion(user, each) for each in deleted]
    request = AlterUserScramCredentialsRequest(deletions, upsertions)
    answer = await client.ask_controller(request, call="alterUserScramCredentials")
    check_all(answer.results)
