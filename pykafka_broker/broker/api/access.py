"""Rights and quotas of clients: DescribeAcls, CreateAcls, DeleteAcls v0-v3, DescribeClientQuotas, AlterClientQuotas
v0-v1 (KIP-546), DescribeUserScramCredentials, AlterUserScramCredentials v0 (KIP-554). All of them are kept as metadata.

ACLs: without an authorizer each of the three answers SECURITY_DISABLED, as a broker of Kafka does. A type, a pattern,
an operation or a permission UNKNOWN closes the connection, as with Kafka. Versions: 1 patterns by prefix (KIP-290), 3
users as resources (KIP-373); they make no difference to the answer.

Quotas: the entries are an empty list where nothing matches, and null only beside an error, as with Kafka. Versions: 1
is the flexible encoding.

SCRAM credentials are told without their keys; passwords come salted and are not kept. A client without the right is
told so for each user, without the user's name, as by Kafka.
"""

from __future__ import annotations

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster import acls, quotas, scram
from pykafka_broker.cluster.authorizer import AllowAll, Rights
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from pykafka_broker.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from pykafka_broker.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from pykafka_broker.protocol.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
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
from pykafka_broker.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from pykafka_broker.protocol.messages.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from pykafka_broker.protocol.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from pykafka_broker.protocol.messages.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
)


@handles(ApiKey.DESCRIBE_ACLS)
def describe_acls(services: Services, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    acls.check_known(
        request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type
    )
    services.authorise(context, AclOperation.DESCRIBE, AclResourceType.CLUSTER)
    if type(services.authorizer) is AllowAll:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
        )
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in acls.matching(list(services.image.acls.values()), acls.filter_of(request)):
        pattern = acl.resource_type, acl.resource_name, acl.pattern_type
        resource = resources.setdefault(pattern, DescribeAclsResource(*pattern))
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
        raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


@handles(ApiKey.DESCRIBE_CLIENT_QUOTAS)
def describe_client_quotas(
    services: Services, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    services.authorise(context, AclOperation.DESCRIBE_CONFIGS, AclResourceType.CLUSTER)
    entries = [
        EntryData(
            [EntityData(kind, name) for kind, name in entity], [ValueData(key, value) for key, value in values.items()]
        )
        for entity, values in quotas.describe_client_quotas(services.image, request.components, request.strict)
    ]
    return DescribeClientQuotasResponse(entries=entries)


@handles(ApiKey.ALTER_CLIENT_QUOTAS)
def alter_client_quotas(
    controller: Controller, context: RequestContext, request: AlterClientQuotasRequest
) -> Decision[AlterClientQuotasResponse]:
    Rights(controller.authorizer, context).require(AclOperation.ALTER_CONFIGS, AclResourceType.CLUSTER)
    return quotas.alter_client_quotas(controller, request)


@handles(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
def describe_user_scram_credentials(
    services: Services, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    services.authorise(context, AclOperation.DESCRIBE, AclResourceType.CLUSTER)
    users = None if request.users is None else [user.name for user in request.users]
    return scram.describe_user_scram_credentials(services.image, users)


@handles(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
def alter_user_scram_credentials(
    controller: Controller, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> Decision[AlterUserScramCredentialsResponse]:
    try:
        Rights(controller.authorizer, context).require(AclOperation.ALTER, AclResourceType.CLUSTER)
    except ApiError as error:
        return Decision([], scram.refusal(request, error))
    return scram.alter_user_scram_credentials(controller, request)
