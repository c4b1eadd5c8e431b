"""ACLs of a cluster: list, create and delete them; principals as Kafka writes them (`User:alice`).

Rule: a pattern type that a broker before 2.0 does not know is refused by that broker, and the request is never repeated
in another form. A filter leaves open each field that is None or ANY.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, check, check_all
from pykafka_broker.protocol.enums import AclOperation, AclPermissionType, AclResourceType, PatternType
from pykafka_broker.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from pykafka_broker.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from pykafka_broker.protocol.messages.describe_acls_request import DescribeAclsRequest

# -- principals


def split_principal(principal: str) -> tuple[str, str]:
    """Split `User:alice` at the first colon into type and name. Raises ClientError."""
    kind, colon, name = principal.partition(":")
    if not colon:  # Kafka takes an empty type and an empty name
        raise ClientError(f"expected a string in format principalType:principalName but got {principal}")
    return kind, name


# -- ACLs


_E = TypeVar("_E", bound=IntEnum)


class ResourcePattern(NamedTuple):
    """A pattern of resources (Kafka: ResourcePattern), with the text of Kafka's tools."""

    type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY

    def __str__(self) -> str:
        return f"ResourcePattern(resourceType={self.type.name}, name={self.name}, patternType={self.pattern_type.name})"


class AclEntry(NamedTuple):
    """A principal, a host, an operation, and allow or deny (Kafka: AccessControlEntry).

    The text is that of Kafka's tools.
    """

    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission_type.name})"
        )


class AclBinding(NamedTuple):
    """An ACL, or a filter of ACLs (Kafka: AclBinding, AclBindingFilter)."""

    pattern: ResourcePattern = ResourcePattern()
    entry: AclEntry = AclEntry()


async def describe_acls(client: Client, wanted: AclBinding) -> list[AclBinding]:
    """Return the ACLs matched by the filter, sorted. Raises ClientError."""
    answer = await client.ask(DescribeAclsRequest(*_as_sent(wanted)), call="describeAcls")
    check(answer.error_code, answer.error_message)
    return sorted(AclBinding(_pattern(each), _entry(acl)) for each in answer.resources for acl in each.acls)


async def create_acls(client: Client, acls: Sequence[AclBinding]) -> None:
    """Create ACLs. Raises ClientError with the first error; the other ACLs are created all the same."""
    request = CreateAclsRequest([AclCreation(*_as_sent(each)) for each in acls])
    answer = await client.ask_controller(request, call="createAcls")
    check_all(answer.results)


async def delete_acls(client: Client, filters: Sequence[AclBinding]) -> list[AclBinding]:
    """Delete the ACLs matched by any of the filters, and return them. Raises ClientError with the first error."""
    request = DeleteAclsRequest([DeleteAclsFilter(*_as_sent(each)) for each in filters])
    answer = await client.ask_controller(request, call="deleteAcls")
    gone = []
    for result in answer.filter_results:
        check(result.error_code, result.error_message)
        for each in result.matching_acls:
            check(each.error_code, each.error_message)
            gone.append(AclBinding(_pattern(each), _entry(each)))
    return gone


def _as_sent(acl: AclBinding) -> tuple[Any, ...]:
    """Return the seven fields of a filter, and of an ACL without open fields."""
    pattern, entry = acl
    who = entry.principal, entry.host, int(entry.operation), int(entry.permission_type)
    return int(pattern.type), pattern.name, int(pattern.pattern_type), *who


def _pattern(told: Any) -> ResourcePattern:
    kind = _known(AclResourceType, told.resource_type)
    return ResourcePattern(kind, told.resource_name, _known(PatternType, told.pattern_type))


def _entry(told: Any) -> AclEntry:
    operation, permission_type = _known(AclOperation, told.operation), _known(AclPermissionType, told.permission_type)
    return AclEntry(told.principal, told.host, operation, permission_type)


def _known(kind: type[_E], value: int) -> _E:
    """Return a member of an enum, or the unknown member: newer brokers may send more values."""
    return kind(value) if value in kind.__members__.values() else kind(0)
