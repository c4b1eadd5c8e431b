"""SCRAM credentials as metadata (KIP-554, RFC 5802).

Rule: a stored credential can check a password and can't be used in its place: salt, iterations, and two keys made from
the salted password. One user is altered at most once in a request.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from pykafka_broker.cluster.controller import MAX_RECORDS_PER_OPERATION, Controller, Decision, TooManyRecords
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pykafka_broker.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from pykafka_broker.protocol.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from pykafka_broker.protocol.stored.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from pykafka_broker.protocol.stored.user_scram_credential_record import UserScramCredentialRecord

SCRAM_MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
DIGESTS = {1: "sha256", 2: "sha512"}
MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384


def alter_user_scram_credentials(
    controller: Controller, request: AlterUserScramCredentialsRequest
) -> Decision[AlterUserScramCredentialsResponse]:
    records: dict[str, ApiMessageAndVersion] = {}
    # Codes, not errors: each error would hold its traceback, and so all objects in it.
    errors: dict[str, tuple[ErrorCode, str | None]] = {}
    changes: Iterable[ScramCredentialDeletion | ScramCredentialUpsertion] = chain(request.deletions, request.upsertions)
    for change in changes:
        name = change.name
        if name in errors:
            continue
        try:
            if records.pop(name, None) is not None:
                raise ApiError(
                    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
                )
            records[name] = _record(controller.image, change)
        except ApiError as error:
            errors[name] = error.code, error.message
        if len(records) > MAX_RECORDS_PER_OPERATION:
            return Decision([], refusal(request, TooManyRecords()))
    results = [AlterUserScramCredentialsResult(name, 0, None) for name in records]
    for name, (code, message) in errors.items():
        results.append(AlterUserScramCredentialsResult(name, code, message))
    return Decision(list(records.values()), AlterUserScramCredentialsResponse(results=results))


def refusal(request: AlterUserScramCredentialsRequest, error: ApiError) -> AlterUserScramCredentialsResponse:
    """Refuse each user once, with the same error."""
    deleted, inserted = (one.name for one in request.deletions), (one.name for one in request.upsertions)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(name, error.code, error.message)
            for name in dict.fromkeys(chain(deleted, inserted))
        ]
    )


def _record(image: MetadataImage, change: ScramCredentialDeletion | ScramCredentialUpsertion) -> ApiMessageAndVersion:
    if not change.name:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in DIGESTS:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialDeletion):
        if (change.mechanism, change.name) not in image.scram:
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        return ApiMessageAndVersion(RemoveUserScramCredentialRecord(change.name, change.mechanism), 0)
    if change.iterations < MIN_ITERATIONS:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not change.salted_password:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password is empty")  # Kafka stumbles over it
    return ApiMessageAndVersion(
        credential(change.name, change.mechanism, change.salt, change.salted_password, change.iterations), 0
    )


def salted_password(mechanism: int, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password (RFC 5802: Hi), after milliseconds of work."""
    return hashlib.pbkdf2_hmac(DIGESTS[mechanism], password.encode(), salt, iterations)


def credential(name: str, mechanism: int, salt: bytes, salted: bytes, iterations: int) -> UserScramCredentialRecord:
    """Return the stored part of a user's password."""
    digest = DIGESTS[mechanism]
    stored_key = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
    return UserScramCredentialRecord(
        name, mechanism, salt, stored_key, hmac.digest(salted, b"Server Key", digest), iterations
    )


def describe_user_scram_credentials(
    image: MetadataImage, users: Sequence[str] | None
) -> DescribeUserScramCredentialsResponse:
    """Describe the users, all for None and for an empty list."""
    found: dict[str, list[CredentialInfo]] = {}
    for mechanism, name in sorted(image.scram):
        found.setdefault(name, []).append(CredentialInfo(mechanism, image.scram[mechanism, name].iterations))
    results = []
    for name, times in Counter(list(users or found)).items():
        code, message = ErrorCode.NONE, ""
        if times > 1:
            code = ErrorCode.DUPLICATE_RESOURCE
            message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        elif name not in found:
            code = ErrorCode.RESOURCE_NOT_FOUND
            message = f"Attempt to describe a user credential that does not exist: {name}"
        infos = [] if code else found[name]
        results.append(DescribeUserScramCredentialsResult(name, code, message, infos))
    return DescribeUserScramCredentialsResponse(error_message="", results=results)
