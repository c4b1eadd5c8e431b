"""`kafka-configs --alter`.

Rule: a value in square brackets may have commas in it; the brackets do not belong to it. Nothing that was to be added
stands in the text of an error, since it may be a password.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.configs import (
    DEFAULT_ITERATIONS,
    ConfigChange,
    Mechanism,
    NewCredential,
    Resource,
    alter_configs,
    alter_credentials,
    alter_quotas,
    describe_configs,
    describe_quotas,
)
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.properties import double, java_split, read_properties
from pykafka_broker.protocol.enums import AlterConfigOp, ConfigResourceType, QuotaMatch
from pykafka_broker.tools.config_entities import DEFAULT, QUOTAS, RESOURCES, Entity
from pykafka_broker.tools.frame import Tool, UsageError

USER_QUOTAS = ("consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate", "request_percentage")
IP_QUOTAS = ("connection_creation_rate",)
_SCRAM = {each.spelt: each for each in Mechanism}
_OUTSIDE = r"(?=[^\]]*(?:\[|$))"  # of square brackets
_PAIR = re.compile(r"\s*=\s*" + _OUTSIDE)
_CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]+),)?password=(.*)", re.DOTALL)
_MIN_ITERATIONS = 4096
_KEY = re.compile(r"[a-zA-Z0-9._-]*")


def added_configs(tool: Tool) -> dict[str, str]:
    """Of `--add-config` or `--add-config-file`. Raises UsageError, Unusable."""
    options = tool.options
    if options.add_config_file is not None:
        return read_properties(options.add_config_file)
    found = {}
    for each in java_split("," + _OUTSIDE, options.add_config) if options.add_config else []:
        pair = _PAIR.split(each)
        if len(pair) != 2:
            raise UsageError("Invalid entity config: --add-config takes key=value,... or key=[value1,value2]")
        key = pair[0].strip()
        if not _KEY.fullmatch(key):
            raise UsageError(f"Invalid character found for config key: {key}")
        found[key] = re.sub(r"[\[\]]", "", pair[1]).strip()
    return found


def deleted_configs(tool: Tool) -> list[str]:
    """Of `--delete-config`."""
    text = tool.options.delete_config
    return [each.strip() for each in java_split(",", text)] if text else []


async def alter(
    tool: Tool, client: Client, entities: Sequence[Entity], added: dict[str, str], deleted: list[str]
) -> None:
    """Raises ClientError."""
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
    parts = [
        (QUOTAS[each.type], QuotaMatch.EXACT if each.name else QuotaMatch.DEFAULT, each.name or None)
        for each in entities
    ]
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


def _credential(mechanism: Mechanism, text: str) -> NewCredential:
    match = _CREDENTIAL.fullmatch(text)
    if match is None:
        raise ClientError(f"{mechanism.spelt} takes [iterations=N,password=PASSWORD] or [password=PASSWORD]")
    iterations = DEFAULT_ITERATIONS if match[1] is None else int(match[1])
    if iterations < _MIN_ITERATIONS:
        raise ClientError(
            f"Iterations {iterations} is less than the minimum {_MIN_ITERATIONS} required for {mechanism.spelt}"
        )
    return NewCredential(mechanism, iterations, match[2])
