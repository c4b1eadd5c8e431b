"""DescribeUserScramCredentials v0 and AlterUserScramCredentials v0 (KIP-554).

Behaviour: credentials are kept as metadata and told without their keys; passwords come salted and are not kept. Who may
not see them is told so for each user, without its name, as by Kafka.
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster import scram
from pykafka_broker.cluster.authorizer import Rights
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from pykafka_broker.protocol.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
from pykafka_broker.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from pykafka_broker.protocol.messages.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


@handles(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
def describe_user_scram_credentials(
    services: Services, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    try:
        services.authorise(context, AclOperation.DESCRIBE, AclResourceType.CLUSTER)
    except ApiError as error:
        results = [DescribeUserScramCredentialsResult("", error.code, error.message) for _ in request.users or ()]
        return DescribeUserScramCredentialsResponse(0, error.code, error.message, results)
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
