"""DescribeAcls, CreateAcls and DeleteAcls v0-v3.

Behaviour: no authorizer is configured, so each of them answers SECURITY_DISABLED, as a broker of Kafka does.
Versions: 1 patterns by prefix (KIP-290), 3 users as resources (KIP-373); they make no difference to the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_acls_request import CreateAclsRequest
from pykafka_broker.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from pykafka_broker.protocol.messages.delete_acls_request import DeleteAclsRequest
from pykafka_broker.protocol.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse
from pykafka_broker.protocol.messages.describe_acls_request import DescribeAclsRequest
from pykafka_broker.protocol.messages.describe_acls_response import DescribeAclsResponse

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker

_DISABLED = "No Authorizer is configured."


@handles(ApiKey.DESCRIBE_ACLS)
def describe_acls(broker: Broker, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )


@handles(ApiKey.CREATE_ACLS)
def create_acls(broker: Broker, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    results = [AclCreationResult(ErrorCode.SECURITY_DISABLED, _DISABLED) for _ in request.creations]
    return CreateAclsResponse(results=results)


@handles(ApiKey.DELETE_ACLS)
def delete_acls(broker: Broker, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    results = [DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, _DISABLED) for _ in request.filters]
    return DeleteAclsResponse(filter_results=results)
