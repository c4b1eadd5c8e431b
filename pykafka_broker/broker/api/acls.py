"""DescribeAcls, CreateAcls and DeleteAcls v0-v3.

Behaviour: without an authorizer each of them answers SECURITY_DISABLED, as a broker of Kafka does. A type, a pattern,
an operation or a permission that calls itself unknown closes the connection, as there.
Versions: 1 patterns by prefix (KIP-290), 3 users as resources (KIP-373); they make no difference to the answer.
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting import Answer
from pykafka_broker.cluster import acls
from pykafka_broker.cluster.authorizer import AllowAll, Rights
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_acls_request import CreateAclsRequest
from pykafka_broker.protocol.messages.create_acls_response import CreateAclsResponse
from pykafka_broker.protocol.messages.delete_acls_request import DeleteAclsRequest
from pykafka_broker.protocol.messages.delete_acls_response import DeleteAclsResponse
from pykafka_broker.protocol.messages.describe_acls_request import DescribeAclsRequest
from pykafka_broker.protocol.messages.describe_acls_response import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)

_DISABLED = "No Authorizer is configured."


@handles(ApiKey.DESCRIBE_ACLS)
def describe_acls(
    services: Services, context: RequestContext, request: DescribeAclsRequest
) -> Answer[DescribeAclsResponse]:
    acls.check_known(
        request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type
    )
    services.authorise(context, AclOperation.DESCRIBE, AclResourceType.CLUSTER)
    if type(services.authorizer) is AllowAll:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
        )
    found = acls.matching(list(services.image.acls.values()), acls.filter_of(request))
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in found:
        pattern = acl.resource_type, acl.resource_name, acl.pattern_type
        resource = resources.get(pattern)
        if resource is None:
            resource = resources[pattern] = DescribeAclsResource(*pattern)
        resource.acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission_type))
    return DescribeAclsResponse(error_message="", resources=list(resources.values()))


@handles(ApiKey.CREATE_ACLS)
def create_acls(
    controller: Controller, context: RequestContext, request: CreateAclsRequest
) -> Decision[CreateAclsResponse]:
    acls.check_creations(request)
    try:
        _check_rights(controller, context)
    except ApiError as error:
        return Decision([], acls.refused_creations(request, error))
    return acls.create_acls(controller, request)


@handles(ApiKey.DELETE_ACLS)
def delete_acls(
    controller: Controller, context: RequestContext, request: DeleteAclsRequest
) -> Decision[DeleteAclsResponse]:
    acls.check_filters(request)
    try:
        _check_rights(controller, context)
    except ApiError as error:
        return Decision([], acls.refused_filters(request, error))
    return acls.delete_acls(controller, request)


def _check_rights(controller: Controller, context: RequestContext) -> None:
    Rights(controller.authorizer, context).require(AclOperation.ALTER, AclResourceType.CLUSTER)
    if type(controller.authorizer) is AllowAll:
        raise ApiError(ErrorCode.SECURITY_DISABLED, _DISABLED)
