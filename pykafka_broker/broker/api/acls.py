"""DescribeAcls, CreateAcls and DeleteAcls v0-v3.

Behaviour: no authorizer is configured, so each of them answers SECURITY_DISABLED, as a broker of Kafka does. A type, a
pattern, an operation or a permission that calls itself unknown closes the connection, as there.
Versions: 1 patterns by prefix (KIP-290), 3 users as resources (KIP-373); they make no difference to the answer.
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.authorizer import Operation, Resource
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_acls_request import CreateAclsRequest
from pykafka_broker.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from pykafka_broker.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from pykafka_broker.protocol.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse
from pykafka_broker.protocol.messages.describe_acls_request import DescribeAclsRequest
from pykafka_broker.protocol.messages.describe_acls_response import DescribeAclsResponse

_UNKNOWN = 0  # in each of the four; Kafka lets numbers pass that stand for nothing
_DISABLED = "No Authorizer is configured."


@handles(ApiKey.DESCRIBE_ACLS)
def describe_acls(services: Services, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    services.authorise(context, Operation.DESCRIBE, Resource.CLUSTER)
    _check_filter(request)
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )


@handles(ApiKey.CREATE_ACLS)
def create_acls(services: Services, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    services.authorise(context, Operation.ALTER, Resource.CLUSTER)
    for one in request.creations:
        _check_known(one.resource_type, one.resource_pattern_type, one.operation, one.permission_type)
    results = [AclCreationResult(ErrorCode.SECURITY_DISABLED, _DISABLED) for _ in request.creations]
    return CreateAclsResponse(results=results)


@handles(ApiKey.DELETE_ACLS)
def delete_acls(services: Services, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    services.authorise(context, Operation.ALTER, Resource.CLUSTER)
    for one in request.filters:
        _check_filter(one)
    results = [DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, _DISABLED) for _ in request.filters]
    return DeleteAclsResponse(filter_results=results)


def _check_filter(wanted: DescribeAclsRequest | DeleteAclsFilter) -> None:
    _check_known(wanted.resource_type_filter, wanted.pattern_type_filter, wanted.operation, wanted.permission_type)


def _check_known(resource_type: int, pattern: int, operation: int, permission: int) -> None:
    if _UNKNOWN in (resource_type, pattern, operation, permission):
        raise FrameError("an ACL with a type, pattern, operation or permission that is unknown")
