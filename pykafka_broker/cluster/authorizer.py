"""Who may do what.

Rule: everything that a client asks for is asked of the authorizer first, by operation, kind of resource and name, as
Kafka's documentation lists it ("Authorization and ACLs", operations and resources on protocols). Operations and kinds
have the numbers that the protocol gives them.
"""

from __future__ import annotations

import logging
from typing import Protocol

from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType, ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode

logger = logging.getLogger("kafka.authorizer.logger")  # as Kafka calls it: operators look there

CLUSTER_NAME = "kafka-cluster"  # the one resource of the kind CLUSTER
INSIDE = "Inside:control"  # who asks from inside the process and may do everything; a client's name has another type

# What there is to be allowed of each kind; the bits of "authorized operations" (KIP-430).
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
}
NOT_ASKED = -(1 << 31)  # in place of such a bit set, where the client did not want one
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
# What one needs a right on to see or change configs.
_CONFIGURED: dict[int, AclResourceType] = {
    ConfigResourceType.TOPIC: AclResourceType.TOPIC,
    ConfigResourceType.GROUP: AclResourceType.GROUP,
    ConfigResourceType.BROKER: AclResourceType.CLUSTER,
    ConfigResourceType.BROKER_LOGGER: AclResourceType.CLUSTER,
    ConfigResourceType.CLIENT_METRICS: AclResourceType.CLUSTER,
}


def denial(resource: AclResourceType) -> ApiError:
    """What a client is told that may not do something to a resource of this kind, in Kafka's words."""
    return ApiError(*_DENIALS[resource])


class Authorizer(Protocol):
    """Asked for each topic, group and so on of each request: it must cost next to nothing."""

    def allows(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        """Whether `principal` ("User:alice"), who calls from `host`, may do this."""

    def allows_some(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType) -> bool:
        """Whether there is a name at all for which that is allowed, of a resource that exists or not."""

    def rule(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> str:
        """What that is decided by, for the line of a denial in the log."""
        return type(self).__name__


class AllowAll:
    """Where no authorizer is configured."""

    def allows(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        return True

    def allows_some(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType) -> bool:
        return True

    def rule(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> str:
        return "SuperUser"


class Client(Protocol):
    """Who asks: a connection knows it."""

    @property
    def principal(self) -> str: ...

    @property
    def client_host(self) -> str: ...


class Asking(Protocol):
    """A request as the authorizer sees it."""

    @property
    def api_key(self) -> int: ...

    @property
    def connection(self) -> Client: ...


def tell_denial(
    authorizer: Authorizer, asking: Asking, operation: AclOperation, resource: AclResourceType, name: str
) -> None:
    """One line in the log, as Kafka writes it."""
    if logger.isEnabledFor(logging.INFO):
        client = asking.connection
        logger.info(
            "Principal = %s is Denied operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s "
            "with resourceRefCount = 1 based on rule %s",
            client.principal,
            operation.name,
            client.client_host,
            _camel(resource.name),
            name if name.isprintable() else repr(name),  # it is the client's to choose
            _camel(ApiKey(asking.api_key).name),
            authorizer.rule(client.principal, client.client_host, operation, resource, name),
        )


def _camel(name: str) -> str:
    return name.title().replace("_", "")


class Rights:
    """What whoever asks may do. A denial is told in the log, but where `log` is false: there, Kafka only looks whether
    something may be shown, or done in another way.
    """

    __slots__ = ("_asking", "_authorizer", "_host", "_principal")

    def __init__(self, authorizer: Authorizer, asking: Asking) -> None:
        self._authorizer = authorizer
        self._asking = asking
        self._principal = asking.connection.principal
        self._host = asking.connection.client_host

    def allow(
        self, operation: AclOperation, resource: AclResourceType, name: str = CLUSTER_NAME, *, log: bool = True
    ) -> bool:
        """Whether that is allowed."""
        if self._authorizer.allows(self._principal, self._host, operation, resource, name):
            return True
        if log:
            tell_denial(self._authorizer, self._asking, operation, resource, name)
        return False

    def allow_some(self, operation: AclOperation, resource: AclResourceType) -> bool:
        """Whether that is allowed for any name."""
        return self._authorizer.allows_some(self._principal, self._host, operation, resource)

    def require(
        self, operation: AclOperation, resource: AclResourceType, name: str = CLUSTER_NAME, *, log: bool = True
    ) -> None:
        """Raises the kind's denial if that is not allowed."""
        if not self.allow(operation, resource, name, log=log):
            raise denial(resource)

    def require_config(self, operation: AclOperation, kind: int, name: str) -> None:
        """The same for the configs of something; `kind` is its `ResourceType`. One that there is not is refused for
        that, by whoever looks for its configs.
        """
        resource = _CONFIGURED.get(kind)
        if resource is not None:
            self.require(operation, resource, CLUSTER_NAME if resource is AclResourceType.CLUSTER else name)

    def operations(self, resource: AclResourceType, name: str = CLUSTER_NAME) -> int:
        """The bit set of what is allowed of all that can be done to it: bit 3 is READ, and so on."""
        if type(self._authorizer) is AllowAll:
            return _ALL[resource]
        return sum(
            1 << operation for operation in OPERATIONS[resource] if self.allow(operation, resource, name, log=False)
        )


_ALL = {resource: sum(1 << operation for operation in operations) for resource, operations in OPERATIONS.items()}


class _Node:
    """The node asks for itself."""

    principal = client_host = ""
    api_key = ApiKey.ENVELOPE

    @property
    def connection(self) -> _Node:
        return self


ANYTHING = Rights(AllowAll(), _Node())
