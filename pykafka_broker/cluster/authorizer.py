"""Who may do what.

Rule: everything that a client asks for is asked of the authorizer first, by operation, kind of resource and name, as
Kafka's documentation lists it ("Authorization and ACLs", operations and resources on protocols). Operations and kinds
have the numbers that the protocol gives them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

CLUSTER_NAME = "kafka-cluster"  # the one resource of the kind CLUSTER


class Operation(IntEnum):
    """AclOperation of the protocol."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Resource(IntEnum):
    """ResourceType of ACLs; a config resource has other numbers."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Authorizer(Protocol):
    """Asked for each topic, group and so on of each request: it must cost next to nothing."""

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether `principal` ("User:alice"), who calls from `host`, may do this."""


class AllowAll:
    """Where no authorizer is configured."""

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        return True
