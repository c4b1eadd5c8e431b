"""`kafka-configs`."""

from __future__ import annotations

import argparse
import re
import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.configs import (
    DEFAULT_ITERATIONS,
    ConfigChange,
    NewCredential,
    Quotas,
    Resource,
    ScramMechanism,
    alter_configs,
    alter_credentials,
    alter_quotas,
    describe_configs,
    describe_credentials,
    describe_quotas,
    list_resources,
    source_of,
)
from pykafka_broker.client.errors import ClientError, KafkaError
from pykafka_broker.client.groups import list_groups
from pykafka_broker.client.properties import double, integer, java_split, read_properties
from pykafka_broker.client.topics import list_topics
from pykafka_broker.cluster.topic_names import name_problem
from pykafka_broker.config.values import format_value
from pykafka_broker.protocol.enums import AlterConfigOp, ConfigResourceType, ConfigSource, QuotaMatch
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_configs_response import DescribeConfigsResourceResult
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError

# -- entities


RESOURCES = {
    "topics": ConfigResourceType.TOPIC,
    "brokers": ConfigResourceType.BROKER,
    "broker-loggers": ConfigResourceType.BROKER_LOGGER,
    "client-metrics": ConfigResourceType.CLIENT_METRICS,
    "groups": ConfigResourceType.GROUP,
}
QUOTAS = {"users": "user", "clients": "client-id", "ips": "ip"}
TYPES = (*RESOURCES, *QUOTAS)
_WITH_DEFAULTS = ("brokers", *QUOTAS)
_NAMED = {  # in the order in which Kafka's tool looks at them
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker_logger": "broker-loggers",
    "ip": "ips",
    "client_metrics": "client-metrics",
    "group": "groups",
}
_DEFAULTS = {
    "client_defaults": "clients",
    "user_defaults": "users",
    "broker_defaults": "brokers",
    "ip_defaults": "ips",
}
DEFAULT = ""


class Entity(NamedTuple):
    """A user, client, topic, ... name: None for all of the type, DEFAULT for the defaults of the type."""

    type: str
    name: str | None

    @property
    def singular(self) -> str:
        return self.type[:-1]

    @property
    def quota_part(self) -> tuple[str, QuotaMatch, str | None]:
        match = QuotaMatch.ANY if self.name is None else QuotaMatch.EXACT if self.name else QuotaMatch.DEFAULT
        return QUOTAS[self.type], match, self.name or None


def add_entities(parser: ToolParser) -> None:
    add = parser.option
    add("--entity-type TYPE ...", f"whose configs: {', '.join(TYPES)}", default=[])
    add("--entity-name NAME ...", "name of the entity", default=[], dest="entity_names")
    add(
        "--entity-default",
        action="append_const",
        const=DEFAULT,
        dest="entity_names",
        help="the defaults of this type",
    )
    for flag, kind in _NAMED.items():
        add(f"--{flag.replace('_', '-')} NAME", f"the same as --entity-type {kind} --entity-name NAME")
    for flag, kind in _DEFAULTS.items():
        text = f"the same as --entity-type {kind} --entity-default"
        add(f"--{flag.replace('_', '-')}", text)


def entities_of(options: argparse.Namespace, action: str) -> list[Entity]:
    """Return the entity of the flags, or a user and a client. Raises ToolUsageError."""
    named = [
        Entity(kind, getattr(options, flag)) for flag, kind in _NAMED.items() if getattr(options, flag) is not None
    ]
    named += [Entity(kind, DEFAULT) for flag, kind in _DEFAULTS.items() if getattr(options, flag)]
    if named and (options.entity_type or options.entity_names):
        raise ToolUsageError(
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        )
    # A type without a name stands for all resources of the type.
    names: list[str | None] = [*options.entity_names, *[None] * len(options.entity_type)]
    for kind in options.entity_type:
        if kind in QUOTAS and len(options.entity_names) > len(options.entity_type):
            raise ToolUsageError("More entity names specified than entity types")
        if kind not in _WITH_DEFAULTS and DEFAULT in options.entity_names:
            raise ToolUsageError(f"--entity-default must not be specified with --{action} of {kind}")
    found = named or [Entity(kind, name) for kind, name in zip(options.entity_type, names, strict=False)]
    _check(found, action)
    return found


def _check(entities: Sequence[Entity], action: str) -> None:
    types = [each.type for each in entities]
    if not types:
        raise ToolUsageError("At least one entity type must be specified")
    for kind in types:
        if kind not in TYPES:
            raise ToolUsageError(f"Invalid entity type {kind}, the entity type must be one of {', '.join(TYPES)}")
    if len(set(types)) < len(types):
        raise ToolUsageError(f"Duplicate entity type(s) specified: {', '.join(sorted(set(types)))}")
    if len(types) > 1 and set(types) != {"users", "clients"}:
        raise ToolUsageError("Only 'users' and 'clients' entity types may be specified together")
    for each in entities:
        _check_name(each, action)


def _check_name(entity: Entity, action: str) -> None:
    kind, name = entity
    if name == DEFAULT and kind not in _WITH_DEFAULTS:
        raise ToolUsageError(f"--entity-default must not be specified with --{action} of {kind}")
    if name is None and kind in _WITH_DEFAULTS and action == "alter":
        raise ToolUsageError(f"An entity-name or default entity must be specified with --alter of {kind}")
    if name is None and kind not in _WITH_DEFAULTS and (action == "alter" or kind == "broker-loggers"):
        raise ToolUsageError(f"An entity name must be specified with --{action} of {kind}")
    if kind in ("brokers", "broker-loggers") and name and not _is_integer(name):
        raise ToolUsageError(f"The entity name for {kind} must be a valid integer broker id, but it is: {name}")
    if kind == "ips" and name:
        try:
            socket.getaddrinfo(name, None)
        except (OSError, UnicodeError):  # UnicodeError: no label of a host name can have this form
            raise ToolUsageError(
                f"The entity name for ips must be a valid IP or resolvable host, but it is: {name}"
            ) from None


def _is_integer(text: str) -> bool:
    try:
        integer(text)
    except ValueError:
        return False
    return True


# -- description


# The source of a value that is set for the resource itself.
_OWN_SOURCE = {
    ConfigResourceType.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ConfigResourceType.BROKER: ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigResourceType.CLIENT_METRICS: ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
    ConfigResourceType.GROUP: ConfigSource.DYNAMIC_GROUP_CONFIG,
}
_PRINCIPALS = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}


async def describe(tool: Tool, client: Client, entities: Sequence[Entity], everything: bool) -> None:
    """Print the configs, quotas or credentials of the entities. Raises ClientError."""
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
    """Return the names of all existing resources of a type."""
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
    except KafkaError as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
    return sorted({each.group_id for each in await list_groups(client)}.union(with_configs))


async def _configs(client: Client, resource: Resource, everything: bool) -> list[dict[str, Any]]:
    wanted = _OWN_SOURCE.get(resource.type)
    if resource.type is ConfigResourceType.BROKER and resource.name == DEFAULT:
        wanted = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
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
            {"source": ConfigSource(each.source).name, "name": each.name, "value": each.value}
            for each in config.synonyms
        ],
    }


def _text(value: str | None) -> str:
    return "null" if value is None else value


async def _quotas(tool: Tool, client: Client, entities: Sequence[Entity]) -> list[dict[str, Any]]:
    found = await describe_quotas(client, [each.quota_part for each in entities])
    for quotas in found:
        values = ", ".join(f"{name}={format_value(value)}" for name, value in quotas.values.items())
        tool.print(f"Quota configs for {_entity_text(quotas)} are {values}")
    return [{"entity": each.entity, "quotas": each.values} for each in found]


def _entity_text(quotas: Quotas) -> str:
    """Return `user-principal 'name', client-id 'name'`."""
    parts = []
    for kind, spelt in _PRINCIPALS.items():
        if kind in quotas.entity:
            name = quotas.entity[kind]
            parts.append(f"the default {spelt}" if name is None else f"{spelt} '{name}'")
    return ", ".join(parts)


async def _credentials(tool: Tool, client: Client, users: Sequence[str]) -> list[dict[str, Any]]:
    found = []
    for user, outcome in (await describe_credentials(client, users)).items():
        if isinstance(outcome, ClientError):
            kind = outcome.exception.rpartition(".")[2]
            tool.print(f"Error retrieving SCRAM credential configs for user-principal '{user}': {kind}: {outcome}")
            continue
        listed = ", ".join(f"{each.spelt}=iterations={iterations}" for each, iterations in outcome.items())
        tool.print(f"SCRAM credential configs for user-principal '{user}' are {listed}")
        found.append({"user": user, "credentials": {each.spelt: iterations for each, iterations in outcome.items()}})
    return found


# -- changes


USER_QUOTAS = ("consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate", "request_percentage")
IP_QUOTAS = ("connection_creation_rate",)
_SCRAM = {each.spelt: each for each in ScramMechanism}
_OUTSIDE = r"(?=[^\]]*(?:\[|$))"  # a place outside of square brackets
_PAIR = re.compile(r"\s*=\s*" + _OUTSIDE)
_CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]{1,10}),)?password=(.*)", re.DOTALL)
_MIN_ITERATIONS = 4096
_KEY = re.compile(r"[a-zA-Z0-9._-]*")


def added_configs(tool: Tool) -> dict[str, str]:
    """Return the configs of `--add-config` or `--add-config-file`. Raises ToolUsageError and Unusable."""
    options = tool.options
    if options.add_config_file is not None:
        return read_properties(options.add_config_file)
    found = {}
    for each in java_split("," + _OUTSIDE, options.add_config) if options.add_config else []:
        pair = _PAIR.split(each)
        if len(pair) != 2:
            raise ToolUsageError("Invalid entity config: --add-config takes key=value,... or key=[value1,value2]")
        key = pair[0].strip()
        if not _KEY.fullmatch(key):
            raise ToolUsageError(f"Invalid character found for config key: {key}")
        found[key] = re.sub(r"[\[\]]", "", pair[1]).strip()
    return found


def deleted_configs(tool: Tool) -> list[str]:
    """Return the keys of `--delete-config`."""
    text = tool.options.delete_config
    return [each.strip() for each in java_split(",", text)] if text else []


async def alter(
    tool: Tool, client: Client, entities: Sequence[Entity], added: dict[str, str], deleted: list[str]
) -> None:
    """Change the configs, quotas or credentials of the entities. Raises ClientError."""
    first = entities[0]
    kind = RESOURCES.get(first.type)
    if kind is not None:
        resource = Resource(kind, first.name or DEFAULT)
        if kind is ConfigResourceType.BROKER_LOGGER:
            await _check_loggers(client, resource, [*added, *deleted])
        removed = [ConfigChange(name, AlterConfigOp.DELETE) for name in deleted]
        await alter_configs(
            client,
            resource,
            [*removed, *(ConfigChange(name, AlterConfigOp.SET, text) for name, text in added.items())],
        )
    elif first.type == "users" and len(entities) == 1 and (set(added) | set(deleted)) & set(_SCRAM):
        await _alter_scram(client, first, added, deleted)
    else:
        await _alter_quotas(client, entities, added, deleted)
    tool.result = {
        "entities": [{"type": each.type, "name": each.name or None} for each in entities],
        "added": sorted(added),
        "deleted": deleted,
    }
    if first.name:
        tool.print(f"Completed updating config for {first.singular} {first.name}.")
    else:
        tool.print(f"Completed updating default config for {first.type} in the cluster.")


async def _check_loggers(client: Client, resource: Resource, names: list[str]) -> None:
    known = {each.name for each in (await describe_configs(client, [resource]))[resource]}
    unknown = [each for each in names if each not in known]
    if unknown:
        raise ClientError(f"Invalid broker logger(s): {','.join(unknown)}")


async def _alter_quotas(client: Client, entities: Sequence[Entity], added: dict[str, str], deleted: list[str]) -> None:
    of_ips = entities[0].type == "ips"
    unknown = sorted({*added, *deleted} - set(IP_QUOTAS if of_ips else USER_QUOTAS))
    if unknown:
        whose = entities[0].type if of_ips or len(entities) == 1 else "clients"
        raise ClientError(f"Only quotas can be set for '{whose}'. Unexpected config names: {', '.join(unknown)}")
    changes: dict[str, float | None] = {}
    for name, text in added.items():
        try:
            changes[name] = double(text)
        except ValueError:
            raise ClientError(f"Cannot parse quota configuration value for {name}: {text}") from None
    parts = [each.quota_part for each in entities]
    if deleted:
        there = {name for found in await describe_quotas(client, parts) for name in found.values}
        missing = [each for each in deleted if each not in there]
        if missing:
            raise ClientError(f"Invalid config(s): {','.join(missing)}")
    changes |= dict.fromkeys(deleted)
    await alter_quotas(client, {kind: name for kind, _, name in parts}, changes)


async def _alter_scram(client: Client, user: Entity, added: dict[str, str], deleted: list[str]) -> None:
    if not user.name:
        raise ClientError("--entity-default and --user-defaults have no SCRAM credentials")
    others = sorted({*added, *deleted} - set(_SCRAM))
    if others:
        raise ClientError(f"SCRAM credentials can't be altered together with {', '.join(others)}")
    credentials = [_credential(_SCRAM[name], text) for name, text in added.items()]
    await alter_credentials(client, user.name, credentials, [_SCRAM[each] for each in deleted])


def _credential(mechanism: ScramMechanism, text: str) -> NewCredential:
    match = _CREDENTIAL.fullmatch(text)
    if match is None:
        raise ClientError(f"{mechanism.spelt} takes [iterations=N,password=PASSWORD] or [password=PASSWORD]")
    iterations = DEFAULT_ITERATIONS if match[1] is None else int(match[1])
    if iterations < _MIN_ITERATIONS:
        raise ClientError(
            f"Iterations {iterations} is less than the minimum {_MIN_ITERATIONS} required for {mechanism.spelt}"
        )
    return NewCredential(mechanism, iterations, match[2])


# -- the tool


_CHANGES = ("add_config", "add_config_file", "delete_config")


def options(parser: ToolParser) -> None:
    add = parser.option
    parser.add_connection(controllers=True)
    add("--describe", "print the configs of the entity")
    add("--alter", "set or remove configs")
    add("--all", "with --describe: all keys, those with defaults too")
    add("--add-config K=V,K=[V,V]", "configs to set; square brackets hold values with commas")
    add("--add-config-file FILE", "a properties file with configs to set")
    add("--delete-config K,K", "configs to remove")
    add_entities(parser)
    parser.epilog = (
        "Without any of these flags it lists every config key of Kafka and what this broker makes of it; "
        "then --scope broker|topic|group|client-metrics and --effect choose among them."
    )


async def run(tool: Tool) -> None:
    action = tool.one_of("describe", "alter", last=", ")
    if tool.options.bootstrap_server is None and tool.options.bootstrap_controller is None:
        raise ToolUsageError("Either --bootstrap-server or --bootstrap-controller must be specified")
    entities = entities_of(tool.options, action)
    for flag in _CHANGES:
        tool.only_with(flag, "alter")
    tool.never_with("add_config", "add_config_file")
    if action == "alter" and not any(tool.given(flag) for flag in _CHANGES):
        raise ToolUsageError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    added, deleted = added_configs(tool), deleted_configs(tool)
    try:
        async with tool.connect() as client:
            if action == "describe":
                await describe(tool, client, entities, tool.options.all)
            else:
                await alter(tool, client, entities, added, deleted)
    except ClientError as error:
        # Errors of the cluster or the client come with the arguments, errors of the tool's own checks without.
        if type(error) is not ClientError or error.__cause__ is not None:
            tool.warn(f"Error while executing config command with args '{' '.join(tool.arguments)}'")
        raise
