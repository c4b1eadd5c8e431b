"""ACLs as metadata (KIP-801): created, deleted and described. Rule: requests that Kafka refuses are refused, in its
words.

An existing ACL is not made a second time. A request that would create or delete more than 10,000 ACLs does nothing.

The only reader is in another layer (`broker/api`); the authorizer needs the index alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from pykafka_broker.cluster.acl_index import WILDCARD, AccessControlEntry, index_of
from pykafka_broker.cluster.authorizer import CLUSTER_NAME
from pykafka_broker.cluster.controller import MAX_RECORDS_PER_OPERATION, Controller, Decision, invalid_request
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError, FrameError
from pykafka_broker.protocol.enums import (
    ACL_OPERATIONS,
    ACL_RESOURCE_TYPES,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from pykafka_broker.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from pykafka_broker.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from pykafka_broker.protocol.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from pykafka_broker.protocol.messages.describe_acls_request import DescribeAclsRequest
from pykafka_broker.protocol.stored.access_control_entry_record import AccessControlEntryRecord
from pykafka_broker.protocol.stored.remove_access_control_entry_record import RemoveAccessControlEntryRecord

UNKNOWN, ANY, MATCH = 0, 1, 2
_KINDS = frozenset(ACL_RESOURCE_TYPES)
_PATTERN_TYPES = frozenset((PatternType.LITERAL, PatternType.PREFIXED))
_OPERATIONS = frozenset((AclOperation.ALL, *ACL_OPERATIONS))
_PERMISSIONS = frozenset((AclPermissionType.DENY, AclPermissionType.ALLOW))
_FEW_FILTERS = 4  # filters not worth an index
_MOST_MATCHES = 10 * MAX_RECORDS_PER_OPERATION  # ACLs in one answer: filters may match the same ones
_MOST_COMPARED = 1_000_000  # ACLs with filters in one request, a third of a second
_STUMBLED = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
_TOO_MANY = invalid_request(f"Cannot remove more than {MAX_RECORDS_PER_OPERATION} acls in a single delete operation.")
_TOO_DEAR = invalid_request("Too many filters without a name, a principal or a host for the ACLs that there are.")


class Filter(NamedTuple):
    """A filter of ACLs. None, and ANY for numbers, match every value."""

    kind: int
    name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: AccessControlEntry) -> bool:
        return (
            self.kind in (ANY, acl.resource_type)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: AccessControlEntry) -> bool:
        if self.pattern_type not in (ANY, MATCH, acl.pattern_type):
            return False
        if self.name is None or self.name == acl.resource_name:
            return True
        if self.pattern_type != MATCH:
            return False
        if acl.pattern_type == PatternType.LITERAL:
            return acl.resource_name == WILDCARD
        return self.name.startswith(acl.resource_name)


def filter_of(wanted: DescribeAclsRequest | DeleteAclsFilter) -> Filter:
    return Filter(
        wanted.resource_type_filter,
        wanted.resource_name_filter,
        wanted.pattern_type_filter,
        wanted.principal_filter,
        wanted.host_filter,
        wanted.operation,
        wanted.permission_type,
    )


def check_known(kind: int, pattern_type: int, operation: int, permission: int) -> None:
    """Close the connection for an element of the type UNKNOWN; like Kafka, let other numbers without a meaning pass.

    Raises FrameError: an element is UNKNOWN.
    """
    if UNKNOWN in (kind, pattern_type, operation, permission):
        raise FrameError("an ACL or a filter of ACLs with an element of the type UNKNOWN")


def check_creations(request: CreateAclsRequest) -> None:
    """Check the elements of all creations. Raises FrameError: an element is UNKNOWN."""
    for one in request.creations:
        check_known(one.resource_type, one.resource_pattern_type, one.operation, one.permission_type)


def check_filters(request: DeleteAclsRequest) -> None:
    """Check the elements of all filters. Raises FrameError: an element is UNKNOWN."""
    for one in request.filters:
        check_known(one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type)


def create_acls(controller: Controller, request: CreateAclsRequest) -> Decision[CreateAclsResponse]:
    index = index_of(controller.image)
    for one in request.creations:
        if ANY in (one.resource_type, one.resource_pattern_type, one.operation, one.permission_type) or (
            one.resource_pattern_type == MATCH
        ):  # Kafka stumbles over it
            return Decision([], refused_creations(request, _STUMBLED))
    records: dict[tuple[object, ...], ApiMessageAndVersion] = {}
    results = []
    for one in request.creations:
        try:
            _check(one, controller.config.is_of_4_4)
            results.append(AclCreationResult(0, ""))
            if len(records) > MAX_RECORDS_PER_OPERATION:
                continue  # nothing will be created
            record = _record(one)
            key = tuple(getattr(record, name) for name in record.__match_args__[1:])
            if key not in records and not index.holds(record):
                record.id = controller.new_uuid()
                records[key] = ApiMessageAndVersion(record, 0)
        except ApiError as error:
            results.append(AclCreationResult(error.code, error.message))
    if len(records) > MAX_RECORDS_PER_OPERATION:
        for result in results:
            if not result.error_code:
                result.error_code = ErrorCode.POLICY_VIOLATION
                result.error_message = "Unable to perform excessively large batch operation."
        return Decision([], CreateAclsResponse(results=results))
    return Decision(list(records.values()), CreateAclsResponse(results=results))


def refused_creations(request: CreateAclsRequest, error: ApiError) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(error.code, error.message) for _ in request.creations])


def refused_filters(request: DeleteAclsRequest, error: ApiError) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error.code, error.message) for _ in request.filters]
    )


def _check(one: AclCreation, is_of_4_4: bool) -> None:
    """Check a creation. Raises ApiError: a field is wrong."""
    if one.resource_type == AclResourceType.CLUSTER and one.resource_name != CLUSTER_NAME:
        raise invalid_request(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not one.resource_name:
        raise invalid_request("Invalid empty resource name")
    for number, known, what in (
        (one.resource_type, _KINDS, "resourceType"),
        (one.resource_pattern_type, _PATTERN_TYPES, "patternType"),
        (one.operation, _OPERATIONS, "operation"),
        (one.permission_type, _PERMISSIONS, "permissionType"),
    ):
        if number not in known:
            raise invalid_request(f"Invalid {what} UNKNOWN")
    if ":" not in one.principal:
        raise invalid_request(
            f"Could not parse principal from `{one.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    if not one.host and is_of_4_4:
        raise invalid_request("Host pattern cannot be null or empty")


def _record(one: AclCreation) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        resource_type=one.resource_type,
        resource_name=one.resource_name,
        pattern_type=one.resource_pattern_type,
        principal=one.principal,
        host=one.host,
        operation=one.operation,
        permission_type=one.permission_type,
    )


def delete_acls(controller: Controller, request: DeleteAclsRequest) -> Decision[DeleteAclsResponse]:
    candidates = _candidates(controller.image, len(request.filters))
    removed: dict[bytes, ApiMessageAndVersion] = {}
    results = []
    matches = compared = 0
    for wanted in request.filters:
        one = filter_of(wanted)
        problem = _problem(one)
        if problem is not None:
            results.append(DeleteAclsFilterResult(ErrorCode.INVALID_REQUEST, problem))
            continue
        worth_a_look = candidates(one)
        compared += len(worth_a_look)
        if compared > _MOST_COMPARED:
            return Decision([], refused_filters(request, _TOO_DEAR))
        found = matching(worth_a_look, one)
        for acl in found:
            removed[acl.id] = ApiMessageAndVersion(RemoveAccessControlEntryRecord(acl.id), 0)
        matches += len(found)
        if len(removed) > MAX_RECORDS_PER_OPERATION or matches > _MOST_MATCHES:
            return Decision([], refused_filters(request, _TOO_MANY))
        results.append(DeleteAclsFilterResult(0, None, [_matching_acl(acl) for acl in found]))
    return Decision(list(removed.values()), DeleteAclsResponse(filter_results=results))


def _problem(wanted: Filter) -> str | None:
    if wanted.kind not in _KINDS | {ANY} or wanted.pattern_type not in _PATTERN_TYPES | {ANY, MATCH}:
        return "Unknown patternFilter."
    if wanted.operation not in _OPERATIONS | {ANY} or wanted.permission not in _PERMISSIONS | {ANY}:
        return "Unknown entryFilter."
    return None


def _matching_acl(acl: AccessControlEntryRecord) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        0,
        None,
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )


Acls = Sequence[AccessControlEntryRecord]


def matching(acls: Acls, wanted: Filter) -> list[AccessControlEntryRecord]:
    return list(filter(wanted.matches, acls))


def _candidates(image: MetadataImage, filters: int) -> Callable[[Filter], Acls]:
    """Return a function that gives the ACLs to compare with a filter: with many of both, not all."""
    acls: list[AccessControlEntryRecord] = list(image.acls.values())
    if filters <= _FEW_FILTERS:
        return lambda wanted: acls
    by_name: dict[str, list[AccessControlEntryRecord]] = {}
    by_principal: dict[str, list[AccessControlEntryRecord]] = {}
    by_host: dict[str, list[AccessControlEntryRecord]] = {}
    for acl in acls:
        by_name.setdefault(acl.resource_name, []).append(acl)
        by_principal.setdefault(acl.principal, []).append(acl)
        by_host.setdefault(acl.host, []).append(acl)
    lengths = sorted({len(name) for name in by_name})  # a filter's name may be much longer than all names of ACLs

    def candidates(wanted: Filter) -> Acls:
        if wanted.name is not None:
            return [acl for name in _names_met(wanted, lengths) for acl in by_name.get(name, ())]
        if wanted.principal is not None:
            return by_principal.get(wanted.principal, [])
        return acls if wanted.host is None else by_host.get(wanted.host, [])

    return candidates


def _names_met(wanted: Filter, lengths: Iterable[int]) -> Iterator[str]:
    """Yield the names of patterns which a filter with a name may match; `lengths` are those of all patterns' names."""
    name = wanted.name or ""
    yield name
    if wanted.pattern_type == MATCH:
        if name != WILDCARD:
            yield WILDCARD
        for length in lengths:
            if length < len(name) and name[:length] != WILDCARD:
                yield name[:length]
