"""The users that `format --add-scram` makes: `SCRAM-SHA-512=[name=alice,password=secret]`.

Rule: a password is in no sentence about what is wrong. As in kafka-storage a value can't hold a comma; one between
quotes is what stands between them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

from pykafka_broker.cluster.format_request import FormatError
from pykafka_broker.cluster.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    credential,
    salted_password,
)
from pykafka_broker.protocol.stored.user_scram_credential_record import UserScramCredentialRecord

MECHANISMS = {"SCRAM-SHA-256": SCRAM_SHA_256, "SCRAM-SHA-512": SCRAM_SHA_512}
_KNOWN = ("name", "password", "salt", "saltedpassword", "iterations")
_NUMBER = re.compile(r"[+-]?[0-9]+")


def scram_user(argument: str, new_salt: Callable[[], bytes]) -> UserScramCredentialRecord:
    """The record of such a user. Raises FormatError."""
    mechanism, equals, rest = argument.strip().partition("=")
    if not equals:
        raise FormatError(f"Failed to find equals sign in SCRAM argument '{argument.strip()}'")
    if mechanism not in MECHANISMS:
        raise FormatError(f"The add-scram mechanism {mechanism} is not supported.")
    values = _values(rest)
    iterations = _iterations(mechanism, values.get("iterations"))
    if "name" not in values:
        raise FormatError("You must supply 'name' to add-scram")
    if not {"password", "saltedpassword"} & values.keys():
        raise FormatError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if "password" not in values and "salt" not in values:
        raise FormatError("You must supply 'salt' with 'saltedpassword' to add-scram")
    salt = _decoded(values["salt"], "salt") if "salt" in values else new_salt()
    unknown = sorted(values.keys() - {*_KNOWN})
    if unknown:
        raise FormatError(f"Unknown SCRAM configurations: {', '.join(unknown)}")
    kind = MECHANISMS[mechanism]
    if "password" in values:
        salted = salted_password(kind, values["password"], salt, iterations) if values["password"] else b""
    else:
        salted = _decoded(values["saltedpassword"], "saltedPassword")
    if not salted:
        raise FormatError("The password must not be empty")  # kafka-storage says "Empty key"
    return credential(values["name"], kind, salt, salted, iterations)


def _values(text: str) -> dict[str, str]:
    if not text.startswith("["):
        raise FormatError("Expected configuration string to start with [")
    if not text.endswith("]"):
        raise FormatError("Expected configuration string to end with ]")
    parts = text[1:-1].split(",")
    if len(parts) > 1 and not parts[-1]:
        parts.pop()
    values = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals:
            raise FormatError(f"No equals sign found in SCRAM component: {key}")
        quoted = len(value) > 1 and value.startswith('"') and value.endswith('"')
        values[key] = value[1:-1] if quoted else value
    return values


def _iterations(mechanism: str, text: str | None) -> int:
    if text is None:
        return MIN_ITERATIONS
    if not _NUMBER.fullmatch(text):
        raise FormatError(f"Failed to parse iterations count: {text}")
    found, using = int(text), mechanism.replace("-", "_")
    if found < MIN_ITERATIONS:
        raise FormatError(f"The 'iterations' value must be >= {MIN_ITERATIONS} for add-scram using {using}")
    if found > MAX_ITERATIONS:
        raise FormatError(f"The 'iterations' value must be <= {MAX_ITERATIONS} for add-scram using {using}")
    return found


def _decoded(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        hint = f": {text}" if what == "salt" else ""  # the other is as good as a password
        raise FormatError(f"Failed to decode given {what}{hint}") from None
