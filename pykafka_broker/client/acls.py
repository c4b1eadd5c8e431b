"""ACLs of a cluster: asked about, added and removed.

Rule: what is asked with a pattern that brokers before 2.0 don't know is refused there, and is never asked in another
way. A filter leaves open what is None or ANY.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, check
from pykafka_broker.protocol.enums import AclOperation, AclPermissionType, AclResourceType, PatternType
from pykafka_broker.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from pykafka_broker.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from pykafka_broker.protocol.messages.describe_acls_request import DescribeAclsRequest

# -- principals


def split_principal(principal: str) -> tuple[str, str]:
    """Type and name. Raises ClientError."""
    kind, colon, name = principal.partition(":")
    if not colon:  # Kafka takes an empty type and an empty name
        raise ClientError(f"expected a string in format principalType:principalName but got {principal}")
    return kind, name


# -- ACLs


_E = TypeVar("_E", bound=IntEnum)


class Pattern(NamedTuple):
    """Of resources; its text is that of Kafka's tools."""

    type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY

    def __str__(self) -> str:
        return f"ResourcePattern(resourceType={self.type.name}, name={self.name}, patternType={self.pattern_type.name})"


class Entry(NamedTuple):
    """Who may do what, from where; its text is that of Kafka's tools."""

    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission_type.name})"
        )


class Acl(NamedTuple):
    """One of them, or a filter."""

    pattern: Pattern = Pattern()
    entry: Entry = Entry()


async def describe_acls(client: Client, wanted: Acl) -> list[Acl]:
    """Those that match, in order. Raises ClientError."""
    answer = await client.ask(DescribeAclsRequest(*_as_sent(wanted)), call="describeAcls")
    check(answer.error_code, answer.error_message)
    found = []
    for resource in answer.resources:
        found += [Acl(_pattern(resource), _entry(each)) for each in resource.acls]
    return sorted(found)


async def create_acls(client: Client, acls: Sequence[Acl]) -> None:
    """Raises ClientError with the first error; the others are there all the same."""
    request = CreateAclsRequest([AclCreation(*_as_sent(each)) for each in acls])
    answer = await client.ask_controller(request, call="createAcls")
    for each in answer.results:
        check(each.error_code, each.error_message)


async def delete_acls(client: Client, filters: Sequence[Acl]) -> list[Acl]:
    """All that match one of the filters; those that are gone. Raises ClientError with the first error."""
    request = DeleteAclsRequest([DeleteAclsFilter(*_as_sent(each)) for each in filters])
    answer = await client.ask_controller(request, call="deleteAcls")
    gone = []
    for result in answer.filter_results:
        check(result.error_code, result.error_message)
        for each in result.matching_acls:
            check(each.error_code, each.error_message)
            gone.append(Acl(_pattern(each), _entry(each)))
    return gone


def _as_sent(acl: Acl) -> tuple[Any, ...]:
    """The seven fields of a filter, and of an ACL that leaves nothing open."""
    pattern, entry = acl
    who = entry.principal, entry.host, int(entry.operation), int(entry.permission_type)
    return int(pattern.type), pattern.name, int(pattern.pattern_type), *who


def _pattern(told: Any) -> Pattern:
    kind = _known(AclResourceType, told.resource_type)
    return Pattern(kind, told.resource_name, _known(PatternType, told.pattern_type))


def _entry(told: Any) -> Entry:
    operation, permission_type = _known(AclOperation, told.operation), _known(AclPermissionType, told.permission_type)
    return Entry(told.principal, told.host, operation, permission_type)


def _known(kind: type[_E], value: int) -> _E:
    """Brokers of tomorrow may have more."""
    return kind(value) if value in kind.__members__.values() else kind(0)
