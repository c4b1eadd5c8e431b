"""SCRAM credentials of users (KIP-554).

Rule: a password leaves the client only salted, and stands in no text.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, Refused, check
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pykafka_broker.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

DEFAULT_ITERATIONS = 4096  # Kafka's tools, where none are given
_SALT_BYTES = 16


class Mechanism(IntEnum):
    """With its number in the protocol; `spelt` is its name of the SASL registry."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def spelt(self) -> str:
        return self.name.replace("_", "-")


class NewCredential(NamedTuple):
    """What a user is given."""

    mechanism: Mechanism
    iterations: int
    password: str

    def __repr__(self) -> str:
        return f"NewCredential({self.mechanism.spelt}, iterations={self.iterations})"


async def describe_credentials(client: Client, users: Sequence[str]) -> dict[str, dict[Mechanism, int] | ClientError]:
    """Mechanisms with their iterations, of these users or, for none, of all; users without are left out."""
    wanted = [UserName(each) for each in users] or None
    answer = await client.ask(DescribeUserScramCredentialsRequest(wanted), call="describeUserScramCredentials")
    check(answer.error_code, answer.error_message)
    found: dict[str, dict[Mechanism, int] | ClientError] = {}
    for each in answer.results:
        if each.error_code == ErrorCode.NONE:
            found[each.user] = {Mechanism(info.mechanism): info.iterations for info in each.credential_infos}
        elif each.error_code != ErrorCode.RESOURCE_NOT_FOUND:
            found[each.user] = Refused(each.error_code, each.error_message)
    return found


async def alter_credentials(
    client: Client, user: str, added: Sequence[NewCredential], deleted: Sequence[Mechanism]
) -> None:
    """Raises Refused."""
    from pykafka_broker.cluster.scram import salted_password  # with all of the controller behind it

    upsertions = []
    for each in added:
        salt = secrets.token_bytes(_SALT_BYTES)
        salted = salted_password(each.mechanism, each.password, salt, each.iterations) if each.password else b""
        upsertions.append(ScramCredentialUpsertion(user, each.mechanism, each.iterations, salt, salted))
    deletions = [ScramCredentialDeletion(user, each) for each in deleted]
    request = AlterUserScramCredentialsRequest(deletions, upsertions)
    answer = await client.ask_controller(request, call="alterUserScramCredentials")
    for each in answer.results:
        check(each.error_code, each.error_message)
