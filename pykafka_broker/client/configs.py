"""Configs of topics, brokers, loggers, groups and subscriptions to metrics.

Rule: what is asked of one broker goes to that broker (its static settings are known to nobody else, its loggers
neither); everything else may be asked of any.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, Refused, Unusable, check
from pykafka_broker.protocol.enums import AlterConfigOp, ConfigResourceType, QuotaMatch
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
    """`name` is empty for what holds for all brokers."""

    type: ConfigResourceType
    name: str


class Source(IntEnum):
    """Where a value comes from (Kafka protocol, ConfigSource); the names are those that Kafka's tools print."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigChange(NamedTuple):
    """Of one key."""

    name: str
    operation: AlterConfigOp
    value: str | None = None


def source_of(resource: Resource, config: DescribeConfigsResourceResult) -> Source:
    """Brokers before 1.1 say only whether a value is the default."""
    if config.config_source >= 0:
        known = config.config_source in Source.__members__.values()
        return Source(config.config_source) if known else Source.UNKNOWN
    if config.is_default:
        return Source.DEFAULT_CONFIG
    topic = resource.type is ConfigResourceType.TOPIC
    return Source.DYNAMIC_TOPIC_CONFIG if topic else Source.STATIC_BROKER_CONFIG


async def describe_configs(
    client: Client, resources: Sequence[Resource], *, synonyms: bool = False
) -> dict[Resource, list[DescribeConfigsResourceResult]]:
    """Every key of these resources. Raises Refused with the first error among them."""
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
    """Change some keys and leave the others. Raises Refused."""
    configs = [AlterableConfig(each.name, each.operation, each.value) for each in changes]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(resource.type, resource.name, configs)])
    (node,) = _by_node([resource])
    answer = await client.ask(request, node, call="incrementalAlterConfigs")
    for each in answer.responses:
        check(each.error_code, each.error_message)


async def list_resources(client: Client, kind: ConfigResourceType) -> list[str]:
    """The names of all resources of a type that have configs. Raises Refused."""
    if kind is ConfigResourceType.CLIENT_METRICS:  # all that version 0 lists (KIP-714)
        request, versions = ListConfigResourcesRequest(), (0, 0)
    else:
        request, versions = ListConfigResourcesRequest([kind]), (1, 1)
    answer = await client.ask(request, versions=versions, call="listConfigResources")
    check(answer.error_code)
    return sorted(each.resource_name for each in answer.config_resources)


def _by_node(resources: Iterable[Resource]) -> dict[int | None, list[Resource]]:
    """Of the node that has to be asked, None for any. Raises Unusable."""
    found: dict[int | None, list[Resource]] = {}
    for each in resources:
        of_one = each.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and each.name
        if of_one and not each.name.isdigit():
            raise Unusable(f"{each.name} is no id of a broker")
        found.setdefault(int(each.name) if of_one else None, []).append(each)
    return found


# -- quotas


class Quotas(NamedTuple):
    """Of one entity: its parts, and the values of its quotas."""

    entity: dict[str, str | None]
    values: dict[str, float]


async def describe_quotas(client: Client, parts: Sequence[tuple[str, QuotaMatch, str | None]]) -> list[Quotas]:
    """Of entities that have exactly these parts. Raises Refused."""
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
    """None removes one. Raises Refused."""
    parts = [EntityData(kind, name) for kind, name in entity.items()]
    ops = [OpData(key, 0.0 if value is None else value, value is None) for key, value in changes.items()]
    request = AlterClientQuotasRequest([EntryData(parts, ops)])
    answer = await client.ask_controller(request, call="alterClientQuotas")
    for each in answer.entries:
        check(each.error_code, each.error_message)


# -- SCRAM credentials


DEFAULT_ITERATIONS = 4096  # Kafka's tools, where none are given
_SALT_BYTES = 16


class Mechanism(IntEnum):
    """With its number in the protocol; `spelt` is its name of the SASL registry."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def spelt(self) -> str:
        return self.name.replace("_", "-")


class NewCredential(NamedTuple):
    """What a user is given."""

    mechanism: Mechanism
    iterations: int
    password: str

    def __repr__(self) -> str:
        return f"NewCredential({self.mechanism.spelt}, iterations={self.iterations})"


async def describe_credentials(client: Client, users: Sequence[str]) -> dict[str, dict[Mechanism, int] | ClientError]:
    """Mechanisms with their iterations, of these users or, for none, of all; users without are left out."""
    wanted = [UserName(each) for each in users] or None
    answer = await client.ask(DescribeUserScramCredentialsRequest(wanted), call="describeUserScramCredentials")
    check(answer.error_code, answer.error_message)
    found: dict[str, dict[Mechanism, int] | ClientError] = {}
    for each in answer.results:
        if each.error_code == ErrorCode.NONE:
            found[each.user] = {Mechanism(info.mechanism): info.iterations for info in each.credential_infos}
        elif each.error_code != ErrorCode.RESOURCE_NOT_FOUND:
            found[each.user] = Refused(each.error_code, each.error_message)
    return found


async def alter_credentials(
    client: Client, user: str, added: Sequence[NewCredential], deleted: Sequence[Mechanism]
) -> None:
    """Raises Refused."""
    from pykafka_broker.cluster.scram import salted_password  # with all of the controller behind it

    upsertions = []
    for each in added:
        salt = secrets.token_bytes(_SALT_BYTES)
        salted = salted_password(each.mechanism, each.password, salt, each.iterations) if each.password else b""
        upsertions.append(ScramCredentialUpsertion(user, each.mechanism, each.iterations, salt, salted))
    deletions = [ScramCredentialDeletion(user, each) for each in deleted]
    request = AlterUserScramCredentialsRequest(deletions, upsertions)
    answer = await client.ask_controller(request, call="alterUserScramCredentials")
    for each in answer.results:
        check(each.error_code, each.error_message)
