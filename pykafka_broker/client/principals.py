"""Names of users as Kafka writes them: `User:alice`.

Rule: the type goes to the first colon; a name may have more of them.
"""

from __future__ import annotations

from pykafka_broker.client.errors import ClientError


def split_principal(principal: str) -> tuple[str, str]:
    """Type and name. Raises ClientError."""
    kind, colon, name = principal.partition(":")
    if not colon:  # Kafka takes an empty type and an empty name
        raise ClientError(f"expected a string in format principalType:principalName but got {principal}")
    return kind, name
