"""The bit sets that say what a client may do (KIP-430).

Rule: without an authorizer every operation of a resource is allowed.

A bit is the code of an ACL operation: READ 3, WRITE 4, CREATE 5, DELETE 6, ALTER 7, DESCRIBE 8, CLUSTER_ACTION 9,
DESCRIBE_CONFIGS 10, ALTER_CONFIGS 11, IDEMPOTENT_WRITE 12.
"""

from __future__ import annotations


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = _bits(3, 4, 5, 6, 7, 8, 10, 11)
GROUP_OPERATIONS = _bits(3, 6, 8, 10, 11)
CLUSTER_OPERATIONS = _bits(5, 7, 8, 9, 10, 11, 12)
# The client did not ask.
NOT_ASKED = -(1 << 31)
