"""The rights of clients (Kafka: Authorizer).

Rule: the authorizer is asked first about everything that a client asks for, by operation, kind of resource and name, as
Kafka's documentation lists it ("Authorization and ACLs", operations and resources on protocols). Operations and kinds
have the numbers of the protocol.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType, ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode

logger = logging.getLogger("kafka.authorizer.logger")  # as Kafka calls it: operators look there

CLUSTER_NAME = "kafka-cluster"  # the one resource of the kind CLUSTER
INSIDE = (
    "Inside:control"  # the principal of requests from inside the process, with all rights; clients have another type
)

# The operations on each kind of resource; the bits of "authorized operations" (KIP-430).
OPERATIONS = {
    AclResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    AclResourceType.TRANSACTIONAL_ID: (AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.TWO_PHASE_COMMIT),
    AclResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    AclResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
NOT_ASKED = -(1 << 31)  # instead of the bit set, if the client did not ask for it
_DENIALS = {
    AclResourceType.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    AclResourceType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    AclResourceType.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    AclResourceType.TRANSACTIONAL_ID: (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
    AclResourceType.DELEGATION_TOKEN: (
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        "Delegation Token authorization failed.",
    ),
    AclResourceType.USER: (ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, "Delegation Token authorization failed."),
}
# The resource on which a right to see or change configs is needed.
_CONFIGURED: dict[int, AclResourceType] = {
    ConfigResourceType.TOPIC: AclResourceType.TOPIC,
    ConfigResourceType.GROUP: AclResourceType.GROUP,
    ConfigResourceType.BROKER: AclResourceType.CLUSTER,
    ConfigResourceType.BROKER_LOGGER: AclResourceType.CLUSTER,
    ConfigResourceType.CLIENT_METRICS: AclResourceType.CLUSTER,
}


def denial(resource: AclResourceType) -> ApiError:
    """Return the answer for a client without a right on a resource of the kind, in Kafka's words."""
    return ApiError(*_DENIALS[resource])


class Authorizer(Protocol):
    """Decides on each topic, group and so on of each request: a call must cost next to nothing."""

    def allows(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        """Return whether `principal` ("User:alice"), calling from `host`, may do the operation."""

    def allows_some(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType) -> bool:
        """Return whether the operation is allowed for any name of a resource, existing or not."""

    def rule(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> str:
        """Return the rule behind the decision, for the line of a denial in the log."""
        return type(self).__name__


class AllowAll:
    """An authorizer for brokers without a configured authorizer."""

    def allows(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        return True

    def allows_some(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType) -> bool:
        return True

    def rule(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> str:
        return "SuperUser"


class AuthorizableConnection(Protocol):
    """The connection of a request, with the client's principal and host."""

    @property
    def principal(self) -> str: ...

    @property
    def client_host(self) -> str: ...


class AuthorizableRequest(Protocol):
    """A request in the authorizer's view (Kafka: AuthorizableRequestContext)."""

    @property
    def api_key(self) -> int: ...

    @property
    def connection(self) -> AuthorizableConnection: ...


def log_denial(
    authorizer: Authorizer, asking: AuthorizableRequest, operation: AclOperation, resource: AclResourceType, name: str
) -> None:
    """Log a denial in Kafka's words."""
    if logger.isEnabledFor(logging.INFO):
        client = asking.connection
        logger.info(
            "Principal = %s is Denied operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s "
            "with resourceRefCount = 1 based on rule %s",
            client.principal,
            operation.name,
            client.client_host,
            _camel(resource.name),
            name if name.isprintable() else repr(name),  # the client chooses the name
            _camel(ApiKey(asking.api_key).name),
            authorizer.rule(client.principal, client.client_host, operation, resource, name),
        )


def _camel(name: str) -> str:
    return name.title().replace("_", "")


def allows(
    authorizer: Authorizer,
    asking: AuthorizableRequest,
    operation: AclOperation,
    resource: AclResourceType,
    name: str = CLUSTER_NAME,
    *,
    log: bool = True,
) -> bool:
    """Return whether the sender of a request may do the operation; `log`: see `Rights`."""
    client = asking.connection
    if authorizer.allows(client.principal, client.client_host, operation, resource, name):
        return True
    if log:
        log_denial(authorizer, asking, operation, resource, name)
    return False


def authorise(
    authorizer: Authorizer,
    asking: AuthorizableRequest,
    operation: AclOperation,
    resource: AclResourceType,
    name: str = CLUSTER_NAME,
    *,
    log: bool = True,
) -> None:
    """Check a right of a request's sender; `log`: see `Rights`.

    Raises:
        ApiError: the denial of the resource's kind: TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED and so on.
    """
    client = asking.connection
    if not authorizer.allows(client.principal, client.client_host, operation, resource, name):
        if log:
            log_denial(authorizer, asking, operation, resource, name)
        raise denial(resource)


def who_may_see(authorizer: Authorizer, asking: AuthorizableRequest) -> Callable[[str], bool] | None:
    """Return a function telling whether the sender may describe a topic; None if everybody may describe all."""
    if type(authorizer) is AllowAll:
        return None
    return partial(allows, authorizer, asking, AclOperation.DESCRIBE, AclResourceType.TOPIC, log=False)


class Rights:
    """The rights of a request's sender.

    A denial is logged unless `log` is false: there, Kafka only looks whether something may be shown, or done in another
    way.
    """

    __slots__ = ("_asking", "_authorizer", "allow", "require")

    def __init__(self, authorizer: Authorizer, asking: AuthorizableRequest) -> None:
        self._authorizer = authorizer
        self._asking = asking
        self.allow = partial(allows, authorizer, asking)
        self.require = partial(authorise, authorizer, asking)

    def allow_some(self, operation: AclOperation, resource: AclResourceType) -> bool:
        """Return whether the operation is allowed for any name."""
        client = self._asking.connection
        return self._authorizer.allows_some(client.principal, client.client_host, operation, resource)

    def require_config(self, operation: AclOperation, kind: int, name: str) -> None:
        """Check a right on configs; `kind` is a `ConfigResourceType`.

        An unknown kind is refused later, by the search for its configs.
        """
        resource = _CONFIGURED.get(kind)
        if resource is not None:
            self.require(operation, resource, CLUSTER_NAME if resource is AclResourceType.CLUSTER else name)

    def operations(self, resource: AclResourceType, name: str = CLUSTER_NAME) -> int:
        """Return the bit set of allowed operations on the resource: bit 3 is READ, and so on."""
        if type(self._authorizer) is AllowAll:
            return _ALL[resource]
        return sum(
            1 << operation for operation in OPERATIONS[resource] if self.allow(operation, resource, name, log=False)
        )


_ALL = {resource: sum(1 << operation for operation in operations) for resource, operations in OPERATIONS.items()}


class _Node:
    """The node itself as a sender."""

    principal = client_host = ""
    api_key = ApiKey.ENVELOPE

    @property
    def connection(self) -> _Node:
        return self


ANYTHING = Rights(AllowAll(), _Node())
